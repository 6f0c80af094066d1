"""A level and its players as arrays, which is what compiled code takes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mfec.envs.labyrinth.atlas import TEXTURES
from mfec.envs.labyrinth.levels import EYE, Block, Cue, Level

# Columns of `Players.poses`.
X, Y, HEADING, VX, VY = range(5)  # heading in degrees, anti-clockwise, 0 is east; speeds in units a second
# Columns of `World.faces`.
AXIS, AT, LOW, HIGH, OUTWARD = range(5)

_PANEL_DEPTH = 0.25  # a cue stands that far out of its wall


class World(NamedTuple):
    """What never changes in a level."""

    blocks: NDArray[np.float64]  # (b, 4): west, south, east, north
    faces: NDArray[np.float64]  # (f, 5): axis it stands across (0: x), where, from, to, which way it looks (1 or -1)
    textures: NDArray[np.int64]  # (f,): of each face; for a cue, -1 less its number
    places: NDArray[np.float64]  # (m, 2)
    fruit: NDArray[np.int8]  # (m,)
    directions: NDArray[np.int8]  # (m, cues): what the cues show; no rows where a level has none
    start: NDArray[np.float64]  # (7,): west, south, east, north, least and greatest heading, and the clearance
    heights: NDArray[np.float64]  # (2,): of the eye, and of the wall above it
    tile: float
    ceiling: bool
    frames: int


class Players(NamedTuple):
    """Where n players are in their episodes: everything that a step depends on."""

    poses: NDArray[np.float64]  # (n, 5)
    frames: NDArray[np.int64]  # (n,): played in the episode
    random: NDArray[np.uint64]  # (n,): state of the episode's random numbers
    fruit: NDArray[np.int8]  # (n, m): what lies in each place now
    cues: NDArray[np.int8]  # (n, cues): what they show now

    def copy(self) -> Players:
        """The same players in arrays of their own."""
        return Players(*(array.copy() for array in self))  # type: ignore[arg-type]

    def assign(self, other: Players) -> None:
        """Copy the arrays of other players into these."""
        own: NDArray[Any]
        array: NDArray[Any]
        for own, array in zip(self, other, strict=True):  # type: ignore[assignment]
            own[...] = array


def build_world(level: Level) -> World:
    """The level as arrays."""
    faces = [face for block in level.blocks for face in _sides(block)]
    faces += [_panel(cue, number) for number, cue in enumerate(level.cues)]
    directions = np.array(level.directions, np.int8).reshape(len(level.directions), len(level.cues))
    return World(
        blocks=np.array([(own.west, own.south, own.east, own.north) for own in level.blocks]),
        faces=np.array([numbers for numbers, _ in faces]),
        textures=np.array([texture for _, texture in faces], np.int64),
        places=np.array(level.places),
        fruit=np.array(level.fruit, np.int8),
        directions=directions,
        start=np.array([*level.start, *level.headings, level.start_clearance]),
        heights=np.array([EYE, level.wall_height - EYE]),
        tile=level.tile,
        ceiling=level.ceiling,
        frames=level.frames,
    )


def new_players(n: int, world: World) -> Players:
    """Players who have not begun an episode."""
    return Players(
        poses=np.zeros((n, 5)),
        frames=np.zeros(n, np.int64),
        random=np.zeros(n, np.uint64),
        fruit=np.zeros((n, len(world.places)), np.int8),
        cues=np.zeros((n, world.directions.shape[1]), np.int8),
    )


Face = tuple[tuple[float, float, float, float, float], int]


def _sides(block: Block) -> list[Face]:
    return [
        ((0.0, block.west, block.south, block.north, -1.0), TEXTURES.index(block.to_west)),
        ((1.0, block.south, block.west, block.east, -1.0), TEXTURES.index(block.to_south)),
        ((0.0, block.east, block.south, block.north, 1.0), TEXTURES.index(block.to_east)),
        ((1.0, block.north, block.west, block.east, 1.0), TEXTURES.index(block.to_north)),
    ]


def _panel(cue: Cue, number: int) -> Face:
    axis, middle, across = (1.0, cue.y, cue.x) if cue.faces == "south" else (0.0, cue.x, cue.y)
    outward = 1.0 if cue.faces == "east" else -1.0
    low, high = across - cue.width / 2, across + cue.width / 2
    return (axis, middle + outward * _PANEL_DEPTH, low, high, outward), -1 - number
