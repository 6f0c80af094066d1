"""What a player sees: a ray for each column finds its wall, floor and ceiling follow from the rows, fruit is put in.

Everything is drawn in samples, two by two to a pixel, and then averaged. What is constant along a row or a column is
computed once for it, and positions in a texture are whole numbers to which each step adds.
One plane is drawn at a time: the agent sees only grey, and a person red, green and blue.
"""

from __future__ import annotations

import math

import numpy as np

from mfec.compiling import njit
from mfec.envs.labyrinth.atlas import BITS, CEILING, COPIES, CUES, FLOOR, OFFSETS, SKY_BITS, TEXELS
from mfec.envs.labyrinth.levels import NOTHING
from mfec.envs.labyrinth.textures import SIDE
from mfec.envs.labyrinth.view import DARKEST, DIMMING, SAMPLES
from mfec.envs.labyrinth.world import AT, AXIS, HEADING, HIGH, LOW, OUTWARD, X, Y

FRUIT_WIDTH = 40.0  # of a sprite, in units
FRUIT_MIDDLE = 24.0  # its height above the floor
NEAREST = 4.0  # fruit nearer than this is not drawn
SHADE = np.array([0.84, 1.0])  # light on walls that stand across x, and across y
_OFFSETS = tuple(int(offset) for offset in OFFSETS)


@njit(nogil=True)
def draw(world, players, n, view, atlas, picture):
    """Draw one plane of what player n sees into `picture`, uint8 (height, width)."""
    w, h = view.width * SAMPLES, view.height * SAMPLES
    flat = np.empty(h * w, np.uint8)
    samples = flat.reshape(h, w)
    pose = players.poses[n]
    angle = math.radians(pose[HEADING])
    ahead_x, ahead_y = math.cos(angle), math.sin(angle)
    rays = np.empty((2, w))  # what x and y gain while a ray goes one ahead; to the right of the picture is clockwise
    rays[0] = ahead_x + view.aside * ahead_y
    rays[1] = ahead_y - view.aside * ahead_x
    faces, nearness = _cast(world.faces, pose, rays)
    tops, bottoms = _draw_walls(world, players.cues[n], pose, view, atlas.textures, faces, nearness, rays, flat)
    if world.ceiling:
        _draw_plane(world, pose, view, atlas.textures, CEILING, ahead_x, ahead_y, samples, 0, tops.max(), bottoms, tops)
    else:
        _draw_sky(pose[HEADING], view, atlas.sky, flat, tops)
    _draw_plane(world, pose, view, atlas.textures, FLOOR, ahead_x, ahead_y, samples, bottoms.min(), h, bottoms, tops)
    _draw_fruit(world, players.fruit[n], pose, view, atlas, ahead_x, ahead_y, nearness, samples)
    _average(samples, picture)


@njit(nogil=True)
def _cast(faces, pose, rays):
    """The nearest face on each ray, and one over its distance along the view.

    One over the distance is a multiple of the ray's step across the face, and so is the point where the ray meets it.
    So no division is needed, and each face is compared with all rays in one loop.
    """
    w = rays.shape[1]
    found, nearest = np.zeros(w, np.int64), np.zeros(w)
    for f in range(len(faces)):
        axis = 0 if faces[f, AXIS] == 0.0 else 1
        away = faces[f, AT] - pose[axis]
        if faces[f, OUTWARD] * away < 0.0:  # it looks towards the player
            near = 1.0 / away
            low, high = faces[f, LOW] - pose[1 - axis], faces[f, HIGH] - pose[1 - axis]
            across, along = rays[axis], rays[1 - axis]
            for column in range(w):
                nearness = near * across[column]
                met = low * nearness <= along[column] <= high * nearness
                if met and nearness > nearest[column]:
                    nearest[column] = nearness
                    found[column] = f
    return found, nearest


