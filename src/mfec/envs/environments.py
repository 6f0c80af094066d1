"""The environments of a run, which step side by side, each with its own games, seeds and history.

Every game has its own seed, made of the run's seed, the number of its environment (`env_id`) and the number of the
game. The actions of a game in progress are kept. So a game can be brought back after a stop: begin it again on its
seed, and repeat the actions.

Environments step in groups. `send` starts a step of a group and `receive` waits for it, so that the agent can look up
values for another group in between. Environments that can only step together are one group.
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

UNKNOWN = -1  # lives, if the environment does not report them


class EnvsError(MfecError):
    """Games in progress cannot be brought back."""


@dataclass(frozen=True)
class Step:
    """The outcome of a step for the m environments of a group."""

    rewards: NDArray[np.float64]  # (m,)
    ended: NDArray[np.bool_]  # (m,): the game is over, or was cut off by a time limit
    lives: NDArray[np.int64]  # (m,), or UNKNOWN
    valid: NDArray[np.bool_]  # (m,): False if the environment only reset itself
    cut_off: NDArray[np.bool_]  # (m,): a time limit ended the game
    observations: NDArray[Any]  # (m, ...): after the step; the last one of a game that ended


class Environments(Protocol):
    """The environments that an agent plays in."""

    n: int
    groups: list[slice]  # the environments that step together
    observation_space: spaces.Box | spaces.Discrete[Any]
    action_space: spaces.Discrete[Any]
    facts: Facts

    @property
    def frame_skip(self) -> int:
        """Frames in a step."""

    @property
    def observations(self) -> NDArray[Any]:
        """What all environments show now, (n, ...); those in flight show what they did before the step."""

    def shown(self, group: int) -> NDArray[Any]:
        """What the environments of a group show now, (m, ...): an array that no later step writes into."""

    def before(self, group: int) -> NDArray[Any]:
        """What the environments of a group showed before their last step, (m, ...)."""

    @property
    def games(self) -> NDArray[np.int64] | None:
        """The number of each environment's game, (n,), from 0; None if games cannot be brought back."""

    def number_games_from(self, number: int) -> None:
        """Let the games that begin next have this number, or the next one that has a seed of its own."""

    def begin(self, mask: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Begin a new game in the environments of the mask; returns lives, (n,), or UNKNOWN.

        Groups outside the mask may be in flight.
        """

    def send(self, group: int, actions: NDArray[np.int64]) -> None:
        """Start a step in every environment of a group, which is then in flight."""

    def receive(self, group: int) -> Step:
        """Wait for the step of a group in flight."""

    def retract(self, group: int) -> None:
        """Remove the last step of a group from the history, and show what was shown before it."""

    def history(self) -> dict[str, Any] | None:
        """The numbers of the games in progress and their actions, without those in flight.

        None if games cannot be brought back.
        """

    def restore(self, history: dict[str, Any]) -> None:
        """Bring the games of a history back; steps in flight are dropped."""


@runtime_checkable
class SteppedInGroups(Protocol):
    """A vector environment whose groups can step in turn, such as `AtariVector`."""

    groups: list[slice]

    def send(self, group: int, actions: NDArray[np.int64]) -> None:
        """Start a step of the environments `groups[group]`."""

    def receive(self, group: int) -> tuple[Any, NDArray[Any], NDArray[Any], NDArray[Any], dict[str, Any]]:
        """What `step` returns, for the environments `groups[group]`."""


def make_environments(
    env: gymnasium.Env[Any, Any] | VectorEnv[Any, Any, Any], seed: np.random.SeedSequence, *, first_env: int = 0
) -> Environments:
    """The environments of a run, from a Gymnasium environment or vector environment.

    first_env: the number of the first one, if these are only some environments of a run.
    """
    if not isinstance(env, VectorEnv):
        return SingleEnvironment(env, seed, first_env)
    if env.metadata.get("autoreset_mode", AutoresetMode.NEXT_STEP) == AutoresetMode.DISABLED:
        return VectorEnvironments(env, seed, first_env)
    return AutoresetEnvironments(env, seed)


class SingleEnvironment(RecordedGroups):
    """One Gymnasium environment."""

    def __init__(self, env: gymnasium.Env[Any, Any], seed: np.random.SeedSequence, first_env: int = 0) -> None:
        super().__init__([slice(0, 1)], seed, 1, first_env)
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


class VectorEnvironments(RecordedGroups):
    """A vector environment that begins games on `reset` only (autoreset off)."""

    def __init__(self, env: VectorEnv[Any, Any, Any], seed: np.random.SeedSequence, first_env: int = 0) -> None:
        # A wrapper may change what a step shows, so only a bare environment is stepped in its groups.
        self._in_groups = env if isinstance(env, SteppedInGroups) and env.unwrapped is env else None
        groups = [slice(0, env.num_envs)] if self._in_groups is None else self._in_groups.groups
        super().__init__(groups, seed, int(getattr(env.unwrapped, "reseed_every", 1)), first_env)
        self._env = env
        self.observation_space = observations_of(env.single_observation_space)
        self.action_space = actions_of(env.single_action_space)
        self.facts = facts_of(env)
        self._first_action = int(self.action_space.start)
        self._begun = False

    def begin(self, mask: NDArray[np.bool_]) -> NDArray[np.int64]:
        seeds = [self._record.begin(env_id) if mask[env_id] else None for env_id in range(self.n)]
        # Gymnasium's vector environments need a first reset of all environments.
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
        # All environments step together, so a shorter history begins later; until then its environment plays anything.
        for tick in range(longest + 1):
            for env_id, own in enumerate(actions):
                if tick == longest - len(own):
                    self.begin_game(env_id, games[env_id])
            if tick < longest:
                started = [len(own) - longest + tick for own in actions]
                chosen = [own[i] if i >= 0 else 0 for own, i in zip(actions, started, strict=True)]
                waiting = self._step_all(np.array(chosen)) & (np.array(started) < 0)
                if waiting.any():
                    self.begin(waiting)

    def _step_all(self, actions: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Make a step in every environment; returns where games ended."""
        for group, own in enumerate(self.groups):
            self.send(group, actions[own])
        return np.concatenate([self.receive(group).ended for group in range(len(self.groups))])


class AutoresetEnvironments(Groups):
    """A vector environment that begins new games by itself. Its games in progress cannot be brought back.

    After a step that failed, the state of its games is unknown: the next `begin` resets all of them.
    """

    def __init__(self, env: VectorEnv[Any, Any, Any], seed: np.random.SeedSequence) -> None:
        super().__init__([slice(0, env.num_envs)])
        self._env = env
        self.observation_space = observations_of(env.single_observation_space)
        self.action_space = actions_of(env.single_action_space)
        self.facts = facts_of(env)
        self._first_action = int(self.action_space.start)
        self._seed = seed
        self._resets = 0  # of all environments, by `begin`
        self._playing = False
        self._next_step = env.metadata.get("autoreset_mode") != AutoresetMode.SAME_STEP
        self._resetting = np.zeros(self.n, np.bool_)
        self._new_lives = np.full(self.n, UNKNOWN)  # of games that began in the last step

    def number_games_from(self, number: int) -> None:
        self._resets = number

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
        # The step after the end only resets: it is not experience, and reports the lives of a new game.
        step = _step(rewards, terminated, truncated, info, ~self._resetting, self._shown[0])
        self._resetting = step.ended & self._next_step
        return step if self._next_step else self._before_reset(step, info)

    def retract(self, group: int) -> None:
        super().retract(group)
        self._playing = False

    def _before_reset(self, step: Step, info: dict[str, Any]) -> Step:
        """A step in which some environments have begun new games, with the last observations of the old games."""
        self._new_lives = np.where(step.ended, step.lives, UNKNOWN)
        last = step.observations
        if step.ended.any():
            last = last.copy()
            for env_id in np.flatnonzero(step.ended):
                last[env_id] = in_space([info["final_obs"][env_id]], self.observation_space)[0]
        return replace(step, lives=np.where(step.ended, UNKNOWN, step.lives), observations=last)

    def history(self) -> dict[str, Any] | None:
        return None

    def restore(self, history: dict[str, Any]) -> None:
        raise EnvsError("this vector environment begins games by itself, so none can be brought back")


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
    # Gymnasium's vector environments put 0 where one reports no lives; the mask says which do.
    return np.where(info["_lives"], lives, UNKNOWN) if "_lives" in info else lives
