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

from mfec.envs.flattening import Actions, Observations
from mfec.envs.introspection import Facts, facts_of
from mfec.envs.record import Groups, RecordedGroups
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
    seeing: Observations  # what an agent sees of what the environment shows
    acting: Actions  # what its actions are there
    observation_space: spaces.Box | spaces.Discrete[Any]  # of what is seen
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
        super().__init__(env, [slice(0, 1)], seed, 1, first_env)
        self._env = env
        self.facts = facts_of(env)
        self._everyone = np.ones(1, np.bool_)

    def begin(self, mask: NDArray[np.bool_]) -> NDArray[np.int64]:
        seed = self._record.begin(0)
        with self._their_code:
            observation, info = self._env.reset(seed=seed)
            seen, lives = self.seeing.one(observation), _lives(info, 1)
        self._sent.clear()
        self.show(0, seen)
        return lives

    def receive(self, group: int) -> Step:
        action = self.acting.one(int(self._sent[0][0]))
        with self._their_code:
            observation, reward, terminated, truncated, info = self._env.step(action)
            seen, over = self.seeing.one(observation), bool(terminated)
            ended, cut_off = np.array([over or bool(truncated)]), np.array([not over and bool(truncated)])
            step = Step(np.array([reward], np.float64), ended, _lives(info, 1), self._everyone, cut_off, seen)
        self.step_made(0, seen)
        return step

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
        super().__init__(env, groups, seed, int(getattr(env.unwrapped, "reseed_every", 1)), first_env)
        self._env = env
        self.facts = facts_of(env)
        self._begun = False

    def begin(self, mask: NDArray[np.bool_]) -> NDArray[np.int64]:
        seeds = [self._record.begin(env_id) if mask[env_id] else None for env_id in range(self.n)]
        # Gymnasium's vector environments need a first reset of all environments.
        options = {"reset_mask": np.array(mask)} if self._begun else None
        with self._their_code:
            observations, info = self._env.reset(seed=seeds, options=options)  # type: ignore[arg-type]
            if len(self.groups) == 1:  # of others, which are our own, observations are arrays
                seen = {0: self.seeing.batch(observations)}
            else:
                begun = {group: own for group, own in enumerate(self.groups) if mask[own].any()}
                seen = {group: self.seeing.batch(observations[own]) for group, own in begun.items()}
            lives = _lives(info, self.n)
        self._begun = True
        for group, shown in seen.items():
            self._sent.pop(group, None)
            self.show(group, shown)
        return lives

    def send(self, group: int, actions: NDArray[np.int64]) -> None:
        if self._in_groups is not None:
            self._in_groups.send(group, self.acting.own(actions))
        super().send(group, actions)

    def receive(self, group: int) -> Step:
        with self._their_code:
            if self._in_groups is not None:
                observations, rewards, terminated, truncated, info = self._in_groups.receive(group)
            else:
                observations, rewards, terminated, truncated, info = self._env.step(self.acting.own(self._sent[group]))
            seen, everyone = self.seeing.batch(observations), np.ones(len(terminated), np.bool_)
            step = _step(rewards, terminated, truncated, info, everyone, seen)
        self.step_made(group, seen)
        return step

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
        super().__init__(env, [slice(0, env.num_envs)])
        self._env = env
        self.facts = facts_of(env)
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
        with self._their_code:
            observations, info = self._env.reset(seed=seed)
            seen, lives = self.seeing.batch(observations), _lives(info, self.n)
        self._playing, self._resetting = True, np.zeros(self.n, np.bool_)
        self._sent.clear()
        self.show(0, seen)
        return lives

    def receive(self, group: int) -> Step:
        actions = self.acting.own(self._sent[0])
        self._playing = False  # until the step is made
        with self._their_code:
            observations, rewards, terminated, truncated, info = self._env.step(actions)
            seen = self.seeing.batch(observations)
            # The step after the end only resets: it is not experience, and reports the lives of a new game.
            step = _step(rewards, terminated, truncated, info, ~self._resetting, seen)
            resetting = step.ended & self._next_step
            if not self._next_step:
                step = self._before_reset(step, info)
        self._playing = True
        del self._sent[0]
        self.show(0, seen)
        self._resetting = resetting
        return step

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
                last[env_id] = self.seeing.one(info["final_obs"][env_id])[0]
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
