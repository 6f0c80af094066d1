"""Stop and go: killed or asked to stop at any moment, a run ends as if it had never stopped."""

from __future__ import annotations

import hashlib
import random
import shlex
import shutil
import signal
import time
from pathlib import Path

import pytest

from mfec import MFEC, EpisodicMemory
from mfec.cli import main
from mfec.history import History
from mfec.run_directory import RunDirectory

from ..waiting import PATIENCE
from .conftest import Start
from .stopping import ask_to_stop, games_of, outcome, wait_for

FOREVER = ["--total-frames", "10000000"]  # however busy the machine is, a signal comes before


def lived(run: RunDirectory) -> dict[int, tuple[object, ...]]:
    """Every episode: environment, game, when it began, actions, rewards, and kept frames where they are 84x84."""
    history = History(run.history)
    assert len(history) > 0
    episodes = {}
    for number in range(1, len(history) + 1):
        episode = history.episode(number)
        assert episode.whole
        kept = {}
        for first, end in history.kept(number):
            for step in range(first, end):
                begins, frames = history.frames(number, step, (84, 84))
                kept[step] = hashlib.sha256(frames[step - begins].tobytes()).hexdigest()
        actions, rewards = episode.actions.tolist(), episode.rewards.tolist()
        episodes[number] = (episode.env_id, episode.game, episode.begun, episode.ended, actions, rewards, kept)
    return episodes


# -- kill -9 ----------------------------------------------------------------------------------------------------------


def test_killed_at_a_random_moment_a_run_ends_as_if_it_had_not_been(tmp_path: Path, start: Start) -> None:
    """Between two checkpoints or in the middle of one; memories are full, and cells are made anew."""
    arguments = ["qbert", "--n-envs", "2", "--index", "cells", "--eviction", "used", "--capacity", "60", "--no-video"]
    arguments += ["--max-frames", "120", "--keep-frames", "--checkpoint-frames", "200"]
    killed, whole = RunDirectory(tmp_path / "killed"), RunDirectory(tmp_path / "whole")
    process = start(*arguments, *FOREVER, "--out", str(killed.path))
    wait_for(lambda: killed.has_checkpoint and games_of(killed.path) > 0, process)
    time.sleep(random.uniform(0.0, 0.25))
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    frames = str(MFEC.load(killed.checkpoint).frames + 300)
    assert main(["train", *arguments, "--total-frames", frames, "--out", str(killed.path), "--resume"]) == 0
    assert main(["train", *arguments, "--total-frames", frames, "--out", str(whole.path)]) == 0
    assert outcome(killed.path) == outcome(whole.path)
    assert lived(killed) == lived(whole)
    assert all(kept for *_, kept in lived(whole).values())


@pytest.mark.slow("six runs in processes of their own; `python -m tests.experiments.kills` has 100, of every index")
def test_killed_while_its_memory_lies_in_several_files_a_run_ends_as_if_it_had_not_been(start_python: Start) -> None:
    process = start_python("-m", "tests.experiments.kills", "3", "--index", "cells", "--n-envs", "8")
    said, error = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, said + error
    assert "3 equal endings" in said


def test_killed_before_its_first_checkpoint_or_before_its_settings_were_written_a_run_begins_again(
    tmp_path: Path, start: Start, held
) -> None:
    """Tables come first, the settings last and at once: a directory that has them is a run."""
    arguments = ["held:Lake-v0", "--total-frames", "200", "--capacity", "500", "--no-video", "--out"]
    early, late, whole = (tmp_path / name for name in ("early", "late", "whole"))
    early.mkdir()
    (early / "episodes.csv").write_text("frames,epi")
    with held(150):
        process = start(*arguments, str(late))
    wait_for(lambda: games_of(late) > 5, process)
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert not RunDirectory(late).has_checkpoint
    (late / "config.toml.draft").write_text("killed while it was written")
    assert main(["train", *arguments, str(whole)]) == 0
    for out in (early, late):
        assert main(["train", *arguments, str(out), "--resume"]) == 0
        assert outcome(out) == outcome(whole)
        assert lived(RunDirectory(out)) == lived(RunDirectory(whole))


