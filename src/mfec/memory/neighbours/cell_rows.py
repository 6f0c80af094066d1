"""Rows of codes grouped by cell and, within a cell, by action, under constant insertion and removal.

A cell owns a chain of blocks of 16 rows. Its rows are numbered through the chain; those of action a go from `starts[a]`
to `starts[a + 1]`. To make room for a row, the first row of every later action moves behind that action's last row. To
close a gap, the last row of every later action moves to its front. So a change moves at most one row for each action,
and only the last block of a chain is not full.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mfec.compiling import njit
from mfec.memory.neighbours.codes import BLOCK, PART, copy_half_code, empty_half_blocks, parts_of


class RowArrays(NamedTuple):
    """The rows of all cells, as compiled functions take them."""

    codes: NDArray[np.uint8]  # half codes, in blocks
    norms: NDArray[np.int32]  # (rows,)
    owners: NDArray[np.int32]  # (rows,): slots
    following: NDArray[np.int32]  # (blocks,): the block after this one in its cell, or -1
    cell: NDArray[np.int32]  # (blocks,)
    first_block: NDArray[np.int32]  # (cells,), or -1
    starts: NDArray[np.int32]  # (cells, n_actions + 1)
    where: NDArray[np.int32]  # (n_actions, capacity): row + 1 of each entry
    unused: NDArray[np.int64]  # first of a chain of free blocks, or -1; number of blocks ever taken


class CellRows:
    """The rows of all cells, and where each entry's row is."""

    def __init__(self, n_actions: int, capacity: int, dim: int) -> None:
        self._n_actions, self._capacity, self._dim = n_actions, capacity, dim
        self._where = np.zeros((n_actions, capacity), np.int32)  # row + 1 of each entry
        self._reserve(0)
        self._first_block = np.empty(0, np.int32)
        self._starts = np.empty((0, n_actions + 1), np.int32)

    @staticmethod
    def bytes_per_entry(dim: int) -> int:
        """Bytes of its codes, norm, owner and row number; a tenth of the rows are empty."""
        return (parts_of(dim) * PART // 2 + 4 + 4) * 11 // 10 + 4

    @property
    def arrays(self) -> RowArrays:
        """The arrays, as compiled functions take them."""
        return RowArrays(
            self._codes, self._norms, self._owners, self._next, self._cell, self._first_block, self._starts,
            self._where, self._unused,
        )  # fmt: skip

    def lay_out(
        self, n_cells: int, actions: NDArray[np.int64], slots: NDArray[np.int64], cell_of: NDArray[np.int32]
    ) -> None:
        """Give each of these entries a row, the blocks of a cell side by side. The caller writes the codes."""
        # A block for every 16 entries, and for each cell one that is not full, are always enough.
        if (blocks := -(-self._n_actions * self._capacity // BLOCK) + n_cells) > len(self._next):
            self._reserve(blocks + blocks // 16)
        self._first_block = np.empty(n_cells, np.int32)
        self._starts = np.zeros((n_cells, self._n_actions + 1), np.int32)
        _lay_out(actions, slots, cell_of, self.arrays)

    def cells_of(self, actions: NDArray[np.int64], slots: NDArray[np.int64]) -> NDArray[np.int32]:
        """The cell of each of these entries."""
        rows = self._where[actions, slots] - 1
        return np.asarray(self._cell[rows // BLOCK])

    def _reserve(self, blocks: int) -> None:
        """Reserve so many blocks. They cost address space only, until rows are written."""
        self._codes = empty_half_blocks(blocks, self._dim)
        self._norms = np.empty(blocks * BLOCK, np.int32)
        self._owners = np.empty(blocks * BLOCK, np.int32)  # slots
        self._next = np.empty(blocks, np.int32)  # the block after this one in its cell, or -1
        self._cell = np.empty(blocks, np.int32)
        self._unused = np.array([-1, 0], np.int64)  # as in `RowArrays`


@njit()
def _lay_out(actions, slots, cell_of, rows):
    _, _, owners, following, cell, first_block, starts, where, unused = rows
    n_cells, n_actions = starts.shape[0], starts.shape[1] - 1
    for i in range(len(actions)):
        starts[cell_of[i], actions[i] + 1] += 1
    block = 0
    for c in range(n_cells):
        for action in range(n_actions):
            starts[c, action + 1] += starts[c, action]
        used = (starts[c, n_actions] + BLOCK - 1) // BLOCK
        first_block[c] = block if used else -1
        for b in range(block, block + used):
            following[b] = b + 1 if b + 1 < block + used else -1
            cell[b] = c
        block += used
    unused[0], unused[1] = -1, block
    filled = np.zeros((n_cells, n_actions), np.int32)
    for i in range(len(actions)):
        c, action = cell_of[i], actions[i]
        row = first_block[c] * BLOCK + starts[c, action] + filled[c, action]
        filled[c, action] += 1
        owners[row] = slots[i]
        where[action, slots[i]] = row + 1


@njit()
def chain_of(cell, first_block, following, chain):
    """Write the blocks of a cell into `chain`; returns their number."""
    n = 0
    block = first_block[cell]
    while block >= 0:
        chain[n] = block
        n += 1
        block = following[block]
    return n


@njit()
def _move(rows, chain, action, source, target):
    """Move a row of an action from one place in the cell to another."""
    codes, norms, owners, _, _, _, _, where, _ = rows
    old = chain[source // BLOCK] * BLOCK + source % BLOCK
    new = chain[target // BLOCK] * BLOCK + target % BLOCK
    copy_half_code(codes, norms, old, new)
    owners[new] = owners[old]
    where[action, owners[new]] = new + 1


@njit()
def add_row(rows, cell, action, slot):
    """Make room for an entry in a cell; returns its row. The caller writes its codes and norm."""
    _, _, owners, following, cell_of_block, first_block, starts, where, unused = rows
    n_actions = starts.shape[1] - 1
    size = starts[cell, n_actions]
    chain = np.empty(size // BLOCK + 1, np.int64)
    n = chain_of(cell, first_block, following, chain)
    if size == n * BLOCK:
        if unused[0] >= 0:
            block = unused[0]
            unused[0] = following[block]
        else:
            block = unused[1]
            unused[1] += 1
        following[block] = -1
        cell_of_block[block] = cell
        if n:
            following[chain[n - 1]] = block
        else:
            first_block[cell] = block
        chain[n] = block
    hole = size
    for later in range(n_actions - 1, action, -1):
        if starts[cell, later + 1] > starts[cell, later]:
            _move(rows, chain, later, starts[cell, later], hole)
            hole = starts[cell, later]
        starts[cell, later + 1] += 1
    starts[cell, action + 1] += 1
    row = chain[hole // BLOCK] * BLOCK + hole % BLOCK
    owners[row] = slot
    where[action, slot] = row + 1
    return row


@njit()
def drop_row(rows, action, slot):
    """Remove an entry's row from its cell, if it has one."""
    _, _, _, following, cell_of_block, first_block, starts, where, unused = rows
    row = where[action, slot] - 1
    if row < 0:
        return
    cell = cell_of_block[row // BLOCK]
    n_actions = starts.shape[1] - 1
    size = starts[cell, n_actions]
    chain = np.empty(size // BLOCK + 1, np.int64)
    n = chain_of(cell, first_block, following, chain)
    hole = 0
    while chain[hole] != row // BLOCK:
        hole += 1
    hole = hole * BLOCK + row % BLOCK
    for later in range(action, n_actions):
        last = starts[cell, later + 1] - 1
        if last != hole:  # an action without rows ends at the hole
            _move(rows, chain, later, last, hole)
            hole = last
        starts[cell, later + 1] -= 1
    where[action, slot] = 0
    if size - 1 == (n - 1) * BLOCK:  # the last block is empty now
        block = chain[n - 1]
        if n > 1:
            following[chain[n - 2]] = -1
        else:
            first_block[cell] = -1
        following[block] = unused[0]
        unused[0] = block
