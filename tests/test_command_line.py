"""Settings as a command line: read again, it makes the same run."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from mfec.algorithms import RunConfig
from mfec.algorithms import algorithm as algorithm_named
from mfec.algorithms.baselines.settings import A2CConfig, DQNConfig, scheduled
from mfec.algorithms.mfec import MFECConfig
from mfec.callbacks import Stopped
from mfec.cli import main
from mfec.command_line import arguments_of
from mfec.config import EnvConfig
from mfec.run_directory import RunDirectory


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Reads arguments of the command; what it would train, stopped before its first frame."""

    def parse(arguments: list[str]) -> RunConfig:
        configs: list[RunConfig] = []

        def stop(config: RunConfig, *_: Any, **__: Any) -> None:
            configs.append(config)
            raise Stopped

        monkeypatch.setattr("mfec.experiments.train.train", stop)
        assert main(arguments) == 130
        [config] = configs
        return config

    return parse


def baseline(algorithm: str, env: str = "qbert", **options: Any) -> RunConfig:
    """A run of a baseline with its defaults, but for the options."""
    kind = algorithm_named(algorithm)
    defaults = {"agent": kind.defaults(env), "environment": kind.environment}
    return RunConfig(env, 1000, algorithm=algorithm, **{**defaults, **options})


OTHER_AGENT = MFECConfig(
    k=3, kernel="inverse", gamma=0.5, epsilon=1e-5, capacity=77, embedding="random_projection", dim=5, index="cells",
    recall=0.5, eviction="used", update="replace", few_neighbours="zero", ties="first", episode="game",
    truncated="skip", vae_frames=90, vae_steps=7,
)  # fmt: skip
LABYRINTH = MFECConfig(k=50, gamma=0.99, capacity=100_000)
OTHER_ENVIRONMENT = EnvConfig(
    n_envs=2,
    frame_stack=3,
    sticky_actions=0.125,
    max_frames=80,
    env_kwargs=("size=8", "name=a b"),
    wrappers=("a.b:C", "a:d"),
)
OTHER_DQN = DQNConfig(
    learning_rate=1e-5, optimizer="adam", gamma=0.0, batch_size=7, replay_capacity=9, replay_start=0, train_every=3,
    gradient_steps=2, target_every=5, epsilon=0.0, epsilon_steps=6, evaluation_epsilon=1.0, alpha=0.25, beta=0.75,
    clip_rewards=False, episode="game",
)  # fmt: skip
OTHER_A2C = A2CConfig(
    learning_rate=1e-5, gamma=0.5, rollout_steps=7, entropy=0.0, value_weight=2.0, clip_rewards=False, episode="game"
)

CONFIGS = [
    RunConfig("qbert", 1000),
    RunConfig("qbert", 10_000_000, 12, MFECConfig(k=50), EnvConfig(n_envs=4, frame_stack=4)),
    RunConfig("CartPole-v1", 5, agent=OTHER_AGENT, environment=OTHER_ENVIRONMENT),
    RunConfig("qbert", 1000, agent=MFECConfig(device="cuda")),
    RunConfig("labyrinth_forage", 1000, agent=LABYRINTH),
    RunConfig("labyrinth_forage", 1000),  # Atari's settings in the Labyrinth
    RunConfig("mfec/Labyrinth-DoubleTMaze-v0", 1000, 2, replace(LABYRINTH, capacity=7)),
    RunConfig("some.module:Level-v0", 1000),
    RunConfig("qbert", 1000, agent=MFECConfig(embedding="vae", vae="qbert")),
    RunConfig("qbert", 1000, agent=MFECConfig(embedding="vae", vae="a place/with spaces")),
    RunConfig("qbert", 1000, agent=MFECConfig(embedding="vae", vae_frames=90, vae_steps=7)),
    baseline("dqn"),
    baseline("dqn", agent=OTHER_DQN, environment=OTHER_ENVIRONMENT),
    baseline("dqn", agent=DQNConfig(learning_rate=0.0000625)),
    baseline("dqn", "labyrinth_forage", environment=EnvConfig(n_envs=8, frame_stack=4)),
    baseline("dqn", agent=DQNConfig(device="cuda")),
    baseline("prioritised_dqn"),
    baseline("prioritised_dqn", "CartPole-v1", environment=EnvConfig(), agent=OTHER_DQN),
    baseline("prioritised_dqn", agent=DQNConfig()),  # DQN's own step size, which is not the default here
    baseline("a2c"),
    baseline("a2c", "CartPole-v1", agent=OTHER_A2C, environment=EnvConfig(n_envs=1)),
]


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: f"{config.algorithm} {config.env}")
def test_what_is_read_again_is_the_same_run(config, parsed):
    assert parsed([*arguments_of(config), "--no-video"]) == config


def test_every_setting_can_be_said():
    """None of the others above is a default, so that one which is left out would be noticed."""
    for others, default in ((OTHER_AGENT, MFECConfig()), (OTHER_DQN, DQNConfig()), (OTHER_A2C, A2CConfig())):
        same = {field.name for field in fields(default) if getattr(others, field.name) == getattr(default, field.name)}
        assert same <= {"device", "vae"}, "which have lines of their own"


@pytest.mark.parametrize("config", [
    baseline("dqn", "labyrinth_forage", agent=scheduled(DQNConfig(), 250)),
    baseline("a2c", "CartPole-v1", environment=EnvConfig(n_envs=2)),
], ids=lambda config: config.env)  # fmt: skip
def test_what_a_run_directory_tells_makes_the_same_run_directory(config, parsed, tmp_path: Path):
    first, second = RunDirectory(tmp_path / "first"), RunDirectory(tmp_path / "second")
    first.create(config)
    second.create(parsed(arguments_of(first.read_config())))
    assert second.config_file.read_text() == first.config_file.read_text()


@pytest.mark.parametrize(("config", "arguments"), [
    (RunConfig("qbert", 1000), "train qbert --total-frames 1000"),
    (RunConfig("qbert", 1000, 3), "train qbert --total-frames 1000 --seed 3"),
    (
        RunConfig("labyrinth_forage", 9, agent=LABYRINTH),
        "train labyrinth_forage --total-frames 9",
    ),
    (baseline("a2c"), "train qbert --algorithm a2c --total-frames 1000"),
    (baseline("prioritised_dqn"), "train qbert --algorithm prioritised_dqn --total-frames 1000"),
    (
        baseline("dqn", agent=DQNConfig(clip_rewards=False, replay_start=7)),
        "train qbert --algorithm dqn --total-frames 1000 --replay-start 7 --no-clip-rewards",
    ),
])  # fmt: skip
def test_only_what_is_not_the_default_is_said(config, arguments):
    assert " ".join(arguments_of(config)) == arguments
