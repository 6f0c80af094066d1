"""The pictures of the Labyrinth: walls, floors, cue panels, a sky and two fruits, all computed here from fixed seeds.

The agent sees them in grey, so every picture has a chosen mean luminance. From dark to light: apple, moss, brick,
floor, wood, stone, ceiling, sky, lemon. An apple is darker than any wall behind it and a lemon is lighter.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]
Picture = NDArray[np.uint8]
Sprite = tuple[Picture, NDArray[np.bool_]]
Colour = tuple[float, float, float]

SIDE = 64
"""Texels along each side of a texture or a sprite."""

FIELD = slice(8, 56)
"""Rows and columns of the coloured field of a cue panel, three quarters of each side."""

# Red is dark in grey and green is bright: Rec. 601 gives 70 and 185 over the field, with the unlit stone at 125.
CUE_COLOURS: dict[str, Colour] = {"cue_red": (220, 9, 21), "cue_green": (110, 255, 96), "cue_off": (132, 132, 130)}

SKY_COLUMNS = 256
"""Columns of the sky, for 360 degrees."""


def textures() -> dict[str, Picture]:
    """Every wall, floor and ceiling, and the three cue panels: uint8 (64, 64, 3), tileable except the panels."""
    stone = _stone()
    surfaces = {"brick": _brick(), "stone": stone, "wood": _wood(), "moss": _moss()}
    surfaces |= {"floor": _floor(), "ceiling": _ceiling()}
    return surfaces | {name: _cue(stone, colour) for name, colour in CUE_COLOURS.items()}


def sprites() -> dict[str, Sprite]:
    """The fruits, each a colour uint8 (64, 64, 3) and a mask bool (64, 64) of the texels that belong to it.

    Row 0 is the top; the lowest texels of a fruit are near the last row, so that it rests on the floor.
    """
    return {"apple": _apple(), "lemon": _lemon()}


def sky() -> Picture:
    """A blue sky with white clouds, uint8 (64, 256, 3): row 0 towards the zenith, last row at the horizon."""
    rng = np.random.default_rng(7)
    height = np.linspace(1, 0, SIDE)[:, None]
    # Noise wraps in both directions; half of a picture twice as high wraps in the horizontal one only.
    noise = _fractal(rng, (2 * SIDE, SKY_COLUMNS), (8, 10), octaves=4)[:SIDE]
    cloud = _step(noise, 0.47, 0.66) * (0.35 + 0.65 * _step(height, 0.0, 0.25))
    # Lit from above: a cloud is greyer where there is more of it in the rows over it.
    shadow = _step(np.roll(noise, 5, axis=0) - noise, -0.05, 0.2)
    blue = _mix((190, 216, 240), (72, 134, 214), height**0.8)
    return _picture(_mix(blue, _mix((255, 255, 255), (206, 214, 226), shadow), 0.95 * cloud), mean=183)


def luminance(rgb: Picture | Floats) -> Floats:
    """Rec. 601 luminance of an array of colours, (..., 3) to float64 (...)."""
    return np.asarray(np.asarray(rgb, dtype=np.float64) @ (0.299, 0.587, 0.114))


def _brick() -> Picture:
    """Red-brown bricks in staggered courses, with light mortar."""
    rng = np.random.default_rng(1)
    block, x, y = _courses(16, 8)
    tone = rng.uniform(0.78, 1.2, 64)[block] + 0.3 * (_fractal(rng, (SIDE, SIDE), (16, 16), octaves=2) - 0.5)
    tone += 0.16 * (y == 1) - 0.16 * (y == 7)
    clay = _mix((150, 66, 44), (170, 92, 58), rng.random(64)[block]) * tone[..., None]
    mortar = _mix((176, 166, 150), (150, 140, 126), _fractal(rng, (SIDE, SIDE), (32, 32), octaves=1))
    return _picture(_mix(clay, mortar, (x == 0) | (y == 0)), mean=101)


def _stone() -> Picture:
    """Large dressed blocks of grey-blue stone, with bevelled edges and dark joints."""
    rng = np.random.default_rng(2)
    block, x, y = _courses(32, 16)
    tone = rng.uniform(0.9, 1.1, 64)[block] + 0.35 * (_fractal(rng, (SIDE, SIDE), (8, 8), octaves=3) - 0.5)
    bevel = 0.14 * ((x == 1) | (y == 1)) - 0.16 * ((x == 31) | (y == 15))
    rock = _mix((142, 158, 178), (160, 166, 172), rng.random(64)[block]) * (tone + bevel)[..., None]
    return _picture(_mix(rock, (78, 86, 98), (x == 0) | (y == 0)), mean=154)


def _wood() -> Picture:
    """Upright planks of light wood, with grain, dark seams and two rows of nails."""
    rng = np.random.default_rng(3)
    plank, x, y = _courses(16, SIDE)
    grain = _noise(rng, (SIDE, SIDE), (2, 32)) - 0.5
    # Rings of the trunk, cut lengthwise: bands across the width that a slow noise bends.
    rings = np.sin(2 * np.pi * (x / 5 + 2.5 * _noise(rng, (SIDE, SIDE), (2, 4))))
    tone = rng.permutation([0.88, 0.97, 1.05, 1.12])[plank] + 0.18 * grain + 0.07 * rings
    board = _mix((188, 132, 74), (200, 138, 72), rng.random(4)[plank]) * tone[..., None]
    board = _mix(board, (62, 38, 20), np.where(x == 0, 1.0, 0.3 * (x == 15)))
    nail = ((x == 4) | (x == 12)) & (y % 32 == 16)
    return _picture(_mix(board, (60, 52, 48), nail), mean=134)


def _moss() -> Picture:
    """A wall of dark, rounded field stones, with patches of moss."""
    rng = np.random.default_rng(4)
    stone, gap = _cells(rng, 5)
    tone = rng.uniform(0.85, 1.15, 25)[stone] * (0.72 + 0.36 * _step(gap, 1.0, 7.0))
    tone += 0.25 * (_fractal(rng, (SIDE, SIDE), (16, 16), octaves=2) - 0.5)
    rock = _mix((52, 50, 48), np.multiply((112, 108, 104), tone[..., None]), _step(gap, 0.3, 1.8))
    leaves = _mix((44, 84, 26), (86, 128, 44), _fractal(rng, (SIDE, SIDE), (32, 32), octaves=2))
    patch = _step(_fractal(rng, (SIDE, SIDE), (4, 4), octaves=4), 0.49, 0.56)
    return _picture(_mix(rock, leaves, 0.95 * patch), mean=84)


def _floor() -> Picture:
    """Square paving stones of a sandy colour, with grass in the joints."""
    rng = np.random.default_rng(5)
    block, x, y = _courses(32, 32, staggered=False)
    tone = rng.permutation([0.93, 0.98, 1.02, 1.07])[block]
    tone += 0.28 * (_fractal(rng, (SIDE, SIDE), (16, 16), octaves=3) - 0.5)
    paving = np.multiply((138, 124, 96), tone[..., None])
    grass = _mix((72, 104, 48), (112, 138, 66), _noise(rng, (SIDE, SIDE), (32, 32)))
    from_joint = np.minimum(np.minimum(x, 32 - x), np.minimum(y, 32 - y))
    tufts = _step(from_joint + 3 * (_noise(rng, (SIDE, SIDE), (16, 16)) - 0.5), 2.2, 0.8)
    return _picture(_mix(paving, grass, tufts), mean=119)


def _ceiling() -> Picture:
    """Square tiles of light plaster, with thin joints in shadow."""
    rng = np.random.default_rng(6)
    _, x, y = _courses(32, 32, staggered=False)
    tone = 1 + 0.12 * (_fractal(rng, (SIDE, SIDE), (16, 16), octaves=3) - 0.5)
    tone += 0.06 * ((x == 1) | (y == 1)) - 0.08 * ((x == 31) | (y == 31)) - 0.3 * ((x == 0) | (y == 0))
    return _picture(np.multiply((180, 174, 160), tone[..., None]), mean=168)


def _cue(wall: Picture, colour: Colour) -> Picture:
    """A panel in the wall: a field of one colour, like frosted glass before a lamp, inside a bright frame."""
    y, x = np.indices((SIDE, SIDE))
    from_middle = np.maximum(abs(x - 31.5), abs(y - 31.5))
    frame = _mix((255, 253, 236), (214, 206, 170), np.minimum(abs(from_middle - 26) / 2, 1))
    panel = _mix(wall.astype(np.float64), frame, from_middle < 28)
    # The least bit darker towards the rim, and grainy: before a plain field, 23 pictures came of 500 places. The same
    # factor for each colour.
    grain = np.random.default_rng(7).uniform(0.92, 1.0, (SIDE, SIDE))
    glow = grain - 0.06 * (from_middle / 24) ** 4
    panel[FIELD, FIELD] = np.multiply(colour, glow[FIELD, FIELD, None])
    return _picture(panel)


def _apple() -> Sprite:
    """A red apple: two lobes with a dip between them, a brown stem, a green leaf and a highlight."""
    x, y = _square()
    lobes = np.hypot((abs(x) - 0.27) / 0.68, (y - 0.17) / 0.8) < 1
    body = lobes | (np.hypot(x / 0.5, (y - 0.2) / 0.7) < 1)
    colour = _lit((206, 18, 26), x / 0.97, (y - 0.17) / 0.82)
    # The hollow that the stem grows from.
    colour *= 1 - 0.45 * np.exp(-((x / 0.3) ** 2) - ((y + 0.52) / 0.12) ** 2)[..., None]
    colour = _mix(colour, (255, 190, 180), 0.9 * _step(np.hypot((x + 0.42) / 0.16, (y + 0.18) / 0.22), 1.0, 0.5))
    stem = (abs(x - 0.12 * (y + 0.45) ** 2 / 0.25) < 0.065) & (y > -0.98) & (y < -0.45)
    along, across = _turned(x - 0.42, y + 0.76, degrees=-18)
    leaf = (abs(across) < 0.19 * (1 - (along / 0.38) ** 2)) & (abs(along) < 0.38)
    colour = _mix(colour, (92, 56, 26), stem)
    colour = _mix(colour, _mix((58, 150, 48), (36, 104, 34), abs(across) < 0.03), leaf)
    return _picture(colour), body | stem | leaf


def _lemon() -> Sprite:
    """A yellow lemon lying slightly tilted, with a pointed nib at both ends and a pitted skin."""
    x, y = _square()
    along, across = _turned(x, y - 0.24, degrees=-20)
    body = np.hypot(along / 0.78, across / 0.66) < 1
    nibs = (abs(along) < 0.99) & (abs(along) > 0.6) & (abs(across) < 0.09 + 0.52 * (0.99 - abs(along)))
    pits = 1 + 0.1 * (_noise(np.random.default_rng(8), (SIDE, SIDE), (24, 24)) - 0.5)
    colour = _lit((255, 226, 44), along / 0.99, across / 0.66, ambient=0.62) * pits[..., None]
    colour = _mix(colour, (196, 160, 30), 0.5 * _step(abs(along), 0.78, 0.95))
    colour = _mix(colour, (255, 252, 205), 0.9 * _step(np.hypot((x + 0.3) / 0.22, (y + 0.08) / 0.13), 1.0, 0.4))
    return _picture(colour), body | nibs


def _lit(colour: Colour, x: Floats, y: Floats, *, ambient: float = 0.42) -> Floats:
    """A ball of one colour over the unit disc, lit from the upper left; outside the disc, the colour of its rim."""
    radius = np.maximum(np.hypot(x, y), 1.0)
    x, y = x / radius, y / radius
    facing = -0.42 * x - 0.5 * y + 0.76 * np.sqrt(np.maximum(1 - x**2 - y**2, 0))
    shade = ambient + (1.16 - ambient) * np.maximum(facing, 0)
    return np.multiply(colour, shade[..., None])


def _courses(wide: int, high: int, *, staggered: bool = True) -> tuple[Ints, Ints, Ints]:
    """Rectangular blocks in rows: the number of each texel's block, and its column and row within the block.

    Joints fall a quarter of a block away from the picture's left edge and half a block from its top.
    """
    y, x = np.indices((SIDE, SIDE))
    row, y_inside = np.divmod((y + high // 2) % SIDE, high)
    shift = wide // 4 + (row % 2) * (wide // 2 if staggered else 0)
    column, x_inside = np.divmod((x + shift) % SIDE, wide)
    return row * (SIDE // wide) + column, x_inside, y_inside


def _cells(rng: np.random.Generator, per_side: int) -> tuple[Ints, Floats]:
    """Rounded stones (Voronoi cells that wrap): the number of each texel's cell, and how far it is from a joint."""
    places = np.stack(np.divmod(np.arange(per_side**2), per_side), axis=1) + rng.uniform(-0.4, 0.4, (per_side**2, 2))
    offset = np.indices((SIDE, SIDE)).transpose(1, 2, 0)[:, :, None] - places * SIDE / per_side
    offset -= SIDE * np.round(offset / SIDE)
    distance = np.hypot(offset[..., 0], offset[..., 1])
    nearest = np.sort(distance, axis=-1)
    return distance.argmin(axis=-1), nearest[..., 1] - nearest[..., 0]


