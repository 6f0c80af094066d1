"""Exact k-nearest-neighbour search on the CPU.

A full float32 scan of 6 x 20,000 states of 64 numbers reads 31 MB a step, several emulator steps' worth of time.
So each state also has a byte code per number (a quarter of the bytes, integer arithmetic). Distances between codes
bound distances from below; only states that this bound cannot rule out are measured, in float64, and ranked. The
result is exact, and the same on every machine, for every batch size and every number of threads.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mfec.compiling import njit
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
from mfec.memory.neighbours.index import IndexInMemory, Shape
from mfec.memory.neighbours.scan import Stored, enter
from mfec.memory.neighbours.shares import fair_shares
from mfec.threads import on_all_cores

OUTSIDE = 0.01  # share of numbers below the coded range, and above it
SMALLEST_CHANGE = 1024  # states taken in before the code book of a memory that has not grown is made anew, at least
CHUNK = 64  # code distances that are skipped together when the smallest of them is too large


class ExactIndex(IndexInMemory):
    """The exact neighbour index over all action buffers: the states, and a byte code for each of their numbers.

    It finds all neighbours, so it ignores `recall` and `k`, by which approximate indexes are set.
    """

    name = active = "exact"

    def __init__(self, shape: Shape, entry_ids: NDArray[np.int64], **settings: Any) -> None:
        super().__init__(shape, entry_ids, **settings)
        n_blocks = -(-self.capacity // BLOCK)
        self._codes = empty_blocks((self.n_actions, n_blocks), self.dim)
        self._norms = np.zeros((self.n_actions, n_blocks * BLOCK), np.int32)
        self._low = np.zeros(self.dim)
        self._scale = 1.0
        self._coded_for = 0  # entries at the time when the code book was made
        self._taken_in = 0  # states since then

    @staticmethod
    def bytes_per_entry(dim: int) -> int:
        """Bytes of its codes and their squared norm."""
        return parts_of(dim) * PART + 4

    def take_in(self, actions: NDArray[np.int64], slots: NDArray[np.int64]) -> None:
        """Code the states in these slots, which are new or have replaced others."""
        self.count_entries(actions, slots)
        self._taken_in += len(actions)
        # States that drift leave the coded range, and bounds no longer rule them out: 100,000 that had moved by four
        # standard deviations took 16 ms a look-up, and 0.3 with a code book of their own.
        if self._sizes.sum() >= 2 * self._coded_for or self._taken_in >= max(SMALLEST_CHANGE, self._coded_for):
            self._make_code_book()
        else:
            _encode(self._states, actions, slots, self._coded)

    def forget(self) -> None:
        """Make the next code book at once."""
        self._coded_for = 0

    @property
    def _coded(self) -> Coded:
        return Coded(self._codes, self._norms, self._low, self._scale)

    def find(
        self, states: NDArray[np.float32], wanted: NDArray[np.bool_], k: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The k nearest entries of each wanted (state, action) pair."""
        slots = np.full((*wanted.shape, k), -1, np.int64)
        squared = np.full((*wanted.shape, k), np.inf)
        shares = fair_shares(wanted, self._sizes)
        entries, coded = Stored(self._states, self._entry_ids, self._sizes), self._coded

        def search_share(share: int) -> None:
            _search_pairs(entries, coded, states, wanted, shares, share, k, slots, squared)

        on_all_cores(search_share, int(shares.max(initial=0)) + 1)
        return slots, squared

    def _make_code_book(self) -> None:
        """Fit the coded range to the bulk of what is stored, and code everything again."""
        actions, slots = all_entries(self._sizes)
        self._coded_for, self._taken_in = len(slots), 0
        some = slice(None, None, max(1, len(slots) // SAMPLE))
        self._low, self._scale = fit_code_book(self._states[actions[some], slots[some]], OUTSIDE)
        _encode(self._states, actions, slots, self._coded)


class Coded(NamedTuple):
    """The codes of all states, as compiled functions take them."""

    codes: NDArray[np.uint8]  # (n_actions, blocks, ...)
    norms: NDArray[np.int32]  # (n_actions, blocks * BLOCK)
    low: NDArray[np.float64]  # (dim,): where the coded range begins
    scale: float  # of one step of a code


@njit()
def _encode(states, actions, slots, coded):
    code = np.zeros(coded.codes.shape[2] * PART, np.uint8)
    for row in range(len(actions)):
        action, slot = actions[row], slots[row]
        encode(states[action, slot], coded.low, coded.scale, code)
        put_code(coded.codes[action], coded.norms[action], slot, code)


@njit(nogil=True)
def _search_pairs(stored, coded, queries, wanted, shares, share, k, slots, squared):
    for row in range(wanted.shape[0]):
        for action in range(wanted.shape[1]):
            if wanted[row, action] and shares[row, action] == share and stored.sizes[action] > 0:
                _search_one(stored, coded, action, queries[row], k, slots[row, action], squared[row, action])


@njit(nogil=True)
def _search_one(stored, coded_states, action, query, k, slots, squared):
    states, entry_ids, size = stored.states[action], stored.entry_ids[action], stored.sizes[action]
    codes, norms = coded_states.codes[action], coded_states.norms[action]
    low, scale = coded_states.low, coded_states.scale
    dim = states.shape[1]
    code = np.zeros(codes.shape[1] * PART, np.uint8)
    encode(query, low, scale, code)
    error = 0.0  # how far the query's code lies from the query, or from the nearest point of the range
    for j in range(dim):
        error += (min(max((query[j] - low[j]) / scale, 0.0), float(LEVELS)) - code[j]) ** 2
    shifted = np.empty(len(code), np.int8)
    norm = shift_query(code, shifted)
    coded = np.empty((size + CHUNK - 1) // CHUNK * CHUNK, np.int32)
    measure_rows(codes, norms, 0, size, shifted, norm, coded)

    smallest = _chunk_minima(coded, size)

    # The k smallest code distances.
    first = np.full(k, -1, np.int64)
    worst = np.iinfo(np.int32).max
    for chunk in range(len(smallest)):
        if smallest[chunk] >= worst:
            continue
        for i in range(chunk * CHUNK, min((chunk + 1) * CHUNK, size)):
            if coded[i] < worst:
                at = k - 1
                while at > 0 and (first[at - 1] < 0 or coded[first[at - 1]] > coded[i]):
                    first[at] = first[at - 1]
                    at -= 1
                first[at] = i
                if first[k - 1] >= 0:
                    worst = coded[first[k - 1]]

    # No true neighbour is farther than the farthest of those k. A code is off by at most half a step in each number
    # (1% more for rounding), so a state whose code is beyond this limit is no neighbour.
    limit = np.inf
    if size >= k:
        farthest = 0.0
        for i in first:
            farthest = max(farthest, squared_distance(states[i], query))
        limit = (np.sqrt(farthest) / scale + 1.01 * (0.5 * np.sqrt(dim) + np.sqrt(error))) ** 2 + 1.0

    # The remaining states, ranked by true distance.
    for chunk in range(len(smallest)):
        if smallest[chunk] > limit:
            continue
        for i in range(chunk * CHUNK, min((chunk + 1) * CHUNK, size)):
            if coded[i] <= limit:
                enter(squared_distance(states[i], query), i, entry_ids, slots, squared)


@njit()
def _chunk_minima(coded, size):
    """The smallest of each chunk of distances; `coded` is filled up to whole chunks."""
    minima = np.empty(len(coded) // CHUNK, np.int32)
    for i in range(size, len(coded)):
        coded[i] = np.iinfo(np.int32).max
    chunks = coded.reshape(len(minima), CHUNK)
    for chunk in range(len(minima)):
        smallest = chunks[chunk, 0]
        for i in range(CHUNK):  # a fixed length vectorises
            smallest = min(smallest, chunks[chunk, i])
        minima[chunk] = smallest
    return minima
