"""Rows of codes grouped by cell and, within a cell, by action, under constant insertion and removal.

A cell has room for 192 rows, side by side. Those of action a go from `starts[cell, a]` to `starts[cell, a + 1]`. To
make room for a row, the first row of every later action moves behind that action's last row. To close a gap, the last
row of every later action moves to its front. So a change moves at most one row for each action.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mfec.compiling import njit
from mfec.memory.neighbours.codes import BLOCK, PART, copy_code, empty_half_blocks, parts_of

ROWS = 192  # that a cell has room for; one that is full is divided
BLOCKS = ROWS // BLOCK
FEWEST = 24  # rows of a cell; one with less is dissolved
MEAN = 120  # rows of a cell while entries come and go, measured: 117 to 131


class RowArrays(NamedTuple):
    """The rows of all cells, as compiled functions take them."""

    codes: NDArray[np.uint8]  # half codes, in blocks
    norms: NDArray[np.int32]  # (cells * ROWS,)
    owners: NDArray[np.int32]  # (cells * ROWS,): slots
    starts: NDArray[np.int32]  # (cells, n_actions + 1)
    where: NDArray[np.int32]  # (n_actions, capacity): row + 1 of each entry


def most_cells(entries: int) -> int:
    """Cells that so many entries can come to need."""
    return entries // FEWEST + 2


def empty_rows(n_actions: int, capacity: int, dim: int) -> RowArrays:
    """Rows for as many entries as there can be. They cost address space only, until rows are written."""
    cells = most_cells(n_actions * capacity)
    return RowArrays(
        codes=empty_half_blocks(cells * BLOCKS, dim),
        norms=np.empty(cells * ROWS, np.int32),
        owners=np.empty(cells * ROWS, np.int32),
        starts=np.zeros((cells, n_actions + 1), np.int32),
        where=np.zeros((n_actions, capacity), np.int32),
    )


def row_bytes_per_entry(dim: int) -> int:
    """Bytes of an entry's codes, norm and owner, with its share of the rows that are empty, and of its row's number."""
    return (parts_of(dim) * PART // 2 + 4 + 4) * ROWS // MEAN + 4


@njit(nogil=True)
def cell_of(rows, action, slot):
    """The cell of an entry, -1 if it is in none."""
    row = rows.where[action, slot] - 1
    return row // ROWS if row >= 0 else -1


@njit(nogil=True)
def size_of(rows, cell):
    """How many rows a cell has."""
    return rows.starts[cell, -1]


@njit(nogil=True)
def add_row(rows, cell, action, slot):
    """Make room for an entry in a cell that is not full; returns its row. The caller writes its codes and norm."""
    starts, first_row = rows.starts[cell], cell * ROWS
    hole = starts[-1]
    for later in range(len(starts) - 2, action, -1):
        if starts[later + 1] > starts[later]:
            _move(rows, later, first_row + starts[later], first_row + hole)
            hole = starts[later]
        starts[later + 1] += 1
    starts[action + 1] += 1
    rows.owners[first_row + hole] = slot
    rows.where[action, slot] = first_row + hole + 1
    return first_row + hole


@njit(nogil=True)
def drop_row(rows, action, slot):
    """Remove an entry's row from its cell."""
    row = rows.where[action, slot] - 1
    first_row = row // ROWS * ROWS
    starts = rows.starts[row // ROWS]
    hole = row - first_row
    for later in range(action, len(starts) - 1):
        last = starts[later + 1] - 1
        if last != hole:  # an action without rows ends at the hole
            _move(rows, later, first_row + last, first_row + hole)
            hole = last
        starts[later + 1] -= 1
    rows.where[action, slot] = 0


@njit(nogil=True)
def take_rows(rows, cell, actions, slots):
    """Take all rows out of a cell; returns their number. Their entries are written into `actions` and `slots`."""
    starts = rows.starts[cell]
    for action in range(len(starts) - 1):
        for place in range(starts[action], starts[action + 1]):
            actions[place], slots[place] = action, rows.owners[cell * ROWS + place]
            rows.where[action, slots[place]] = 0
    n = starts[-1]
    starts[:] = 0
    return n


@njit(nogil=True)
def _move(rows, action, source, target):
    """Move a row of an action."""
    copy_code(rows.codes, rows.norms, source, target)
    rows.owners[target] = rows.owners[source]
    rows.where[action, rows.owners[target]] = target + 1
