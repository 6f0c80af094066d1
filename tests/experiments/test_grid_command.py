"""`mfec reproduce` from the command line: whole grids, killed and stopped ones that go on, what is said of failures."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from imageio_ffmpeg import count_frames_and_secs

from mfec.cli import main
from mfec.evaluation.video import Video
from mfec.experiments.many_runs import Run, saved_frames
from mfec.run_directory import RunDirectory

from ..waiting import PATIENCE
from .conftest import Start
from .stopping import UNTIL_A_SIGNAL, outcome, wait_for

SHORT = ["--games", "qbert", "--seeds", "2", "--total-frames", "800"]
PLACE = Path("qbert", "mfec_random_projection")
StartGrid = Callable[[Path, str], subprocess.Popen[str]]


def reproduce(*arguments: str, out: Path) -> int:
    return main(["reproduce", *arguments, "--jobs", "1", "--out", str(out)])


@pytest.fixture
def start_grid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start_python: Start) -> StartGrid:
    """Starts a grid of two runs, one at a time, in processes that execute a program first."""

    def start(out: Path, program: str) -> subprocess.Popen[str]:
        (tmp_path / "sitecustomize.py").write_text(program)
        with monkeypatch.context() as patch:
            patch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
            return start_python("-m", "mfec", "reproduce", "match_rates", *SHORT, "--jobs", "1", "--out", str(out))

    return start


# -- Whole grids ------------------------------------------------------------------------------------------------------

# In its hundredth step a run leaves a file, and waits until it is asked to stop.
WAITING = """
import pathlib
from mfec.callbacks import CallbackList

on_step, steps = CallbackList.on_step, 0

def wait_in_the_middle(callbacks, agent):
    global steps
    steps += 1
    if steps == 100:
        pathlib.Path({waits!r}).touch()
        wait_for_a_signal()
    return on_step(callbacks, agent)

CallbackList.on_step = wait_in_the_middle
"""


def test_a_grid_that_is_killed_fails_in_part_and_is_stopped_while_it_films(tmp_path, start_grid, monkeypatch, capsys):
    """In the end its runs are what their commands make of them."""
    out, waits = tmp_path / "grid", tmp_path / "waits"
    first, second = (RunDirectory(out / PLACE / f"seed-{seed}") for seed in (0, 1))
    process = start_grid(out, UNTIL_A_SIGNAL + WAITING.format(waits=str(waits)))
    wait_for(waits.exists, process)
    process.kill()  # the run saves and stops: nobody would know of it any more
    process.wait()
    second.path.write_text("no place for a run")
    assert reproduce("match_rates", *SHORT, "--no-video", out=out) == 1  # at once: it waits for the run
    said = capsys.readouterr()
    [line] = said.err.splitlines()
    reason = f"cannot begin a run in {second.path}: "
    assert line.startswith(f"mfec: qbert mfec_random_projection seed 1 failed: {reason}")
    assert "Traceback" not in said.out + said.err
    assert "going on from frame 400" in (first.path / "log.txt").read_text().partition(", stopped\n")[2]
    assert saved_frames(first) == 800

    # Again, as another experiment that has the same runs: none is trained twice. It is stopped while it films.
    second.path.unlink()
    before = (first.checkpoint / "manifest.json").stat().st_mtime_ns
    again = ["figure1", *SHORT, "--algorithms", "mfec", "--embeddings", "random_projection"]
    with monkeypatch.context() as patch:
        patch.setattr(Video, "add", interrupted_after(20))
        assert reproduce(*again, out=out) == 130
    assert [line.split()[:2] for line in capsys.readouterr().out.splitlines()[-1:]] == [["mfec", "reproduce"]]
    assert (first.checkpoint / "manifest.json").stat().st_mtime_ns == before
    assert not list(out.rglob("*.mp4"))
    assert reproduce(*again, out=out) == 0
    said = capsys.readouterr()
    assert said.err == ""
    assert "1,600/1,600 frames  0/s  runs: 2 finished\n" in said.out
    assert f"video: {first.video}\n" in said.out
    assert list(out.rglob("*.mp4")) == [first.video]
    assert count_frames_and_secs(first.video)[0] > 20
    assert tomllib.loads((out / "grid.toml").read_text())["experiment"] == "figure1"
    assert sorted(file.name for file in out.iterdir() if not file.name.startswith(".")) == ["grid.toml", "qbert"]

    # What a dry run prints are the commands of these very runs.
    assert reproduce("match_rates", *SHORT, "--dry-run", out=tmp_path / "alone") == 0
    *commands, total = capsys.readouterr().out.splitlines()
    assert total == "# 2 runs, 1,600 frames"
    assert not (tmp_path / "alone").exists()
    for command, run in zip(commands, (first, second), strict=True):
        assert main([*shlex.split(command)[1:], "--no-video"]) == 0
        alone = RunDirectory(tmp_path / "alone" / run.path.relative_to(out))
        assert outcome(run.path) == outcome(alone.path)
        assert run.read_config() == alone.read_config()


def interrupted_after(pictures: int) -> Callable[[Video, object], None]:
    """`Video.add`, until so many pictures are in."""
    add, left = Video.add, pictures

    def add_or_stop(video: Video, picture: object) -> None:
        nonlocal left
        left -= 1
        if left == 0:
            raise KeyboardInterrupt
        add(video, picture)

    return add_or_stop


def test_asked_twice_it_stops_at_once_and_says_so(tmp_path, start_grid):
    """Saving never ends: the first request is still being heeded when the second comes, however soon."""
    waits, saving, out = tmp_path / "waits", tmp_path / "saving", tmp_path / "it's a grid"
    never = f"""
