"""Whole games of one policy, side by side: what evaluation plays.

Games share every look-up, and none of them depends on another: each has its own environment, seed and random numbers.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from mfec.config import EnvConfig, Starts
from mfec.envs import make_env
from mfec.envs.atari import AtariVector
from mfec.envs.console import STARTS
from mfec.envs.crashes import TheirCode
from mfec.envs.flattening import Actions, Observations
from mfec.envs.introspection import facts_of
from mfec.envs.names import is_atari
from mfec.evaluation.video import Video
from mfec.interface import Evaluation

SIDE_BY_SIDE = 12  # games at a time: each has its own emulator, and to load one takes 100 ms


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


class Board(Protocol):
    """An environment that plays one game after another."""

    def begin(self, waiting: Sequence[int]) -> tuple[int, Any]:
        """Begin one of the waiting games: its number, and what it shows."""

    def send(self, action: Any) -> None:
        """Start a step."""

    def receive(self) -> tuple[Any, float, bool]:
        """What the step has led to: observation, reward, and whether the game has ended."""


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
        # Games without chance can be stepped by all cores. Others need seeds, for which that emulator loads its ROM.
        chance = bool(environment.sticky_actions or environment.wrappers)  # a wrapper may do anything
        self._natively = starts == "all" and not chance
        self._without_chance = starts != "sampled" and not chance
        self._boards: list[Board] = []
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
        playing: dict[int, Board] = {}
        shown: dict[int, Any] = {}
        scores, steps = [0.0] * n, [0] * n
        while waiting or playing:
            check()
            while waiting and free:
                board = free.pop()
                number, observation = board.begin(waiting)
                waiting.remove(number)
                playing[number], shown[number] = board, observation
            numbers = sorted(playing)
            begins = [steps[number] == 0 for number in numbers]
            actions = player.act(numbers, self._seeing.together([shown[number] for number in numbers]), begins)
            for number, action in zip(numbers, actions.tolist() if actions.ndim == 1 else actions, strict=True):
                playing[number].send(action)
            for number in numbers:
                shown[number], reward, ended = playing[number].receive()
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
        while len(self._boards) < n:
            if self._natively and (self._boards or self._video is None):  # the first game is the one that is filmed
                one = self._environment
                vector = AtariVector(self._env, 1, frame_stack=one.frame_stack, max_frames=one.max_frames)
                self._boards.append(_NativeBoard(vector))
            elif not self._boards:
                self._boards.append(_GymnasiumBoard(self.env, self._begun_with))
            else:
                env = make_env(self._env, self._environment)
                assert isinstance(env, gymnasium.Env)
                self._boards.append(_GymnasiumBoard(env, self._begun_with))


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


class _GymnasiumBoard:
    """Games of one Gymnasium environment."""

    def __init__(self, env: gymnasium.Env[Any, Any], begun_with: Sequence[tuple[int, dict[str, Any] | None]]) -> None:
        self._env, self._begun_with = env, begun_with
        self._their_code = TheirCode(env)
        self._action: Any = 0

    def begin(self, waiting: Sequence[int]) -> tuple[int, Any]:
        seed, options = self._begun_with[waiting[0]]
        with self._their_code:
            observation, _ = self._env.reset(seed=seed, options=options)
        return waiting[0], observation

    def send(self, action: Any) -> None:
        self._action = action

    def receive(self) -> tuple[Any, float, bool]:
        with self._their_code:
            observation, reward, terminated, truncated, _ = self._env.step(self._action)
            return observation, float(reward), bool(terminated or truncated)


class _NativeBoard:
    """Games of one environment of the native emulator, which has a thread of its own. A game's number is its start."""

    def __init__(self, vector: AtariVector) -> None:
        self._vector = vector
        self._resets = 0  # since the ROM was loaded
        self._loads = 0  # each with a seed of its own, or the same few starts would be drawn again

    def begin(self, waiting: Sequence[int]) -> tuple[int, NDArray[Any]]:
        # The emulator draws its start itself, and any that was not played yet will do: 4 draws a game.
        start = -1
        while start not in waiting:
            load = self._resets == self._vector.reseed_every
            self._resets, self._loads = (1, self._loads + 1) if load else (self._resets + 1, self._loads)
            observations, info = self._vector.reset(seed=[self._loads if load else None])
            start = int(info["episode_frame_number"][0])
        return start, observations[0]

    def send(self, action: int) -> None:
        self._vector.send(0, np.array([action]))

    def receive(self) -> tuple[NDArray[Any], float, bool]:
        observations, rewards, terminated, truncated, _ = self._vector.receive(0)
        return observations[0], float(rewards[0]), bool(terminated[0] or truncated[0])


def _picture(env: gymnasium.Env[Any, Any]) -> Any:
    try:
        return env.render()
    except (gymnasium.error.Error, NotImplementedError) as error:
        raise ValueError(f"this environment cannot be filmed: {error}") from None
