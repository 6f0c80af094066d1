"""What a player sees: a ray for each column finds its wall, floor and ceiling follow from the rows, fruit is put in.

Everything is drawn in samples, two by two to a pixel, into a picture that lies column by column, and then averaged.
One plane is drawn at a time: the agent sees grey alone, and a person red, green and blue.
"""

from __future__ import annotations

import math

import numba
import numpy as np

from mfec.envs.labyrinth.atlas import BITS, CEILING, CUES, FLOOR, LEVELS, OFFSETS, SKY_BITS, TEXELS
from mfec.envs.labyrinth.levels import NOTHING
from mfec.envs.labyrinth.textures import SIDE
from mfec.envs.labyrinth.view import DARKEST, DIMMING, FAR_TILES, SAMPLES
from mfec.envs.labyrinth.world import AT, AXIS, HEADING, HIGH, LOW, OUTWARD, X, Y

FRUIT_WIDTH = 40.0  # of a sprite, in units
FRUIT_MIDDLE = 24.0  # its height above the floor
NEAREST = 4.0  # fruit nearer than this is not drawn
SHADE = np.array([0.84, 1.0])  # light on walls that stand across x, and across y
_OFFSETS = tuple(int(offset) for offset in OFFSETS)


@numba.njit(cache=True, nogil=True)
def draw(world, players, n, view, atlas, picture):
    """Draw one plane of what player n sees into `picture`, uint8 (height, width)."""
    w, h = view.width * SAMPLES, view.height * SAMPLES
    samples = np.empty((w, h), np.uint8)
    depths = np.empty(w)
    pose = players.poses[n]
    angle = math.radians(pose[HEADING])
    ahead_x, ahead_y = math.cos(angle), math.sin(angle)
    for column in range(w):
        # Towards the right of the picture is clockwise.
        ray_x = ahead_x + view.aside[column] * ahead_y
        ray_y = ahead_y - view.aside[column] * ahead_x
        face, depth = _cast(world.faces, pose, ray_x, ray_y)
        depths[column] = depth
        top = h / 2.0 - world.heights[1] * view.focal / depth
        bottom = h / 2.0 + world.heights[0] * view.focal / depth
        first = max(0, math.ceil(top - 0.5))  # samples whose middles lie on the wall
        last = min(h, math.ceil(bottom - 0.5))
        if world.ceiling:
            _draw_level(world, pose, view, atlas, CEILING, ray_x, ray_y, samples[column], 0, first)
        else:
            _draw_sky(pose, view, atlas, column, samples[column], first)
        _draw_wall(
            world,
            players.cues[n],
            pose,
            atlas,
            face,
            depth,
            ray_x,
            ray_y,
            view.focal,
            top,
            samples[column],
            first,
            last,
        )
        _draw_level(world, pose, view, atlas, FLOOR, ray_x, ray_y, samples[column], last, h)
    _draw_fruit(world, players.fruit[n], pose, view, atlas, ahead_x, ahead_y, depths, samples)
    _average(samples, picture)


@numba.njit(cache=True, nogil=True)
def _cast(faces, pose, ray_x, ray_y):
    """The nearest face on a ray, and its distance along the view."""
    found, nearest = 0, np.inf
    x, y = pose[X], pose[Y]
    over_x = 1.0 / ray_x if ray_x != 0.0 else np.inf
    over_y = 1.0 / ray_y if ray_y != 0.0 else np.inf
    for f in range(len(faces)):
        if faces[f, AXIS] == 0.0:
            if faces[f, OUTWARD] * ray_x < 0.0:
                depth = (faces[f, AT] - x) * over_x
                if 0.0 < depth < nearest and faces[f, LOW] <= y + depth * ray_y <= faces[f, HIGH]:
                    found, nearest = f, depth
        elif faces[f, OUTWARD] * ray_y < 0.0:
            depth = (faces[f, AT] - y) * over_y
            if 0.0 < depth < nearest and faces[f, LOW] <= x + depth * ray_x <= faces[f, HIGH]:
                found, nearest = f, depth
    return found, nearest


@numba.njit(cache=True, nogil=True)
def _draw_wall(world, cues, pose, atlas, face, depth, ray_x, ray_y, focal, top, samples, first, last):
    across_y = world.faces[face, AXIS] == 0.0
    along = pose[Y] + depth * ray_y if across_y else pose[X] + depth * ray_x
    height = world.heights[0] + world.heights[1]
    texture = world.textures[face]
    if texture < 0:  # a cue: its picture fills the face
        texture = CUES + cues[-1 - texture]
        wide, high = world.faces[face, HIGH] - world.faces[face, LOW], height
        along -= world.faces[face, LOW]
    else:
        wide = high = world.tile
    copy = _copy(depth / focal * SIDE / wide)
    bits = BITS - copy
    side = 1 << bits
    u = int((along / wide + FAR_TILES) * side) & (side - 1)
    base = texture * TEXELS + _OFFSETS[copy] + (u << bits)
    light = int(256.0 * SHADE[0 if across_y else 1] * max(DARKEST, 1.0 - depth / DIMMING))
    # Fixed-point numbers with 16 binary digits: texels down the wall.
    step = int(depth / focal / high * side * 65536.0)
    v = int((first + 0.5 - top) * (depth / focal / high * side * 65536.0))
    for row in range(first, last):
        samples[row] = (np.int32(atlas.textures[base + ((v >> 16) & (side - 1))]) * light) >> 8
        v += step


