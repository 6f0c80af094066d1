"""What an agent with an episodic memory counts between two rows of progress."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mfec.interface import Metrics
from mfec.memory import EpisodicMemory


@dataclass
class Tally:
    """Counts since the last row of progress."""

    steps: int = 0
    lookups: int = 0
    exact: int = 0
    exact_chosen: int = 0
    lookup_seconds: float = 0.0
    write_seconds: float = 0.0

    def count(self, exact: NDArray[np.bool_], actions: NDArray[np.int64]) -> None:
        """Look-ups of all actions in some environments, bool (m, n_actions), and the actions taken there, (m,)."""
        self.steps += len(actions)
        self.lookups += exact.size
        self.exact += int(np.count_nonzero(exact))
        self.exact_chosen += sum(row[action] for row, action in zip(exact.tolist(), actions.tolist(), strict=True))

    def metrics(self, memory: EpisodicMemory) -> Metrics:
        """Shares of exact matches, milliseconds of look-ups and writes in a step, and what the memory holds."""
        recall = memory.measured_recall
        return {
            "exact_match_rate": round(self.exact / self.lookups, 6) if self.lookups else None,
            "exact_match_rate_chosen": round(self.exact_chosen / self.steps, 6) if self.steps else None,
            "memory_entries": len(memory),
            "memory_bytes": memory.nbytes,
            "memory_fill": round(float(max(memory.sizes) / memory.capacity), 6),
            "lookup_ms": round(1000.0 * self.lookup_seconds / self.steps, 4) if self.steps else None,
            "write_ms": round(1000.0 * self.write_seconds / self.steps, 4) if self.steps else None,
            "recall": None if recall is None else round(recall, 4),
        }
