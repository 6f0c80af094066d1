"""Exact k-nearest-neighbour search on the CPU.

A full float32 scan of 6 x 20,000 states of 64 numbers reads 31 MB a step, several emulator steps' worth of time.
So each state also has a byte code per number (a quarter of the bytes, integer arithmetic). Distances between codes
bound distances from below; only states that this bound cannot rule out are measured, in float64, and ranked. The
answer is exact, and the same on every machine, for every batch size and every number of threads.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfec.compiling import njit
from mfec.config import AgentConfig
from mfec.memory.neighbours.codes import (
    BLOCK,
    LEVELS,
    PART,
    SAMPLE,
    all_entries,
    empty_blocks,
    encode,
    fit_code_book,
    measure_rows,
    parts_of,
    put_code,
    shift_query,
    squared_distance,
)
from mfec.memory.neighbours.scan import enter
from mfec.memory.neighbours.shares import fair_shares
from mfec.memory.neighbours.stateless import StatelessIndex
from mfec.threads import on_all_cores

OUTSIDE = 0.01  # share of numbers below the coded range, and above
RUN = 64  # code distances that are passed over together when the smallest of them is too large


class ExactIndex(StatelessIndex):
    """The exact neighbour index over all action buffers.

    It reads the states in place (`states`: float32 (n_actions, capacity, dim)) and keeps their codes. It finds all
    neighbours, whatever their share (`recall`) and number (k) that an index is to be set for.
    """

    name = active = "exact"

    def __init__(
        self, states: NDArray[np.float32], entry_ids: NDArray[np.int64], recall: float = 1.0, *, k: int = AgentConfig.k
    ) -> None:
        n_actions, capacity, dim = states.shape
        self.n_actions = n_actions
        self._states = states
        self._entry_ids = entry_ids
        self._sizes = np.zeros(n_actions, np.int64)
        n_blocks = -(-capacity // BLOCK)
        self._codes = empty_blocks((n_actions, n_blocks), dim)
        self._norms = np.zeros((n_actions, n_blocks * BLOCK), np.int32)
        self._low = np.zeros(dim)
        self._scale = 1.0
        self._coded_for = 0  # entries there were when the code book was made

    @staticmethod
    def bytes_per_entry(dim: int) -> int:
        """What the index adds to one entry: its codes and their squared norm."""
        return parts_of(dim) * PART + 4

    def put(self, actions: NDArray[np.int64], slots: NDArray[np.int64]) -> None:
        """Take in the states that now stand in these slots, new ones and replaced ones alike."""
        if len(actions) == 0:
            return
        np.maximum.at(self._sizes, actions, slots + 1)
        if self._sizes.sum() >= 2 * self._coded_for:
            self._make_code_book()
        else:
            _encode(self._states, actions, slots, self._low, self._scale, self._codes, self._norms)

    def search(
        self, states: NDArray[np.float32], wanted: NDArray[np.bool_], k: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The k nearest entries of each wanted (state, action) pair, nearest first, older first among equals.

        states: float32 (n, dim), wanted: bool (n, n_actions). Returns slots, int64 (n, n_actions, k), -1 where
        the buffer holds fewer than k, and their squared distances, float64 (n, n_actions, k).
        """
        slots = np.full((*wanted.shape, k), -1, np.int64)
        squared = np.full((*wanted.shape, k), np.inf)
        shares = fair_shares(wanted, self._sizes)

        def search_share(share: int) -> None:
            _search_pairs(
                self._states, self._entry_ids, self._sizes, self._codes, self._norms, self._low, self._scale,
                states, wanted, shares, share, k, slots, squared,
            )  # fmt: skip

        on_all_cores(search_share, int(shares.max(initial=0)) + 1)
        return slots, squared

    def restore(
        self,
        actions: NDArray[np.int64],
        slots: NDArray[np.int64],
        settings: dict[str, Any],
        tensors: dict[str, NDArray[Any]],
    ) -> None:
        """Take in the entries in these slots."""
        self.put(actions, slots)

    def _make_code_book(self) -> None:
        """Fit the coded range to the bulk of what is stored, and code everything again."""
        actions, slots = all_entries(self._sizes)
        self._coded_for = len(slots)
        some = slice(None, None, max(1, len(slots) // SAMPLE))
        self._low, self._scale = fit_code_book(self._states[actions[some], slots[some]], OUTSIDE)
        _encode(self._states, actions, slots, self._low, self._scale, self._codes, self._norms)


@njit()
def _encode(states, actions, slots, low, scale, codes, norms):
    code = np.zeros(codes.shape[2] * PART, np.uint8)
    for row in range(len(actions)):
        action, slot = actions[row], slots[row]
        encode(states[action, slot], low, scale, code)
        put_code(codes[action], norms[action], slot, code)


@njit(nogil=True)
def _search_pairs(
    states, entry_ids, sizes, codes, norms, low, scale, queries, wanted, shares, share, k, slots, squared
):  # fmt: skip
    for row in range(wanted.shape[0]):
        for action in range(wanted.shape[1]):
            if wanted[row, action] and shares[row, action] == share and sizes[action] > 0:
                _search_one(
                    states[action], entry_ids[action], sizes[action], codes[action], norms[action], low, scale,
                    queries[row], k, slots[row, action], squared[row, action],
                )  # fmt: skip


@njit(nogil=True)
def _search_one(states, entry_ids, size, codes, norms, low, scale, query, k, slots, squared):
    dim = states.shape[1]
    code = np.zeros(codes.shape[1] * PART, np.uint8)
    encode(query, low, scale, code)
    error = 0.0  # how far the query's code lies from the query, or from the nearest point of the range
    for j in range(dim):
        error += (min(max((query[j] - low[j]) / scale, 0.0), float(LEVELS)) - code[j]) ** 2
    shifted = np.empty(len(code), np.int8)
    norm = shift_query(code, shifted)
    coded = np.empty((size + RUN - 1) // RUN * RUN, np.int32)
    measure_rows(codes, norms, 0, size, shifted, norm, coded)

    smallest = _run_minima(coded, size)

    # The k smallest code distances.
    first = np.full(k, -1, np.int64)
    worst = np.iinfo(np.int32).max
    for run in range(len(smallest)):
        if smallest[run] >= worst:
            continue
        for i in range(run * RUN, min((run + 1) * RUN, size)):
            if coded[i] < worst:
                at = k - 1
                while at > 0 and (first[at - 1] < 0 or coded[first[at - 1]] > coded[i]):
                    first[at] = first[at - 1]
                    at -= 1
                first[at] = i
                if first[k - 1] >= 0:
                    worst = coded[first[k - 1]]

    # No true neighbour is farther than the farthest of those k. A code is off by half a step in each number at most
    # (1% more for rounding), so beyond this limit lies nothing nearer.
    limit = np.inf
    if size >= k:
        farthest = 0.0
        for i in first:
            farthest = max(farthest, squared_distance(states[i], query))
        limit = (np.sqrt(farthest) / scale + 1.01 * (0.5 * np.sqrt(dim) + np.sqrt(error))) ** 2 + 1.0

    # The true distances of what is left, in order.
    for run in range(len(smallest)):
        if smallest[run] > limit:
            continue
        for i in range(run * RUN, min((run + 1) * RUN, size)):
            if coded[i] <= limit:
                enter(squared_distance(states[i], query), i, entry_ids, slots, squared)


@njit()
def _run_minima(coded, size):
    """The smallest of each run of distances; `coded` is filled up to whole runs."""
    minima = np.empty(len(coded) // RUN, np.int32)
    for i in range(size, len(coded)):
        coded[i] = np.iinfo(np.int32).max
    runs = coded.reshape(len(minima), RUN)
    for run in range(len(minima)):
        smallest = runs[run, 0]
        for i in range(RUN):  # a fixed length vectorises
            smallest = min(smallest, runs[run, i])
        minima[run] = smallest
    return minima
