"""A full scan of one buffer: for small buffers, and to measure the recall of an index."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mfec.compiling import njit
from mfec.memory.neighbours.codes import squared_distance

TINY = 1e-30


class Stored(NamedTuple):
    """The states of all action buffers, as compiled functions take them."""

    states: NDArray[np.float32]  # (n_actions, capacity, dim)
    entry_ids: NDArray[np.int64]  # (n_actions, capacity): a smaller one is older
    sizes: NDArray[np.int64]  # (n_actions,): entries of each buffer


@njit(nogil=True)
def scan(states, entry_ids, query, slots, squared):
    """The nearest of all states (n, dim): slots and squared distances, nearest first, older first among equals."""
    for slot in range(len(states)):
        if bounds(states, slot, query)[0] <= squared[-1]:
            enter(squared_distance(states[slot], query), slot, entry_ids, slots, squared)


@njit(nogil=True)
def bounds(states, slot, query):
    """What the squared distance to a state lies between, at a tenth of its cost."""
    # A float32 distance is right to 1 in 1,000 for thousands of numbers, unless it overflows or vanishes.
    rough = np.float64(_rough_distance(states, slot, query))
    if TINY < rough < np.inf:
        return 0.999 * rough, 1.001 * rough
    whole = squared_distance(states[slot], query)
    return whole, whole


@njit(nogil=True)
def enter(distance, slot, entry_ids, slots, squared):
    """Insert a slot into the list of the nearest, unless all of those are nearer or, at equal distance, older."""
    at, end = len(slots), len(slots)
    while at > 0 and (
        squared[at - 1] > distance
        or (squared[at - 1] == distance and (slots[at - 1] < 0 or entry_ids[slots[at - 1]] > entry_ids[slot]))
    ):
        at -= 1
    if at < end:
        for move in range(end - 1, at, -1):
            slots[move] = slots[move - 1]
            squared[move] = squared[move - 1]
        slots[at] = slot
        squared[at] = distance


@njit(nogil=True, fastmath={"contract", "reassoc"})
def _rough_distance(states, slot, query):
    total = np.float32(0.0)
    for j in range(len(query)):
        step = states[slot, j] - query[j]
        total += step * step
    return total
