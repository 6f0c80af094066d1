"""Observations that are numbers, as the page shows them: the first so many of each, in few digits."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from mfec.episodic_agent import EpisodicAgent
from mfec.history.frame_codec import picture_shape

MOST_NUMBERS = 128  # of an observation; what has more is a picture to people, or tells them nothing
FEW_NUMBERS = 8  # that there is room for on the card of a memory
DIGITS = 6  # the page shows four


def numbers_in(space: spaces.Space[Any]) -> int | None:
    """How many numbers an observation is; None where it is a picture."""
    return None if picture_shape(space) is not None else math.prod(space.shape or ())


def numbers_kept(agent: EpisodicAgent) -> bool:
    """Whether the states in an agent's memory are the numbers of its observations."""
    return numbers_in(agent.observation_space) is not None and agent.embedding.name in ("identity", "table")


def shown_numbers(observations: NDArray[Any], *, at_most: int = MOST_NUMBERS) -> NDArray[np.float64]:
    """The first numbers of each observation (n, ...), float64 (n, shown), to six significant digits."""
    size = math.prod(observations.shape[1:])
    flat = observations.reshape(len(observations), size)[:, : min(at_most, MOST_NUMBERS)].astype(np.float64)
    finite = np.isfinite(flat)
    sizes = np.abs(np.where(finite & (flat != 0.0), flat, 1.0))
    # Numbers of a million and more lose no digits that stand before the point.
    scale = 10.0 ** np.clip(DIGITS - 1 - np.floor(np.log10(sizes)), 0, 300)
    with np.errstate(over="ignore", invalid="ignore"):
        rounded: NDArray[np.float64] = np.round(flat * scale) / scale
    return np.where(np.isfinite(rounded), rounded, flat)
