"""The order in which full action buffers give up entries."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

QUEUE_LENGTH = 4096


class EvictionOrder:
    """For each action, a queue of the entries with the smallest ticks, refilled when it runs out.

    Ticks only grow. So an entry of the queue whose tick is unchanged is still the oldest of its buffer, and one whose
    tick has changed is skipped: finding the oldest of a million entries takes microseconds. Entries with equal ticks
    (neighbours of one estimate) are ordered by entry id.
    """

    def __init__(self, ticks: NDArray[np.int64], entry_ids: NDArray[np.int64]) -> None:
        """ticks, entry_ids: int64 (n_actions, capacity), read in place."""
        n_actions, capacity = ticks.shape
        self._ticks = ticks
        self._entry_ids = entry_ids
        self._length = min(QUEUE_LENGTH, capacity)
        self.queue = np.empty((n_actions, self._length, 2), np.int64)  # (slot, tick), the oldest last
        self.queued = np.zeros(n_actions, np.int64)

    def refill(self, action: int) -> None:
        """Queue the oldest entries of a full buffer."""
        ticks = self._ticks[action]
        last = np.partition(ticks, self._length - 1)[self._length - 1]
        slots = np.flatnonzero(ticks <= last)
        order = np.lexsort((self._entry_ids[action, slots], ticks[slots]))[: self._length]
        oldest = slots[order][::-1]
        self.queue[action, : len(oldest), 0] = oldest
        self.queue[action, : len(oldest), 1] = ticks[oldest]
        self.queued[action] = len(oldest)

    def forget(self) -> None:
        """Drop all queues: entries have changed their places."""
        self.queued[:] = 0
