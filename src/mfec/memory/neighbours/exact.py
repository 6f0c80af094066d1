"""Exact k-nearest-neighbour search on the CPU.

A full float32 scan of 6 x 20,000 states of 64 numbers reads 31 MB a step, several emulator steps' worth of time.
So each state also has a byte code per number (a quarter of the bytes, integer arithmetic). Distances between codes
bound distances from below; only states that this bound cannot rule out are measured, in float64, and ranked. The
result is exact, and the same on every machine, for every batch size and every number of threads.

A distance between codes that at least k of them do not exceed is found by bisection: to count those below a number
takes a fiftieth of the time that measuring them took.
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
FARTHEST = 2**31 - 1  # distance between codes
LARGE_ROOT = 30_000.0  # its square still fits those 31 bits
MANY = 16  # chunks for each neighbour: that many smallest distances will do to find a bound
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
            self._encode(actions, slots)

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
        largest = int(self._sizes.max())
        if not largest:  # the first steps of a run do not wait until the search is compiled
            return slots, squared
        shares = fair_shares(wanted, self._sizes)
        entries, coded = Stored(self._states, self._entry_ids, self._sizes), self._coded

        def search_share(share: int) -> None:
            scratch = Scratch.of(parts_of(self.dim) * PART, -(-largest // CHUNK))
            _search_pairs(entries, coded, states, wanted, shares, share, scratch, slots, squared)

        on_all_cores(search_share, int(shares.max(initial=0)) + 1)
        return slots, squared

    def _make_code_book(self) -> None:
        """Fit the coded range to the bulk of what is stored, and code everything again."""
        actions, slots = all_entries(self._sizes)
        self._coded_for, self._taken_in = len(slots), 0
        some = slice(None, None, max(1, len(slots) // SAMPLE))
        self._low, self._scale = fit_code_book(self._states[actions[some], slots[some]], OUTSIDE)
        self._encode(actions, slots)

    def _encode(self, actions: NDArray[np.int64], slots: NDArray[np.int64]) -> None:
        _encode(self._states, actions, slots, self._coded, np.zeros(parts_of(self.dim) * PART, np.uint8))


class Coded(NamedTuple):
    """The codes of all states, as compiled functions take them."""

    codes: NDArray[np.uint8]  # (n_actions, blocks, ...)
    norms: NDArray[np.int32]  # (n_actions, blocks * BLOCK)
    low: NDArray[np.float64]  # (dim,): where the coded range begins
    scale: float  # of one step of a code


class Scratch(NamedTuple):
    """What a search writes into."""

    code: NDArray[np.uint8]  # of the state that is searched for
    shifted: NDArray[np.int8]
    distances: NDArray[np.int32]  # between codes, in whole chunks
    smallest: NDArray[np.int32]  # of each chunk

    @classmethod
    def of(cls, width: int, chunks: int) -> Scratch:
        """For codes of so many numbers, and so many chunks."""
        distances, smallest = np.empty(chunks * CHUNK, np.int32), np.empty(chunks, np.int32)
        return cls(np.zeros(width, np.uint8), np.empty(width, np.int8), distances, smallest)


@njit()
def _encode(states, actions, slots, coded, code):
    for row in range(len(actions)):
        action, slot = actions[row], slots[row]
        encode(states[action, slot], coded.low, coded.scale, code)
        put_code(coded.codes[action], coded.norms[action], slot, code)


@njit(nogil=True)
def _search_pairs(stored, coded, queries, wanted, shares, share, scratch, slots, squared):
    code, shifted, distances, smallest = scratch
    k = slots.shape[2]
    for row in range(wanted.shape[0]):
        query = queries[row]
        encode(query, coded.low, coded.scale, code)
        norm = shift_query(code, shifted)
        error = _coding_error(query, coded.low, coded.scale, code)
        for action in range(wanted.shape[1]):
            size = stored.sizes[action]
            if not wanted[row, action] or shares[row, action] != share or size == 0:
                continue
            measure_rows(coded.codes[action], coded.norms[action], 0, size, shifted, norm, distances)
            chunks = _take_smallest(distances, size, smallest)
            # At first the states whose codes are nearest, at least k of them.
            below, limit = -1, FARTHEST
            if size > k:
                limit = _bound(smallest[:chunks], k) if chunks > MANY * k else _bound(distances[:size], k)
            while below < limit:
                near = slots[row, action], squared[row, action]
                _rank(stored, action, query, distances[:size], smallest[:chunks], below, limit, near)
                # Then all others that may be nearer than the farthest of the k found. A code is off by at most half a
                # step in each number (1% more for rounding).
                below = limit
                if size > k:
                    root = np.sqrt(squared[row, action, k - 1]) / coded.scale
                    root += 1.01 * (0.5 * np.sqrt(len(query)) + error)
                    limit = int(root * root) + 1 if root < LARGE_ROOT else FARTHEST


@njit(nogil=True)
def _coding_error(query, low, scale, code):
    """How far a query's code lies from the query, or from the nearest point of the coded range, in steps."""
    error = 0.0
    for j in range(len(query)):
        error += (min(max((query[j] - low[j]) / scale, 0.0), float(LEVELS)) - code[j]) ** 2
    return np.sqrt(error)


@njit(nogil=True)
def _take_smallest(distances, size, smallest):
    """Write the smallest distance of each chunk; returns how many chunks there are."""
    chunks = (size + CHUNK - 1) // CHUNK
    for i in range(size, chunks * CHUNK):
        distances[i] = FARTHEST
    for chunk in range(chunks):
        least = distances[chunk * CHUNK]
        for i in range(CHUNK):  # a fixed length vectorises
            least = min(least, distances[chunk * CHUNK + i])
        smallest[chunk] = least
    return chunks


@njit(nogil=True)
def _bound(distances, k):
    """A distance that at least k of these do not exceed, and not many more than that unless they are equal."""
    low, high, within = distances[0], distances[0], len(distances)
    for i in range(len(distances)):  # a loop over the numbers themselves does not vectorise
        low, high = min(low, distances[i]), max(high, distances[i])
    while within > 2 * k + 8 and low < high:
        middle, n = np.int32((low + high) >> 1), 0
        for i in range(len(distances)):
            n += distances[i] <= middle
        if n >= k:
            high, within = middle, n
        else:
            low = np.int32(middle + 1)
    return high


@njit(nogil=True)
def _rank(stored, action, query, distances, smallest, below, limit, near):
    """Rank by true distance the states whose distances between codes are above `below`, and up to `limit`."""
    slots, squared = near
    for chunk in range(len(smallest)):
        if smallest[chunk] <= limit:
            for i in range(chunk * CHUNK, min((chunk + 1) * CHUNK, len(distances))):
                if below < distances[i] <= limit:
                    apart = squared_distance(stored.states[action, i], query)
                    enter(apart, i, stored.entry_ids[action], slots, squared)
