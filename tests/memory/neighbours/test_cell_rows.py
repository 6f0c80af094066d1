"""Rows of cells against a plain dictionary of what lies where."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from mfec.memory.neighbours.cell_rows import (
    BLOCKS,
    FEWEST,
    ROWS,
    add_row,
    cell_of,
    drop_row,
    empty_rows,
    most_cells,
    row_bytes_per_entry,
    size_of,
    take_rows,
)
from mfec.memory.neighbours.codes import BLOCK, PART, parts_of, put_half_code

N_ACTIONS, CAPACITY, N_CELLS = 3, 40, 4


class Pair:
    """Rows and a dictionary {(action, slot): (cell, number)}, told the same things; each code is made of its number."""

    def __init__(self, dim: int = 1) -> None:
        self.width = parts_of(dim) * PART
        self.rows = empty_rows(N_ACTIONS, CAPACITY, dim)
        self.entries: dict[tuple[int, int], tuple[int, int]] = {}
        self.next_number = 0

    def put(self, action: int, first: int, n: int, cell: int) -> None:
        """A run of slots into one cell, whether they were in another one or nowhere."""
        for slot in range(first, min(first + n, CAPACITY)):
            if (action, slot) in self.entries:
                drop_row(self.rows, action, slot)
                del self.entries[action, slot]
                self.check()
            self.entries[action, slot] = cell, self.next_number
            row = add_row(self.rows, cell, action, slot)
            code, centre = code_of(self.next_number, self.width), np.zeros(self.width, np.uint8)
            put_half_code(self.rows.codes, self.rows.norms, row, code, centre, 1)
            self.next_number += 1
            self.check()

    def drop(self, action: int, first: int, n: int) -> None:
        """A run of slots out of their cells, where they are in one."""
        for slot in range(first, min(first + n, CAPACITY)):
            if self.entries.pop((action, slot), None):
                drop_row(self.rows, action, slot)
                self.check()

    def take(self, cell: int) -> None:
        """All rows out of a cell."""
        actions, slots = np.empty(ROWS, np.int64), np.empty(ROWS, np.int64)
        n = take_rows(self.rows, cell, actions, slots)
        held = {entry for entry, (of, _) in self.entries.items() if of == cell}
        assert set(zip(actions[:n].tolist(), slots[:n].tolist(), strict=True)) == held
        assert (np.diff(actions[:n]) >= 0).all()
        self.entries = {entry: found for entry, found in self.entries.items() if found[0] != cell}
        self.check()

    def check(self) -> None:
        codes, norms, owners, starts, where = self.rows
        held: dict[tuple[int, int], tuple[int, int]] = {}
        for cell in range(N_CELLS):
            assert starts[cell, 0] == 0
            assert size_of(self.rows, cell) == sum(of == cell for of, _ in self.entries.values())
            for action in range(N_ACTIONS):
                for row in range(cell * ROWS + starts[cell, action], cell * ROWS + starts[cell, action + 1]):
                    slot = int(owners[row])
                    assert (action, slot) not in held
                    assert where[action, slot] == row + 1
                    held[action, slot] = cell, row
        assert {entry: cell for entry, (cell, _) in held.items()} == {e: cell for e, (cell, _) in self.entries.items()}
        assert np.count_nonzero(where) == len(self.entries)
        assert not starts[N_CELLS:].any()
        for action, slot in np.ndindex(N_ACTIONS, CAPACITY):
            assert cell_of(self.rows, action, slot) == self.entries.get((action, slot), (-1,))[0]
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


some_slots = st.tuples(st.integers(0, N_ACTIONS - 1), st.integers(0, CAPACITY - 1), st.integers(1, 30))
operations = st.one_of(
    st.tuples(st.just("put"), some_slots, st.integers(0, N_CELLS - 1)),
    st.tuples(st.just("put"), some_slots, st.just(0)),  # so that a cell has several blocks, too
    st.tuples(st.just("drop"), some_slots),
    st.tuples(st.just("take"), st.integers(0, N_CELLS - 1)),
)


@given(st.sampled_from([1, 65]), st.lists(operations, min_size=1, max_size=12))
@settings(max_examples=20)
def test_any_sequence_of_changes_equals_a_dictionary(dim: int, sequence: list[Any]) -> None:
    pair = Pair(dim)
    for name, *arguments in sequence:
        flat = [x for argument in arguments for x in (argument if isinstance(argument, tuple) else (argument,))]
        getattr(pair, name)(*flat)


def test_everything_moves_from_cell_to_cell() -> None:
    pair = Pair()
    for cell in (0, 3):
        for action in range(N_ACTIONS):
            pair.put(action, 0, CAPACITY, cell)
    for action in (1, 0, 2):
        pair.drop(action, 0, CAPACITY)
    assert not pair.entries


def test_there_is_room_for_as_many_cells_as_there_can_be() -> None:
    """Of the fewest entries each, and one that is being filled."""
    rows = empty_rows(N_ACTIONS, 1000, 64)
    assert len(rows.starts) == most_cells(N_ACTIONS * 1000) >= N_ACTIONS * 1000 // FEWEST + 1
    assert len(rows.owners) == len(rows.norms) == len(rows.starts) * ROWS
    assert len(rows.codes) == len(rows.starts) * BLOCKS


@pytest.mark.parametrize(("dim", "expected"), [(1, 68), (64, 68), (65, 119), (130, 170)])
def test_bytes_of_a_row(dim: int, expected: int) -> None:
    """Half a byte a number in whole parts and 8 bytes, 120 of 192 of them used, and 4 bytes to find it by."""
    assert row_bytes_per_entry(dim) == expected
