"""Entries that come and go, and cells that are divided and dissolved for it. A change touches a few cells at most.

A book says how numbers are coded: where the coded range begins, and the step of a code. When states have come to lie
elsewhere, a new book is made. All centres are coded by it at once, entries cell by cell as time goes on.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mfec.compiling import njit
from mfec.memory.neighbours.cell_centres import (
    CURSOR,
    N_CELLS,
    N_REGIONS,
    OLD,
    REGION,
    CentreArrays,
    add_cell,
    nearest_cell,
    remove_cell,
)
from mfec.memory.neighbours.cell_rows import FEWEST, ROWS, RowArrays, add_row, cell_of, drop_row, size_of, take_rows
from mfec.memory.neighbours.codes import (
    COARSEST_STEP,
    LEVELS,
    encode,
    get_code,
    put_code,
    put_half_code,
    shift_query,
)
from mfec.memory.neighbours.division import divide, mean_code

MISFIT = 40  # mean squared distance of a number from its cell's centre, in steps; half codes reach 64
ENDS = 8  # an entry lies outside the coded range if more than an eighth of its numbers are at its ends
# 15 steps of a half code cover 98% of a normal distribution around the centre of a cell.
STEPS_TO_DEVIATION = 2 * 2.33 / 15


class Books(NamedTuple):
    """How numbers are coded: the book of today, and the one before, while entries are left that are coded by it."""

    lows: NDArray[np.float64]  # (2, dim): where the coded range begins
    scales: NDArray[np.float64]  # (2,): of one step of a code
    today: NDArray[np.int64]  # (1,): which of the two is today's


class CodedCells(NamedTuple):
    """All cells and what is in them, as compiled functions take them."""

    books: Books
    centres: CentreArrays
    rows: RowArrays


@njit(nogil=True)
def drop_entries(states, actions, slots, coded):
    """Take entries out of their cells, where they are in one."""
    for i in range(len(actions)):
        cell = cell_of(coded.rows, actions[i], slots[i])
        if cell >= 0:
            drop_row(coded.rows, actions[i], slots[i])
            if size_of(coded.rows, cell) < FEWEST and coded.centres.counts[N_CELLS] > 1:
                _dissolve(states, cell, coded)


@njit(nogil=True)
def put_entries(states, actions, slots, coded):
    """Put entries that are in no cell into theirs; returns how many lie outside the coded range."""
    outside = 0
    for i in range(len(actions)):
        if cell_of(coded.rows, actions[i], slots[i]) < 0:  # else a slot comes twice
            outside += _insert(states, actions[i], slots[i], coded)
    return outside


@njit(nogil=True)
def lay_out(states, actions, slots, cells, coded):
    """Write the rows of entries whose cells, int32 (n,), are known and have room."""
    code = np.zeros(coded.centres.codes.shape[1], np.uint8)
    for i in range(len(actions)):
        row = add_row(coded.rows, cells[i], actions[i], slots[i])
        _write(states[actions[i], slots[i]], cells[i], row, code, coded)


@njit(nogil=True)
def begin_book(low, scale, coded):
    """Code all centres by a new book, and entries by and by: `renew_cells`."""
    books, centres = coded.books, coded.centres
    old, new = books.today[0], 1 - books.today[0]
    _copy(low, books.lows[new])
    books.scales[new], books.today[0] = scale, new
    # By a table, since 80,000 centres would take 60 ms of divisions.
    table = np.zeros((centres.codes.shape[1], LEVELS + 1), np.uint8)
    for j in range(len(low)):
        for code in range(LEVELS + 1):
            number = (books.lows[old, j] + books.scales[old] * code - low[j]) / scale + 0.5
            table[j, code] = int(min(max(number, 0.0), float(LEVELS)))
    for region in range(centres.counts[N_REGIONS]):
        _convert(centres.regions, centres.region_norms, region, table)
        for place in range(region * REGION, region * REGION + centres.filled[region]):
            _convert(centres.centres, centres.norms, place, table)
    centres.counts[CURSOR], centres.counts[OLD] = 0, centres.counts[N_CELLS]


@njit(nogil=True)
def renew_cells(states, some, coded):
    """Code the entries of some cells by the book of today, until none is left that is not."""
    centres, rows = coded.centres, coded.rows
    counts, today = centres.counts, coded.books.today[0]
    actions, slots = np.empty(ROWS, np.int64), np.empty(ROWS, np.int64)
    while some > 0 and counts[OLD] > 0:
        if counts[CURSOR] >= counts[N_REGIONS] * REGION:
            counts[CURSOR] = 0
        region, place = counts[CURSOR] // REGION, counts[CURSOR] % REGION
        counts[CURSOR] += 1
        if place >= centres.filled[region]:
            counts[CURSOR] = (region + 1) * REGION
        elif centres.books[centres.cells[region, place]] != today:
            cell = centres.cells[region, place]
            n = take_rows(rows, cell, actions, slots)
            codes = _codes_of(states, actions[:n], slots[:n], coded)
            mean_code(codes, centres.codes[cell])  # its entries may have been outside the range that its centre was in
            put_code(centres.centres, centres.norms, region * REGION + place, centres.codes[cell])
            _fill(states.shape[2], actions[:n], slots[:n], codes, cell, coded)
            counts[OLD] -= 1
            some -= 1


@njit(nogil=True)
def _insert(states, action, slot, coded):
    """Put an entry that is in no cell into the one whose centre is nearest; returns whether it is outside the range."""
    centres = coded.centres
    book = coded.books.today[0]
    code = np.zeros(centres.codes.shape[1], np.uint8)
    encode(states[action, slot], coded.books.lows[book], coded.books.scales[book], code)
    if centres.counts[N_CELLS] == 0:
        cell = add_cell(centres, code)
        _copy(code, centres.codes[cell])
        centres.steps[cell] = (LEVELS + 14) // 15
        centres.misfits[cell], centres.books[cell] = 0, book
    query = np.empty(len(code), np.int8)
    norm = shift_query(code, query)
    at_the_ends = 0
    for j in range(states.shape[2]):
        at_the_ends += code[j] == 0 or code[j] == LEVELS
    cell, away = nearest_cell(centres, query, norm)
    row = add_row(coded.rows, cell, action, slot)
    if away > MISFIT * states.shape[2] * centres.steps[cell] * centres.steps[cell]:
        centres.misfits[cell] += 1
    _write(states[action, slot], cell, row, code, coded)
    size = size_of(coded.rows, cell)
    if size == ROWS or (centres.misfits[cell] >= FEWEST and size >= 2 * FEWEST):
        _divide(states, cell, coded)
    return at_the_ends * ENDS > states.shape[2]


@njit(nogil=True)
def _dissolve(states, cell, coded):
    """Give up a cell, and put its entries into others."""
    actions, slots = np.empty(ROWS, np.int64), np.empty(ROWS, np.int64)
    n = take_rows(coded.rows, cell, actions, slots)
    coded.centres.counts[OLD] -= coded.centres.books[cell] != coded.books.today[0]
    remove_cell(coded.centres, cell)
    ranks = actions[:n] * states.shape[1] + slots[:n]
    for i in np.argsort(ranks):
        _insert(states, actions[i], slots[i], coded)


@njit(nogil=True)
def _divide(states, cell, coded):
    """Make two cells of one."""
    centres = coded.centres
    actions, slots = np.empty(ROWS, np.int64), np.empty(ROWS, np.int64)
    n = take_rows(coded.rows, cell, actions, slots)
    actions, slots = actions[:n], slots[:n]
    codes = _codes_of(states, actions, slots, coded)
    side, means = np.empty(n, np.bool_), np.empty((2, codes.shape[1]), np.uint8)
    divide(codes, actions * states.shape[1] + slots, side, means)
    centres.counts[OLD] -= centres.books[cell] != coded.books.today[0]
    remove_cell(centres, cell)
    for part in range(2):
        mine = side == (part == 1)
        cell = add_cell(centres, means[part])
        _copy(means[part], centres.codes[cell])
        _fill(states.shape[2], actions[mine], slots[mine], codes[mine], cell, coded)


@njit(nogil=True)
def _fill(dim, actions, slots, codes, cell, coded):
    """Write the rows of all entries of a cell that has a centre, with the step that suits them, by today's book."""
    centres, rows = coded.centres, coded.rows
    spread = np.int64(0)
    for i in range(len(codes)):
        for j in range(dim):
            away = np.int32(codes[i, j]) - np.int32(centres.codes[cell, j])
            spread += np.int64(away * away)
    step = int(np.ceil(STEPS_TO_DEVIATION * np.sqrt(spread / max(1, len(codes) * dim))))
    centres.steps[cell] = min(max(step, 1), COARSEST_STEP)
    centres.misfits[cell], centres.books[cell] = 0, coded.books.today[0]
    for i in range(len(codes)):
        row = add_row(rows, cell, actions[i], slots[i])
        put_half_code(rows.codes, rows.norms, row, codes[i], centres.codes[cell], centres.steps[cell])


