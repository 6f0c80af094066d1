"""Evaluation: whole games, unclipped scores, a memory that stays as it is."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from mfec.agent import MFEC
from mfec.config import AgentConfig, DeviceName, RunConfig
from mfec.envs import make_env
from mfec.envs.spaces import actions_of
from mfec.experiments.video import Video, check_video
from mfec.run_directory import RunDirectory, RunDirectoryError
from mfec.statistics import mean, standard_error

Policy = Callable[[NDArray[Any], bool], int]  # from an observation, and whether a game begins with it, to an action


@dataclass(frozen=True)
class Evaluation:
    """Scores of whole games under one policy."""

    policy: str
    epsilon: float
    scores: list[float]
    lengths_frames: list[int]

    @property
    def mean(self) -> float:
        """Mean score."""
        return mean(self.scores)

    @property
    def standard_error(self) -> float:
        """Standard error of the mean score."""
        return standard_error(self.scores)

    @property
    def mean_length_frames(self) -> float:
        """Mean length of a game."""
        return mean(self.lengths_frames)

    def as_json(self) -> dict[str, Any]:
        """Everything, as JSON takes it."""
        error = self.standard_error
        return {**asdict(self), "mean": self.mean, "standard_error": None if math.isnan(error) else error}


def evaluate_run(
    directory: RunDirectory,
    *,
    episodes: int,
    seed: int,
    epsilon: float | None = None,
    random: bool = False,
    video: Path | None = None,
    device: DeviceName = AgentConfig.device,
) -> list[Evaluation]:
    """Play whole games with the agent of a run, and with a random policy if asked for.

    `epsilon` is the agent's own unless given. The video is of the first game. `device` need not be the run's.
    """
    if episodes < 1:
        raise ValueError(f"episodes must be at least 1, not {episodes}")
    if epsilon is not None and not 0.0 <= epsilon <= 1.0:
        raise ValueError(f"epsilon must lie between 0 and 1, not {epsilon}")
    if video:
        check_video(video)
    config = directory.read_config()
    if not directory.has_checkpoint:
        raise RunDirectoryError(f"{directory.path} has no checkpoint yet: nothing to evaluate")
    one = replace(config.environment, n_envs=1)
    if config.algorithm != "mfec":
        one = replace(one, frame_stack=1)  # a baseline stacks frames itself
    env = make_env(config.env, one, render_mode="rgb_array" if video else None)
    assert isinstance(env, gymnasium.Env)
    actions = actions_of(env.action_space)
    chooser, dice = np.random.default_rng([seed, 1]), np.random.default_rng([seed, 2])
    load = _mfec if config.algorithm == "mfec" else _baseline
    play, own_epsilon = load(directory, config, env, epsilon, chooser, device)

    evaluations = []
    if random:
        low, n = int(actions.start), int(actions.n)
        evaluations.append(_play(env, lambda *_: low + int(dice.integers(n)), "random", 1.0, episodes, seed, None))
    with Video(video, env) if video else contextlib.nullcontext() as film:
        evaluations.append(_play(env, play, "agent", own_epsilon, episodes, seed, film))
    return evaluations


def _mfec(
    directory: RunDirectory,
    config: RunConfig,
    env: gymnasium.Env[Any, Any],
    epsilon: float | None,
    rng: np.random.Generator,
    device: DeviceName,
) -> tuple[Policy, float]:
    """The policy of the agent of a run, and its chance of a random action."""
    agent = MFEC.load(directory.checkpoint, env=env, device=device)
    directory.check_checkpoint(agent.config, agent.seed)
    chance = agent.config.epsilon if epsilon is None else epsilon
    return lambda observation, begins: int(agent.predict(observation, epsilon=chance, rng=rng)[0]), chance


def _baseline(
    directory: RunDirectory,
    config: RunConfig,
    env: gymnasium.Env[Any, Any],
    epsilon: float | None,
    rng: np.random.Generator,
    device: DeviceName,
) -> tuple[Policy, float]:
    """The same for DQN and A2C."""
    from mfec.baselines import Baseline

    # Nothing is learned here, so there is nothing to replay.
    small = replace(config.dqn, replay_capacity=1)
    one = replace(config.environment, n_envs=1)
    config = replace(config, agent=replace(config.agent, device=device), dqn=small, environment=one)
    baseline = Baseline(env, config).restore_player(directory.checkpoint)
    return baseline.player(epsilon, rng), baseline.default_epsilon if epsilon is None else epsilon


def _play(
    env: gymnasium.Env[Any, Any],
    policy: Policy,
    name: str,
    epsilon: float,
    episodes: int,
    seed: int,
    film: Video | None,
) -> Evaluation:
    frame_skip = int(getattr(env.unwrapped, "frame_skip", 1))
    scores, lengths = [], []
    seeds = np.random.SeedSequence(seed).generate_state(episodes) >> 1
    for game, game_seed in enumerate(seeds.tolist()):
        observation, _ = env.reset(seed=game_seed)
        score, steps, ended = 0.0, 0, False
        while not ended:
            observation, reward, terminated, truncated, _ = env.step(policy(np.asarray(observation), steps == 0))
            score += float(reward)
            steps += 1
            ended = bool(terminated or truncated)
            if film and game == 0:
                film.add(_picture(env))
        if film and game == 0:
            film.close()
        scores.append(score)
        lengths.append(steps * frame_skip)
    return Evaluation(name, epsilon, scores, lengths)


def _picture(env: gymnasium.Env[Any, Any]) -> Any:
    try:
        return env.render()
    except (gymnasium.error.Error, NotImplementedError) as error:
        raise ValueError(f"this environment cannot be filmed: {error}") from None
