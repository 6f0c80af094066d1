"""Work shared among threads. The work must release Python's lock."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import numpy as np
from numpy.typing import NDArray

WORTH_SHARING = 65_536  # entries to search; below this, waking another thread costs as much as it saves


def n_threads() -> int:
    """Threads to use: `MFEC_THREADS`, or as many as there are cores for this process."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, int(os.environ.get("MFEC_THREADS", cores)))


def fair_shares(wanted: NDArray[np.bool_], sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """The thread that searches each wanted (state, action) pair: the largest first, each to the least loaded thread.

    wanted: bool (n, n_actions), sizes: int64 (n_actions,), the entries of each action's buffer.
    """
    shares = np.zeros(wanted.shape, np.int64)
    if len(wanted) * int(sizes.sum()) < WORTH_SHARING or (threads := n_threads()) == 1:
        return shares
    flat, loads = np.where(wanted, sizes, 0).ravel(), [0] * threads
    for part in np.argsort(-flat, kind="stable").tolist():
        lightest = loads.index(min(loads))
        shares.flat[part] = lightest
        loads[lightest] += int(flat[part])
    return shares


def on_all_cores(do: Callable[[int], None], shares: int) -> None:
    """Do all shares of some work, in any order.

    The calling thread takes shares too and never waits for one that nobody has begun: where another process holds the
    other cores, it does everything by itself. (A parallel loop that waits for every thread to show up took 10 ms
    instead of 0.1 ms a step beside a busy neighbour.)
    """
    left = iter(range(shares))

    def take() -> None:
        for share in left:
            do(share)

    helpers = [_pool().submit(take) for _ in range(shares - 1)]
    take()
    for helper in helpers:
        if not helper.cancel():
            helper.result()


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(n_threads(), thread_name_prefix="mfec")
