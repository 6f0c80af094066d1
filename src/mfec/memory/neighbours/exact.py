"""Exact k-nearest-neighbour search on the CPU.

A full float32 scan of 6 x 20,000 states of 64 numbers reads 31 MB a step, several emulator steps' worth of time.
So each state also has a byte code per number (a quarter of the bytes, integer arithmetic). Distances between codes
bound distances from below; only states that this bound cannot rule out are measured, in float64, and ranked. The
answer is exact, and the same on every machine, for every batch size and every number of threads.
"""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from mfec.memory.neighbours.threads import fair_shares, on_all_cores

CODE_BLOCK = 64  # codes are padded to whole blocks: the inner loop then has a fixed length and vectorises
LEVELS = 255
SAMPLE = 4096  # states that a code book is made from
RUN = 64  # code distances that are passed over together when the smallest of them is too large


class ExactIndex:
    """The exact neighbour index over all action buffers.

    It reads the states in place (`states`: float32 (n_actions, capacity, dim)) and keeps their codes.
    """

    name = "exact"

    def __init__(self, states: NDArray[np.float32], entry_ids: NDArray[np.int64]) -> None:
        n_actions, capacity, dim = states.shape
        self._states = states
        self._entry_ids = entry_ids
        self._sizes = np.zeros(n_actions, np.int64)
        self._codes = np.zeros((n_actions, capacity, -(-dim // CODE_BLOCK), CODE_BLOCK), np.uint8)
        self._norms = np.zeros((n_actions, capacity), np.int32)
        self._low = np.zeros(dim)
        self._scale = 1.0
        self._coded_for = 0  # entries there were when the code book was made

    @staticmethod
    def bytes_per_entry(dim: int) -> int:
        """What the index adds to one entry: its codes and their squared norm."""
        return -(-dim // CODE_BLOCK) * CODE_BLOCK + 4

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

    def _make_code_book(self) -> None:
        """Fit the coded range to the bulk of what is stored, and code everything again.

        States outside the range are coded as its nearest point. That never lengthens a distance, so the bound
        below holds for them too; a range that covered every outlier would be too coarse to rule anything out.
        """
        actions = np.repeat(np.arange(len(self._sizes)), self._sizes)
        slots = np.concatenate([np.arange(size) for size in self._sizes])
        self._coded_for = len(slots)
        some = slice(None, None, max(1, len(slots) // SAMPLE))
        sample = self._states[actions[some], slots[some]].astype(np.float64)
        self._low, high = np.quantile(sample, (0.01, 0.99), axis=0)
        self._scale = float((high - self._low).max()) / LEVELS or 1.0
        _encode(self._states, actions, slots, self._low, self._scale, self._codes, self._norms)


@numba.njit(cache=True)
def _code(value: float, low: float, scale: float) -> int:
    return int(min(max((value - low) / scale + 0.5, 0.0), float(LEVELS)))


@numba.njit(cache=True)
def _encode(states, actions, slots, low, scale, codes, norms):
    for row in range(len(actions)):
        action, slot = actions[row], slots[row]
        norm = 0
        for j in range(states.shape[2]):
            code = _code(states[action, slot, j], low[j], scale)
            codes[action, slot, j // CODE_BLOCK, j % CODE_BLOCK] = code
            norm += code * code
        norms[action, slot] = norm


@numba.njit(cache=True, nogil=True)
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


@numba.njit(cache=True, nogil=True)
def _search_one(states, entry_ids, size, codes, norms, low, scale, query, k, slots, squared):
    dim = states.shape[1]
    query_codes = np.zeros(codes.shape[1:], np.int16)
    query_norm = 0
    error = 0.0  # how far the query's code lies from the query, or from the nearest point of the range
    for j in range(dim):
        code = _code(query[j], low[j], scale)
        query_codes[j // CODE_BLOCK, j % CODE_BLOCK] = code
        query_norm += code * code
        error += (min(max((query[j] - low[j]) / scale, 0.0), float(LEVELS)) - code) ** 2
    coded = np.empty((size + RUN - 1) // RUN * RUN, np.int32)
    _measure_codes(codes, norms, size, query_codes, np.int32(query_norm), coded)

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
            farthest = max(farthest, _squared_distance(states[i], query))
        limit = (np.sqrt(farthest) / scale + 1.01 * (0.5 * np.sqrt(dim) + np.sqrt(error))) ** 2 + 1.0

    # The true distances of what is left, in order.
    for run in range(len(smallest)):
        if smallest[run] > limit:
            continue
        for i in range(run * RUN, min((run + 1) * RUN, size)):
            if coded[i] <= limit:
                distance = _squared_distance(states[i], query)
                at = k
                while at > 0 and (
                    slots[at - 1] < 0
                    or squared[at - 1] > distance
                    or (squared[at - 1] == distance and entry_ids[slots[at - 1]] > entry_ids[i])
                ):
                    at -= 1
                if at < k:
                    for move in range(k - 1, at, -1):
                        slots[move] = slots[move - 1]
                        squared[move] = squared[move - 1]
                    slots[at] = i
                    squared[at] = distance


@numba.njit(cache=True)
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


@numba.njit(cache=True)
def _measure_codes(codes, norms, size, query_codes, query_norm, coded):
    """Squared distances between codes, in units of the scale: whole numbers, so nothing is rounded."""
    for i in range(size):
        coded[i] = norms[i] + query_norm
    for block in range(codes.shape[1]):
        for i in range(size):
            dot = numba.int32(0)
            for j in range(CODE_BLOCK):
                dot += numba.int32(numba.int16(codes[i, block, j])) * numba.int32(query_codes[block, j])
            coded[i] -= 2 * dot


@numba.njit(cache=True)
def _squared_distance(state, query):
    total = 0.0
    for j in range(len(query)):
        step = np.float64(state[j]) - np.float64(query[j])  # numba's float() of a float32 is a float32
        total += step * step
    return total
