"""Random episodes as Stable-Baselines3 hands them to a replay buffer, and what a buffer must give back of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from mfec.algorithms.baselines.replay import FrameReplay

ACTIONS = spaces.Discrete(5)
WAYS = ("goes on", "over", "life lost", "cut off")


class Transition(NamedTuple):
    """One step of one environment, whole."""

    observation: NDArray[Any]
    action: int
    reward: float
    following: NDArray[Any]  # what it led to, before anything new began
    over: bool  # and nothing comes after it


class Episodes:
    """Steps in `n_envs` games, with frames or vectors that never come twice.

    A step goes on, or ends an episode: the game is over; a life is lost and the game goes on; or a time limit cuts the
    game off. depth: frames in a stack; 0 for vectors.
    """

    def __init__(self, seed: int, *, n_envs: int, depth: int, ends: float = 0.2) -> None:
        self.n_envs, self.depth, self.ends = n_envs, depth, ends
        self.rng = np.random.default_rng(seed)
        self.shown = 0
        frame = (2, 2)
        self.space: spaces.Box = (
            spaces.Box(0, 255, (depth, *frame), np.uint8) if depth else spaces.Box(-np.inf, np.inf, (2,), np.float32)
        )
        self.now = [self._begin(self._show()) for _ in range(n_envs)]

    def steps(self, n: int) -> Iterator[tuple[tuple[Any, ...], list[Transition]]]:
        """Arguments for `add`, and the transitions that they stand for."""
        chances = [1.0 - self.ends, *[self.ends / 3] * 3]
        for _ in range(n):
            before = np.stack(self.now)
            actions = self.rng.integers(int(ACTIONS.n), size=self.n_envs)
            rewards = self.rng.integers(-1, 2, self.n_envs).astype(np.float32)
            ways = self.rng.choice(WAYS, size=self.n_envs, p=chances).tolist()
            after, infos = [], []
            for env, way in enumerate(ways):
                frame = self._show()
                after.append(self._follow(self.now[env], frame))
                infos.append({} if way == "goes on" else {"TimeLimit.truncated": way == "cut off"})
                match way:
                    case "goes on":
                        self.now[env] = after[env]
                    case "life lost":
                        self.now[env] = self._begin(frame)
                    case _:
                        self.now[env] = self._begin(self._show())
            done = np.array([way != "goes on" for way in ways])
            transitions = [
                Transition(
                    before[env], int(actions[env]), float(rewards[env]), after[env], way in ("over", "life lost")
                )
                for env, way in enumerate(ways)
            ]
            yield (before, np.stack(after), actions, rewards, done, infos), transitions

    def _show(self) -> NDArray[Any]:
        self.shown += 1
        if self.depth:
            return np.frombuffer(self.shown.to_bytes(4, "big"), np.uint8).reshape(2, 2)
        return np.array([self.shown, self.rng.normal()], np.float32)

    def _begin(self, frame: NDArray[Any]) -> NDArray[Any]:
        return self._follow(np.zeros(self.space.shape, np.uint8), frame)

    def _follow(self, stack: NDArray[Any], frame: NDArray[Any]) -> NDArray[Any]:
        return np.concatenate([stack[1:], frame[None]]) if self.depth else frame


class Stored:
    """A buffer beside a plain list of all that was put into it."""

    def __init__(self, replay: FrameReplay, episodes: Episodes) -> None:
        self.replay, self.episodes = replay, episodes
        self.rows: list[list[Transition]] = []

    def play(self, n: int) -> Stored:
        """Put n steps of every environment into both."""
        for arguments, transitions in self.episodes.steps(n):
            self.replay.add(*arguments)
            self.rows.append(transitions)
        return self

    def places(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Rows and environments of all that can be drawn: what is kept but for the oldest, which has lost frames."""
        size, depth = self.replay.buffer_size, max(1, self.episodes.depth)
        n = len(self.rows)
        first = 0 if n < size else n - size + depth
        rows, envs = np.meshgrid(np.arange(first, n), np.arange(self.episodes.n_envs), indexing="ij")
        return rows.reshape(-1) % size, envs.reshape(-1)

    def at(self, row: int, env: int) -> Transition:
        """What was put into that place last."""
        n, size = len(self.rows), self.replay.buffer_size
        return self.rows[n - 1 - (n - 1 - row) % size][env]


def replay_of(
    episodes: Episodes, capacity: int, kind: type[FrameReplay] = FrameReplay, *, seed: int = 0, **options: Any
) -> FrameReplay:
    """A buffer for these episodes."""
    return kind(
        capacity, episodes.space, ACTIONS, "cpu", episodes.n_envs,
        seed=np.random.SeedSequence(seed), stacked=episodes.depth > 0, **options,
    )  # fmt: skip
