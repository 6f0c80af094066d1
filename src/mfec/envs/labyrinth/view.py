"""A camera of some resolution in a level: all that drawing needs and that does not depend on the player."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mfec.envs.labyrinth.atlas import COPIES, SKY_BITS
from mfec.envs.labyrinth.textures import SIDE
from mfec.envs.labyrinth.world import World

FIELD_OF_VIEW = 90.0  # degrees, across
SAMPLES = 2  # a side of a pixel: every pixel is the mean of 2 x 2 samples
DARKEST, DIMMING = 0.45, 3000.0  # light falls with the distance, to no less than that share


class View(NamedTuple):
    """The tables of a camera of w x h samples."""

    width: int  # in pixels
    height: int
    focal: float  # samples that a unit spans at a distance of one
    aside: NDArray[np.float64]  # (w,): how far right a ray goes while it goes one ahead
    sky_columns: NDArray[np.float64]  # (w,): columns of the sky to the right of the middle
    sky_rows: NDArray[np.int32]  # (h,): of the sky's picture, for samples above the horizon
    distances: NDArray[np.float64]  # (h,): at which a sample sees the floor, or above the horizon the ceiling
    copies: NDArray[np.int64]  # (h,): the copy of the floor's or the ceiling's texture that fits
    light: NDArray[np.int32]  # (h,): of 256


def build_view(world: World, width: int, height: int) -> View:
    """A camera of width x height pixels in a level."""
    w, h = width * SAMPLES, height * SAMPLES
    focal = w / 2.0 / math.tan(math.radians(FIELD_OF_VIEW / 2.0))
    aside = (np.arange(w, dtype=np.float64) + 0.5 - w / 2.0) / focal
    below = np.arange(h) + 0.5 - h / 2.0  # samples below the horizon
    distances = np.where(below > 0, world.heights[0], world.heights[1]) * focal / np.abs(below)
    elevation = np.degrees(np.arctan(np.maximum(-below, 0.0) / focal))
    return View(
        width=width,
        height=height,
        focal=focal,
        aside=aside,
        sky_columns=np.degrees(np.arctan(aside)) / 360.0 * 2**SKY_BITS,
        sky_rows=np.clip(SIDE - 1 - elevation / 60.0 * SIDE, 0, SIDE - 1).astype(np.int32),
        distances=distances,
        # A sample covers more of the floor along the view than across it; the copy is chosen by the mean of the two.
        copies=fitting_copy(distances / focal * np.sqrt(np.maximum(distances / world.heights[0], 1.0)), world.tile),
        light=np.rint(256.0 * brightness(distances)).astype(np.int32),
    )


def fitting_copy(spans: NDArray[np.float64], tile: float) -> NDArray[np.int64]:
    """The copy of a texture for samples that span so many units each: about one texel to a sample."""
    texels = spans * SIDE / tile
    return np.clip(np.rint(np.log2(np.maximum(texels, 1.0))), 0, COPIES - 1).astype(np.int64)


def brightness(distances: NDArray[np.float64]) -> NDArray[np.float64]:
    """Light at a distance."""
    return np.maximum(DARKEST, 1.0 - distances / DIMMING)
