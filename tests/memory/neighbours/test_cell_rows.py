"""Rows of cells against a plain dictionary of what lies where."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from mfec.memory.neighbours.cell_rows import CellRows, add_row, drop_row
from mfec.memory.neighbours.codes import BLOCK, PART, parts_of, put_half_code

N_ACTIONS, CAPACITY = 3, 25


class Pair:
    """Rows and a dictionary {(action, slot): (cell, number)}, told the same things; each code is made of its number."""

    def __init__(self, dim: int = 1, n_cells: int = 3) -> None:
        self.width = parts_of(dim) * PART
        self.rows = CellRows(N_ACTIONS, CAPACITY, dim)
        self.entries: dict[tuple[int, int], tuple[int, int]] = {}
        self.next_number = 0
        self.lay_out(n_cells)

    def lay_out(self, n_cells: int) -> None:
        """All entries in new cells, as when cells are made anew."""
        self.n_cells = n_cells
        self.entries = {entry: (number % n_cells, number) for entry, (_, number) in self.entries.items()}
        actions, slots = np.array(list(self.entries), np.int64).reshape(-1, 2).T
        cell_of = np.array([cell for cell, _ in self.entries.values()], np.int32)
        self.rows.lay_out(n_cells, actions, slots, cell_of)
        where = self.rows.arrays[7]
        for entry, (_, number) in self.entries.items():
            self.fill(int(where[entry]) - 1, number)
        self.handed_out = 0
        self.check()

    def put(self, action: int, first: int, n: int, cell: int) -> None:
        """A run of slots into one cell, whether they were in another one or nowhere."""
        for slot in range(first, min(first + n, CAPACITY)):
            drop_row(self.rows.arrays, action, slot)
            self.entries.pop((action, slot), None)
            self.check()
            self.entries[action, slot] = cell % self.n_cells, self.next_number
            self.fill(add_row(self.rows.arrays, cell % self.n_cells, action, slot), self.next_number)
            self.next_number += 1
            self.check()

    def drop(self, action: int, first: int, n: int) -> None:
        """A run of slots out of their cells; those that are in none stay there."""
        for slot in range(first, min(first + n, CAPACITY)):
            drop_row(self.rows.arrays, action, slot)
            self.entries.pop((action, slot), None)
            self.check()

    def fill(self, row: int, number: int) -> None:
        codes, norms = self.rows.arrays[:2]
        put_half_code(codes, norms, row, code_of(number, self.width), np.zeros(self.width, np.uint8), 1)

    def check(self) -> None:
        codes, norms, owners, following, cell_of_block, first_block, starts, where, unused = self.rows.arrays
        held: dict[tuple[int, int], tuple[int, int]] = {}
        used: list[int] = []
        assert starts.shape == (self.n_cells, N_ACTIONS + 1)
        for cell in range(self.n_cells):
            chain = chain_from(int(first_block[cell]), following)
            used += chain
            assert (cell_of_block[chain] == cell).all()
            assert starts[cell, 0] == 0
            assert len(chain) == -(-starts[cell, -1] // BLOCK)
            for action in range(N_ACTIONS):
                for place in range(starts[cell, action], starts[cell, action + 1]):
                    row = chain[place // BLOCK] * BLOCK + place % BLOCK
                    slot = int(owners[row])
                    assert (action, slot) not in held
                    assert where[action, slot] == row + 1
                    held[action, slot] = cell, row
        assert {entry: cell for entry, (cell, _) in held.items()} == {e: cell for e, (cell, _) in self.entries.items()}
        assert np.count_nonzero(where) == len(self.entries)

        free = chain_from(int(unused[0]), following)
        assert sorted(used + free) == list(range(unused[1]))
        assert unused[1] <= len(following)
        # A block given back is handed out again before a new one is.
        self.handed_out = max(self.handed_out, len(used))
        assert unused[1] == self.handed_out

        for entry, (_, row) in held.items():
            number = self.entries[entry][1]
            assert norms[row] == norm_of(number, self.width)
            packed = codes[row // BLOCK, :, :, row % BLOCK].reshape(-1, PART // 2)
            halves = np.concatenate([packed & 15, packed >> 4], axis=1).ravel()
            assert (halves == half_code_of(number, self.width)).all()


def code_of(number: int, width: int) -> NDArray[np.uint8]:
    """A code for each number, with steps of 1 from a centre of 0: 0 to 7 become half codes 8 to 15."""
    return ((number * 5 + np.arange(width) * (number % 7 + 1)) % 8).astype(np.uint8)


def half_code_of(number: int, width: int) -> NDArray[np.int64]:
    return code_of(number, width).astype(np.int64) + 8


def norm_of(number: int, width: int) -> int:
    return int((half_code_of(number, width) ** 2).sum())


def chain_from(block: int, following: NDArray[np.int32]) -> list[int]:
    chain: list[int] = []
    while block >= 0:
        assert block not in chain
        chain.append(block)
        block = int(following[block])
    return chain


some_slots = st.tuples(st.integers(0, N_ACTIONS - 1), st.integers(0, CAPACITY - 1), st.integers(1, 20))
operations = st.one_of(
    st.tuples(st.just("put"), some_slots, st.integers(0, 4)),
    st.tuples(st.just("put"), some_slots, st.just(0)),  # so that cells of several blocks are met too
    st.tuples(st.just("drop"), some_slots),
    st.tuples(st.just("lay_out"), st.integers(1, 5)),
)


@given(st.sampled_from([1, 65]), st.lists(operations, min_size=1, max_size=12))
@settings(max_examples=20)
def test_any_sequence_of_changes_equals_a_dictionary(dim: int, sequence: list[Any]) -> None:
    pair = Pair(dim)
    for name, *arguments in sequence:
        flat = [x for argument in arguments for x in (argument if isinstance(argument, tuple) else (argument,))]
        getattr(pair, name)(*flat)


def test_everything_moves_from_cell_to_cell() -> None:
    """All slots of all actions, in one cell after the other: no block is lost on the way."""
    pair = Pair(n_cells=4)
    for cell in (0, 3):
        for action in range(N_ACTIONS):
            pair.put(action, 0, CAPACITY, cell)
    for action in (1, 0, 2):
        pair.drop(action, 0, CAPACITY)
    blocks = -(-N_ACTIONS * CAPACITY // BLOCK) + 1  # and one for the entry that is on its way into a second cell
    assert pair.rows.arrays[8][1] <= blocks


def test_a_full_memory_has_room_in_any_number_of_cells() -> None:
    """The worst that can come: one row in the last block of every cell."""
    pair = Pair(n_cells=1)
    for action in range(N_ACTIONS):
        pair.put(action, 0, CAPACITY, 0)
    for n_cells in (30, 2):
        pair.lay_out(n_cells)
        for cell in range(n_cells):
            pair.put(cell % N_ACTIONS, cell % CAPACITY, 1, cell)


def test_the_cell_of_each_entry_is_known() -> None:
    pair = Pair()
    pair.put(0, 3, 20, 2)
    pair.put(2, 0, 30, 1)
    pair.put(0, 5, 2, 0)
    actions, slots = np.array(list(pair.entries)).T
    assert pair.rows.cells_of(actions, slots).tolist() == [cell for cell, _ in pair.entries.values()]


def test_dropping_what_is_not_there_changes_nothing() -> None:
    pair = Pair()
    pair.put(1, 0, 5, 0)
    pair.drop(0, 0, 40)
    pair.drop(1, 5, 40)
    assert len(pair.entries) == 5


@pytest.mark.parametrize(("dim", "expected"), [(1, 48), (64, 48), (65, 83), (130, 118)])
def test_bytes_of_a_row(dim: int, expected: int) -> None:
    """Half a byte a number in whole parts, 8 bytes with it, a tenth of them empty, and 4 bytes to find it by."""
    assert CellRows.bytes_per_entry(dim) == expected