@njit(nogil=True)
def _write(state, cell, row, code, coded):
    """Write the half code of a state in a cell; `code` is room for its code, by the book of the cell."""
    centres, rows, book = coded.centres, coded.rows, coded.centres.books[cell]
    encode(state, coded.books.lows[book], coded.books.scales[book], code)
    put_half_code(rows.codes, rows.norms, row, code, centres.codes[cell], centres.steps[cell])


@njit(nogil=True)
def _codes_of(states, actions, slots, coded):
    """Codes, uint8 (n, width), of entries by the book of today."""
    book = coded.books.today[0]
    codes = np.zeros((len(actions), coded.centres.codes.shape[1]), np.uint8)
    for i in range(len(actions)):
        encode(states[actions[i], slots[i]], coded.books.lows[book], coded.books.scales[book], codes[i])
    return codes


@njit(nogil=True)
def _copy(numbers, target):
    for j in range(len(numbers)):  # to assign rows, numba compiles a second's worth of errors about shapes
        target[j] = numbers[j]


@njit(nogil=True)
def _convert(blocks, norms, row, table):
    """Code a row of blocks by another book."""
    code = np.empty(len(table), np.uint8)
    get_code(blocks, row, code)
    for j in range(len(code)):
        code[j] = table[j, code[j]]
    put_code(blocks, norms, row, code)
