"""A few of the states that were looked up recently. Indexes are tried on them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

KEPT = 64
EVERY = 16  # look-ups between two that are kept: consecutive frames are too much alike


class RecentQueries:
    """The last `KEPT` of every sixteenth state that was looked up."""

    def __init__(self, dim: int) -> None:
        self.kept = np.zeros((KEPT, dim), np.float32)
        self.seen = 0

    def add(self, states: NDArray[np.float32]) -> None:
        """Count look-ups of states, float32 (n, dim), and keep every sixteenth."""
        for row in range(-self.seen % EVERY, len(states), EVERY):
            self.kept[(self.seen + row) // EVERY % KEPT] = states[row]
        self.seen += len(states)

    @property
    def states(self) -> NDArray[np.float32]:
        """float32 (n, dim), n at most `KEPT`."""
        return self.kept[: min(KEPT, -(-self.seen // EVERY))]

    @property
    def full(self) -> bool:
        """Whether `KEPT` queries are there."""
        return len(self.states) == KEPT

    def restore(self, kept: NDArray[np.float32], seen: int) -> None:
        """Continue from the queries of a checkpoint."""
        if kept.shape != self.kept.shape or kept.dtype != self.kept.dtype or seen < 0:
            raise ValueError("its recent look-ups do not fit its states")
        self.kept, self.seen = kept.copy(), seen
