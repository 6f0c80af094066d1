"""One look-up in cells, shared with threads that are awake.

To wake a thread takes 70 microseconds, half of what many a look-up takes in all. So helpers wait for the next one in
compiled code, without Python's lock, and sleep only when none has come for some milliseconds. Work lies in shares
that every thread takes one by one: what is found does not depend on who read what, and no share waits for a helper that
has not begun it. On a busy machine a helper can lose its core in the middle of a share, which takes milliseconds: then
the next look-ups are made alone, the more the more often it happens.
"""

from __future__ import annotations

import threading
import weakref
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mfec.compiling import njit
from mfec.memory.neighbours.cell_rows import most_cells
from mfec.memory.neighbours.cell_search import (
    EVERYTHING_BY_CELLS,
    FARTHEST,
    MORE_CELLS,
    NOTHING,
    SLOT,
    choose_cells,
    keep_those_without,
    merge_candidates,
    rank_action,
    read_cells,
)
from mfec.memory.neighbours.codes import PART, parts_of
from mfec.memory.neighbours.instructions import add_to_number, load_number, pause, store_number
from mfec.threads import n_threads

MOST_HELPERS = 3  # one was measured: 1.0 ms instead of 1.7 in 9 x 1,000,000 entries
CELLS = 32  # in a share
WORTH_HELP = 64  # cells to read; below this, a thread alone is as fast
LATE = 2_000  # waits for the last share; they take longer than any share should, 0.9 ms on that machine
LEAST_ALONE, MOST_ALONE = 16, 4_096  # look-ups after that
WAITS = 50_000  # that a helper makes before it sleeps: 23 ms in a virtual machine, where each takes long
FARTHER = 9  # eighths of the distance of the last candidate

# Places in `signals`, each in a cache line of its own: shares that nobody has taken, shares that are done, helpers that
# are awake, and whether there will be no more to do.
LEFT, DONE, AWAKE, OVER = 0, 8, 16, 24
READ, RANK = 0, 1  # kinds of work
# Places in `numbers`: what kind of work is shared and in how many shares, cells to read, candidates of an action,
# entries of a buffer that is read in full, candidates that guesses are for, look-ups that are to be made alone, and how
# many were when a helper was late last.
KIND, SHARES, N_CHOSEN, CANDIDATES, SMALL_SIZE, GUESSED_FOR, ALONE, LAST_ALONE = range(8)


class LookUp(NamedTuple):
    """A look-up and what is known of it so far, as all threads see it."""

    signals: NDArray[np.int64]  # see LEFT and what follows it
    numbers: NDArray[np.int64]  # see KIND and what follows it
    state: NDArray[np.float32]  # (dim,)
    wanted: NDArray[np.bool_]  # (n_actions,)
    large: NDArray[np.bool_]  # (n_actions,): wanted, and searched by cells
    codes: NDArray[np.uint8]  # (2, width): of the state, by both books
    chosen: NDArray[np.int64]  # cells to read, the nearest first
    kept: NDArray[np.int64]  # candidates (threads, n_actions, candidates), the rest unused
    guesses: NDArray[np.int64]  # (n_actions,): what the last candidate will not lie beyond
    slots: NDArray[np.int64]  # (n_actions, k)
    squared: NDArray[np.float64]  # (n_actions, k)


