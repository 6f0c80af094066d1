"""The compiled functions of `CellIndex`: they choose cells, read them, rank candidates, and put entries in."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mfec.compiling import njit
from mfec.memory.neighbours.cell_rows import RowArrays, add_row, chain_of, drop_row
from mfec.memory.neighbours.clustering import CellArrays
from mfec.memory.neighbours.codes import (
    BLOCK,
    PART,
    encode,
    fetch_half_block,
    half_query,
    measure_half_block,
    measure_rows,
    put_half_code,
    shift_query,
    squared_distance,
)
from mfec.memory.neighbours.instructions import prefetch
from mfec.memory.neighbours.scan import enter, scan

ASSIGN_REGIONS = 4  # regions whose cells a new entry is compared with
LOOK_AT = 8  # cells whose distance is measured for each one that is read
SPLITS = 4  # parts that the search for one state is divided into
SMALL = 1024  # entries of a buffer that is read in full
EVERYTHING_BY_CELLS = -1
MISFIT = 40  # mean squared distance of a number from its cell's centre, in steps; half codes reach 64
STEPS = 1024  # that distances are rounded to when cells are ordered
NOTHING, SLOT = 2**63 - 1, 2**32 - 1  # no candidate; the bits of a candidate that are its slot
FARTHEST = 2**31 - 1  # squared distance that a candidate has room for


class Coded(NamedTuple):
    """The codes of all states, cell by cell, as compiled functions take them."""

    low: NDArray[np.float64]  # (dim,): where the coded range begins
    scale: float  # of one step of a code
    steps: NDArray[np.int32]  # (cells,): codes to a step of half codes
    cells: CellArrays
    rows: RowArrays


@njit(nogil=True)
def find_candidates(coded, state, wanted, reads, split, split_step, kept):
    """Read the cells of every `split_step`-th split, from `split` on, and insert the nearest entries into `kept`.

    Regions are dealt to the splits in order of distance. Each split reads its share of the `reads` nearest cells, so
    the candidates do not depend on the number of threads.
    """
    if not wanted.any():
        return
    regions, region_norms, _, _, first, centre_codes = coded.cells
    code, query = np.zeros(regions.shape[1] * PART, np.uint8), np.empty(regions.shape[1] * PART, np.int8)
    encode(state, coded.low, coded.scale, code)
    norm = shift_query(code, query)
    n_regions = len(first) - 1
    distances = np.empty(len(region_norms), np.int32)
    measure_rows(regions, region_norms, 0, n_regions, query, norm, distances)
    order = np.empty(n_regions, np.int64)
    _order_nearly(distances[:n_regions], order)
    while split < SPLITS:
        chosen = _nearest_cells(coded.cells, order[split::SPLITS], query, norm, reads)
        _read_cells(centre_codes, coded.rows, chosen, wanted, code, coded.steps, kept)
        split += split_step


@njit(nogil=True)
def search_rows(stored, coded, queries, wanted, row, row_step, reads, n_candidates, small, slots, squared):
    """Nearly the nearest entries of each wanted (state, action) pair, for every `row_step`-th state from `row` on."""
    kept = np.empty((wanted.shape[1], n_candidates), np.int64)
    while row < len(wanted):
        if wanted[row].any():
            kept[:] = NOTHING
            large = wanted[row] & (stored.sizes > small)
            find_candidates(coded, queries[row], large, reads, 0, 1, kept)
            rank_candidates(stored, queries[row], wanted[row], kept, small, slots[row], squared[row])
        row += row_step


@njit(nogil=True)
def rank_candidates(stored, query, wanted, kept, small, slots, squared):
    """The nearest of the candidates of each wanted action by true distance.

    Buffers of up to `small` entries are read in full. So are buffers with too few candidates: all their entries may
    lie far from the cells that were read, and the action must not look untried. `EVERYTHING_BY_CELLS` turns both off.
    """
    for action in np.flatnonzero(wanted):
        states, entry_ids, size = stored.states[action], stored.entry_ids[action], stored.sizes[action]
        if size > small:
            _rank(states, entry_ids, query, kept[action], slots[action], squared[action])
        missing = slots[action, min(len(slots[action]), size) - 1] < 0 and size > 0
        if missing and small != EVERYTHING_BY_CELLS:
            slots[action] = -1
            squared[action] = np.inf
            scan(states[:size], entry_ids, query, slots[action], squared[action])


@njit(nogil=True)
def merge_candidates(kept):
    """Merge the candidates of all threads, (threads, n_actions, n), into the lists of the first thread."""
    for thread in range(1, len(kept)):
        for action in range(kept.shape[1]):
            for number in kept[thread, action]:
                _enter(kept[0, action], number)


@njit(nogil=True)
def _nearest_cells(cells, order, query, norm, reads):
    """A split's share of the nearest cells, nearly in order, from as many of its regions as are worth looking at."""
    _, _, centres, norms, first, _ = cells
    in_split = 0
    largest = 0
    for region in order:
        in_split += first[region + 1] - first[region]
        largest = max(largest, first[region + 1] - first[region])
    share = (in_split * min(reads, first[-1]) + first[-1] - 1) // first[-1]
    cell, to_cell = np.empty(in_split, np.int64), np.empty(in_split, np.int32)
    distances = np.empty(largest + 2 * BLOCK, np.int32)
    n = 0
    for region in order:
        if n >= LOOK_AT * share:
            break
        begin, end = first[region], first[region + 1]
        at = measure_rows(centres, norms, begin, end, query, norm, distances)
        for c in range(begin, end):
            cell[n] = c
            to_cell[n] = distances[at + c - begin]
            n += 1
    chosen = np.empty(min(share, n), np.int64)
    if n:
        _order_nearly(to_cell[:n], chosen)
    for i in range(len(chosen)):
        chosen[i] = cell[chosen[i]]
    return chosen


