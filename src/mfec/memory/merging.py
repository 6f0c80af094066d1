"""Two memories can be merged only if they have one embedding, which the states that both know show."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

# Of one embedding, two states of an observation differ by rounding at most, some 1e-6 of their norm on another device.
TOLERANCE = 1e-3


def refuse_other_embedding(ours: NDArray[np.float32], theirs: NDArray[np.float32]) -> None:
    """Raise if two memories have other states, float32 (n, dim), for most of the observations that both know."""
    exactly = ours.astype(np.float64)
    apart = np.linalg.norm(exactly - theirs, axis=1) > TOLERANCE * np.linalg.norm(exactly, axis=1)
    if 2 * np.count_nonzero(apart) > len(apart):
        raise ValueError(
            f"{np.count_nonzero(apart):,} of {len(apart):,} observations that both memories know have other states in "
            "the one than in the other: their embeddings differ. Merge memories of one embedding, as of agents that "
            "were made with the same `embedding=` object"
        )
