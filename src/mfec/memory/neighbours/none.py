"""No neighbours: for states that are names, and none is near another."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfec.config import AgentConfig
from mfec.memory.neighbours.stateless import StatelessIndex


class NoIndex(StatelessIndex):
    """Finds nothing, so that the memory knows exact matches alone. Arguments as of any index."""

    name = active = "none"

    def __init__(
        self,
        states: NDArray[np.float32],
        entry_ids: NDArray[np.int64],
        recall: float = AgentConfig.recall,
        *,
        k: int = AgentConfig.k,
    ) -> None:
        self.n_actions = len(states)

    @staticmethod
    def bytes_per_entry(dim: int) -> int:
        """What the index adds to one entry."""
        return 0

    def put(self, actions: NDArray[np.int64], slots: NDArray[np.int64]) -> None:
        """Nothing to do."""

    def search(
        self, states: NDArray[np.float32], wanted: NDArray[np.bool_], k: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """No entries."""
        shape = (len(states), self.n_actions, k)
        return np.full(shape, -1), np.full(shape, np.inf)

    def restore(
        self,
        actions: NDArray[np.int64],
        slots: NDArray[np.int64],
        settings: dict[str, Any],
        tensors: dict[str, NDArray[Any]],
    ) -> None:
        """Nothing to do."""
