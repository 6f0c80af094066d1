"""Whole games of one policy, side by side: what evaluation plays.

Games share every look-up, and none of them depends on another: each has its own environment, seed and random numbers.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from mfec.config import EnvConfig, Starts
from mfec.envs import make_env
from mfec.envs.console import STARTS
from mfec.envs.crashes import TheirCode
from mfec.envs.flattening import Actions, Observations
from mfec.envs.introspection import facts_of
from mfec.envs.names import is_atari
from mfec.evaluation.video import Video
from mfec.interface import Evaluation
from mfec.threads import Work, n_threads

SIDE_BY_SIDE = 12  # games at a time: each has its own emulator, and to load one takes 100 ms

Made = TypeVar("Made")


class Player(Protocol):
    """A policy that plays several games at a time."""

    name: str
    epsilon: float
    deterministic: bool

    def act(self, games: Sequence[int], observations: Any, begins: Sequence[bool]) -> NDArray[Any]:
        """Actions in some of the games, of which observations (n, ...) are shown; `begins` where these are the first.

        Both are the environment's own: a batch of `Dict` observations is a dict of arrays.
        What is done in a game depends on nothing in the others.
        """


class WholeGames:
    """So many games of an environment, each on a seed of its own; on Atari at all thirty starts, if asked for.

    >>> games = WholeGames("FrozenLake-v1", games=20)
    >>> len(games.play(AtRandom(games.action_space, seed=0)).scores)
    20
    """

    def __init__(
        self,
        env: str,
        environment: EnvConfig | None = None,
        *,
        games: int | None = None,
        seed: int = 0,
        starts: Starts = "sampled",
        video: Path | None = None,
    ) -> None:
        """games: 30 unless given, and always where `starts` are not sampled. video: of the first game."""
        environment = replace(environment or EnvConfig(), n_envs=1)
        if starts != "sampled":
            if not is_atari(env):
                raise ValueError(f"only Atari games have thirty starts; {env} begins as its seed falls (--episodes)")
            if games not in (None, STARTS):
                raise ValueError(f"there are {STARTS} starts, once each, not {games}")
        seeds: list[int] = (np.random.SeedSequence(seed).generate_state(games or STARTS) >> 1).tolist()
        first = STARTS if starts == "unseen" else 0
        options = [None if starts == "sampled" else {"no_ops": first + number} for number in range(len(seeds))]
        self._begun_with = list(zip(seeds, options, strict=True))
        self._env, self._environment, self._starts, self._video = env, environment, starts, video
        chance = bool(environment.sticky_actions or environment.wrappers)  # a wrapper may do anything
        self._without_chance = starts != "sampled" and not chance
        # The emulator releases Python's lock, so all cores step its games.
        self._helpers = n_threads() - 1 if is_atari(env) and not environment.wrappers else 0
        self._boards: list[_Board] = []
        made = make_env(env, environment, render_mode="rgb_array" if video else None)
        assert isinstance(made, gymnasium.Env)
        self.env = made
        self._seeing, self.action_space = Observations(made.observation_space), made.action_space
        Actions(made.action_space)  # an error where they cannot be numbered
        self._frame_skip = facts_of(made).frame_skip

    def play(self, player: Player, check: Callable[[], object] = lambda: None, *, filmed: bool = True) -> Evaluation:
        """Play all games; `check` is called between two steps, and may raise. Without `filmed` there is no video."""
        self._make_boards(min(len(self._begun_with), SIDE_BY_SIDE))
        try:
            with Video(self._video, self.env) if self._video and filmed else contextlib.nullcontext() as film:
                scores, steps = self._play(player, check, film)
        except BaseException:
            self._boards.clear()  # steps may be under way: the next games begin on new boards
            raise
        exact = self._without_chance and player.deterministic
        lengths = [own * self._frame_skip for own in steps]
        return Evaluation(player.name, player.epsilon, scores, lengths, self._starts, exact)

    def _play(self, player: Player, check: Callable[[], object], film: Video | None) -> tuple[list[float], list[int]]:
        """Scores and steps of all games."""
        n = len(self._begun_with)
        waiting, free = list(range(n)), self._boards[::-1]
        playing: dict[int, _Board] = {}
        shown: dict[int, Any] = {}
        scores, steps = [0.0] * n, [0] * n
        while waiting or playing:
            check()
            while waiting and free:
                board = free.pop()
                number = waiting.pop(0)
                playing[number], shown[number] = board, board.begin(*self._begun_with[number])
            numbers = sorted(playing)
            begins = [steps[number] == 0 for number in numbers]
            actions = player.act(numbers, self._seeing.together([shown[number] for number in numbers]), begins)
            chosen = actions.tolist() if actions.ndim == 1 else list(actions)
            outcomes = self._map(_Board.step, [playing[number] for number in numbers], chosen)
            for number, (observation, reward, ended) in zip(numbers, outcomes, strict=True):
                shown[number] = observation
                scores[number] += reward
                steps[number] += 1
                if film and number == 0:
                    film.add(_picture(self.env))
                if ended:
                    free.append(playing.pop(number))
                    if film and number == 0:
                        film.close()
        return scores, steps

    def _make_boards(self, n: int) -> None:
        if not self._boards:
            self._boards.append(_Board(self.env))
        self._boards += self._map(lambda _: _Board(make_env(self._env, self._environment)), range(len(self._boards), n))

    def _map(self, do: Callable[..., Made], *arguments: Sequence[Any]) -> list[Made]:
        """What `do` returns for each of the arguments; it is done on all cores where that makes sense."""
        rows = list(zip(*arguments, strict=True))
        made: list[Any] = [None] * len(rows)

        def put(i: int) -> None:
            made[i] = do(*rows[i])

        Work(put, len(rows), helpers=min(self._helpers, len(rows) - 1)).finish()
        return made


class AtRandom:
    """Plays any action, each as often as another."""

    name, epsilon, deterministic = "random", 1.0, False

    def __init__(self, actions: spaces.Space[Any], *, seed: int) -> None:
        self._actions, self._seed = Actions(actions), seed
        self._dice: dict[int, np.random.Generator] = {}

    def act(self, games: Sequence[int], observations: Any, begins: Sequence[bool]) -> NDArray[Any]:
        """Any actions."""
        dice = dice_of(games, begins, self._dice, self._seed, 2)
        n = self._actions.space.n
        return self._actions.own(np.array([own.integers(n) for own in dice], np.int64))


def dice_of(
    games: Sequence[int], begins: Sequence[bool], known: dict[int, np.random.Generator], seed: int, purpose: int
) -> list[np.random.Generator]:
    """The random numbers of these games, new ones for those that begin."""
    for game, new in zip(games, begins, strict=True):
        if new:
            known[game] = np.random.default_rng([seed, purpose, game])
    return [known[game] for game in games]


class _Board:
    """A Gymnasium environment that plays one game after another."""

    def __init__(self, env: Any) -> None:
        self._env = env
        self._their_code = TheirCode(env)

    def begin(self, seed: int, options: dict[str, Any] | None) -> Any:
        with self._their_code:
            observation, _ = self._env.reset(seed=seed, options=options)
        return observation

    def step(self, action: Any) -> tuple[Any, float, bool]:
        """What it has led to: observation, reward, and whether the game has ended."""
        with self._their_code:
            observation, reward, terminated, truncated, _ = self._env.step(action)
            return observation, float(reward), bool(terminated or truncated)


def _picture(env: gymnasium.Env[Any, Any]) -> Any:
    try:
        return env.render()
    except (gymnasium.error.Error, NotImplementedError) as error:
        raise ValueError(f"this environment cannot be filmed: {error}") from None
