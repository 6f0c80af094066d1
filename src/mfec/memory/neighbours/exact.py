"""Exact k-nearest-neighbour search on the CPU.

A full float32 scan of 6 x 20,000 states of 64 numbers reads 31 MB a step, several emulator steps' worth of time.
So each state also has a byte code per number (a quarter of the bytes, integer arithmetic). Distances between codes
bound distances from below. Any k entries bound the k-th neighbour from above, and the neighbours of the frame before
are nearly those of this one. So one pass over the codes leaves some 40 states of 10,000, which are measured and ranked.
The result is exact whatever was guessed, and the same on every machine, for every batch size and number of threads.
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
    fetch_state,
    fit_code_book,
    measure_blocks,
    measure_rows,
    parts_of,
    put_code,
    shift_query,
    squared_distance,
)
from mfec.memory.neighbours.index import IndexInMemory, Shape
from mfec.memory.neighbours.instructions import any_within
from mfec.memory.neighbours.scan import Stored, bounds, enter
from mfec.memory.neighbours.shares import fair_shares
from mfec.threads import on_all_cores

OUTSIDE = 0.01  # share of numbers below the coded range, and above it
SMALLEST_CHANGE = 1024  # states taken in before the code book of a memory that has not grown is made anew, at least
FEW = 16  # look-ups at a time, at most, that are taken for the frames after those of the last ones
SAMPLED = 512  # entries, at least, that a first guess is made from
ROOM = 1024  # for states that may be neighbours
FARTHEST = 2**31 - 1  # squared distance of codes


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
        self._guesses: dict[tuple[int, ...], NDArray[np.int64]] = {}  # slots that were found last, by their shape

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
        self._guesses.clear()

    @property
    def _coded(self) -> Coded:
        return Coded(self._codes, self._norms, self._low, self._scale)

    def find(
        self, states: NDArray[np.float32], wanted: NDArray[np.bool_], k: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The k nearest entries of each wanted (state, action) pair."""
        if not self._sizes.any():  # the first steps of a run do not wait until the search is compiled
            return np.full((*wanted.shape, k), -1), np.full((*wanted.shape, k), np.inf)
        slots, squared = np.empty((*wanted.shape, k), np.int64), np.empty((*wanted.shape, k))
        # Taken out, so that look-ups of several threads do not write into one another's.
        guesses = self._guesses.pop(slots.shape, None)
        if guesses is None:
            guesses = np.full(slots.shape, -1)
        shares, n_shares = fair_shares(wanted, self._sizes)
        entries, coded = Stored(self._states, self._entry_ids, self._sizes), self._coded

        def search_share(share: int) -> None:
            _search_pairs(entries, coded, states, wanted, shares, share, guesses, slots, squared)

        on_all_cores(search_share, n_shares)
        if len(wanted) <= FEW:
            self._guesses[slots.shape] = guesses
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


class Query(NamedTuple):
    """A state to search for, and how it is compared with codes."""

    state: NDArray[np.float32]  # (dim,)
    shifted: NDArray[np.int8]  # (parts * PART,)
    norm: int  # its part of each squared distance
    slack: float  # how much farther apart than two states their codes can be, in steps


@njit(nogil=True)
def _search_pairs(stored, coded, states, wanted, shares, share, guesses, slots, squared):
    for row in range(wanted.shape[0]):
        query = _coded_query(states[row], coded)
        for action in range(wanted.shape[1]):
            if shares[row, action] != share:
                continue
            slots[row, action], squared[row, action] = -1, np.inf
            if wanted[row, action] and stored.sizes[action] > 0:
                guess = guesses[row, action]
                _search_one(stored, coded, action, query, guess, slots[row, action], squared[row, action])
                for i in range(len(guess)):  # to assign rows, numba compiles a second's worth of errors about shapes
                    guess[i] = slots[row, action, i]