class SharedSearch:
    """Look-ups of one state at a time in the cells of one index; helpers begin when the first one is worth it."""

    def __init__(self, stored: Any, cells: Any, *, k: int, most_candidates: int) -> None:
        """stored: `Stored`; cells: `CodedCells`. All arrays of both must stay where they are."""
        n_actions, capacity, dim = stored.states.shape
        self._stored, self._cells = stored, cells
        self._look_up = LookUp(
            signals=np.zeros(4 * 8, np.int64),
            numbers=np.zeros(8, np.int64),
            state=np.empty(dim, np.float32),
            wanted=np.empty(n_actions, np.bool_),
            large=np.empty(n_actions, np.bool_),
            codes=np.zeros((2, parts_of(dim) * PART), np.uint8),
            chosen=np.empty(most_cells(n_actions * capacity), np.int64),
            kept=np.empty((1 + MOST_HELPERS) * n_actions * most_candidates, np.int64),
            guesses=np.full(n_actions, NOTHING),
            slots=np.empty((n_actions, k), np.int64),
            squared=np.empty((n_actions, k)),
        )
        self._lock = threading.Lock()
        self._helpers: list[threading.Event] = []  # each is set to wake a helper
        weakref.finalize(self, _end, self._look_up.signals, self._helpers)

    def find(
        self,
        state: NDArray[np.float32],
        wanted: NDArray[np.bool_],
        reads: int,
        candidates: int,
        small: int,
        slots: NDArray[np.int64],
        squared: NDArray[np.float64],
    ) -> None:
        """What `search_rows` finds for one state, with the k of the index; slots, squared: (n_actions, k)."""
        with self._lock:
            if reads >= WORTH_HELP and not self._look_up.numbers[ALONE]:
                self._wake(min(n_threads() - 1, MOST_HELPERS))
            search_one(
                self._stored, self._cells, self._look_up, state, wanted, reads, candidates, small, slots, squared
            )

    def candidates(self, n: int) -> NDArray[np.int64]:
        """The n candidates of each action that the last search ranked, int64 (n_actions, n), nearest codes first."""
        n_actions = len(self._look_up.wanted)
        return self._look_up.kept[: n_actions * n].reshape(n_actions, n).copy()

    def _wake(self, helpers: int) -> None:
        while len(self._helpers) < helpers:
            awake = threading.Event()
            self._helpers.append(awake)
            own = self._stored, self._cells, self._look_up, len(self._helpers)
            threading.Thread(target=_help, args=(*own, awake), name="mfec-search", daemon=True).start()
        if self._look_up.signals[AWAKE] < helpers:
            for awake in self._helpers:
                awake.set()


def _help(stored: Any, cells: Any, look_up: LookUp, helper: int, awake: threading.Event) -> None:
    """What a helper does until the search that it belongs to is gone; it knows the arrays alone."""
    while not look_up.signals[OVER]:
        awake.clear()
        help_searching(stored, cells, look_up, helper)
        awake.wait()


def _end(signals: NDArray[np.int64], helpers: list[threading.Event]) -> None:
    signals[OVER] = 1
    for awake in helpers:
        awake.set()


@njit(nogil=True)
def search_one(stored, coded, look_up, state, wanted, reads, candidates, small, slots, squared):
    """Nearly the nearest entries of each wanted action, with helpers.

    `small` may be `EVERYTHING_BY_CELLS`: what is not in so many cells is not found.
    """
    n_actions, any_large = len(wanted), False
    for j in range(len(state)):
        look_up.state[j] = state[j]
    for action in range(n_actions):
        look_up.wanted[action] = wanted[action]
        look_up.large[action] = wanted[action] and stored.sizes[action] > small
        any_large |= look_up.large[action]
    look_up.slots[:] = -1
    look_up.squared[:] = np.inf
    in_time = look_up.numbers[ALONE] == 0
    look_up.numbers[CANDIDATES], look_up.numbers[SMALL_SIZE] = candidates, small
    kept = look_up.kept[: (1 + MOST_HELPERS) * n_actions * candidates].reshape(1 + MOST_HELPERS, n_actions, candidates)
    while any_large:
        chosen = choose_cells(coded, look_up.state, reads, look_up.codes)
        for i in range(len(chosen)):
            look_up.chosen[i] = chosen[i]
        look_up.numbers[N_CHOSEN] = len(chosen)
        _collect(stored, coded, look_up, kept)
        keep_those_without(kept[0], slots.shape[1], look_up.large)
        any_large = small != EVERYTHING_BY_CELLS and look_up.large.any() and len(chosen) == reads
        reads *= MORE_CELLS
    _share(stored, coded, look_up, RANK, n_actions)
    if look_up.numbers[ALONE] > 0:
        look_up.numbers[ALONE] -= 1
    elif in_time and look_up.numbers[LAST_ALONE] > 0:
        look_up.numbers[LAST_ALONE] -= 1
    for action in range(n_actions):
        for i in range(slots.shape[1]):
            slots[action, i], squared[action, i] = look_up.slots[action, i], look_up.squared[action, i]


