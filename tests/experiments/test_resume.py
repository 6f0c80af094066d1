"""Stop and go: killed or asked to stop at any moment, a run ends as if it had never stopped."""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mfec import MFEC, EpisodicMemory
from mfec.cli import main
from mfec.history import History
from mfec.run_directory import RunDirectory

from ..waiting import PATIENCE
from .stopping import CLOCKS, ask_to_stop, games_of, wait_for

PATH = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])  # where `mfec` is


def outcome(out: Path) -> tuple[str, dict[str, list[str]], dict[str, str], dict[int, tuple[object, ...]]]:
    """What two equal runs have in common: games, progress without clocks, memory and history, bit for bit."""
    run = RunDirectory(out)
    progress = {name: [*map(str, column)] for name, column in run.progress().items() if name not in CLOCKS}
    tensors = MFEC.load(run.checkpoint).memory.tensors()
    memory = {name: hashlib.sha256(tensor.tobytes()).hexdigest() for name, tensor in tensors.items()}
    return run.episodes_file.read_text(), progress, memory, lived(run)


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


def start(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "mfec", "train", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)


# -- kill -9 ----------------------------------------------------------------------------------------------------------


def train_with_kills(arguments: list[str], out: Path, kills: int, moments: random.Random) -> int:
    """Train to the end, killed at random moments after one or two checkpoints; how often it was killed."""

    def checkpoint() -> bytes:
        manifest = out / "checkpoint" / "manifest.json"
        return manifest.read_bytes() if manifest.exists() else b""

    killed = 0
    while True:
        process = start(*arguments, "--out", str(out), "--resume")
        if killed < kills:
            for _ in range(moments.choice([1, 1, 2])):
                last = checkpoint()
                wait_for(lambda last=last: checkpoint() != last, process)
            time.sleep(moments.uniform(0.0, 0.25))
            process.kill()
        said, error = process.communicate(timeout=PATIENCE)
        if process.returncode != -signal.SIGKILL:
            assert process.returncode == 0, error
            assert (killed == 0) == ("going on from frame" not in said)
            return killed
        killed += 1


@pytest.mark.parametrize(("kills", "settings"), [
    (2, ["--n-envs", "1", "--index", "cells", "--max-frames", "900"]),
    (1, ["--n-envs", "3", "--eviction", "used", "--capacity", "60", "--max-frames", "900", "--keep-frames"]),
])  # fmt: skip
def test_killed_at_random_moments_a_run_ends_as_if_it_had_not_been(tmp_path, kills, settings):
    arguments = ["qbert", "--total-frames", "8000", "--checkpoint-frames", "800", *settings]
    assert train_with_kills(arguments, tmp_path / "killed", kills, random.Random()) >= 1
    assert main(["train", *arguments, "--out", str(tmp_path / "whole")]) == 0
    assert outcome(tmp_path / "killed") == outcome(tmp_path / "whole")
    assert games_of(tmp_path / "whole") >= 4
    assert ("--keep-frames" in settings) == all(kept for *_, kept in lived(RunDirectory(tmp_path / "whole")).values())
    assert len(RunDirectory(tmp_path / "whole").progress()["frames"]) > 50


def test_killed_before_the_first_checkpoint_a_run_begins_again(tmp_path):
    arguments = ["FrozenLake-v1", "--total-frames", "12000", "--capacity", "500"]
    process = start(*arguments, "--out", str(tmp_path / "killed"))
    wait_for(lambda: games_of(tmp_path / "killed") > 20, process)
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert not RunDirectory(tmp_path / "killed").has_checkpoint
    (tmp_path / "killed" / "config.toml.draft").write_text("killed while it was written")
    assert main(["train", *arguments, "--out", str(tmp_path / "killed"), "--resume"]) == 0
    assert main(["train", *arguments, "--out", str(tmp_path / "whole")]) == 0
    assert outcome(tmp_path / "killed") == outcome(tmp_path / "whole")


def test_killed_before_the_settings_were_written_a_run_begins(tmp_path):
    """Tables come first, the settings last and at once: a directory that has them is a run."""
    (tmp_path / "killed").mkdir()
    (tmp_path / "killed" / "episodes.csv").write_text("frames,epi")
    arguments = ["FrozenLake-v1", "--total-frames", "300", "--capacity", "500"]
    assert main(["train", *arguments, "--out", str(tmp_path / "killed"), "--resume"]) == 0
    assert main(["train", *arguments, "--out", str(tmp_path / "whole")]) == 0
    assert outcome(tmp_path / "killed") == outcome(tmp_path / "whole")


