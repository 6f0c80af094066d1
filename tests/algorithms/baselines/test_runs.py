"""Baselines as runs: their directories, stopping and going on, and the command line."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import signal
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
from mfec.callbacks import CallbackList
from mfec.checkpoint import read_checkpoint
from mfec.cli import main
from mfec.config import EnvConfig
from mfec.experiments.train import train
from mfec.interface import Agent
from mfec.run_directory import RunDirectory, RunDirectoryError

from ...experiments.stopping import CLOCKS, games_of, stopped_after
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
    # 120 steps of replay are written over, and games are cut off.
    (config_of("dqn", "qbert", 640, n_envs=2, max_frames=100, optimizer="adam"), (6, 4)),
    (config_of("a2c", "CartPole-v1", 300, n_envs=4), (7, 3)),
], ids=lambda value: value.algorithm if isinstance(value, RunConfig) else "")  # fmt: skip
def test_a_run_that_was_stopped_ends_as_if_it_had_not_been(tmp_path, config, stops):
    train(config, tmp_path / "whole")
    for number, steps in enumerate(stops):
        with stopped_after(steps):
            train(config, tmp_path / "stopped", resume=number > 0)
    train(config, tmp_path / "stopped", resume=True)
    assert outcome(tmp_path / "stopped") == outcome(tmp_path / "whole")
    _, progress, state, digests = outcome(tmp_path / "whole")
    assert len(progress) > config.total_frames // 100
    assert games_of(tmp_path / "whole") > 2
    assert state["model"]["counters"]["_n_updates"] > 10
    assert ("replay", "frames") in digests or config.algorithm == "a2c"


def test_a_finished_run_goes_on_when_it_is_given_more_frames(tmp_path):
    part, whole = config_of("dqn", "CartPole-v1", 120), config_of("dqn", "CartPole-v1", 240)
    train(part, tmp_path / "parts")
    train(whole, tmp_path / "parts", resume=True)
    train(whole, tmp_path / "whole")
    assert outcome(tmp_path / "parts") == outcome(tmp_path / "whole")
    assert RunDirectory(tmp_path / "parts").read_config().total_frames == 240


def test_asked_to_stop_the_command_saves_and_says_how_to_go_on(tmp_path, capsys):
    """Begun again by the very line that it printed."""
    arguments = [
        "train", "CartPole-v1", "--algorithm", "prioritised_dqn", "--total-frames", "400", "--seed", "1", "--no-video",
        "--replay-start", "100", "--replay-capacity", "200", "--no-clip-rewards", "--episode", "game",
    ]  # fmt: skip
    out = tmp_path / "stopped"
    on_step = CallbackList.on_step

    def ask_to_stop(callbacks: CallbackList, agent: Agent) -> bool:
        if agent.frames == 240:
            os.kill(os.getpid(), signal.SIGTERM)
        return on_step(callbacks, agent)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CallbackList, "on_step", ask_to_stop)
        assert main([*arguments, "--out", str(out)]) == 130
    again = shlex.split(capsys.readouterr().out.partition("stopped, and saved; go on with\n")[2])
    assert again[0] == "mfec"
    state, _ = read_checkpoint(out / "checkpoint", kind="baseline")
    assert state["games_in_progress"]["frames"] == 240
    assert main(again[1:]) == 0
    assert main([*arguments, "--out", str(tmp_path / "whole")]) == 0
    first, second = outcome(out), outcome(tmp_path / "whole")
    assert first[0] == second[0]
    assert first[3] == second[3]


# -- The run directory ------------------------------------------------------------------------------------------------


def test_a_run_keeps_its_settings(tmp_path):
    config = config_of("a2c", "Bars-v0", 64, n_envs=2, entropy=0.5, episode="game")
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
    train(config_of(algorithm, "CartPole-v1", 200), tmp_path)
    progress = RunDirectory(tmp_path).progress_file.read_text().splitlines()
    names = progress[0].split(",")
    row = dict(zip(names, progress[-1].split(","), strict=True))
    assert float(row["return_mean_100"]) > 5
    assert names[:4] == ["frames", "seconds", "steps_per_second", "return_mean_100"]
    assert "exact_match_rate" not in names
    assert ("memory_entries" in names) == (algorithm == "dqn")
    if algorithm == "dqn":
        assert (row["frames"], row["memory_entries"], float(row["memory_fill"])) == ("200", "120", 1.0)
        assert float(row["memory_bytes"]) >= 120 * (16 + 8 + 4)


def test_a_run_does_not_go_on_with_other_settings_or_another_algorithm(tmp_path):
    train(config_of("dqn", "CartPole-v1", 64), tmp_path)
    for name, change, said in (
        ("dqn", {"gamma": 0.5}, "gamma = 0.99, it cannot go on with 0.5"),
        ("dqn", {"n_envs": 2}, "n_envs = 1, it cannot go on with 2"),
        ("prioritised_dqn", {}, "algorithm = dqn, it cannot go on with prioritised_dqn"),
        ("a2c", {}, "algorithm = dqn, it cannot go on with a2c"),
    ):
        with pytest.raises(RunDirectoryError, match=f"was begun with {said}"):
            train(config_of(name, "CartPole-v1", 128, **change), tmp_path, resume=True)


def test_a_replay_buffer_that_cannot_fit_is_refused(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("mfec.experiments.ram.physical_ram", lambda: 2_000_000_000)
    arguments = ["train", "qbert", "--algorithm", "dqn", "--out", str(tmp_path / "run"), "--no-video", "--total-frames"]
    assert main([*arguments, "10000000"]) == 1
    error = capsys.readouterr().err
    assert "replay: 1,000,000 steps need up to 7.09 GB in this run" in error
    assert "choose a smaller --replay-capacity" in error
    assert not (tmp_path / "run").exists()
    assert main([*arguments, "40"]) == 0, "so few steps fit"


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
    small = [*begin, "--total-frames", "100", "--no-video", "--out", str(tmp_path)]
    assert main(["train", "Bars-v0", "--algorithm", algorithm, *small]) == 0
    capsys.readouterr()

    def forbidden(*_: Any) -> None:
        raise AssertionError("replay is as large as a run is long")

    monkeypatch.setattr(FrameReplay, "restore", forbidden)
    evaluate = ["evaluate", str(tmp_path), "--episodes", "2", "--random", "--json"]
    assert main(evaluate) == 0
    first = capsys.readouterr().out
    random, agent = json.loads(first)
    assert (random["policy"], agent["policy"]) == ("random", "agent")
    assert agent["epsilon"] == (0.0 if algorithm == "a2c" else 0.05)
    assert len(agent["scores"]) == 2
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


def test_a_short_run_shrinks_its_schedule_says_so_and_keeps_it(tmp_path, capsys):
    """A run of 12,000 frames would end before its 50,000th step, so that it would have played at random."""
    short = ["train", "CartPole-v1", "--algorithm", "dqn", "--no-video", "--total-frames"]
    run = ["--out", str(tmp_path / "run")]
    assert main([*short, "500", *run]) == 0
    assert schedule_of(tmp_path / "run") == (10, 2, 200)
    assert gradient_steps(tmp_path / "run") > 100
    said = capsys.readouterr().out
    assert "replay_start 10, target_every 2, epsilon_steps 200; shrunk" in said
    assert "warning" not in said

    # Given more frames, it keeps what it began with.
    assert main([*short, "600", *run, "--resume"]) == 0
    assert schedule_of(tmp_path / "run") == (10, 2, 200)
    said = capsys.readouterr().out
    assert "going on from frame 500" in said
    assert "replay_start 10, target_every 2, epsilon_steps 200, as the run was begun" in said
    assert main([*short, "600", *run, "--resume", "--target-every", "9"]) == 1
    assert "was begun with target_every = 2, it cannot go on with 9" in capsys.readouterr().err

    # What is given stays.
    assert main([*short, "300", "--target-every", "70", "--out", str(tmp_path / "every")]) == 0
    assert schedule_of(tmp_path / "every") == (6, 70, 120)


def test_a_run_that_is_told_not_to_learn_is_warned(tmp_path, capsys):
    """Though it is told the published number."""
    told = ["--total-frames", "100", "--replay-start", "50000", "--no-video", "--out", str(tmp_path)]
    assert main(["train", "CartPole-v1", "--algorithm", "dqn", *told]) == 0
    assert schedule_of(tmp_path) == (50_000, 10_000, 1_000_000)
    assert gradient_steps(tmp_path) == 0
    said = capsys.readouterr().out
    assert "warning: this run ends before it begins to learn: it has 100 steps, and --replay-start is 50,000" in said


def test_in_a_process_of_its_own_a_seed_is_the_same_run(tmp_path):
    arguments = ["CartPole-v1", "--algorithm", "dqn", "--replay-start", "50", "--total-frames", "200", "--no-video"]
    assert main(["train", *arguments, "--seeds", "1", "--out", str(tmp_path / "several")]) == 0
    assert main(["train", *arguments, "--seed", "1", "--out", str(tmp_path / "one")]) == 0
    assert outcome(tmp_path / "several" / "seed-1") == outcome(tmp_path / "one")
    assert (tmp_path / "several" / "curve.png").exists()


@pytest.mark.parametrize(("options", "message"), [
    (["--k", "5"], r"Unrecognized .*options: --k"),
    (["--recipe", "tuned"], "dqn has no recipe 'tuned'"),
    (["--gamma", "1.5"], "gamma must lie between 0 and 1, not 1.5"),
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


def test_without_the_extra_the_error_names_it(tmp_path, capsys, monkeypatch):
    monkeypatch.delitem(sys.modules, "mfec.algorithms.baselines.baseline")
    monkeypatch.setitem(sys.modules, "stable_baselines3", None)
    out = tmp_path / "run"
    assert main(["train", "CartPole-v1", "--algorithm", "dqn", "--total-frames", "100", "--out", str(out)]) == 1
    said = capsys.readouterr().err
    assert said == "mfec: DQN and A2C need the extra `baselines`: pip install 'mfec[baselines]'\n"
    assert not out.exists()
