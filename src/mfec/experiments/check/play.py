"""Random play that is kept step by step, and repeated: under the same seed, and under another one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import gymnasium
import numpy as np

from mfec.envs.environments import Environments, make_environments
from mfec.experiments.check.faults import Bounds, refuse_bad_observation, refuse_bad_step
from mfec.memory.identities import array_keys

Maker = Callable[[], gymnasium.Env[Any, Any]]


class Limit:
    """Ends play after so many steps or seconds, whichever comes first."""

    def __init__(self, *, steps: int, seconds: float) -> None:
        self._steps, self._until = steps, time.perf_counter() + seconds

    def of_steps(self, steps: int) -> Limit:
        """So many steps until the same time."""
        limit = Limit(steps=steps, seconds=0.0)
        limit._until = self._until
        return limit

    def reached(self, steps: int) -> bool:
        """Whether so many steps are enough, or the time is over."""
        return steps >= self._steps or time.perf_counter() >= self._until


@dataclass
class PlayedGame:
    """A game, step by step; observations are known by their keys."""

    number: int  # of the environment's games, from 0: it makes the seed
    start: bytes
    lives: int  # at its start, negative where they are not told
    actions: list[int] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    after: list[bytes] = field(default_factory=list)
    over: bool = False
    cut_off: bool = False
    lives_lost: int = 0

    @property
    def ended(self) -> bool:
        """Whether it was played to its end."""
        return self.over or self.cut_off

    @property
    def seen(self) -> list[bytes]:
        """What was shown before each step."""
        return [self.start, *self.after[:-1]] if self.actions else []

    def outcome(self, step: int) -> tuple[bytes, float, bool]:
        """What a step led to. A time limit is no outcome: it depends on the number of the step, not on the state."""
        return self.after[step], self.rewards[step], self.over and step == len(self.actions) - 1


@dataclass(frozen=True)
class Repeated:
    """A game that was played again."""

    steps: int
    differs: int | None
    """The step, from 1, that led elsewhere; 0 is the start itself, None if all was the same."""


class Player:
    """Plays one environment at random and keeps its games.

    Args:
        make: makes the environment.
        seed: makes the games.
    """

    def __init__(self, make: Maker, seed: np.random.SeedSequence) -> None:
        self.env = make()
        self.envs: Environments = make_environments(self.env, seed)
        self.bounds = Bounds(self.envs.observation_space)
        self.starts: dict[int, bytes] = {}  # by the number of the game
        self.games: list[PlayedGame] = []
        self.steps = 0
        self.step_seconds = 0.0  # in the environment alone
        self._everyone = np.ones(1, np.bool_)

    @property
    def where(self) -> str:
        """Where the play is, for a message."""
        if not self.games:
            return "when a game begins"
        return f"in game {len(self.games)}, step {len(self.games[-1].actions) + 1}"

    def begin(self) -> PlayedGame:
        """Begin a game."""
        lives = self.envs.begin(self._everyone)
        assert self.envs.games is not None
        game = PlayedGame(int(self.envs.games[0]), self._look(), int(lives[0]))
        self.starts[game.number] = game.start
        return game

    def begin_often(self, times: int, limit: Limit) -> None:
        """Begin games and nothing more, to see how many starts there are."""
        for number in range(times):
            if limit.reached(number):
                break
            self.begin()

    def play(self, rng: np.random.Generator, limit: Limit) -> None:
        """Play games at random; the last one may be cut short by the limit."""
        n_actions = int(self.envs.action_space.n)
        while not limit.reached(self.steps):
            game = self.begin()
            self.games.append(game)
            lives = self._step(game, int(rng.integers(n_actions)), game.lives)
            while not game.ended and not limit.reached(self.steps):
                lives = self._step(game, int(rng.integers(n_actions)), lives)

    def _step(self, game: PlayedGame, action: int, lives: int) -> int:
        began = time.perf_counter()
        self.envs.send(0, np.array([action]))
        step = self.envs.receive(0)
        self.step_seconds += time.perf_counter() - began
        refuse_bad_step(step, self.envs.observation_space)
        game.actions.append(action)
        game.rewards.append(float(step.rewards[0]))
        game.after.append(self._look())
        game.cut_off = bool(step.cut_off[0])
        game.over = bool(step.ended[0]) and not game.cut_off
        now = int(step.lives[0])
        game.lives_lost += 0 <= now < lives
        self.steps += 1
        return now

    def _look(self) -> bytes:
        shown = self.envs.observations
        refuse_bad_observation(shown, self.envs.observation_space)
        self.bounds.look(shown)
        return array_keys(shown).tobytes()

    def repeat(self, game: PlayedGame, limit: Limit, *, chance: int | None = None) -> Repeated:
        """Play a game again until something is different, or to the limit; chance: as in `again`."""
        outcomes = self.again(game.number, game.actions, limit, chance=chance)
        if next(outcomes) != (game.start, 0.0, False):
            return Repeated(0, 0)
        made = 0
        for outcome in outcomes:
            made += 1
            if outcome != game.outcome(made - 1):
                return Repeated(made, made)
        return Repeated(made, None)

    def again(
        self, number: int, actions: list[int], limit: Limit, *, chance: int | None = None
    ) -> Iterator[tuple[bytes, float, bool]]:
        """The start of the game of that number, on its own seed, and the outcomes of actions until it ends.

        chance: makes other random numbers once it has begun, for an environment that draws them from Gymnasium's
        `np_random`.
        """
        # A history without a step is a game that has just begun.
        self.envs.restore({"games": [number], "actions": [[]]})
        yield self._look(), 0.0, False
        if chance is not None:
            self.env.unwrapped.np_random = np.random.default_rng(chance)
        for made, action in enumerate(actions):
            if limit.reached(made):
                break
            self.envs.send(0, np.array([action]))
            step = self.envs.receive(0)
            yield self._look(), float(step.rewards[0]), bool(step.ended[0]) and not bool(step.cut_off[0])
            if step.ended[0]:
                break
