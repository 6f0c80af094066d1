"""Work shared among threads; it must release Python's lock."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache


def n_threads() -> int:
    """Threads to use: `MFEC_THREADS`, or one for each core of this process."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, int(os.environ.get("MFEC_THREADS", cores)))


def on_all_cores(do: Callable[[int], None], shares: int) -> None:
    """Do all shares of the work, in any order, and return when they are done."""
    if shares == 1:
        do(0)
    else:
        Work(do, shares, helpers=shares - 1).finish()


class Work:
    """Shares of work that worker threads do in any order, together with the thread that calls `finish`.

    The calling thread takes shares too, and never waits for one that no thread has begun: if another process holds the
    other cores, it does everything by itself. (A parallel loop that waits for every thread took 10 ms instead of 0.1 ms
    a step beside a busy process.)
    """

    def __init__(self, do: Callable[[int], None], shares: int, *, helpers: int) -> None:
        self._do = do
        self._left = iter(range(shares))
        self._helpers = [_pool().submit(self._take) for _ in range(helpers)]

    def finish(self) -> None:
        """Do the shares that no thread has begun, and wait for the others; an error in any share is raised here."""
        self._take()
        for helper in self._helpers:
            if not helper.cancel():
                helper.result()

    def _take(self) -> None:
        for share in self._left:
            self._do(share)


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(n_threads(), thread_name_prefix="mfec")
