"""Evaluation of a run: whole games, unclipped scores, a memory that stays as it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from mfec.agent import MFEC
from mfec.callback import Learner
from mfec.config import AgentConfig, DeviceName, EnvConfig, RunConfig, Starts
from mfec.experiments.video import check_video
from mfec.experiments.whole_games import AtRandom, Evaluation, Player, WholeGames, dice_of
from mfec.run_directory import RunDirectory, RunDirectoryError

if TYPE_CHECKING:
    from mfec.baselines import Baseline

__all__ = ["Evaluation", "environment_of_games", "evaluate_run", "player_of"]


def evaluate_run(
    directory: RunDirectory,
    *,
    episodes: int | None = None,
    seed: int = 0,
    starts: Starts = "sampled",
    epsilon: float | None = None,
    random: bool = False,
    video: Path | None = None,
    device: DeviceName = AgentConfig.device,
) -> list[Evaluation]:
    """Play whole games with the agent of a run, and with a random policy if asked for.

    `epsilon` is the agent's own unless given, and 0 where `starts` are not sampled. The video is of the first game.
    `device` need not be the run's.
    """
    if episodes is not None and episodes < 1:
        raise ValueError(f"episodes must be at least 1, not {episodes}")
    if epsilon is not None and not 0.0 <= epsilon <= 1.0:
        raise ValueError(f"epsilon must lie between 0 and 1, not {epsilon}")
    if video:
        check_video(video)
    config = directory.read_config()
    if not directory.has_checkpoint:
        raise RunDirectoryError(f"{directory.path} has no checkpoint yet: nothing to evaluate")
    if starts != "sampled" and epsilon is None:
        epsilon = 0.0
    games = WholeGames(config.env, environment_of_games(config), games=episodes, seed=seed, starts=starts, video=video)
    evaluations = []
    if random:
        at_random = WholeGames(config.env, environment_of_games(config), games=episodes, seed=seed, starts=starts)
        evaluations.append(at_random.play(AtRandom(games.action_space, seed=seed)))
    load = _load_mfec if config.algorithm == "mfec" else _load_baseline
    player = player_of(load(directory, config, games, device), epsilon, seed=seed)
    return [*evaluations, games.play(player)]


def environment_of_games(config: RunConfig) -> EnvConfig:
    """The environment that whole games of a run are played in."""
    one = replace(config.environment, n_envs=1)
    return one if config.algorithm == "mfec" else replace(one, frame_stack=1)  # a baseline stacks frames itself


def player_of(agent: Learner, epsilon: float | None, *, seed: int) -> Player:
    """How the agent plays whole games, with a chance of random actions of its own unless given.

    It leaves no trace on the agent.
    """
    if isinstance(agent, MFEC):
        return _Remembering(agent, epsilon, seed)
    return _Network(cast("Baseline", agent), epsilon, seed)


class _Remembering:
    """MFEC as it plays: all games in one look-up."""

    name = "agent"

    def __init__(self, agent: MFEC, epsilon: float | None, seed: int) -> None:
        self._agent, self._seed = agent, seed
        self.epsilon = agent.config.epsilon if epsilon is None else epsilon
        self.deterministic = self.epsilon == 0.0
        self._dice: dict[int, np.random.Generator] = {}

    def act(self, games: Sequence[int], observations: NDArray[Any], begins: Sequence[bool]) -> NDArray[np.int64]:
        """The actions of highest value, but for epsilon of them."""
        if self.deterministic:
            return self._agent.predict(observations, deterministic=True)[0]
        dice = dice_of(games, begins, self._dice, self._seed, 1)
        return self._agent.predict(observations, epsilon=self.epsilon, rng=dice)[0]


class _Network:
    """A baseline as it plays: each game for itself."""

    name = "agent"

    def __init__(self, agent: Baseline, epsilon: float | None, seed: int) -> None:
        self._agent, self._given, self._seed = agent, epsilon, seed
        self.epsilon = agent.default_epsilon if epsilon is None else epsilon
        self.deterministic = self.epsilon == 0.0 and agent.algorithm != "a2c"  # which draws from its policy
        self._dice: dict[int, np.random.Generator] = {}
        self._players: dict[int, Callable[[NDArray[Any], bool], int]] = {}

    def act(self, games: Sequence[int], observations: NDArray[Any], begins: Sequence[bool]) -> NDArray[np.int64]:
        """The actions of its policy, but for epsilon of them."""
        for game, dice, new in zip(games, dice_of(games, begins, self._dice, self._seed, 1), begins, strict=True):
            if new:
                self._players[game] = self._agent.player(self._given, dice)
        chosen = [self._players[game](shown, new) for game, shown, new in zip(games, observations, begins, strict=True)]
        return np.array(chosen, np.int64)


def _load_mfec(directory: RunDirectory, config: RunConfig, games: WholeGames, device: DeviceName) -> MFEC:
    agent = MFEC.load(directory.checkpoint, env=games.env, device=device)
    directory.check_checkpoint(agent.config, agent.seed)
    return agent


def _load_baseline(directory: RunDirectory, config: RunConfig, games: WholeGames, device: DeviceName) -> Baseline:
    from mfec.baselines import Baseline

    # Nothing is learned here, so there is nothing to replay.
    small = replace(config.dqn, replay_capacity=1)
    one = replace(config.environment, n_envs=1)
    config = replace(config, agent=replace(config.agent, device=device), dqn=small, environment=one)
    return Baseline(games.env, config).restore_player(directory.checkpoint)