@njit(nogil=True)
def _collect(stored, coded, look_up, kept):
    """Read the chosen cells: the candidates of each large buffer, into `kept[0]`.

    A state has its candidates about as far away as the one before. So those of the first cells need not be sorted only
    to be thrown out again. Where that was too near, and too few are left, it is done once more.
    """
    threads, n_actions, candidates = kept.shape
    if look_up.numbers[GUESSED_FOR] != candidates:
        look_up.guesses[:] = NOTHING
    look_up.numbers[GUESSED_FOR] = candidates
    wanted, again = look_up.large.copy(), True
    while again:
        for action in range(n_actions):
            for thread in range(threads):
                if look_up.large[action]:
                    kept[thread, action] = look_up.guesses[action]
                elif thread > 0:
                    kept[thread, action] = NOTHING
        _share(stored, coded, look_up, READ, (look_up.numbers[N_CHOSEN] + CELLS - 1) // CELLS)
        merge_candidates(kept)
        again = False
        for action in range(n_actions):
            if look_up.large[action]:
                last = kept[0, action, -1]
                full = last & SLOT != SLOT
                look_up.large[action] = not full and look_up.guesses[action] != NOTHING
                again |= look_up.large[action]
                farther = min((last >> 32) * FARTHER // 8, FARTHEST)
                look_up.guesses[action] = (farther << 32) | SLOT if full else NOTHING
    look_up.large[:] = wanted


@njit(nogil=True)
def help_searching(stored, coded, look_up, helper):
    """Take shares of look-ups until none has come for a while."""
    address = look_up.signals.ctypes.data
    add_to_number(address + 8 * AWAKE, 1)
    waited = 0
    while waited < WAITS and load_number(address + 8 * OVER) == 0:
        if _take_shares(stored, coded, look_up, helper):
            waited = 0
        else:
            waited += 1
            pause()
    add_to_number(address + 8 * AWAKE, -1)


@njit(nogil=True)
def _share(stored, coded, look_up, kind, shares):
    """Have work of a kind done, by this thread too."""
    address, numbers = look_up.signals.ctypes.data, look_up.numbers
    numbers[KIND], numbers[SHARES] = kind, shares
    if numbers[ALONE] > 0:
        for share in range(shares):
            _do(stored, coded, look_up, 0, share)
        return
    store_number(address + 8 * DONE, 0)
    store_number(address + 8 * LEFT, shares)
    _take_shares(stored, coded, look_up, 0)
    waited = 0
    while load_number(address + 8 * DONE) < shares:
        waited += 1
        pause()
    if waited > LATE:
        numbers[LAST_ALONE] = min(2 * numbers[LAST_ALONE] + LEAST_ALONE, MOST_ALONE)
        numbers[ALONE] = numbers[LAST_ALONE] + 1  # this one, too


@njit(nogil=True)
def _take_shares(stored, coded, look_up, thread):
    """Take shares until none is left; returns whether there was one."""
    address = look_up.signals.ctypes.data
    took = False
    # A look first: to add makes the other threads lose their copy of the number.
    while load_number(address + 8 * LEFT) > 0:
        left = add_to_number(address + 8 * LEFT, -1)
        if left <= 0:
            break
        # Until this share is done, the work stays what it is.
        _do(stored, coded, look_up, thread, look_up.numbers[SHARES] - left)
        add_to_number(address + 8 * DONE, 1)
        took = True
    return took


@njit(nogil=True)
def _do(stored, coded, look_up, thread, share):
    n_actions, candidates = len(look_up.wanted), look_up.numbers[CANDIDATES]
    own = n_actions * candidates
    if look_up.numbers[KIND] == READ:
        kept = look_up.kept[thread * own : (thread + 1) * own].reshape(n_actions, candidates)
        some = look_up.chosen[share * CELLS : min((share + 1) * CELLS, look_up.numbers[N_CHOSEN])]
        read_cells(coded, some, look_up.large, look_up.codes, kept)
    elif look_up.wanted[share]:
        kept = look_up.kept[:own].reshape(n_actions, candidates)
        small = look_up.numbers[SMALL_SIZE]
        rank_action(stored, share, look_up.state, kept[share], small, look_up.slots[share], look_up.squared[share])
