"""`mfec reproduce` from the command line: whole grids, stopped ones that go on, and what is said about failures."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from imageio_ffmpeg import count_frames_and_secs

from mfec.cli import main
from mfec.evaluation.video import Video
from mfec.experiments.many_runs import saved_frames
from mfec.run_directory import RunDirectory

from ..waiting import PATIENCE
from .conftest import Start
from .stopping import ask_to_stop, games_of, outcome, wait_for

PATH = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])  # where `mfec` is
QBERT = ["match_rates", "--games", "qbert", "--seeds", "2"]
SHORT = [*QBERT, "--total-frames", "2000"]
LONG = [*QBERT, "--total-frames", "8000", "--no-video"]
PLACE = Path("qbert", "mfec_random_projection")


def reproduce(*arguments: str, out: Path) -> int:
    return main(["reproduce", *arguments, "--jobs", "2", "--out", str(out)])


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two long runs that were never stopped."""
    out = tmp_path_factory.mktemp("whole")
    assert reproduce(*LONG, out=out) == 0
    return out


# -- Whole grids ------------------------------------------------------------------------------------------------------


def test_a_grid_from_the_command_line(tmp_path, capsys):
    out = tmp_path / "grid"
    assert reproduce("figure1", *SHORT[1:], "--algorithms", "mfec", "--embeddings", "random_projection", out=out) == 0
    said = capsys.readouterr()
    assert said.err == ""
    assert "4,000/4,000 frames" in said.out
    video = out / PLACE / "seed-0" / "video.mp4"
    assert f"video: {video}\n" in said.out
    assert video.stat().st_size > 1000
    assert not (out / PLACE / "seed-1" / "video.mp4").exists()
    assert tomllib.loads((out / "grid.toml").read_text())["experiment"] == "figure1"
    assert sorted(file.name for file in out.iterdir() if not file.name.startswith(".")) == ["grid.toml", "qbert"]

    # Again, as another experiment that has the same runs: nothing is trained or filmed twice.
    before = video.stat().st_mtime_ns
    assert reproduce(*SHORT, out=out) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "4,000/4,000 frames  0/s  runs: 2 finished"
    assert video.stat().st_mtime_ns == before
    for seed in (0, 1):
        assert (out / PLACE / f"seed-{seed}" / "log.txt").read_text().count("process") == 1

    # What a dry run prints are the commands of these very runs.
    assert reproduce(*SHORT, "--dry-run", out=tmp_path / "alone") == 0
    *commands, total = capsys.readouterr().out.splitlines()
    assert total == "# 2 runs, 4,000 frames"
    assert not (tmp_path / "alone").exists()
    for command in commands:
        program, *arguments = shlex.split(command)
        assert program == "mfec"
        assert main([*arguments, "--no-video"]) == 0
    for seed in (0, 1):
        place = PLACE / f"seed-{seed}"
        assert outcome(out / place) == outcome(tmp_path / "alone" / place)
        assert RunDirectory(out / place).read_config() == RunDirectory(tmp_path / "alone" / place).read_config()


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


def test_a_schedule_that_is_shrunk_is_said_once_and_is_that_of_the_command(tmp_path, capsys):
    short = ["--algorithms", "dqn", "prioritised_dqn", "--games", "qbert", "--seeds", "1", "--total-frames", "400"]
    assert reproduce("figure1", *short, "--no-video", out=tmp_path / "grid") == 0
    assert capsys.readouterr().out.count("replay_start 2, target_every 1, epsilon_steps 40; shrunk") == 1
    alone = ["--algorithm", "dqn", "--total-frames", "400", "--no-video", "--out", str(tmp_path / "alone")]
    assert main(["train", "qbert", *alone]) == 0
    place = tmp_path / "grid" / "qbert" / "dqn" / "seed-0"
    assert RunDirectory(place).read_config() == RunDirectory(tmp_path / "alone").read_config()


# -- Stop and go ------------------------------------------------------------------------------------------------------


def test_asked_to_stop_all_runs_save_and_the_command_goes_on(tmp_path, start_python: Start, whole):
    """Asked as `timeout` does: by a signal to the process, and by one to its group."""
    out = tmp_path / "it's a grid"
    process = start_python("-m", "mfec", "reproduce", *LONG, "--jobs", "2", "--out", str(out))
    runs = [RunDirectory(out / PLACE / f"seed-{seed}") for seed in (0, 1)]
    wait_for(lambda: any(games_of(run.path) > 0 for run in runs), process)
    ask_to_stop(process, "timeout")
    said, error = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130, error
    assert error == ""
    head, _, again = said.partition("stopped, and saved; go on with\n")
    assert "2 stopped" in head.splitlines()[-1]
    frames = [saved_frames(run) for run in runs]
    assert 0 < max(frames) < 8000

    # the very line that was printed, as a shell reads it
    ended = subprocess.run(
        again.strip(), shell=True, capture_output=True, text=True, env={**os.environ, "PATH": PATH}, timeout=PATIENCE
    )
    assert ended.returncode == 0, ended.stderr
    for run, had in zip(runs, frames, strict=True):
        log = run.path / "log.txt"
        assert not had or f"going on from frame {had:,}" in log.read_text()  # one may not have begun
        assert outcome(run.path) == outcome(whole / run.path.relative_to(out))


