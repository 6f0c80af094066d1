"""No neighbours: for states that are names, so that none is near another."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mfec.memory.neighbours.index import IndexInMemory


class NoIndex(IndexInMemory):
    """Finds no neighbours, so that the memory has exact matches only."""

    name = active = "none"

    @staticmethod
    def bytes_per_entry(dim: int) -> int:
        """Nothing beside its state."""
        return 0

    def find(
        self, states: NDArray[np.float32], wanted: NDArray[np.bool_], k: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """No entries."""
        shape = (*wanted.shape, k)
        return np.full(shape, -1), np.full(shape, np.inf)
