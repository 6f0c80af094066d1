"""Lanes: environments that step side by side, each with its own games, seeds and history.

The agent plays through lanes only. They give every game its own seed, made of the run's seed, the lane and the
number of the game, and keep the actions of the game in progress; that is all it takes to bring a game back after
a stop: begin it again on its seed and repeat the actions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from numpy.typing import NDArray

from mfec.envs.spaces import actions_of, observations_of
from mfec.errors import MfecError


class LaneError(MfecError):
    """Games in progress cannot be brought back."""


@dataclass(frozen=True)
class Step:
    """What a step of all lanes brought."""

    rewards: NDArray[np.float64]  # (n,)
    ended: NDArray[np.bool_]  # (n,): the game is over, or was cut off by a time limit
    lives: NDArray[np.int64] | None  # (n,), where the environment tells
    valid: NDArray[np.bool_]  # (n,): False where an environment only reset itself


class Lanes(Protocol):
    """What the agent asks of its environments."""

    n: int
    observation_space: spaces.Box | spaces.Discrete[Any]
    action_space: spaces.Discrete[Any]
    frame_skip: int
    observations: NDArray[Any]  # (n, ...): what the lanes show now

    def begin(self, mask: NDArray[np.bool_]) -> NDArray[np.int64] | None:
        """Begin a new game in the lanes of the mask; returns lives, (n,), where the environment tells."""

    def step(self, actions: NDArray[np.int64]) -> Step:
        """One step in every lane."""

    def retract(self, observations: NDArray[Any]) -> None:
        """Take the last step out of the history; `observations` were shown before it."""

    def history(self) -> dict[str, Any] | None:
        """Numbers of the games in progress and their actions so far; None where games cannot be brought back."""

    def restore(self, history: dict[str, Any]) -> None:
        """Bring games in progress back."""


def make_lanes(env: gymnasium.Env[Any, Any] | VectorEnv[Any, Any, Any], seed: np.random.SeedSequence) -> Lanes:
    """Lanes over a Gymnasium environment or vector environment."""
    if isinstance(env, VectorEnv):
        mode = env.metadata.get("autoreset_mode", AutoresetMode.NEXT_STEP)
        return VectorLanes(env, seed) if mode == AutoresetMode.DISABLED else AutoresetLanes(env, seed)
    return SingleLane(env, seed)


class _Seeded:
    """Seeds and histories of n lanes."""

    def __init__(self, n: int, seed: np.random.SeedSequence, reseed_every: int) -> None:
        self._seed = seed
        self._reseed_every = reseed_every
        self.games = np.full(n, -1, np.int64)  # number of the lane's game, from 0
        self.actions: list[list[int]] = [[] for _ in range(n)]

    def seed(self, lane: int) -> int | None:
        """Seed for the game that the lane begins; None where it goes on from the seed of an earlier one."""
        if self.games[lane] % self._reseed_every:
            return None
        key = (*self._seed.spawn_key, lane, int(self.games[lane]))
        return int(np.random.SeedSequence(self._seed.entropy, spawn_key=key).generate_state(1)[0] >> 1)

    def begin(self, lane: int) -> int | None:
        self.games[lane] += 1
        self.actions[lane] = []
        return self.seed(lane)

    def history(self) -> dict[str, Any]:
        return {"games": self.games.tolist(), "actions": [list(own) for own in self.actions]}

    def retract(self) -> None:
        for own in self.actions:
            own.pop()

    def rewind(self, lane: int, game: int) -> None:
        """Set the lane so that its next games lead up to `game`, the first of them on a seed."""
        self.games[lane] = game - game % self._reseed_every - 1


class _Recorded:
    """Lanes that keep a record, so that their games can be brought back."""

    _record: _Seeded
    observations: NDArray[Any]

    def retract(self, observations: NDArray[Any]) -> None:
        self._record.retract()
        self.observations = observations

    def history(self) -> dict[str, Any] | None:
        return self._record.history()


class SingleLane(_Recorded):
    """One Gymnasium environment."""

    n = 1

    def __init__(self, env: gymnasium.Env[Any, Any], seed: np.random.SeedSequence) -> None:
        self._env = env
        self._record = _Seeded(1, seed, 1)
        self._everyone = np.ones(1, np.bool_)
        self.observation_space = observations_of(env.observation_space)
        self.action_space = actions_of(env.action_space)
        self.frame_skip = int(getattr(env.unwrapped, "frame_skip", 1))
        self._first_action = int(self.action_space.start)

    def begin(self, mask: NDArray[np.bool_]) -> NDArray[np.int64] | None:
        observation, info = self._env.reset(seed=self._record.begin(0))
        self.observations = np.array(observation, self.observation_space.dtype)[None]
        return _lives(info)

    def step(self, actions: NDArray[np.int64]) -> Step:
        action = int(actions[0])
        observation, reward, terminated, truncated, info = self._env.step(self._first_action + action)
        self._record.actions[0].append(action)
        self.observations = np.array(observation, self.observation_space.dtype)[None]
        ended = np.array([bool(terminated) or bool(truncated)])
        return Step(np.array([reward], np.float64), ended, _lives(info), self._everyone)

    def restore(self, history: dict[str, Any]) -> None:
        self._record.rewind(0, history["games"][0])
        self.begin(self._everyone)
        for action in history["actions"][0]:
            self.step(np.array([action]))


class VectorLanes(_Recorded):
    """A vector environment whose lanes begin games when told to (autoreset off)."""

    def __init__(self, env: VectorEnv[Any, Any, Any], seed: np.random.SeedSequence) -> None:
        self._env = env
        self.n = env.num_envs
        self._record = _Seeded(self.n, seed, int(getattr(env.unwrapped, "reseed_every", 1)))
        self.observation_space = observations_of(env.single_observation_space)
        self.action_space = actions_of(env.single_action_space)
        self.frame_skip = _frame_skip(env)
        self._first_action = int(self.action_space.start)
        self._begun = False

    def begin(self, mask: NDArray[np.bool_]) -> NDArray[np.int64] | None:
        seeds = [self._record.begin(lane) if mask[lane] else None for lane in range(self.n)]
        # Gymnasium's vector environments need a first reset of all lanes.
        options = {"reset_mask": np.array(mask)} if self._begun else None
        self._begun = True
        observations, info = self._env.reset(seed=seeds, options=options)  # type: ignore[arg-type]
        self.observations = np.array(observations)
        return _lives(info)

    def step(self, actions: NDArray[np.int64]) -> Step:
        observations, rewards, terminated, truncated, info = self._env.step(self._first_action + actions)
        for lane, action in enumerate(actions.tolist()):
            self._record.actions[lane].append(action)
        self.observations = np.array(observations)
        ended = np.asarray(terminated | truncated, np.bool_)
        return Step(np.asarray(rewards, np.float64), ended, _lives(info), np.ones(self.n, np.bool_))

    def restore(self, history: dict[str, Any]) -> None:
        games, actions = history["games"], history["actions"]
        longest = max(len(own) for own in actions)
        everyone = np.ones(self.n, np.bool_)
        self.begin(everyone)
        # All lanes step together, so a shorter history begins later; until then its lane plays anything.
        for tick in range(longest + 1):
            for lane, own in enumerate(actions):
                if tick == longest - len(own):
                    only = np.arange(self.n) == lane
                    self._record.rewind(lane, games[lane])
                    while self._record.games[lane] < games[lane]:
                        self.begin(only)
            if tick < longest:
                started = [len(own) - longest + tick for own in actions]
                chosen = [own[i] if i >= 0 else 0 for own, i in zip(actions, started, strict=True)]
                step = self.step(np.array(chosen))
                waiting = step.ended & (np.array(started) < 0)
                if waiting.any():
                    self.begin(waiting)


class AutoresetLanes:
    """A vector environment that begins new games by itself. Its games in progress cannot be brought back."""

    def __init__(self, env: VectorEnv[Any, Any, Any], seed: np.random.SeedSequence) -> None:
        self._env = env
        self.n = env.num_envs
        self.observation_space = observations_of(env.single_observation_space)
        self.action_space = actions_of(env.single_action_space)
        self.frame_skip = _frame_skip(env)
        self._first_action = int(self.action_space.start)
        self._seed = int(seed.generate_state(1)[0] >> 1)
        self._begun = False
        self._next_step = env.metadata.get("autoreset_mode") != AutoresetMode.SAME_STEP
        self._resetting = np.zeros(self.n, np.bool_)

    def begin(self, mask: NDArray[np.bool_]) -> NDArray[np.int64] | None:
        if self._begun:
            return None
        self._begun = True
        observations, info = self._env.reset(seed=self._seed)
        self.observations = np.array(observations)
        return _lives(info)

    def step(self, actions: NDArray[np.int64]) -> Step:
        observations, rewards, terminated, truncated, info = self._env.step(self._first_action + actions)
        self.observations = np.array(observations)
        # The step after the end only resets: it is not experience.
        valid = ~self._resetting
        ended = np.asarray(terminated | truncated, np.bool_) & valid
        self._resetting = ended & self._next_step
        return Step(np.asarray(rewards, np.float64), ended, _lives(info), valid)

    def retract(self, observations: NDArray[Any]) -> None:
        self.observations = observations

    def history(self) -> dict[str, Any] | None:
        return None

    def restore(self, history: dict[str, Any]) -> None:
        raise LaneError("this vector environment begins games by itself, so none can be brought back")


def _lives(info: dict[str, Any]) -> NDArray[np.int64] | None:
    return np.atleast_1d(np.asarray(info["lives"], np.int64)) if "lives" in info else None


def _frame_skip(env: VectorEnv[Any, Any, Any]) -> int:
    inner = env.unwrapped
    envs = getattr(inner, "envs", None)
    return int(getattr(envs[0].unwrapped if envs else inner, "frame_skip", 1))