def _noise(rng: np.random.Generator, shape: tuple[int, int], cells: tuple[int, int]) -> Floats:
    """Smooth noise in [0, 1] that wraps in both directions, from `cells` random values down and across."""
    values = rng.random(cells)
    for axis in (0, 1):
        position = np.arange(shape[axis]) * cells[axis] / shape[axis]
        low = position.astype(np.intp)
        weight = _step(position - low, 0.0, 1.0).reshape((-1, 1) if axis == 0 else (1, -1))
        before, after = values.take(low, axis), values.take((low + 1) % cells[axis], axis)
        values = before + (after - before) * weight
    return values


def _fractal(rng: np.random.Generator, shape: tuple[int, int], cells: tuple[int, int], *, octaves: int) -> Floats:
    """Noise in [0, 1] with finer noise on top of it, each octave with twice the cells and half the weight."""
    layers = [_noise(rng, shape, (cells[0] << octave, cells[1] << octave)) / 2**octave for octave in range(octaves)]
    return np.asarray(np.sum(layers, axis=0) / (2 - 2 / 2**octaves))


def _mix(first: Colour | Floats, second: Colour | Floats, share: Floats | NDArray[np.bool_]) -> Floats:
    """Colours between two: the first where `share` (h, w) is 0, the second where it is 1."""
    a, b = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    return a + (b - a) * np.asarray(share, dtype=np.float64)[..., None]


def _step(value: Floats, low: float, high: float) -> Floats:
    """0 up to `low`, 1 from `high`, smooth between; with `low` above `high` it falls."""
    t = np.clip((value - low) / (high - low), 0, 1)
    return np.asarray(t * t * (3 - 2 * t))


def _picture(rgb: Floats, *, mean: float | None = None) -> Picture:
    """Colours as uint8, first scaled to a mean luminance where one is given."""
    scale = 1.0 if mean is None else mean / luminance(rgb).mean()
    return np.clip(np.rint(rgb * scale), 0, 255).astype(np.uint8)


def _square() -> tuple[Floats, Floats]:
    """x to the right and y downwards at every texel's centre, from -1 to 1."""
    y, x = np.indices((SIDE, SIDE))
    return (x + 0.5) * 2 / SIDE - 1, (y + 0.5) * 2 / SIDE - 1


def _turned(x: Floats, y: Floats, *, degrees: float) -> tuple[Floats, Floats]:
    """Coordinates along and across a line at this angle, clockwise on the picture from the horizontal."""
    cos, sin = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
    return x * cos + y * sin, y * cos - x * sin