@njit(nogil=True)
def _draw_walls(world, cues, pose, view, textures, faces, nearness, rays, samples):
    """The wall of each column; returns the rows of its first sample and of the first one below it."""
    w, h = view.width * SAMPLES, view.height * SAMPLES
    tops, bottoms = np.empty(w, np.int64), np.empty(w, np.int64)
    for column in range(w):
        face, depth = faces[column], 1.0 / nearness[column]
        span = depth / view.focal  # units to a sample
        top = h / 2.0 - world.heights[1] / span
        first = max(0, math.ceil(top - 0.5))  # samples whose middles lie on the wall
        last = min(h, math.ceil(h / 2.0 + world.heights[0] / span - 0.5))
        tops[column], bottoms[column] = first, last

        axis = 0 if world.faces[face, AXIS] == 0.0 else 1
        along = pose[1 - axis] + depth * rays[1 - axis, column]
        texture, wide, high = world.textures[face], world.tile, world.tile
        if texture < 0:  # a cue: its picture fills the face
            texture = CUES + cues[-1 - texture]
            wide, high = world.faces[face, HIGH] - world.faces[face, LOW], world.heights[0] + world.heights[1]
            along -= world.faces[face, LOW]
        copy = _copy(span * SIDE / wide)
        bits = np.uint64(BITS - copy)
        shift = np.uint64(64) - bits
        begin = np.uint64(texture * TEXELS + _OFFSETS[copy]) + ((_share(along / wide) >> shift) << bits)
        light = np.uint64(256.0 * SHADE[axis] * max(DARKEST, 1.0 - depth / DIMMING))
        v, dv = _share((first + 0.5 - top) * span / high), _share(span / high)
        at = np.uint64(first * w + column)
        for _ in range(first, last):
            samples[at] = (np.uint64(textures[begin + (v >> shift)]) * light) >> np.uint64(8)
            v += dv
            at += np.uint64(w)
    return tops, bottoms


@njit(nogil=True)
def _draw_sky(heading, view, sky, samples, tops):
    """The sky above the wall of each column."""
    around, w = 2**SKY_BITS, len(tops)
    for column in range(w):
        u = math.floor(view.sky_columns[column] - heading / 360.0 * around) & (around - 1)
        begin, at = np.uint64(u * SIDE), np.uint64(column)
        for row in range(tops[column]):
            samples[at] = sky[begin + view.sky_rows[row]]
            at += np.uint64(w)


@njit(nogil=True)
def _draw_plane(world, pose, view, textures, texture, ahead_x, ahead_y, samples, first, last, bottoms, tops):
    """The floor below the walls, or the ceiling above them: rows on which the distance is the same all along."""
    w = samples.shape[1]
    for row in range(first, last):
        below = row >= samples.shape[0] // 2
        distance = view.distances[row] / world.tile
        bits = BITS - view.copies[row]
        begin = np.uint64(texture * TEXELS + _OFFSETS[view.copies[row]])
        shift, width, light = np.uint64(64 - bits), np.uint64(bits), np.uint64(view.light[row])
        u = _share(pose[X] / world.tile + distance * (ahead_x + view.aside[0] * ahead_y))
        v = _share(pose[Y] / world.tile + distance * (ahead_y - view.aside[0] * ahead_x))
        du, dv = _share(distance * ahead_y / view.focal), _share(-distance * ahead_x / view.focal)
        line = samples[row]
        for column in range(w):
            if (bottoms[column] <= row) if below else (row < tops[column]):
                texel = begin + ((u >> shift) << width) + (v >> shift)
                line[column] = (np.uint64(textures[texel]) * light) >> np.uint64(8)
            u += du
            v += dv


@njit(nogil=True)
def _share(tiles):
    """The fraction of a number of tiles, in units of 2**-64: whole tiles overflow out of sums."""
    return np.uint64(np.int64((tiles - math.floor(tiles)) * 2.0**63)) << np.uint64(1)


@njit(nogil=True)
def _draw_fruit(world, fruit, pose, view, atlas, ahead_x, ahead_y, nearness, samples):
    """Sprites that face the player, the farthest first, each where it is nearer than the wall."""
    h, w = samples.shape
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
            if nearness[column] * depth < 1.0:
                u = min(int((column + 0.5 - left) / size * side), side - 1)
                for row in range(max(0, math.ceil(top - 0.5)), min(h, math.ceil(top + size - 0.5))):
                    v = min(int((row + 0.5 - top) / size * side), side - 1)
                    texel = base + (u << bits) + v
                    if atlas.masks[texel]:
                        samples[row, column] = (np.int32(atlas.sprites[texel]) * light) >> 8


@njit(nogil=True)
def _copy(texels):
    """The copy of a texture to use if a sample spans so many of its texels."""
    copy = 0
    while texels > 1.414 and copy < COPIES - 1:
        texels *= 0.5
        copy += 1
    return copy


@njit(nogil=True)
def _average(samples, picture):
    """Every pixel is the mean of its samples."""
    for row in range(picture.shape[0]):
        upper, lower, line = samples[2 * row], samples[2 * row + 1], picture[row]
        for column in range(len(line)):
            left, right = 2 * column, 2 * column + 1
            total = np.uint32(upper[left]) + upper[right] + lower[left] + lower[right]
            line[column] = (total + np.uint32(2)) >> np.uint32(2)
