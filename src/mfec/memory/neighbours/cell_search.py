"""Reading cells: candidates by the distance of codes, ranked by true distance."""

from __future__ import annotations

import numpy as np

from mfec.compiling import njit
from mfec.memory.neighbours.cell_centres import nearest_cells, reads_to_reach
from mfec.memory.neighbours.cell_rows import BLOCKS, ROWS
from mfec.memory.neighbours.codes import (
    BLOCK,
    encode,
    fetch_half_block,
    half_query,
    measure_half_blocks,
    shift_query,
    squared_distance,
)
from mfec.memory.neighbours.instructions import any_within, prefetch
from mfec.memory.neighbours.scan import enter, scan

SMALL = 1024  # entries of a buffer that is read in full
EVERYTHING_BY_CELLS = -1  # the same where none is
NOTHING, SLOT = 2**63 - 1, 2**32 - 1  # no candidate; the bits of a candidate that are its slot
MORE_CELLS = 8  # times as many, for actions with too few candidates
AT_ONCE = 4  # states whose distance is measured side by side
FARTHEST = 2**31 - 1  # squared distance that a candidate has room for


@njit(nogil=True)
def choose_cells(coded, state, reads, codes):
    """The cells to read for a state, the nearest first. Its codes by both books are written into `codes`."""
    query, norm = _coded_query(coded, state, codes)
    return nearest_cells(coded.centres, query, norm, reads)


@njit(nogil=True)
def search_rows(stored, coded, queries, wanted, row, row_step, reads, n_candidates, small, slots, squared):
    """Nearly the nearest entries of each wanted (state, action) pair, for every `row_step`-th state from `row` on."""
    kept = np.empty((wanted.shape[1], n_candidates), np.int64)
    codes = np.zeros((2, coded.centres.codes.shape[1]), np.uint8)
    while row < len(wanted):
        large = wanted[row] & (stored.sizes > small)
        some = reads
        while large.any():
            for action in np.flatnonzero(large):
                kept[action] = NOTHING
            chosen = choose_cells(coded, queries[row], some, codes)
            read_cells(coded, chosen, large, codes, kept)
            keep_those_without(kept, slots.shape[2], large)
            if len(chosen) < some:
                break
            some *= MORE_CELLS
        for action in np.flatnonzero(wanted[row]):
            rank_action(stored, action, queries[row], kept[action], small, slots[row, action], squared[row, action])
        row += row_step


@njit(nogil=True)
def keep_those_without(kept, k, large):
    """Of the actions in `large`, keep those with fewer than k candidates: their entries lie farther away.

    Without more cells for these alone, their buffers would have to be read in full, or they would look untried. On Ms.
    Pac-Man that was every tenth look-up, and took six times as long as all others.
    """
    for action in range(len(large)):
        large[action] = large[action] and kept[action, k - 1] & SLOT == SLOT


@njit(nogil=True)
def rank_action(stored, action, query, candidates, small, slots, squared):
    """The nearest of an action's candidates by true distance; buffers of up to `small` entries are read in full."""
    states, entry_ids, size = stored.states[action], stored.entry_ids[action], stored.sizes[action]
    if size > small:
        _rank(states, entry_ids, query, candidates, slots, squared)
    else:
        scan(states[:size], entry_ids, query, slots, squared)


@njit(nogil=True)
def merge_candidates(kept):
    """Merge the candidates of all threads, (threads, n_actions, n), into the lists of the first thread."""
    for thread in range(1, len(kept)):
        for action in range(kept.shape[1]):
            for number in kept[thread, action]:
                if number >= kept[0, action, -1]:
                    break
                _enter(kept[0, action], number)


