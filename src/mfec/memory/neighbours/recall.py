"""How many of the true neighbours an approximate search finds, measured during a run."""

from __future__ import annotations

import random
import threading
import time
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from mfec.memory.neighbours.scan import scan

SHARE_OF_TIME = 0.01
LAST = 100  # checks that the mean is taken over
PART = 16_384  # entries, some milliseconds: a million, which a write would wait for, take a tenth of a second


class RecallMeter:
    """Compares a random look-up with a full scan of its buffer now and then, in a background thread.

    The scan reads the buffer in place, so call `stop` before you write to it. Scans take no more than 1% of the time
    since the first look-up.
    """

    def __init__(self, states: NDArray[np.float32]) -> None:
        """states: float32 (n_actions, capacity, dim), read in place."""
        self._states = states
        self._rng = random.Random()  # not the run's: what is checked must not change the run
        self._pool: ThreadPoolExecutor | None = None
        self._running: Future[tuple[float | None, float]] | None = None
        self._stopped = threading.Event()
        self._checks: deque[float] = deque(maxlen=LAST)
        self._began = 0.0
        self._spent = 0.0

    @property
    def recall(self) -> float | None:
        """Mean share of true neighbours found in the last 100 checks, or None before the first."""
        return sum(self._checks) / len(self._checks) if self._checks else None

    def check(
        self,
        states: NDArray[np.float32],
        wanted: NDArray[np.bool_],
        squared: NDArray[np.float64],
        sizes: NDArray[np.int64],
    ) -> None:
        """Start a check of one of these squared distances (n, n_actions, k), unless the time is used up."""
        now = time.perf_counter()
        self._began = self._began or now
        if self._running is not None and self._running.done():
            self.finish()
        if self._running is not None or self._spent > SHARE_OF_TIME * (now - self._began):
            return
        searched = np.argwhere(wanted & (sizes > 0))
        if len(searched) == 0:
            return
        row, action = self._rng.choice(searched.tolist())
        self._pool = self._pool or ThreadPoolExecutor(1, thread_name_prefix="mfec-recall")
        entries = self._states[action, : sizes[action]]
        self._stopped.clear()
        query, found = states[row].copy(), squared[row, action].copy()
        self._running = self._pool.submit(_check, entries, query, found, self._stopped)

    def finish(self) -> None:
        """Wait for the check that is under way, if there is one."""
        if self._running is None:
            return
        share, seconds = self._running.result()
        self._running = None
        self._spent += seconds
        if share is not None:
            self._checks.append(share)

    def stop(self) -> None:
        """Let the check that is under way, if there is one, end after the part that it reads; it is not counted."""
        self._stopped.set()
        self.finish()


def _check(
    entries: NDArray[np.float32], query: NDArray[np.float32], found: NDArray[np.float64], stopped: threading.Event
) -> tuple[float | None, float]:
    """The share of the neighbours that was found, None if it was stopped before that; and the seconds it took."""
    began = time.perf_counter()
    k = min(len(found), len(entries))
    slots, truth = np.full(k, -1), np.full(k, np.inf)
    numbers = np.arange(PART)
    for first in range(0, len(entries), PART):
        if first and stopped.is_set():
            return None, time.perf_counter() - began
        scan(entries[first : first + PART], numbers, query, slots, truth)
    share = float(np.count_nonzero(found <= truth[-1]) / k)
    return share, time.perf_counter() - began
