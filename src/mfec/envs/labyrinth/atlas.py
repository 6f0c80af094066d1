"""All textures in one array for each plane (grey, red, green, blue), each in ever smaller copies for the distance."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mfec.envs.labyrinth.textures import SIDE, luminance, sky, sprites, textures

TEXTURES = ("brick", "stone", "wood", "moss", "floor", "ceiling", "cue_off", "cue_red", "cue_green")
FLOOR, CEILING, CUES = TEXTURES.index("floor"), TEXTURES.index("ceiling"), TEXTURES.index("cue_off")
SPRITES = ("apple", "lemon")

BITS = 6  # SIDE is 2 ** BITS
COPIES = 5  # 64, 32, 16, 8 and 4 texels a side
# Where the copies of a texture begin, and the texels of all of them.
OFFSETS = np.cumsum([0, *(4 ** (BITS - level) for level in range(COPIES))])[:COPIES]
TEXELS = int(OFFSETS[-1]) + 4 ** (BITS - COPIES + 1)
SKY_BITS = 8  # its columns are 2 ** SKY_BITS

GREY, RED, GREEN, BLUE = range(4)  # planes


class Atlas(NamedTuple):
    """Pictures of one plane. Texels of a column lie side by side, since walls are drawn column by column."""

    textures: NDArray[np.uint8]  # (textures * TEXELS,)
    sprites: NDArray[np.uint8]  # (sprites * TEXELS,)
    masks: NDArray[np.bool_]  # (sprites * TEXELS,): where a sprite is not transparent
    sky: NDArray[np.uint8]  # (256 * 64,): columns around, rows from the top to the horizon


@cache
def atlases() -> tuple[Atlas, ...]:
    """The atlas of each plane."""
    assert SIDE == 2**BITS
    walls, fruit, around = textures(), sprites(), sky()
    covers = {name: _copies(mask.astype(np.float64)[..., None])[:, 0] for name, (_, mask) in fruit.items()}
    masks = np.concatenate([covers[name] >= 0.5 for name in SPRITES])
    drawn = np.concatenate([_copies(_planes(walls[name])) for name in TEXTURES])
    # Copies of a sprite average its colours where it is not transparent.
    shown = np.concatenate([
        _copies(_planes(picture) * mask[..., None]) / np.maximum(covers[name], 1e-9)[:, None]
        for name, (picture, mask) in ((name, fruit[name]) for name in SPRITES)
    ])  # fmt: skip
    heaven = _planes(around).transpose(1, 0, 2).reshape(-1, 4)
    return tuple(
        Atlas(_bytes(drawn[:, plane]), _bytes(shown[:, plane]), masks, _bytes(heaven[:, plane])) for plane in range(4)
    )


def _planes(picture: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Grey, red, green and blue of a picture, (h, w, 4)."""
    return np.concatenate([luminance(picture)[..., None], picture.astype(np.float64)], axis=-1)


def _copies(picture: NDArray[np.float64]) -> NDArray[np.float64]:
    """The picture and its smaller copies, column by column, (TEXELS, planes)."""
    copies = []
    for _ in range(COPIES):
        copies.append(picture.transpose(1, 0, 2).reshape(-1, picture.shape[-1]))
        picture = (picture[::2, ::2] + picture[1::2, ::2] + picture[::2, 1::2] + picture[1::2, 1::2]) / 4.0
    return np.concatenate(copies)


def _bytes(numbers: NDArray[np.float64]) -> NDArray[np.uint8]:
    return np.ascontiguousarray(np.clip(np.rint(numbers), 0, 255).astype(np.uint8))
