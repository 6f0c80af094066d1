"""How look-ups are divided among threads."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mfec.threads import n_threads

WORTH_SHARING = 131_072  # entries to search; below this, waking another thread costs as much as it saves


def fair_shares(wanted: NDArray[np.bool_], sizes: NDArray[np.int64]) -> tuple[NDArray[np.int64], int]:
    """The thread that searches each (state, action) pair, int64 (n, n_actions), and how many threads there are.

    Largest buffers first, to the least loaded thread.

    wanted: bool (n, n_actions), sizes: int64 (n_actions,), the entries of each action's buffer.
    """
    shares = np.zeros(wanted.shape, np.int64)
    if len(wanted) * sum(sizes.tolist()) < WORTH_SHARING or (threads := n_threads()) == 1:
        return shares, 1
    flat, loads = np.where(wanted, sizes, 0).ravel(), [0] * threads
    for part in np.argsort(-flat, kind="stable").tolist():
        lightest = loads.index(min(loads))
        shares.flat[part] = lightest
        loads[lightest] += int(flat[part])
    return shares, threads