def test_stopped_while_it_films_it_leaves_no_half_video_and_films_when_it_goes_on(tmp_path, capsys, monkeypatch):
    add, pictures = Video.add, 0

    def stopped(video: Video, picture: object) -> None:
        nonlocal pictures
        pictures += 1
        if pictures == 20:
            raise KeyboardInterrupt
        add(video, picture)

    one = [*SHORT[:-4], "--seeds", "1", "--total-frames", "2000"]
    with monkeypatch.context() as patch:
        patch.setattr(Video, "add", stopped)
        assert reproduce(*one, out=tmp_path) == 130
    place = tmp_path / PLACE / "seed-0"
    assert not [file for file in place.iterdir() if file.suffix == ".mp4"]
    assert reproduce(*one, out=tmp_path) == 0
    assert count_frames_and_secs(place / "video.mp4")[0] > 20


def test_runs_whose_grid_is_killed_save_and_stop(tmp_path, start_python: Start, whole):
    """Nobody would know of them any more, and the next grid would train in the same directories."""
    process = start_python("-m", "mfec", "reproduce", *LONG, "--jobs", "2", "--out", str(tmp_path))
    runs = [RunDirectory(tmp_path / PLACE / f"seed-{seed}") for seed in (0, 1)]
    wait_for(lambda: any(games_of(run.path) > 0 for run in runs), process)
    process.kill()
    process.wait()
    assert reproduce(*LONG, out=tmp_path) == 0  # at once: it waits for them
    logs = [(run.path / "log.txt").read_text() for run in runs]
    assert any("going on from frame" in log.partition(", stopped\n")[2] for log in logs)
    for run in runs:
        assert outcome(run.path) == outcome(whole / run.path.relative_to(tmp_path))


def test_asked_twice_it_stops_at_once_and_says_so(tmp_path, start_python: Start, monkeypatch):
    """Saving never ends: the first request is still being heeded when the second comes, however soon."""
    saving = tmp_path / "saving"
    (tmp_path / "sitecustomize.py").write_text(
        "import pathlib, time, mfec.agent, mfec.experiments.stopping\n"
        "mfec.experiments.stopping.ONE_REQUEST_SECONDS = 0.0\n"
        f"mfec.agent.MFEC.save = lambda *_: (pathlib.Path({str(saving)!r}).touch(), time.sleep({PATIENCE}))\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    process = start_python("-m", "mfec", "reproduce", *LONG, "--jobs", "2", "--out", str(tmp_path / "grid"))
    runs = [tmp_path / "grid" / PLACE / f"seed-{seed}" for seed in (0, 1)]
    wait_for(lambda: any(games_of(run) > 0 for run in runs), process)
    process.send_signal(signal.SIGINT)
    wait_for(saving.exists, process)
    process.send_signal(signal.SIGINT)
    said, error = process.communicate(timeout=PATIENCE)
    assert process.returncode == 131, said + error
    assert "stopped at once, with what had been saved before; go on with\n  mfec reproduce match_rates" in said
    assert not any((run / "checkpoint").exists() for run in runs)


# -- What goes wrong --------------------------------------------------------------------------------------------------


def test_a_run_that_fails_is_reported_with_its_log(tmp_path, capsys):
    place = tmp_path / PLACE
    place.mkdir(parents=True)
    (place / "seed-1").write_text("no place for a run")
    assert reproduce(*SHORT, "--no-video", out=tmp_path) == 1
    said = capsys.readouterr()
    [line] = said.err.splitlines()
    assert line.startswith(
        f"mfec: qbert mfec_random_projection seed 1 failed: cannot begin a run in {place / 'seed-1'}: "
    )
    assert "Traceback" not in said.out + said.err
    assert saved_frames(RunDirectory(place / "seed-0")) == 2000

    (place / "seed-1").unlink()
    assert reproduce(*SHORT, "--no-video", out=tmp_path) == 0
    manifest = place / "seed-1" / "checkpoint" / "manifest.json"
    body = json.loads(manifest.read_text())
    body["state"]["frames"] = 1000  # as if it were not finished; the checksum gives it away
    manifest.write_text(json.dumps(body))
    capsys.readouterr()
    assert reproduce(*SHORT, "--no-video", out=tmp_path) == 1
    [line] = capsys.readouterr().err.splitlines()
    reason = f"{manifest} is damaged: its checksum does not match"
    assert line == f"mfec: qbert mfec_random_projection seed 1 failed: {reason}; {place / 'seed-1' / 'log.txt'}"
    assert (place / "seed-1" / "log.txt").read_text().splitlines()[-1].endswith(reason)


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


def test_a_gpu_that_is_not_there_is_refused_once_for_all_runs(tmp_path, capsys):
    import torch

    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    assert reproduce(*SHORT, "--device", "cuda", out=tmp_path / "grid") == 1
    assert capsys.readouterr().err.startswith("mfec: device 'cuda' needs an NVIDIA GPU")
    assert not (tmp_path / "grid").exists()