import time, mfec.agent, mfec.experiments.stopping
mfec.experiments.stopping.ONE_REQUEST_SECONDS = 0.0
mfec.agent.MFEC.save = lambda *_: (pathlib.Path({str(saving)!r}).touch(), time.sleep({PATIENCE}))
"""
    process = start_grid(out, UNTIL_A_SIGNAL + WAITING.format(waits=str(waits)) + never)
    for happens in (waits, saving):
        wait_for(happens.exists, process)
        process.send_signal(signal.SIGINT)
    said, error = process.communicate(timeout=PATIENCE)
    assert process.returncode == 131, said + error
    again = said.partition("stopped at once, with what had been saved before; go on with\n")[2]
    assert shlex.split(again) == ["mfec", "reproduce", "match_rates", *SHORT, "--jobs", "1", "--out", str(out)]
    assert not list(out.rglob("checkpoint"))


# -- What is said -----------------------------------------------------------------------------------------------------


def test_a_dry_run_of_everything(capsys):
    assert main(["reproduce", "figure1", "--dry-run"]) == 0
    *commands, total = capsys.readouterr().out.splitlines()
    assert total == "# 170 runs, 3,050,000,000 frames"
    assert len(set(commands)) == 170
    assert commands[1] == (
        "mfec train ms_pacman --total-frames 10000000 --embedding vae --vae ms_pacman --resume "
        "--out runs/figure1/ms_pacman/mfec_vae/seed-0"
    )


def test_frames_are_kept_by_all_that_can(capsys):
    asked = ["--games", "qbert", "--seeds", "1", "--keep-frames", "--frames-limit-gb", "0.5", "--dry-run"]
    assert main(["reproduce", "figure1", *asked]) == 0
    *commands, _ = capsys.readouterr().out.splitlines()
    assert len(commands) == 5
    for command in commands:
        assert ("--keep-frames --frames-limit-gb 0.5" in command) == ("--algorithm" not in command)


def test_a_schedule_that_is_shrunk_is_said_once(tmp_path, capsys, monkeypatch):
    def finish(runs: list[Run], *_, **__) -> None:
        for run in runs:
            run.state = "finished"

    monkeypatch.setattr("mfec.experiments.many_runs.train_runs", finish)
    short = ["--algorithms", "dqn", "prioritised_dqn", "--games", "qbert", "--seeds", "2", "--total-frames", "400"]
    assert reproduce("figure1", *short, "--no-video", out=tmp_path / "grid") == 0
    assert capsys.readouterr().out.count("replay_start 2, target_every 1, epsilon_steps 40; shrunk") == 1


@pytest.mark.parametrize(("arguments", "said"), [
    (["--games", "pacman"], "mfec: unknown game 'pacman'; did you mean 'ms_pacman'? match_rates has ms_pacman, "),
    (["--jobs", "0"], "mfec: jobs must be at least 1, not 0"),
    (["--checkpoint-frames", "0"], "mfec: checkpoint_frames must be at least 1, not 0"),
    (["--ray-address", "auto"], "mfec: --ray-address, --cpus-per-run and --gpus-per-run are for --launcher ray"),
    (["--launcher", "ray", "--cpus-per-run", "0"], "mfec: a run needs more than 0 CPUs and at least 0 GPUs, not 0.0 "),
])  # fmt: skip
def test_bad_options_are_refused_in_a_sentence(tmp_path, capsys, arguments, said):
    assert main(["reproduce", "match_rates", "--out", str(tmp_path / "grid"), *arguments]) == 1
    error = capsys.readouterr().err
    assert error.startswith(said)
    assert error.count("\n") == 1
    assert not (tmp_path / "grid").exists()