@numba.njit(cache=True, nogil=True)
def _draw_level(world, pose, view, atlas, texture, ray_x, ray_y, samples, first, last):
    """Rows of a column that see the floor or the ceiling."""
    x = np.float32(pose[X] / world.tile + FAR_TILES)
    y = np.float32(pose[Y] / world.tile + FAR_TILES)
    step_x, step_y = np.float32(ray_x / world.tile), np.float32(ray_y / world.tile)
    base = texture * TEXELS
    for row in range(first, last):
        distance = view.distances[row]
        copy = view.copies[row]
        bits = BITS - copy
        side = 1 << bits
        u = np.int32((x + distance * step_x) * np.float32(side)) & (side - 1)
        v = np.int32((y + distance * step_y) * np.float32(side)) & (side - 1)
        samples[row] = (np.int32(atlas.textures[base + _OFFSETS[copy] + (u << bits) + v]) * view.light[row]) >> 8


@numba.njit(cache=True, nogil=True)
def _draw_sky(pose, view, atlas, column, samples, last):
    around = 2**SKY_BITS
    u = math.floor(view.sky_columns[column] - pose[HEADING] / 360.0 * around) & (around - 1)
    for row in range(last):
        samples[row] = atlas.sky[u * SIDE + view.sky_rows[row]]


@numba.njit(cache=True, nogil=True)
def _draw_fruit(world, fruit, pose, view, atlas, ahead_x, ahead_y, depths, samples):
    """Sprites that face the player, the farthest first, each where it is nearer than the wall."""
    w, h = samples.shape
    order = np.empty(len(fruit), np.int64)
    away = np.empty(len(fruit))
    seen = 0
    for place in range(len(fruit)):
        if fruit[place] != NOTHING:
            depth = (world.places[place, 0] - pose[X]) * ahead_x + (world.places[place, 1] - pose[Y]) * ahead_y
            if depth > NEAREST:
                into = seen
                while into > 0 and away[into - 1] < depth:
                    away[into], order[into] = away[into - 1], order[into - 1]
                    into -= 1
                away[into], order[into] = depth, place
                seen += 1
    for i in range(seen):
        depth = away[i]
        x, y = world.places[order[i], 0] - pose[X], world.places[order[i], 1] - pose[Y]
        middle = w / 2.0 + (x * ahead_y - y * ahead_x) / depth * view.focal
        size = FRUIT_WIDTH / depth * view.focal  # in samples
        left = middle - size / 2.0
        top = h / 2.0 + (world.heights[0] - FRUIT_MIDDLE) / depth * view.focal - size / 2.0
        copy = _copy(SIDE / size)
        bits = BITS - copy
        side = 1 << bits
        base = fruit[order[i]] * TEXELS + _OFFSETS[copy]
        light = int(256.0 * max(DARKEST, 1.0 - depth / DIMMING))
        for column in range(max(0, math.ceil(left - 0.5)), min(w, math.ceil(left + size - 0.5))):
            if depths[column] > depth:
                u = min(int((column + 0.5 - left) / size * side), side - 1)
                for row in range(max(0, math.ceil(top - 0.5)), min(h, math.ceil(top + size - 0.5))):
                    v = min(int((row + 0.5 - top) / size * side), side - 1)
                    texel = base + (u << bits) + v
                    if atlas.masks[texel]:
                        samples[column, row] = (np.int32(atlas.sprites[texel]) * light) >> 8


@numba.njit(cache=True, nogil=True)
def _copy(texels):
    """The copy of a texture where a sample spans so many of its texels."""
    copy = 0
    while texels > 1.414 and copy < LEVELS - 1:
        texels *= 0.5
        copy += 1
    return copy


@numba.njit(cache=True, nogil=True)
def _average(samples, picture):
    """Every pixel is the mean of its samples."""
    for column in range(picture.shape[1]):
        for row in range(picture.shape[0]):
            total = np.int32(SAMPLES * SAMPLES // 2)
            for i in range(SAMPLES):
                for j in range(SAMPLES):
                    total += samples[column * SAMPLES + i, row * SAMPLES + j]
            picture[row, column] = total // (SAMPLES * SAMPLES)
