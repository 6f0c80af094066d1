"""Baselines as runs: their directories, stopping and going on, and the command line."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
import signal
import subprocess
import sys
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import pytest

from mfec.algorithms import RunConfig, algorithm
from mfec.algorithms.baselines.replay import FrameReplay
from mfec.algorithms.baselines.settings import A2CConfig, DQNConfig
from mfec.checkpoint import read_checkpoint
from mfec.cli import main
from mfec.config import EnvConfig
from mfec.experiments.train import train
from mfec.run_directory import RunDirectory, RunDirectoryError

from ...experiments.stopping import CLOCKS, games_of, stopped_after, wait_for
from ...waiting import PATIENCE
from .bars import Bars

assert "Bars-v0" in gymnasium.registry, Bars

SMALL: dict[str, Any] = {
    "replay_start": 50, "epsilon_steps": 150, "batch_size": 8, "train_every": 8, "target_every": 40,
    "replay_capacity": 120,
}  # fmt: skip


def config_of(
    algorithm: str, env: str, frames: int, *, n_envs: int = 1, max_frames: int | None = None, **options: Any
) -> RunConfig:
    """A small run; options are those of its algorithm."""
    limit = {"max_frames": max_frames} if max_frames else {}
    environment = EnvConfig(n_envs=n_envs, frame_stack=4, **limit)
    own = A2CConfig(**options) if algorithm == "a2c" else DQNConfig(**SMALL | options)
    return RunConfig(env, frames, 3, own, environment, algorithm)


def outcome(out: Path) -> tuple[str, list[list[str]], dict[str, Any], dict[tuple[str, str], str]]:
    """What two equal runs have in common: games, progress without the clocks, and the whole baseline, bit for bit."""
    run = RunDirectory(out)
    lines = [line.split(",") for line in run.progress_file.read_text().splitlines()]
    progress = [[text for name, text in zip(lines[0], line, strict=True) if name not in CLOCKS] for line in lines]
    state, tensors = read_checkpoint(run.checkpoint, kind="baseline")
    digests = {
        (file, name): hashlib.sha256(tensor.tobytes()).hexdigest()
        for file, own in tensors.items()
        for name, tensor in own.items()
    }
    return run.episodes_file.read_text(), progress, state, digests


# -- Stop and go ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("config", "stops"), [
    (config_of("dqn", "CartPole-v1", 500), (3, 20, 13)),  # before learning begins, and twice after
    (config_of("dqn", "CartPole-v1", 600, n_envs=3, optimizer="adam"), (30,)),
    (config_of("prioritised_dqn", "Bars-v0", 400, n_envs=2), (30, 5)),
    (config_of("dqn", "labyrinth_forage", 1600), (45,)),
    (config_of("a2c", "CartPole-v1", 600, n_envs=4), (12, 7)),
    (config_of("a2c", "Bars-v0", 300), (33,)),
    # 120 steps of replay are written over twice; games are cut off, and lives lost.
    (config_of("prioritised_dqn", "qbert", 1500, max_frames=420), (10, 21)),
    (config_of("a2c", "qbert", 900, n_envs=2, max_frames=200), (11,)),
], ids=lambda value: f"{value.algorithm}-{value.env}" if isinstance(value, RunConfig) else "")  # fmt: skip
def test_a_run_that_was_stopped_ends_as_if_it_had_not_been(tmp_path, config, stops):
    train(config, tmp_path / "whole")
    for number, steps in enumerate(stops):
        with stopped_after(steps):
            train(config, tmp_path / "stopped", resume=number > 0)
    train(config, tmp_path / "stopped", resume=True)
    assert outcome(tmp_path / "stopped") == outcome(tmp_path / "whole")
    _, progress, state, digests = outcome(tmp_path / "whole")
    assert len(progress) > config.total_frames // 100
    assert games_of(tmp_path / "whole") > (0 if config.env == "labyrinth_forage" else 2)
    assert state["model"]["counters"]["_n_updates"] > 10
    assert ("replay", "frames") in digests or config.algorithm == "a2c"


@pytest.mark.parametrize("algorithm", ["dqn", "a2c"])
def test_a_finished_run_goes_on_when_it_is_given_more_frames(tmp_path, algorithm):
    part, whole = config_of(algorithm, "CartPole-v1", 240), config_of(algorithm, "CartPole-v1", 480)
    train(part, tmp_path / "parts")
    train(whole, tmp_path / "parts", resume=True)
    train(whole, tmp_path / "whole")
    parts, once = outcome(tmp_path / "parts"), outcome(tmp_path / "whole")
    assert parts == once
    assert RunDirectory(tmp_path / "parts").read_config().total_frames == 480


def test_asked_to_stop_the_command_saves_and_says_how_to_go_on(tmp_path):
    """A process of its own, stopped by a signal and begun again by the very line that it printed."""
    arguments = [
        "train", "CartPole-v1", "--algorithm", "prioritised_dqn", "--total-frames", "2000", "--seed", "1", "--no-video",
        "--replay-start", "100", "--replay-capacity", "500", "--no-clip-rewards", "--episode", "game",
    ]  # fmt: skip
    out = tmp_path / "stopped"
    command = [sys.executable, "-m", "mfec", *arguments, "--out", str(out)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_for(lambda: games_of(out) > 8, process)
    process.send_signal(signal.SIGTERM)
    said, error = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130, error
    again = shlex.split(said.partition("stopped, and saved; go on with\n")[2])
    assert again[0] == "mfec"
    state, _ = read_checkpoint(out / "checkpoint", kind="baseline")
    assert 0 < state["games_in_progress"]["frames"] < 2000
    assert main(again[1:]) == 0
    assert main([*arguments, "--out", str(tmp_path / "whole")]) == 0
    first, second = outcome(out), outcome(tmp_path / "whole")
    assert first[0] == second[0]
    assert first[3] == second[3]


# -- The run directory ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("config", [
    config_of("dqn", "Bars-v0", 64, optimizer="adam", clip_rewards=False),
    config_of("prioritised_dqn", "Bars-v0", 64, alpha=0.5),
    config_of("a2c", "Bars-v0", 64, n_envs=2, entropy=0.5, episode="game"),
], ids=lambda config: config.algorithm)  # fmt: skip
def test_a_run_keeps_its_settings(tmp_path, config):
    train(config, tmp_path)
    run = RunDirectory(tmp_path)
    assert run.read_config() == config
    tables = tomllib.loads(run.config_file.read_text())
    assert {name for name, value in tables.items() if isinstance(value, dict)} == {"environment", "agent"}
    assert (tables["algorithm"], tables["seed"]) == (config.algorithm, 3)
    assert tables["agent"] == vars(config.agent)


def test_frames_that_are_not_stacked_are_said_to_be_one(tmp_path):
    train(config_of("dqn", "CartPole-v1", 16), tmp_path)
    assert RunDirectory(tmp_path).read_config().environment == EnvConfig(frame_stack=1)


@pytest.mark.parametrize("algorithm", ["dqn", "a2c"])
def test_progress_has_what_there_is_of_a_baseline_and_no_column_of_others(tmp_path, algorithm):
    train(config_of(algorithm, "CartPole-v1", 300), tmp_path)
    progress = RunDirectory(tmp_path).progress_file.read_text().splitlines()
    names = progress[0].split(",")
    row = dict(zip(names, progress[-1].split(","), strict=True))
    assert float(row["return_mean_100"]) > 5
    assert names[:4] == ["frames", "seconds", "steps_per_second", "return_mean_100"]
    if algorithm == "a2c":
        assert names[4:] == []
        return
    assert names[4:] == ["memory_entries", "memory_bytes", "memory_fill"]
    assert (row["frames"], row["memory_entries"], float(row["memory_fill"])) == ("304", "120", 1.0)
    assert float(row["memory_bytes"]) >= 120 * (16 + 8 + 4)


@pytest.mark.parametrize(("change", "message"), [
    ({"gamma": 0.5}, "was begun with gamma = 0.99, it cannot go on with 0.5"),
    ({"replay_capacity": 999}, "was begun with replay_capacity = 120, it cannot go on with 999"),
    ({"clip_rewards": False}, "was begun with clip_rewards = True, it cannot go on with False"),
    ({"n_envs": 2}, "was begun with n_envs = 1, it cannot go on with 2"),
])  # fmt: skip
def test_a_run_does_not_go_on_with_other_settings(tmp_path, change, message):
    train(config_of("dqn", "CartPole-v1", 64), tmp_path)
    with pytest.raises(RunDirectoryError, match=message):
        train(config_of("dqn", "CartPole-v1", 128, **change), tmp_path, resume=True)


@pytest.mark.parametrize(("before", "after"), [("dqn", "a2c"), ("dqn", "prioritised_dqn"), ("a2c", "dqn")])
def test_a_run_does_not_go_on_with_another_algorithm(tmp_path, before, after):
    train(config_of(before, "CartPole-v1", 64), tmp_path)
    with pytest.raises(RunDirectoryError, match=f"was begun with algorithm = {before}, it cannot go on with {after}"):
        train(config_of(after, "CartPole-v1", 128), tmp_path, resume=True)


def test_a_replay_buffer_that_cannot_fit_is_refused(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("mfec.experiments.ram.physical_ram", lambda: 2_000_000_000)
    arguments = ["train", "qbert", "--algorithm", "dqn", "--out", str(tmp_path / "run"), "--no-video", "--total-frames"]
    assert main([*arguments, "10000000"]) == 1
    error = capsys.readouterr().err
    assert "replay: 1,000,000 steps need up to 7.09 GB in this run" in error
    assert "choose a smaller --replay-capacity" in error
    assert not (tmp_path / "run").exists()
    assert main([*arguments, "400"]) == 0, "so few steps fit"


# -- The command line -------------------------------------------------------------------------------------------------


def test_options_reach_the_run(tmp_path):
    dqn = DQNConfig(
        learning_rate=0.001, optimizer="adam", gamma=0.5, batch_size=16, replay_capacity=200, replay_start=60,
        train_every=8, gradient_steps=2, target_every=30, epsilon=0.2, epsilon_steps=90, evaluation_epsilon=0.01,
        alpha=0.25, beta=0.75, clip_rewards=False, episode="game",
    )  # fmt: skip
    options = [
        word
        for name, value in vars(dqn).items()
        for word in (["--no-clip-rewards"] if value is False else [f"--{name.replace('_', '-')}", str(value)])
    ]
    arguments = ["--total-frames", "100", "--seed", "9", "--n-envs", "2", "--no-video", "--out", str(tmp_path)]
    assert main(["train", "Bars-v0", "--algorithm", "prioritised_dqn", *arguments, *options]) == 0
    expected = RunConfig("Bars-v0", 100, 9, dqn, EnvConfig(n_envs=2, frame_stack=4), "prioritised_dqn")
    assert RunDirectory(tmp_path).read_config() == expected


SHRUNK = {"replay_start": 0, "target_every": 1, "epsilon_steps": 3}  # of a run of 8 steps


@pytest.mark.parametrize(("name", "rate"), [("dqn", 0.00025), ("prioritised_dqn", 0.0000625), ("a2c", 0.0007)])
def test_defaults_are_the_published_ones(tmp_path, name, rate):
    arguments = ["--algorithm", name, "--total-frames", "8", "--no-video", "--out", str(tmp_path)]
    assert main(["train", "Bars-v0", *arguments]) == 0
    config, kind = RunDirectory(tmp_path).read_config(), algorithm(name)
    assert config.environment == kind.environment == EnvConfig(16 if name == "a2c" else 1, 4)
    assert config.agent.learning_rate == rate
    assert config.agent == replace(kind.defaults("Bars-v0"), **({} if name == "a2c" else SHRUNK))


@pytest.mark.parametrize("algorithm", ["dqn", "a2c"])
def test_a_run_is_evaluated_without_its_replay(tmp_path, capsys, monkeypatch, algorithm):
    begin = ["--replay-start", "50"] if algorithm == "dqn" else []
    small = [*begin, "--total-frames", "400", "--no-video", "--out", str(tmp_path)]
    assert main(["train", "Bars-v0", "--algorithm", algorithm, *small]) == 0
    capsys.readouterr()

    def forbidden(*_: Any) -> None:
        raise AssertionError("replay is as large as a run is long")

    monkeypatch.setattr(FrameReplay, "restore", forbidden)
    evaluate = ["evaluate", str(tmp_path), "--episodes", "3", "--random", "--json"]
    assert main(evaluate) == 0
    first = capsys.readouterr().out
    random, agent = json.loads(first)
    assert (random["policy"], agent["policy"]) == ("random", "agent")
    assert agent["epsilon"] == (0.0 if algorithm == "a2c" else 0.05)
    assert len(agent["scores"]) == 3
    assert main(evaluate) == 0
    assert capsys.readouterr().out == first, "a seed makes the games"
    assert main([*evaluate, "--epsilon", "1"]) == 0
    assert json.loads(capsys.readouterr().out)[1]["epsilon"] == 1.0


def schedule_of(out: Path) -> tuple[int | None, ...]:
    dqn = RunDirectory(out).read_config().agent
    return dqn.replay_start, dqn.target_every, dqn.epsilon_steps


def gradient_steps(out: Path) -> int:
    state, _ = read_checkpoint(out / "checkpoint", kind="baseline")
    return int(state["model"]["counters"]["_n_updates"])


def test_a_short_run_learns_and_says_that_its_schedule_was_shrunk(tmp_path, capsys):
    """One of 12,000 frames would end before its 50,000th step, so that it would have played at random."""
    short = ["train", "CartPole-v1", "--algorithm", "dqn", "--no-video", "--total-frames", "1200"]
    assert main([*short, "--out", str(tmp_path / "run")]) == 0
    assert schedule_of(tmp_path / "run") == (24, 4, 480)
    assert gradient_steps(tmp_path / "run") > 200
    said = capsys.readouterr().out
    assert "replay_start 24, target_every 4, epsilon_steps 480; shrunk" in said
    assert "warning" not in said

    # What is given stays, and is nothing to be surprised at.
    assert main([*short, "--target-every", "70", "--out", str(tmp_path / "every")]) == 0
    assert schedule_of(tmp_path / "every") == (24, 70, 480)
    assert main([*short, "--replay-start", "300", "--out", str(tmp_path / "given")]) == 0
    assert schedule_of(tmp_path / "given") == (300, 10_000, 1_000_000)
    assert "schedule" not in capsys.readouterr().out.rpartition("given")[0].rpartition("replay:")[2]


@pytest.mark.parametrize("seeds", [["--seed", "0"], ["--seeds", "0"]], ids=["alone", "as one of several"])
def test_a_run_that_is_told_not_to_learn_is_warned(tmp_path, capsys, seeds):
    """Though it is told the published number."""
    told = ["--total-frames", "100", "--replay-start", "50000", *seeds]
    assert main(["train", "CartPole-v1", "--algorithm", "dqn", "--no-video", *told, "--out", str(tmp_path)]) == 0
    place = tmp_path / ("seed-0" if "--seeds" in seeds else "")
    assert schedule_of(place) == (50_000, 10_000, 1_000_000)
    assert gradient_steps(place) == 0
    said = capsys.readouterr().out
    assert "warning: this run ends before it begins to learn: it has 100 steps, and --replay-start is 50,000" in said


def test_a_run_that_is_given_more_frames_keeps_the_schedule_that_it_began_with(tmp_path, capsys):
    run = ["train", "CartPole-v1", "--algorithm", "dqn", "--no-video", "--out", str(tmp_path), "--total-frames"]
    assert main([*run, "500"]) == 0
    begun = schedule_of(tmp_path)
    assert begun == (10, 2, 200)
    capsys.readouterr()
    assert main([*run, "900", "--resume"]) == 0
    assert schedule_of(tmp_path) == begun
    said = capsys.readouterr().out
    assert "going on from frame 500" in said
    assert "replay_start 10, target_every 2, epsilon_steps 200, as the run was begun" in said
    assert main([*run, "900", "--resume", "--target-every", "9"]) == 1
    assert "was begun with target_every = 2, it cannot go on with 9" in capsys.readouterr().err


def test_several_seeds_train_side_by_side(tmp_path):
    arguments = ["CartPole-v1", "--algorithm", "dqn", "--replay-start", "50", "--total-frames", "200", "--no-video"]
    assert main(["train", *arguments, "--seeds", "0", "1", "--out", str(tmp_path / "both")]) == 0
    assert main(["train", *arguments, "--seed", "1", "--out", str(tmp_path / "one")]) == 0
    runs = [RunDirectory(tmp_path / "both" / name) for name in ("seed-0", "seed-1")]
    assert [run.read_config().seed for run in runs] == [0, 1]
    assert outcome(runs[1].path)[0] == outcome(tmp_path / "one")[0] != outcome(runs[0].path)[0]
    assert (tmp_path / "both" / "curve.png").exists()


@pytest.mark.parametrize(("options", "message"), [
    (["--k", "5"], r"Unrecognized .*options: --k"),
    (["--entropy", "0"], r"Unrecognized .*options: --entropy"),
    (["--recipe", "tuned"], "dqn has no recipe 'tuned'"),
    (["--gamma", "1.5"], "gamma must lie between 0 and 1, not 1.5"),
    (["--batch-size", "0"], "batch_size must be at least 1, not 0"),
    (["--optimizer", "sgd"], r"'sgd' for argument '--optimizer'. Expected one of \('rmsprop', 'adam'\)"),
])  # fmt: skip
def test_senseless_options_are_refused_in_a_sentence(tmp_path, capsys, options, message):
    try:
        status = main(["train", "CartPole-v1", "--algorithm", "dqn", *options, "--out", str(tmp_path / "run")])
    except SystemExit as ended:
        status = ended.code
    assert status in (1, 2)
    assert re.search(message, " ".join(capsys.readouterr().err.replace("│", " ").split()))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(("missing", "program"), [
    ("stable_baselines3", "from mfec.cli import main; sys.exit(main(sys.argv[1:]))"),
    ("torch", "import mfec.algorithms.baselines.baseline"),
])  # fmt: skip
def test_without_the_extra_the_error_names_it(missing, program, tmp_path):
    arguments = ["train", "CartPole-v1", "--algorithm", "dqn", "--total-frames", "100", "--out", str(tmp_path / "run")]
    command = [sys.executable, "-c", f"import sys; sys.modules[{missing!r}] = None; {program}", *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert ended.returncode == 1
    assert ended.stderr.endswith("DQN and A2C need the extra `baselines`: pip install 'mfec[baselines]'\n")
    assert "Traceback" not in ended.stderr or missing == "torch"
    assert not (tmp_path / "run").exists()
