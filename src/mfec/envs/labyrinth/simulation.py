"""Players in a level: they begin episodes, step, and look, one by one or many in one call of compiled code."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from mfec.compiling import announce_compiling, njit
from mfec.envs.labyrinth.atlas import BLUE, GREEN, GREY, RED, atlases
from mfec.envs.labyrinth.levels import LEVELS, Level
from mfec.envs.labyrinth.renderer import draw
from mfec.envs.labyrinth.rules import GOES_ON, TERMINATED, TRUNCATED, begin, play
from mfec.envs.labyrinth.view import View, build_view
from mfec.envs.labyrinth.world import build_world, new_players
from mfec.envs.pictures import SIDE

LOOK = -1  # instead of an action


class Simulation:
    """n players, each in a copy of a level of its own."""

    def __init__(self, level: Level, n: int) -> None:
        announce_compiling()
        _compile()
        self.level = level
        self.world = build_world(level)
        self.players = new_players(n, self.world)
        self._view = build_view(self.world, SIDE, SIDE)

    def begin(self, n: int, seed: int) -> None:
        """Player n begins the episode of that seed (64 bits)."""
        begin(self.world, self.players, n, np.uint64(seed))

    def step(
        self,
        players: slice,
        actions: NDArray[np.int64],
        frame_skip: int,
        rewards: NDArray[np.float64],
        terminated: NDArray[np.bool_],
        truncated: NDArray[np.bool_],
        pictures: NDArray[np.uint8],
    ) -> None:
        """Some players repeat an action each; the outcome is written into the arrays, one row for each of them.

        A player whose action is `LOOK` only sees, and its time does not pass; with `STAND_STILL` it passes. Python's
        lock is released, so that other threads can step other players.
        """
        _step(
            self.world, self.players, players.start, actions, frame_skip, self._view, atlases()[GREY],
            rewards, terminated, truncated, pictures,
        )  # fmt: skip

    def look(self, n: int) -> NDArray[np.uint8]:
        """What the agent of player n sees, uint8 (84, 84)."""
        picture = np.empty((SIDE, SIDE), np.uint8)
        draw(self.world, self.players, n, self._view, atlases()[GREY], picture)
        return picture

    def photograph(self, n: int, width: int, height: int) -> NDArray[np.uint8]:
        """What player n sees, in colour, uint8 (height, width, 3)."""
        view = _camera(self.level.name, width, height)
        planes = np.empty((3, height, width), np.uint8)
        for plane, picture in zip((RED, GREEN, BLUE), planes, strict=True):
            draw(self.world, self.players, n, view, atlases()[plane], picture)
        return np.ascontiguousarray(planes.transpose(1, 2, 0))


@njit(nogil=True)
def _step(world, players, first, actions, frame_skip, view, atlas, rewards, terminated, truncated, pictures):
    for i in range(len(actions)):
        reward, end = 0.0, GOES_ON
        if actions[i] != LOOK:
            reward, end = play(world, players, first + i, actions[i], frame_skip)
        rewards[i] = reward
        terminated[i], truncated[i] = end == TERMINATED, end == TRUNCATED
        draw(world, players, first + i, view, atlas, pictures[i])


@cache
def _camera(level: str, width: int, height: int) -> View:
    return build_view(build_world(LEVELS[level]), width, height)


@cache
def _compile() -> None:
    """Compile everything, or load it from the cache on disk, before the first step."""
    world = build_world(LEVELS["labyrinth_double_t_maze"])
    players = new_players(1, world)
    view, grey = build_view(world, 2, 2), atlases()[GREY]
    begin(world, players, 0, np.uint64(0))
    outcome = np.empty(1), np.empty(1, np.bool_), np.empty(1, np.bool_), np.empty((1, 2, 2), np.uint8)
    _step(world, players, 0, np.zeros(1, np.int64), 1, view, grey, *outcome)
    draw(world, players, 0, view, grey, np.empty((2, 2), np.uint8))