@njit(nogil=True)
def measure_effort(coded, state, kept, slots, most, reads, places):
    """What it takes to find each of the neighbours `slots`, (n_actions, k), that a search of `most` cells has found.

    How many cells are to be read is written into `reads`, and into `places` its place among the candidates.
    """
    codes = np.zeros((2, coded.centres.codes.shape[1]), np.uint8)
    query, norm = _coded_query(coded, state, codes)
    to_reach = reads_to_reach(coded.centres, query, norm, most)
    for action in range(len(slots)):
        for i in range(slots.shape[1]):
            if slots[action, i] >= 0:
                reads[action, i] = to_reach[(coded.rows.where[action, slots[action, i]] - 1) // ROWS]
                for place in range(kept.shape[1]):
                    if kept[action, place] & SLOT == slots[action, i]:
                        places[action, i] = place
                        break


@njit(nogil=True)
def read_cells(coded, chosen, wanted, codes, kept):
    """Insert the nearest entries of the chosen cells, by the distance of codes, into `kept` for each wanted action.

    Distance and slot form one number: equal distances are ordered by slot, wherever in its cell a row lies.
    """
    centres, rows = coded.centres, coded.rows
    n_actions, n = kept.shape
    today, scales = coded.books.today[0], coded.books.scales
    to_today = (scales[1 - today] / scales[today]) ** 2
    first_wanted, last_wanted = np.argmax(wanted), n_actions - 1 - np.argmax(wanted[::-1])
    query, distances = np.empty(codes.shape[1], np.int8), np.empty(ROWS, np.int32)
    loosest = _loosest(kept, wanted)
    for i in range(len(chosen)):
        # Cells lie all over the memory: without a prefetch, each one begins with a wait.
        if i + 6 < len(chosen):
            line = rows.starts.ctypes.data + 4 * chosen[i + 6] * (n_actions + 1)
            prefetch(line)
            prefetch(line + 4 * n_actions)
            prefetch(centres.steps.ctypes.data + 4 * chosen[i + 6])
        if i + 2 < len(chosen):
            ahead = chosen[i + 2]
            for line in range(0, codes.shape[1], 64):
                prefetch(centres.codes.ctypes.data + ahead * codes.shape[1] + line)
            first, last = rows.starts[ahead, first_wanted], rows.starts[ahead, last_wanted + 1]
            for j in range(first // BLOCK, (last + BLOCK - 1) // BLOCK):
                fetch_half_block(rows.codes, rows.norms, ahead * BLOCKS + j)
        cell = chosen[i]
        book, step = centres.books[cell], centres.steps[cell]
        factor = np.float64(step * step) * (1.0 if book == today else to_today)
        norm = half_query(codes[book], centres.codes[cell], step, query)
        action = first_wanted
        first, last = rows.starts[cell, first_wanted], rows.starts[cell, last_wanted + 1]
        begin = first // BLOCK
        n_blocks = (last + BLOCK - 1) // BLOCK - begin
        measure_half_blocks(rows.codes, rows.norms, cell * BLOCKS + begin, n_blocks, query, norm, distances)
        limit = _limit(loosest, factor)
        for block in range(n_blocks):
            if not any_within(distances.ctypes.data + 4 * BLOCK * block, limit):
                continue
            before = (begin + block) * BLOCK
            for place in range(max(before, first), min(before + BLOCK, last)):
                if distances[place - begin * BLOCK] > limit:
                    continue
                while place >= rows.starts[cell, action + 1]:
                    action += 1
                distance = np.int64(min(distances[place - begin * BLOCK] * factor, FARTHEST))
                if wanted[action] and distance <= kept[action, n - 1] >> 32:
                    slot = rows.owners[cell * ROWS + place]
                    _enter(kept[action], (distance << np.int64(32)) | np.int64(slot))
                    loosest = _loosest(kept, wanted)
            limit = _limit(loosest, factor)


@njit(nogil=True)
def _coded_query(coded, state, codes):
    """Write the codes of a state by both books; returns the query of the one by the book of today, and its norm."""
    for book in range(2):
        encode(state, coded.books.lows[book], coded.books.scales[book], codes[book])
    query = np.empty(codes.shape[1], np.int8)
    return query, shift_query(codes[coded.books.today[0]], query)


@njit(nogil=True)
def _loosest(kept, wanted):
    """The distance beyond which an entry is a candidate for no action."""
    loosest = np.int64(-1)
    for action in range(len(wanted)):
        if wanted[action]:
            loosest = max(loosest, kept[action, -1] >> 32)
    return loosest


@njit(nogil=True)
def _limit(loosest, factor):
    """The distance of half codes, int32, beyond which an entry is a candidate for no action; 1 more for rounding."""
    return np.int32(min(loosest / factor + 1.0, float(FARTHEST)))


@njit(nogil=True)
def _enter(kept, number):
    """Insert a number into an ordered list, whose largest drops out, unless the number is larger than all."""
    at = len(kept) - 1
    if number >= kept[at]:
        return
    while at > 0 and kept[at - 1] > number:
        kept[at] = kept[at - 1]
        at -= 1
    kept[at] = number


@njit(nogil=True)
def _rank(states, entry_ids, query, candidates, slots, squared):
    """The nearest of an action's candidates by true distance, nearest first, older first among equals."""
    for candidate in candidates:
        if candidate == NOTHING:
            break
        begin = states.ctypes.data + (candidate & SLOT) * states.shape[1] * 4
        for line in range(begin, begin + states.shape[1] * 4, 64):
            prefetch(line)
    distances = np.empty(AT_ONCE)
    for first in range(0, len(candidates), AT_ONCE):
        some = candidates[first : first + AT_ONCE]
        if len(some) == AT_ONCE and some[-1] != NOTHING:
            squared_distances(states, some, query, distances)
        else:
            for i in range(len(some)):
                distances[i] = squared_distance(states[some[i] & SLOT], query) if some[i] != NOTHING else np.inf
        for i in range(len(some)):
            if some[i] != NOTHING:
                enter(distances[i], some[i] & SLOT, entry_ids, slots, squared)


@njit(nogil=True)
def squared_distances(states, candidates, query, distances):
    """Squared distances of four states, each summed as `squared_distance` does, but no sum waits for the others."""
    first, second, third, fourth = (
        candidates[0] & SLOT,
        candidates[1] & SLOT,
        candidates[2] & SLOT,
        candidates[3] & SLOT,
    )
    sums = 0.0, 0.0, 0.0, 0.0
    for j in range(len(query)):
        number = np.float64(query[j])
        a, b = np.float64(states[first, j]) - number, np.float64(states[second, j]) - number
        c, d = np.float64(states[third, j]) - number, np.float64(states[fourth, j]) - number
        sums = sums[0] + a * a, sums[1] + b * b, sums[2] + c * c, sums[3] + d * d
    for i in range(AT_ONCE):
        distances[i] = sums[i]