# -- Ctrl-C -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("way", "settings"), [
    ("ctrl-c", ["--gamma", "0.99", "--epsilon", "1e-05", "--few-neighbours", "infinity", "--ties", "first"]),
    ("timeout", ["--n-envs", "2", "--max-frames", "900", "--eviction", "used", "--frame-stack", "2"]),
])  # fmt: skip
def test_asked_to_stop_a_run_saves_and_says_how_to_go_on(tmp_path, way, settings):
    out = tmp_path / "it's a run"
    arguments = ["qbert", "--total-frames", "12000", "--seed", "7", "--capacity", "300", *settings]
    process = start(*arguments, "--out", str(out))
    wait_for(lambda: games_of(out) > 0, process)
    ask_to_stop(process, way)
    said, error = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130, error
    assert error == ""
    head, _, again = said.partition("stopped, and saved; go on with\n")
    assert head
    agent = MFEC.load(out / "checkpoint")
    assert 0 < agent.frames < 12_000
    assert agent.games == games_of(out)

    # the very line that was printed, as a shell reads it
    ended = subprocess.run(
        again.strip(), shell=True, capture_output=True, text=True, env={**os.environ, "PATH": PATH}, timeout=PATIENCE
    )
    assert ended.returncode == 0, ended.stderr
    assert f"going on from frame {agent.frames:,}" in ended.stdout
    assert main(["train", *arguments, "--out", str(tmp_path / "whole")]) == 0
    assert outcome(out) == outcome(tmp_path / "whole")


# -- Damaged checkpoints ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that could go on."""
    out = tmp_path_factory.mktemp("runs") / "lake"
    assert main(["train", "FrozenLake-v1", "--total-frames", "300", "--capacity", "500", "--out", str(out)]) == 0
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


DAMAGES = [flip, truncate, replace_by_something_else, Path.unlink]


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
@pytest.mark.parametrize("name", ["manifest.json", "memory-*.safetensors", "episodes-*", "embedding-*"])
def test_a_damaged_checkpoint_is_refused_in_a_sentence_that_names_the_file(stopped, tmp_path, capsys, name, damage):
    out = tmp_path / "run"
    shutil.copytree(stopped, out)
    [file] = (out / "checkpoint").glob(name)
    damage(file)
    tables = (out / "episodes.csv").read_bytes()
    commands = [["evaluate", str(out), "--episodes", "1"]]
    if file.exists() or name != "manifest.json":  # without a manifest there is no checkpoint, and the run begins again
        arguments = ["--total-frames", "500", "--capacity", "500", "--out", str(out), "--resume"]
        commands.append(["train", "FrozenLake-v1", *arguments])
    for command in commands:
        assert main(command) == 1
        error = capsys.readouterr().err
        assert error.startswith("mfec: ")
        assert error.count("\n") == 1
        assert file.exists() is False or str(file) in error
        assert file.exists() or file.name in error or "no checkpoint" in error
    assert (out / "episodes.csv").read_bytes() == tables


def test_no_traceback_is_shown(stopped, tmp_path):
    out = tmp_path / "run"
    shutil.copytree(stopped, out)
    [file] = (out / "checkpoint").glob("memory-*")
    flip(file)
    process = start("FrozenLake-v1", "--total-frames", "500", "--capacity", "500", "--out", str(out), "--resume")
    said, error = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1
    assert error == f"mfec: {file} is damaged: its checksum does not match\n"
    assert "Traceback" not in said


def test_the_checkpoint_of_a_memory_is_not_that_of_an_agent(stopped, tmp_path, capsys):
    out = tmp_path / "run"
    shutil.copytree(stopped, out)
    shutil.rmtree(out / "checkpoint")
    EpisodicMemory(4, 16, capacity=500).save(out / "checkpoint")
    arguments = ["--total-frames", "500", "--capacity", "500", "--out", str(out), "--resume"]
    for command in (["train", "FrozenLake-v1", *arguments], ["evaluate", str(out)]):
        assert main(command) == 1
        error = capsys.readouterr().err
        assert error == f"mfec: {out / 'checkpoint'} holds the checkpoint of a 'memory', not of a 'agent'\n"


@pytest.mark.parametrize("command", ["train", "evaluate"])
def test_the_checkpoint_of_another_run_is_refused(stopped, tmp_path, capsys, command):
    """One for other spaces cannot play; one with other settings is not the run that config.toml describes."""
    out = tmp_path / "run"
    shutil.copytree(stopped, out)
    arguments = ["--total-frames", "500", "--capacity", "500", "--out", str(out), "--resume"]
    others = [
        (MFEC("CartPole-v1", capacity=500, seed=0), "the agent was trained on"),
        (MFEC("FrozenLake-v1", capacity=500, k=3, seed=0), f"{out / 'checkpoint'} is of another run"),
        (MFEC("FrozenLake-v1", capacity=500, embedding="identity", seed=1), f"{out / 'checkpoint'} is of another run"),
    ]
    for other, message in others:
        shutil.rmtree(out / "checkpoint")
        other.learn(100).save(out / "checkpoint")
        assert main(["train", "FrozenLake-v1", *arguments] if command == "train" else ["evaluate", str(out)]) == 1
        error = capsys.readouterr().err
        assert error.startswith(f"mfec: {message}")
        assert error.count("\n") == 1
