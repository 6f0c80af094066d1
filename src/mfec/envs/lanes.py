"""Lanes: environments that step side by side, each with its own games, seeds and history.

The agent plays through lanes only. They give every game its own seed, made of the run's seed, the lane and the
number of the game, and keep the actions of the game in progress; that is all it takes to bring a game back after
a stop: begin it again on its seed and repeat the actions.

Lanes step in groups: what one group is doing now (`send`) and what came of it (`receive`) are two calls, so that the
agent can look up values for another group in between. Environments that only step as a whole are one group.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from numpy.typing import NDArray

from mfec.envs.introspection import Facts, facts_of
from mfec.envs.record import Groups, RecordedGroups
from mfec.envs.spaces import actions_of, in_space, observations_of
from mfec.errors import MfecError

UNKNOWN = -1  # lives, where the environment does not tell


class LaneError(MfecError):
    """Games in progress cannot be brought back."""


@dataclass(frozen=True)
class Step:
    """What a step brought to the m lanes of a group."""

    rewards: NDArray[np.float64]  # (m,)
    ended: NDArray[np.bool_]  # (m,): the game is over, or was cut off by a time limit
    lives: NDArray[np.int64]  # (m,), UNKNOWN where the environment does not tell
    valid: NDArray[np.bool_]  # (m,): False where an environment only reset itself
    cut_off: NDArray[np.bool_]  # (m,): the game was cut off by a time limit, and not over
    observations: NDArray[Any]  # (m, ...): what the step led to; of a game that ended, the last of it


class Lanes(Protocol):
    """What the agent asks of its environments."""

    n: int
    groups: list[slice]  # the lanes that step together
    observation_space: spaces.Box | spaces.Discrete[Any]
    action_space: spaces.Discrete[Any]
    facts: Facts

    @property
    def frame_skip(self) -> int:
        """Frames in a step."""

    @property
    def observations(self) -> NDArray[Any]:
        """What all lanes show now, (n, ...); before their step where they are in flight."""

    def shown(self, group: int) -> NDArray[Any]:
        """What the lanes of a group show now, (m, ...): an array that no later step writes into."""

    def before(self, group: int) -> NDArray[Any]:
        """What the lanes of a group showed before their last step, (m, ...)."""

    @property
    def games(self) -> NDArray[np.int64] | None:
        """Numbers of the lanes' games, (n,), from 0; None where games cannot be brought back."""

    def begin(self, mask: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Begin a new game in the lanes of the mask; returns lives, (n,), UNKNOWN where the environment does not tell.

        Groups without lanes in the mask may be in flight.
        """

    def send(self, group: int, actions: NDArray[np.int64]) -> None:
        """Start a step in every lane of a group: from now on it is in flight."""

    def receive(self, group: int) -> Step:
        """Wait for the step of a group in flight."""

    def retract(self, group: int) -> None:
        """Take the last step of a group out of the history, and show what was shown before it."""

    def history(self) -> dict[str, Any] | None:
        """Numbers of the games in progress and their actions so far; None where games cannot be brought back.

        Actions in flight are not among them.
        """

    def restore(self, history: dict[str, Any]) -> None:
        """Bring games in progress back; what was in flight is forgotten."""


@runtime_checkable
class SteppedInGroups(Protocol):
    """What a vector environment has beside `step` if groups of its lanes can step in turn, as `AtariVector` does."""

    groups: list[slice]

    def send(self, group: int, actions: NDArray[np.int64]) -> None:
        """Start a step of the lanes `groups[group]`."""

    def receive(self, group: int) -> tuple[Any, NDArray[Any], NDArray[Any], NDArray[Any], dict[str, Any]]:
        """What `step` returns, for the lanes `groups[group]`."""


def make_lanes(
    env: gymnasium.Env[Any, Any] | VectorEnv[Any, Any, Any], seed: np.random.SeedSequence, *, first_lane: int = 0
) -> Lanes:
    """Lanes over a Gymnasium environment or vector environment.

    first_lane: the number of the first one, where these are some lanes of a run with more of them.
    """
    if isinstance(env, VectorEnv):
        mode = env.metadata.get("autoreset_mode", AutoresetMode.NEXT_STEP)
        return VectorLanes(env, seed, first_lane) if mode == AutoresetMode.DISABLED else AutoresetLanes(env, seed)
    return SingleLane(env, seed, first_lane)


class SingleLane(RecordedGroups):
    """One Gymnasium environment."""

    def __init__(self, env: gymnasium.Env[Any, Any], seed: np.random.SeedSequence, first_lane: int = 0) -> None:
        super().__init__([slice(0, 1)], seed, 1, first_lane)
        self._env = env
        self._everyone = np.ones(1, np.bool_)
        self.observation_space = observations_of(env.observation_space)
        self.action_space = actions_of(env.action_space)
        self.facts = facts_of(env)
        self._first_action = int(self.action_space.start)

    def begin(self, mask: NDArray[np.bool_]) -> NDArray[np.int64]:
        observation, info = self._env.reset(seed=self._record.begin(0))
        self._sent.clear()
        self.show(0, in_space([observation], self.observation_space))
        return _lives(info, 1)

    def receive(self, group: int) -> Step:
        action = self._first_action + int(self._sent[0][0])
        observation, reward, terminated, truncated, info = self._env.step(action)
        self.step_made(0, in_space([observation], self.observation_space))
        over = np.array([bool(terminated)])
        return _step(np.array([reward]), over, np.array([bool(truncated)]), info, self._everyone, self._shown[0])

    def restore(self, history: dict[str, Any]) -> None:
        self.begin_game(0, history["games"][0])
        for action in history["actions"][0]:
            self.send(0, np.array([action]))
            self.receive(0)


class VectorLanes(RecordedGroups):
    """A vector environment whose lanes begin games when told to (autoreset off)."""

    def __init__(self, env: VectorEnv[Any, Any, Any], seed: np.random.SeedSequence, first_lane: int = 0) -> None:
        # A wrapper may change what a step shows, so only a bare environment is stepped in its groups.
        self._in_groups = env if isinstance(env, SteppedInGroups) and env.unwrapped is env else None
        groups = [slice(0, env.num_envs)] if self._in_groups is None else self._in_groups.groups
        super().__init__(groups, seed, int(getattr(env.unwrapped, "reseed_every", 1)), first_lane)
        self._env = env
        self.observation_space = observations_of(env.single_observation_space)
        self.action_space = actions_of(env.single_action_space)
        self.facts = facts_of(env)
        self._first_action = int(self.action_space.start)
        self._begun = False

    def begin(self, mask: NDArray[np.bool_]) -> NDArray[np.int64]:
        seeds = [self._record.begin(lane) if mask[lane] else None for lane in range(self.n)]
        # Gymnasium's vector environments need a first reset of all lanes.
        options = {"reset_mask": np.array(mask)} if self._begun else None
        self._begun = True
        observations, info = self._env.reset(seed=seeds, options=options)  # type: ignore[arg-type]
        for group, own in enumerate(self.groups):
            if mask[own].any():
                self._sent.pop(group, None)
                self.show(group, in_space(observations[own], self.observation_space))
        return _lives(info, self.n)

    def send(self, group: int, actions: NDArray[np.int64]) -> None:
        if self._in_groups is not None:
            self._in_groups.send(group, self._first_action + actions)
        super().send(group, actions)

    def receive(self, group: int) -> Step:
        if self._in_groups is not None:
            observations, rewards, terminated, truncated, info = self._in_groups.receive(group)
        else:
            observations, rewards, terminated, truncated, info = self._env.step(self._first_action + self._sent[group])
        self.step_made(group, in_space(observations, self.observation_space))
        everyone = np.ones(len(terminated), np.bool_)
        return _step(rewards, terminated, truncated, info, everyone, self._shown[group])

    def restore(self, history: dict[str, Any]) -> None:
        games, actions = history["games"], history["actions"]
        longest = max(len(own) for own in actions)
        everyone = np.ones(self.n, np.bool_)
        self.begin(everyone)
        # All lanes step together, so a shorter history begins later; until then its lane plays anything.
        for tick in range(longest + 1):
            for lane, own in enumerate(actions):
                if tick == longest - len(own):
                    self.begin_game(lane, games[lane])
            if tick < longest:
                started = [len(own) - longest + tick for own in actions]
                chosen = [own[i] if i >= 0 else 0 for own, i in zip(actions, started, strict=True)]
                waiting = self._step_all(np.array(chosen)) & (np.array(started) < 0)
                if waiting.any():
                    self.begin(waiting)

    def _step_all(self, actions: NDArray[np.int64]) -> NDArray[np.bool_]:
        """One step in every lane; where games ended."""
        for group, own in enumerate(self.groups):
            self.send(group, actions[own])
        return np.concatenate([self.receive(group).ended for group in range(len(self.groups))])


class AutoresetLanes(Groups):
    """A vector environment that begins new games by itself. Its games in progress cannot be brought back.

    After a step that went wrong nobody knows where its games are: the next `begin` resets all of them.
    """

    def __init__(self, env: VectorEnv[Any, Any, Any], seed: np.random.SeedSequence) -> None:
        super().__init__([slice(0, env.num_envs)])
        self._env = env
        self.observation_space = observations_of(env.single_observation_space)
        self.action_space = actions_of(env.single_action_space)
        self.facts = facts_of(env)
        self._first_action = int(self.action_space.start)
        self._seed = seed
        self._resets = 0  # of all lanes, by us
        self._playing = False
        self._next_step = env.metadata.get("autoreset_mode") != AutoresetMode.SAME_STEP
        self._resetting = np.zeros(self.n, np.bool_)
        self._new_lives = np.full(self.n, UNKNOWN)  # of games that began in the last step

    def begin(self, mask: NDArray[np.bool_]) -> NDArray[np.int64]:
        if self._playing:
            return self._new_lives
        self._resets += 1
        seed = int(self._seed.generate_state(self._resets)[-1] >> 1)
        observations, info = self._env.reset(seed=seed)
        self._playing, self._resetting = True, np.zeros(self.n, np.bool_)
        self._sent.clear()
        self.show(0, in_space(observations, self.observation_space))
        return _lives(info, self.n)

    def receive(self, group: int) -> Step:
        actions = self._first_action + self._sent[0]
        self._playing = False  # until the step is made
        observations, rewards, terminated, truncated, info = self._env.step(actions)
        self._playing = True
        del self._sent[0]
        self.show(0, in_space(observations, self.observation_space))
        # The step after the end only resets: it is not experience, and tells the lives of a new game.
        step = _step(rewards, terminated, truncated, info, ~self._resetting, self._shown[0])
        self._resetting = step.ended & self._next_step
        return step if self._next_step else self._before_reset(step, info)

    def retract(self, group: int) -> None:
        super().retract(group)
        self._playing = False

    def _before_reset(self, step: Step, info: dict[str, Any]) -> Step:
        """The step of lanes that have begun new games in it, with what they showed at the end of the old ones."""
        self._new_lives = np.where(step.ended, step.lives, UNKNOWN)
        last = step.observations
        if step.ended.any():
            last = last.copy()
            for lane in np.flatnonzero(step.ended):
                last[lane] = in_space([info["final_obs"][lane]], self.observation_space)[0]
        return replace(step, lives=np.where(step.ended, UNKNOWN, step.lives), observations=last)

    def history(self) -> dict[str, Any] | None:
        return None

    def restore(self, history: dict[str, Any]) -> None:
        raise LaneError("this vector environment begins games by itself, so none can be brought back")


def _step(
    rewards: NDArray[Any],
    over: NDArray[Any],
    truncated: NDArray[Any],
    info: dict[str, Any],
    valid: NDArray[np.bool_],
    observations: NDArray[Any],
) -> Step:
    ended = np.asarray(over | truncated, np.bool_) & valid
    cut_off = ended & ~np.asarray(over, np.bool_)
    return Step(np.asarray(rewards, np.float64), ended, _lives(info, len(valid)), valid, cut_off, observations)


def _lives(info: dict[str, Any], n: int) -> NDArray[np.int64]:
    if "lives" not in info:
        return np.full(n, UNKNOWN)
    lives = np.asarray(info["lives"], np.int64).reshape(n)
    # Gymnasium's vector environments put 0 where one of them told nothing, and say in the mask which did.
    return np.where(info["_lives"], lives, UNKNOWN) if "_lives" in info else lives