@njit(nogil=True)
def _order_nearly(distances, order):
    """Positions of the smallest distances, ordered to a thousandth of their range."""
    smallest, largest = distances[0], distances[0]
    for distance in distances:
        smallest = min(smallest, distance)
        largest = max(largest, distance)
    factor = np.float32((STEPS - 1) / max(1.0, np.float64(largest) - np.float64(smallest)))
    step_of = np.empty(len(distances), np.int32)
    for i in range(len(distances)):
        step_of[i] = np.int32(np.float32(distances[i] - smallest) * factor)
    before = np.zeros(STEPS + 1, np.int32)
    for step in step_of:
        before[step + 1] += 1
    for i in range(STEPS):
        before[i + 1] += before[i]
    for i in range(len(distances)):
        place = before[step_of[i]]
        before[step_of[i]] += 1
        if place < len(order):
            order[place] = i


@njit(nogil=True)
def _read_cells(centre_codes, rows, chosen, wanted, code, steps, kept):
    """Insert the nearest entries of the chosen cells, by the distance of codes, into `kept` for each wanted action.

    Distance and slot form one number: equal distances are ordered by slot, wherever in its cell a row lies.
    """
    codes, norms, owners, following, _, first_block, starts, _, _ = rows
    n_actions, n = kept.shape
    first_wanted, last_wanted = np.argmax(wanted), n_actions - 1 - np.argmax(wanted[::-1])
    largest = np.int32(0)
    for cell in chosen:
        largest = max(largest, starts[cell, n_actions])
    chain, ahead = np.empty(largest // BLOCK + 1, np.int64), np.empty(largest // BLOCK + 1, np.int64)
    query, distances = np.empty(len(code), np.int8), np.empty(BLOCK, np.int32)
    loosest = _loosest(kept, wanted)
    for i in range(len(chosen)):
        # Cells lie all over the memory: without a prefetch, each one begins with a wait.
        if i + 8 < len(chosen):
            prefetch(first_block.ctypes.data + 4 * chosen[i + 8])
            prefetch(starts.ctypes.data + 4 * chosen[i + 8] * (n_actions + 1))
        if i + 4 < len(chosen) and first_block[chosen[i + 4]] >= 0:
            prefetch(following.ctypes.data + 4 * first_block[chosen[i + 4]])
        if i + 2 < len(chosen):
            for line in range(0, len(code), 64):
                prefetch(centre_codes.ctypes.data + chosen[i + 2] * len(code) + line)
            for j in range(chain_of(chosen[i + 2], first_block, following, ahead)):
                fetch_half_block(codes, norms, ahead[j])
        cell = chosen[i]
        chain_of(cell, first_block, following, chain)
        step = steps[cell]
        norm = half_query(code, centre_codes[cell], step, query)
        action = first_wanted
        first, last = starts[cell, first_wanted], starts[cell, last_wanted + 1]
        for j in range(first // BLOCK, (last + BLOCK - 1) // BLOCK):
            measure_half_block(codes, norms, chain[j], query, norm, distances)
            nearest = distances[0]
            for r in range(BLOCK):
                nearest = min(nearest, distances[r])
            if nearest * step * step > loosest:
                continue
            for place in range(max(j * BLOCK, first), min((j + 1) * BLOCK, last)):
                while place >= starts[cell, action + 1]:
                    action += 1
                distance = min(distances[place - j * BLOCK] * step * step, FARTHEST)
                if wanted[action] and distance <= kept[action, n - 1] >> 32:
                    slot = owners[chain[j] * BLOCK + place - j * BLOCK]
                    _enter(kept[action], (np.int64(distance) << 32) | np.int64(slot))
                    loosest = _loosest(kept, wanted)


@njit(nogil=True)
def _loosest(kept, wanted):
    """The distance beyond which an entry is a candidate for no action."""
    loosest = np.int64(-1)
    for action in range(len(wanted)):
        if wanted[action]:
            loosest = max(loosest, kept[action, -1] >> 32)
    return loosest


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
    for candidate in candidates:
        if candidate == NOTHING:
            break
        slot = candidate & SLOT
        enter(squared_distance(states[slot], query), slot, entry_ids, slots, squared)


@njit(nogil=True)
def _cell_for(cells, query, norm, distances):
    """The cell that an entry belongs to: the nearest one in the nearest regions."""
    regions, region_norms, centres, norms, first, _ = cells
    n_regions = len(first) - 1
    to_region = np.empty(len(region_norms), np.int32)
    measure_rows(regions, region_norms, 0, n_regions, query, norm, to_region)
    nearest = np.iinfo(np.int32).max
    cell = 0
    for _ in range(min(ASSIGN_REGIONS, n_regions)):
        region = np.argmin(to_region[:n_regions])
        to_region[region] = np.iinfo(np.int32).max
        begin, end = first[region], first[region + 1]
        at = measure_rows(centres, norms, begin, end, query, norm, distances)
        for c in range(begin, end):
            if distances[at + c - begin] < nearest:
                nearest, cell = distances[at + c - begin], c
    return cell, nearest


@njit(nogil=True)
def assign_entries(states, actions, slots, low, scale, cells, cell_of):
    """Write the cell of each of these entries into `cell_of`."""
    width = cells.regions.shape[1] * PART
    code, query = np.zeros(width, np.uint8), np.empty(width, np.int8)
    distances = np.empty(len(cells.norms) + BLOCK, np.int32)
    for i in range(len(actions)):
        encode(states[actions[i], slots[i]], low, scale, code)
        norm = shift_query(code, query)
        cell_of[i], _ = _cell_for(cells, query, norm, distances)


@njit()
def codes_of(states, actions, slots, low, scale):
    """Codes, uint8 (n, width), of these entries."""
    codes = np.zeros((len(actions), (states.shape[2] + PART - 1) // PART * PART), np.uint8)
    for i in range(len(actions)):
        encode(states[actions[i], slots[i]], low, scale, codes[i])
    return codes


@njit()
def mean_spreads(states, actions, slots, low, scale, cells, cell_of):
    """For each cell, the mean squared difference, in codes, between a number of an entry and of the centre."""
    centre_codes = cells.centre_codes
    code = np.zeros(centre_codes.shape[1], np.uint8)
    sums, counts = np.zeros(len(centre_codes), np.int64), np.zeros(len(centre_codes), np.int64)
    for i in range(len(actions)):
        encode(states[actions[i], slots[i]], low, scale, code)
        for j in range(states.shape[2]):
            away = np.int64(code[j]) - np.int64(centre_codes[cell_of[i], j])
            sums[cell_of[i]] += away * away
        counts[cell_of[i]] += states.shape[2]
    return sums / np.maximum(counts, 1)


@njit()
def encode_laid_out(states, actions, slots, cell_of, coded):
    """Write the codes of entries that have rows."""
    rows, centres, steps = coded.rows, coded.cells.centre_codes, coded.steps
    code = np.zeros(rows.codes.shape[1] * PART, np.uint8)
    for i in range(len(actions)):
        encode(states[actions[i], slots[i]], coded.low, coded.scale, code)
        row, cell = rows.where[actions[i], slots[i]] - 1, cell_of[i]
        put_half_code(rows.codes, rows.norms, row, code, centres[cell], steps[cell])


@njit()
def put_entries(states, actions, slots, coded):
    """Put entries, new ones and replaced ones, into their cells; returns how many lie far from every cell."""
    misfits = 0
    rows, cells, steps = coded.rows, coded.cells, coded.steps
    width = rows.codes.shape[1] * PART
    code, query = np.zeros(width, np.uint8), np.empty(width, np.int8)
    distances = np.empty(len(cells.norms) + BLOCK, np.int32)
    for i in range(len(actions)):
        action, slot = actions[i], slots[i]
        drop_row(rows, action, slot)
        encode(states[action, slot], coded.low, coded.scale, code)
        norm = shift_query(code, query)
        cell, away = _cell_for(cells, query, norm, distances)
        if away > MISFIT * states.shape[2] * steps[cell] * steps[cell]:
            misfits += 1
        row = add_row(rows, cell, action, slot)
        put_half_code(rows.codes, rows.norms, row, code, cells.centre_codes[cell], steps[cell])
    return misfits