# -- Ctrl-C -----------------------------------------------------------------------------------------------------------


def test_asked_to_stop_a_run_saves_and_says_how_to_go_on(tmp_path: Path, start: Start) -> None:
    """Twice within milliseconds, as `timeout` asks; tests of ViZDoom ask as Ctrl-C does."""
    out, whole = tmp_path / "it's a run", tmp_path / "whole"
    arguments = ["qbert", "--seed", "7", "--capacity", "300", "--n-envs", "2", "--max-frames", "120", "--no-video"]
    arguments += ["--gamma", "0.99", "--epsilon", "1e-05", "--few-neighbours", "infinity", "--ties", "first"]
    arguments += ["--eviction", "used", "--frame-stack", "2"]
    process = start(*arguments, *FOREVER, "--out", str(out))
    wait_for(lambda: games_of(out) > 0, process)
    ask_to_stop(process, "timeout")
    said, error = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130, error
    assert error == ""
    _, _, line = said.partition("stopped, and saved; go on with\n")
    agent = MFEC.load(out / "checkpoint")
    assert agent.games == games_of(out)

    mfec, *again = shlex.split(line)  # as a shell reads it
    assert mfec == "mfec"
    assert again == ["train", "--no-video", "--out", str(out), "--resume"]  # its directory tells the rest
    frames = str(agent.frames + 300)
    assert main([*again, "--total-frames", frames]) == 0
    assert main(["train", *arguments, "--total-frames", frames, "--out", str(whole)]) == 0
    assert outcome(out) == outcome(whole)
    assert lived(RunDirectory(out)) == lived(RunDirectory(whole))


# -- Directories that tell everything ----------------------------------------------------------------------------------


def test_runs_in_a_directory_go_on_each_with_its_own_settings(elsewhere: Path, capsys) -> None:
    """A run that is finished is said to be; one that is not ends as if it had never stopped."""
    lake, cart = ["FrozenLake-v1", "--k", "3", "--capacity", "90"], ["CartPole-v1", "--gamma", "0.9", "--n-envs", "2"]
    rest = ["--capacity", "200", "--no-video", "--out"]
    for arguments, frames, out in ((lake, 600, "all/lake"), (cart, 300, "all/cart"), (cart, 600, "whole")):
        assert main(["train", *arguments, *rest[:-1], "--total-frames", str(frames), "--out", out]) == 0
    before = outcome(Path("all/lake"))
    capsys.readouterr()
    assert main(["train", "--resume", "--out", "all", "--total-frames", "6e2", "--no-video"]) == 0
    said = capsys.readouterr().out
    assert f"{Path('all/lake')} has all of its 600 frames" in said
    assert f"{Path('all/cart')} has all" not in said
    assert outcome(Path("all/cart")) == outcome(Path("whole"))
    assert outcome(Path("all/lake")) == before
    assert RunDirectory("all/cart").read_config() == RunDirectory("whole").read_config()


def test_a_run_that_keeps_its_frames_goes_on_keeping_them(elsewhere: Path) -> None:
    arguments = ["train", "qbert", "--capacity", "60", "--max-frames", "80", "--no-video", "--keep-frames"]
    assert main([*arguments, "--total-frames", "200", "--out", "run"]) == 0
    kept = History(Path("run/history")).with_frames
    assert main(["train", "--resume", "--out", "run", "--no-video", "--total-frames", "400"]) == 0
    assert History(Path("run/history")).with_frames > kept > 0


