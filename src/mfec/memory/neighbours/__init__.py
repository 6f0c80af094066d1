"""Neighbour indexes: find the k nearest states in one action buffer."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

INDEXES = ("exact",)


class NeighbourIndex(Protocol):
    """What the episodic memory asks of an index over its action buffers."""

    name: str

    def put(self, actions: NDArray[np.int64], slots: NDArray[np.int64]) -> None:
        """Take in the states that now stand in these slots, new ones and replaced ones alike."""

    def search(
        self, states: NDArray[np.float32], wanted: NDArray[np.bool_], k: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Slots, int64 (n, n_actions, k), -1 where there are none, and squared distances of the nearest entries."""


def make_index(name: str, states: NDArray[np.float32], entry_ids: NDArray[np.int64]) -> NeighbourIndex:
    """The index of that name over `states`, float32 (n_actions, capacity, dim)."""
    from mfec.memory.neighbours.exact import ExactIndex

    if name == "exact":
        return ExactIndex(states, entry_ids)
    raise ValueError(f"unknown index {name!r}; there is: {', '.join(INDEXES)}")


def index_bytes_per_entry(name: str, dim: int) -> int:
    """What the index of that name adds to the bytes of one entry."""
    from mfec.memory.neighbours.exact import ExactIndex

    return ExactIndex.bytes_per_entry(dim)