@njit(nogil=True)
def _coded_query(state, coded):
    code = np.zeros(coded.codes.shape[2] * PART, np.uint8)
    encode(state, coded.low, coded.scale, code)
    error = 0.0  # how far the code lies from the state, or from the nearest point of the range
    for j in range(len(state)):
        error += (min(max((state[j] - coded.low[j]) / coded.scale, 0.0), float(LEVELS)) - code[j]) ** 2
    shifted = np.empty(len(code), np.int8)
    norm = shift_query(code, shifted)
    # A stored code is off by at most half a step in each number; 1% more for rounding.
    return Query(state, shifted, norm, 1.01 * (0.5 * np.sqrt(len(state)) + np.sqrt(error)))


@njit(nogil=True)
def _search_one(stored, coded, action, query, guess, slots, squared):
    # Taken out of their tuples here: in the loop, numba would count a reference to each array for each block.
    states, entry_ids, size = stored.states[action], stored.entry_ids[action], stored.sizes[action]
    codes, norms, scale = coded.codes[action], coded.norms[action], coded.scale
    state, shifted, norm, slack = query
    # No neighbour is farther than the farthest of any k entries.
    farthest = np.inf
    if size >= len(slots):
        if guess[-1] < 0:
            _guess(codes, norms, min(size, max(SAMPLED, len(guess), size // 16)), shifted, norm, guess)
        farthest = 0.0
        for slot in guess:
            farthest = max(farthest, bounds(states, slot, state)[1])
    limit = _farthest_code(farthest, scale, slack)
    uppers = np.full(len(slots), np.inf)  # the smallest upper bounds so far, smallest first
    distances, near, lowers = np.empty(BLOCK, np.int32), np.empty(ROOM, np.int64), np.empty(ROOM)
    found = measured = 0
    last = (size - 1) // BLOCK
    for block in range(last + 1):
        measure_blocks(codes, norms, block, 1, shifted, norm, distances, 0)
        if any_within(distances.ctypes.data, limit):
            for i in range(min(BLOCK, size - block * BLOCK)):
                if distances[i] <= limit:
                    near[found] = block * BLOCK + i
                    fetch_state(states, near[found])
                    found += 1
        # A state is 150 ns away in memory. Some blocks later it has come.
        if found - measured > BLOCK or block == last:
            for i in range(measured, found):
                lower, upper = bounds(states, near[i], state)
                if lower <= farthest:
                    near[measured], lowers[measured] = near[i], lower
                    measured += 1
                    _insert(uppers, upper)
                    farthest = min(farthest, uppers[-1])
            found = measured
            limit = _farthest_code(farthest, scale, slack)
        # Ranked at the end, since few are left then: a float64 distance, and its place among others, take 100 ns.
        if measured > ROOM - 3 * BLOCK or block == last:
            for i in range(measured):
                if lowers[i] <= farthest:
                    enter(squared_distance(states[near[i]], state), near[i], entry_ids, slots, squared)
            found = measured = 0


@njit(nogil=True)
def _insert(smallest, number):
    """Insert a number into a list of the smallest, in order; the largest leaves."""
    if number < smallest[-1]:
        at = len(smallest) - 1
        while at > 0 and smallest[at - 1] > number:
            smallest[at] = smallest[at - 1]
            at -= 1
        smallest[at] = number


@njit(nogil=True)
def _farthest_code(farthest, scale, slack):
    """The largest squared distance of codes, int32, where states are at most this squared distance apart."""
    return np.int32(min((np.sqrt(farthest) / scale + slack) ** 2 + 1.0, float(FARTHEST)))


@njit(nogil=True)
def _guess(codes, norms, size, shifted, norm, guess):
    """Write the slots with the k smallest code distances among the first entries into `guess`."""
    distances = np.empty(size + BLOCK, np.int32)
    measure_rows(codes, norms, 0, size, shifted, norm, distances)
    guess[:] = -1  # a buffer that was too small for k has left some
    last = len(guess) - 1
    for i in range(size):
        if guess[last] < 0 or distances[i] < distances[guess[last]]:
            at = last
            while at > 0 and (guess[at - 1] < 0 or distances[guess[at - 1]] > distances[i]):
                guess[at] = guess[at - 1]
                at -= 1
            guess[at] = i
