"""What a player sees: a ray for each column finds its wall, floor and ceiling follow from the rows, fruit is put in.

Everything is drawn in samples, two by two to a pixel, and then averaged. What is the same all along a row or a column
is worked out once for it, and positions in a texture are whole numbers that a step adds to.
One plane is drawn at a time: the agent sees grey alone, and a person red, green and blue.
"""

from __future__ import annotations

import math

import numba
import numpy as np

from mfec.envs.labyrinth.atlas import BITS, CEILING, CUES, FLOOR, LEVELS, OFFSETS, SKY_BITS, TEXELS
from mfec.envs.labyrinth.levels import NOTHING
from mfec.envs.labyrinth.textures import SIDE
from mfec.envs.labyrinth.view import DARKEST, DIMMING, SAMPLES
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
    flat = np.empty(h * w, np.uint8)
    samples = flat.reshape(h, w)
    depths = np.empty(w)
    tops, bottoms = np.empty(w, np.int64), np.empty(w, np.int64)  # the first sample of the wall, and the first below it
    pose = players.poses[n]
    angle = math.radians(pose[HEADING])
    ahead_x, ahead_y = math.cos(angle), math.sin(angle)
    faces = _facing(world.faces, pose)
    for column in range(w):
        # Towards the right of the picture is clockwise.
        ray_x = ahead_x + view.aside[column] * ahead_y
        ray_y = ahead_y - view.aside[column] * ahead_x
        face, depth = _cast(world.faces, faces, pose, ray_x, ray_y)
        depths[column] = depth
        top = h / 2.0 - world.heights[1] * view.focal / depth
        bottom = h / 2.0 + world.heights[0] * view.focal / depth
        tops[column] = max(0, math.ceil(top - 0.5))  # samples whose middles lie on the wall
        bottoms[column] = min(h, math.ceil(bottom - 0.5))
        along = pose[Y] + depth * ray_y if world.faces[face, AXIS] == 0.0 else pose[X] + depth * ray_x
        wall = _wall(world, players.cues[n], face, along, depth, view.focal)
        _draw_wall(atlas.textures, wall, top, flat, column, w, tops[column], bottoms[column])
        if not world.ceiling:
            _draw_sky(pose, view, atlas.sky, flat, column, w, tops[column])
    if world.ceiling:
        _draw_plane(world, pose, view, atlas.textures, CEILING, ahead_x, ahead_y, samples, 0, tops.max(), bottoms, tops)
    _draw_plane(world, pose, view, atlas.textures, FLOOR, ahead_x, ahead_y, samples, bottoms.min(), h, bottoms, tops)
    _draw_fruit(world, players.fruit[n], pose, view, atlas, ahead_x, ahead_y, depths, samples)
    _average(samples, picture)


@numba.njit(cache=True, nogil=True)
def _facing(faces, pose):
    """The faces that look towards the player."""
    found = np.empty(len(faces), np.int64)
    n = 0
    for f in range(len(faces)):
        if faces[f, OUTWARD] * (pose[X if faces[f, AXIS] == 0.0 else Y] - faces[f, AT]) > 0.0:
            found[n] = f
            n += 1
    return found[:n]


@numba.njit(cache=True, nogil=True)
def _cast(faces, facing, pose, ray_x, ray_y):
    """The nearest face on a ray, and its distance along the view."""
    found, nearest = 0, np.inf
    x, y = pose[X], pose[Y]
    over_x = 1.0 / ray_x if ray_x != 0.0 else np.inf
    over_y = 1.0 / ray_y if ray_y != 0.0 else np.inf
    for i in range(len(facing)):
        f = facing[i]
        if faces[f, AXIS] == 0.0:
            depth = (faces[f, AT] - x) * over_x
            across = y + depth * ray_y
        else:
            depth = (faces[f, AT] - y) * over_y
            across = x + depth * ray_x
        if 0.0 < depth < nearest and faces[f, LOW] <= across <= faces[f, HIGH]:
            found, nearest = f, depth
    return found, nearest


@numba.njit(cache=True, nogil=True)
def _wall(world, cues, face, along, depth, focal):
    """A column of a wall's texture: where it begins, its length in bits, its light, and a sample's share of it."""
    texture = world.textures[face]
    wide = high = world.tile
    if texture < 0:  # a cue: its picture fills the face
        texture = CUES + cues[-1 - texture]
        wide, high = world.faces[face, HIGH] - world.faces[face, LOW], world.heights[0] + world.heights[1]
        along -= world.faces[face, LOW]
    copy = _copy(depth / focal * SIDE / wide)
    bits = BITS - copy
    u = int(_share(along / wide) >> np.uint64(64 - bits))
    begin = texture * TEXELS + _OFFSETS[copy] + (u << bits)
    light = int(256.0 * SHADE[0 if world.faces[face, AXIS] == 0.0 else 1] * max(DARKEST, 1.0 - depth / DIMMING))
    return begin, bits, light, depth / focal / high


@numba.njit(cache=True, nogil=True)
def _draw_wall(textures, wall, top, samples, column, w, first, last):
    begin, bits, light, step = wall
    begin, shift, light = np.uint64(begin), np.uint64(64 - bits), np.uint64(light)
    v, dv = _share((first + 0.5 - top) * step), _share(step)
    at = np.uint64(first * w + column)
    for _ in range(first, last):
        samples[at] = (np.uint64(textures[begin + (v >> shift)]) * light) >> np.uint64(8)
        v += dv
        at += np.uint64(w)


@numba.njit(cache=True, nogil=True)
def _draw_sky(pose, view, sky, samples, column, w, last):
    around = 2**SKY_BITS
    u = math.floor(view.sky_columns[column] - pose[HEADING] / 360.0 * around) & (around - 1)
    begin, at = np.uint64(u * SIDE), np.uint64(column)
    for row in range(last):
        samples[at] = sky[begin + view.sky_rows[row]]
        at += np.uint64(w)


@numba.njit(cache=True, nogil=True)
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


@numba.njit(cache=True, nogil=True)
def _share(tiles):
    """The part of a number of tiles after the point, in units of 2**-64: whole tiles drop out of sums by themselves."""
    return np.uint64((tiles - math.floor(tiles)) * 2.0**63) << np.uint64(1)


@numba.njit(cache=True, nogil=True)
def _draw_fruit(world, fruit, pose, view, atlas, ahead_x, ahead_y, depths, samples):
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
            if depths[column] > depth:
                u = min(int((column + 0.5 - left) / size * side), side - 1)
                for row in range(max(0, math.ceil(top - 0.5)), min(h, math.ceil(top + size - 0.5))):
                    v = min(int((row + 0.5 - top) / size * side), side - 1)
                    texel = base + (u << bits) + v
                    if atlas.masks[texel]:
                        samples[row, column] = (np.int32(atlas.sprites[texel]) * light) >> 8


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
    for row in range(picture.shape[0]):
        upper, lower, line = samples[2 * row], samples[2 * row + 1], picture[row]
        for column in range(len(line)):
            left, right = 2 * column, 2 * column + 1
            total = np.uint32(upper[left]) + upper[right] + lower[left] + lower[right]
            line[column] = (total + np.uint32(2)) >> np.uint32(2)
