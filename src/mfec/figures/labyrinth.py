"""A Labyrinth level as a map to scale, and beside it what a player sees there."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mfec.envs.labyrinth import Labyrinth
from mfec.envs.labyrinth.atlas import CUES, SPRITES, TEXTURES
from mfec.envs.labyrinth.levels import NOTHING, PLAYER, Block, Cue, Level
from mfec.envs.labyrinth.renderer import FRUIT_WIDTH
from mfec.envs.labyrinth.textures import CUE_COLOURS, sprites, textures
from mfec.envs.labyrinth.view import FIELD_OF_VIEW
from mfec.envs.labyrinth.world import HEADING, VX, VY, X, Y
from mfec.figures.pictures import check_kind, new_figure, save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDTH, HEIGHT = 640, 480  # of the view
SOLID, FLOOR, SEEN, START = "#2b2d33", "#f1ece0", "#ffd873", "#1f5fe0"

Pose = tuple[float, float, float]  # x, y, heading
Rectangle = tuple[float, float, float, float]  # west, south, east, north


def draw_level(name: str, out: Path, *, seed: int = 0) -> Path:
    """Draw a level as the episode of a seed begins: the map, and what the player sees.

    The view is from the start; in a maze of cues, from the middle of the start area towards the first cue.
    """
    check_kind(out)
    env = Labyrinth(name, render_mode="rgb_array", width=WIDTH, height=HEIGHT)
    env.reset(seed=seed)
    level, pose = env.level, env.players.poses[0]
    start = float(pose[X]), float(pose[Y]), float(pose[HEADING])
    camera = _towards_first_cue(level) if level.cues else start
    pose[[X, Y, HEADING]], pose[[VX, VY]] = camera, 0.0

    figure = new_figure(12.0, 5.4)
    figure.suptitle(f"{level.name}\n{level.task} An episode lasts {level.seconds} s ({level.frames:,} frames).")
    left, right = figure.subplots(1, 2)
    _draw_map(left, env, start, camera)
    left.set_title("dashed: where a player may start; arrow: this start; yellow: seen on the right", fontsize=10)
    right.imshow(env.render(), interpolation="bilinear")
    right.set_title("from the stem, facing the first cue" if level.cues else "from the start", fontsize=10)
    right.set_axis_off()
    return save_figure(figure, out)


def _towards_first_cue(level: Level) -> Pose:
    west, south, east, north = level.start
    x, y = (west + east) / 2, (south + north) / 2
    return x, y, math.degrees(math.atan2(level.cues[0].y - y, level.cues[0].x - x))


def _draw_map(axes: Axes, env: Labyrinth, start: Pose, camera: Pose) -> None:
    """From above, north up, everything to scale but the fruit and the player, which would be specks in an arena."""
    level = env.level
    blocks = env.world.blocks
    whole = blocks[:, 0].min(), blocks[:, 1].min(), blocks[:, 2].max(), blocks[:, 3].max()
    speck = 0.032 * (whole[2] - whole[0])
    axes.set_aspect("equal")
    axes.set_xlim(whole[0], whole[2])
    axes.set_ylim(whole[1] - 0.09 * (whole[3] - whole[1]), whole[3])
    axes.set_axis_off()
    _fill(axes, whole, FLOOR)
    axes.fill(*_visible(blocks, camera).T, color=SEEN, alpha=0.55, lw=0)
    _draw_walls(axes, level, whole)
    for cue, shown in zip(level.cues, env.players.cues[0].tolist(), strict=True):
        _fill(axes, _panel(cue), _hex(CUE_COLOURS[TEXTURES[CUES + shown]]), edge="white")
    west, south, east, north = level.start
    axes.plot([west, east, east, west, west], [south, south, north, north, south], "--", color=START, lw=1.0)
    for place, kind in zip(level.places, env.players.fruit[0].tolist(), strict=True):
        if kind != NOTHING:
            _draw_sprite(axes, SPRITES[kind], place, max(FRUIT_WIDTH, speck))
    _draw_player(axes, start, max(2 * PLAYER, speck))
    _draw_compass(axes, whole)


def _draw_walls(axes: Axes, level: Level, whole: Rectangle) -> None:
    """Solid blocks, whose sides have the mean colour of their texture."""
    deep = 0.012 * (whole[2] - whole[0])
    for block in level.blocks:
        _fill(axes, (block.west, block.south, block.east, block.north), SOLID)
    colours = {name: _hex(picture.mean(axis=(0, 1))) for name, picture in textures().items()}
    for block in level.blocks:
        sides = (
            (block.to_west, (block.west, block.south, block.west + deep, block.north), (-1, 0)),
            (block.to_east, (block.east - deep, block.south, block.east, block.north), (1, 0)),
            (block.to_south, (block.west, block.south, block.east, block.south + deep), (0, -1)),
            (block.to_north, (block.west, block.north - deep, block.east, block.north), (0, 1)),
        )
        for texture, strip, outward in sides:
            for west, south, east, north in _open_parts(strip, outward, level.blocks, whole):
                _fill(axes, (west, south, east, north), colours[texture])


def _open_parts(
    strip: Rectangle, outward: tuple[int, int], blocks: tuple[Block, ...], whole: Rectangle
) -> Iterator[Rectangle]:
    """Parts of a side that can be seen: neither another block nor the outside of the level is before them."""
    along = 1 if outward[0] else 0  # the axis that the side runs along
    edges = {edge for own in blocks for edge in ((own.south, own.north) if along else (own.west, own.east))}
    cuts = sorted(cut for cut in edges | {strip[along], strip[along + 2]} if strip[along] <= cut <= strip[along + 2])
    for low, high in pairwise(cuts):
        part = (strip[0], low, strip[2], high) if along else (low, strip[1], high, strip[3])
        deep = strip[2] - strip[0] if along else strip[3] - strip[1]
        x, y = (part[0] + part[2]) / 2 + outward[0] * deep, (part[1] + part[3]) / 2 + outward[1] * deep
        hidden = any(own.west < x < own.east and own.south < y < own.north for own in blocks)
        if whole[0] < x < whole[2] and whole[1] < y < whole[3] and not hidden:
            yield part


def _panel(cue: Cue) -> Rectangle:
    """A cue on the map: it reaches into its wall, where it can be seen."""
    deep, half = 12.0, cue.width / 2
    if cue.faces == "south":
        return cue.x - half, cue.y, cue.x + half, cue.y + deep
    west = cue.x - deep if cue.faces == "east" else cue.x
    return west, cue.y - half, west + deep, cue.y + half


def _draw_sprite(axes: Axes, name: str, place: tuple[float, float], side: float) -> None:
    colours, mask = sprites()[name]
    x, y = place
    extent = x - side / 2, x + side / 2, y - side / 2, y + side / 2
    axes.imshow(np.dstack([colours, 255 * mask.astype(np.uint8)]), extent=extent, zorder=5, interpolation="bilinear")


def _draw_player(axes: Axes, pose: Pose, speck: float) -> None:
    """An arrow head in the direction of the heading."""
    x, y, heading = pose
    corners = ((0.0, 0.7), (140.0, 0.6), (180.0, 0.25), (220.0, 0.6))
    turned = [(math.radians(heading + angle), away * speck) for angle, away in corners]
    points = [(x + away * math.cos(angle), y + away * math.sin(angle)) for angle, away in turned]
    axes.fill(*zip(*points, strict=True), facecolor=START, edgecolor="white", lw=1.0, zorder=6)


def _draw_compass(axes: Axes, whole: Rectangle) -> None:
    """Below the map: how long a length is, and where the north is."""
    west, south, east, north = whole
    length = max(own for own in (50, 100, 200, 500) if own <= (east - west) / 4)
    y = south - 0.05 * (north - south)
    axes.plot([west, west + length], [y, y], color="black", lw=2.5, solid_capstyle="butt")
    axes.text(west + length + 0.015 * (east - west), y, f"{length} units", va="center", fontsize=9)
    axes.annotate(
        "",
        (east, y + 0.035 * (north - south)),
        (east, y - 0.035 * (north - south)),
        arrowprops={"arrowstyle": "-|>", "color": "black"},
    )
    axes.text(east - 0.02 * (east - west), y, "N", va="center", ha="right", fontsize=10)


def _visible(blocks: NDArray[np.float64], camera: Pose) -> NDArray[np.float64]:
    """Corners of the area that a camera sees, (rays + 1, 2)."""
    x, y, heading = camera
    angles = np.radians(heading + np.linspace(-FIELD_OF_VIEW / 2, FIELD_OF_VIEW / 2, 361))
    rays = np.stack([np.cos(angles), np.sin(angles)], axis=1)[:, None]  # (rays, 1, 2)
    with np.errstate(divide="ignore"):
        first, second = (blocks[:, :2] - (x, y)) / rays, (blocks[:, 2:] - (x, y)) / rays
    enter, leave = np.minimum(first, second).max(axis=2), np.maximum(first, second).min(axis=2)  # (rays, blocks)
    away = np.where((enter < leave) & (enter > 0.0), enter, np.inf).min(axis=1)
    return np.concatenate([[[x, y]], (x, y) + away[:, None] * rays[:, 0]])


def _fill(axes: Axes, box: Rectangle, colour: str, *, edge: str | None = None) -> None:
    west, south, east, north = box
    axes.fill(
        [west, east, east, west], [south, south, north, north], facecolor=colour, edgecolor=edge, lw=1 if edge else 0
    )


def _hex(colour: NDArray[np.float64] | tuple[float, float, float]) -> str:
    return "#" + "".join(f"{round(float(part)):02x}" for part in colour)