@pytest.mark.parametrize(("given", "message"), [
    (["--k", "3"], "run was begun with k = 11, it cannot go on with 3"),
    (["--seed", "4"], "run was begun with seed = 0, it cannot go on with 4"),
    (["--algorithm", "dqn"], "run was begun with algorithm = mfec, it cannot go on with dqn"),
    (["--seeds", "0", "1"], "--seeds is for new runs"),
    (["--recipe", "tuned"], "--recipe is for new runs"),
])  # fmt: skip
def test_what_conflicts_with_a_directory_is_refused(stopped, tmp_path, monkeypatch, capsys, given, message):
    shutil.copytree(stopped, tmp_path / "run")
    monkeypatch.chdir(tmp_path)
    before = outcome(tmp_path / "run")
    assert main(["train", "--resume", "--out", "run", "--no-video", *given]) == 1
    assert capsys.readouterr().err.startswith(f"mfec: {message}")
    assert outcome(tmp_path / "run") == before


@pytest.mark.parametrize(("given", "message"), [
    ([], "name the run that goes on"),
    (["--out", "nothing"], "there is no directory nothing"),
    (["--out", "empty"], "there is no run in empty"),
])  # fmt: skip
def test_without_a_run_there_is_nothing_to_go_on_with(elsewhere, capsys, given, message):
    Path("empty").mkdir()
    assert main(["train", "--resume", *given]) == 1
    assert capsys.readouterr().err.startswith(f"mfec: {message}")


# -- Damaged checkpoints ----------------------------------------------------------------------------------------------


LAKE = ["FrozenLake-v1", "--capacity", "500", "--no-video"]
GO_ON = ["train", *LAKE, "--total-frames", "200", "--resume", "--out"]


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that could go on."""
    out = tmp_path_factory.mktemp("runs") / "lake"
    assert main(["train", *LAKE, "--total-frames", "100", "--out", str(out)]) == 0
    return out


def flip(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


def truncate(file: Path) -> None:
    data = file.read_bytes().rstrip()
    file.write_bytes(data[:-1])


def replace_by_something_else(file: Path) -> None:
    file.write_text('{"name": "something else"}')


@pytest.mark.parametrize(("name", "damage"), [
    ("manifest.json", flip), ("manifest.json", truncate), ("manifest.json", replace_by_something_else),
    ("memory-*", flip), ("memory-*", truncate), ("memory-*", replace_by_something_else), ("memory-*", Path.unlink),
    ("episodes-*", flip), ("embedding-*", flip),
])  # fmt: skip
def test_a_damaged_checkpoint_is_refused_in_a_sentence_that_names_the_file(stopped, tmp_path, capsys, name, damage):
    out = tmp_path / "run"
    shutil.copytree(stopped, out)
    [file] = (out / "checkpoint").glob(name)
    damage(file)
    tables = (out / "episodes.csv").read_bytes()
    for command in (["evaluate", str(out), "--episodes", "1"], [*GO_ON, str(out)]):
        assert main(command) == 1
        error = capsys.readouterr().err
        assert error.startswith("mfec: ")
        assert error.count("\n") == 1
        assert file.name in error
    assert (out / "episodes.csv").read_bytes() == tables


def test_the_checkpoint_of_something_else_is_refused(stopped, tmp_path, capsys):
    """One of a memory; one for other spaces cannot play; one with other settings is not what config.toml describes."""
    out = tmp_path / "run"
    shutil.copytree(stopped, out)
    others: list[tuple[MFEC | EpisodicMemory, str]] = [
        (EpisodicMemory(4, 16, capacity=500), f"{out / 'checkpoint'} holds the checkpoint of a 'memory', not of a "),
        (MFEC("CartPole-v1", capacity=500, seed=0).learn(20), "the agent was trained on"),
        (MFEC("FrozenLake-v1", capacity=500, k=3, seed=0).learn(20), f"{out / 'checkpoint'} is of another run"),
    ]
    for other, message in others:
        shutil.rmtree(out / "checkpoint")
        other.save(out / "checkpoint")
        for command in ([*GO_ON, str(out)], ["evaluate", str(out)]):
            assert main(command) == 1
            error = capsys.readouterr().err
            assert error.startswith(f"mfec: {message}")
            assert error.count("\n") == 1
