"""Centres of cells in regions, against a plain dictionary of cells and full scans of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from mfec.memory.neighbours import cell_centres
from mfec.memory.neighbours.cell_centres import (
    N_CELLS,
    N_REGIONS,
    REGION,
    add_cell,
    centre_of,
    empty_centres,
    nearest_cell,
    nearest_cells,
    reads_to_reach,
    remove_cell,
)
from mfec.memory.neighbours.codes import PART, put_code, shift_query

Codes = NDArray[np.uint8]


class Centres:
    """Cells, and a dictionary of their centres."""

    def __init__(self, most: int = 3000) -> None:
        self.arrays = empty_centres(most, PART)
        self.known: dict[int, Codes] = {}

    def add(self, code: Codes) -> None:
        cell = add_cell(self.arrays, code)
        assert cell not in self.known
        self.known[cell] = code

    def remove(self, cell: int) -> None:
        remove_cell(self.arrays, cell)
        del self.known[cell]

    def check(self) -> None:
        counts, filled = self.arrays.counts, self.arrays.filled
        n_regions = int(counts[N_REGIONS])
        assert counts[N_CELLS] == len(self.known) == filled[:n_regions].sum()
        assert not filled[n_regions:].any()
        assert (filled[:n_regions] >= (REGION // 8 if n_regions > 1 else 0)).all()
        assert filled.max() <= REGION
        code = np.empty(PART, np.uint8)
        seen = set()
        for region in range(n_regions):
            for place, cell in enumerate(self.arrays.cells[region, : filled[region]].tolist()):
                assert self.arrays.places[cell] == region * REGION + place
                centre_of(self.arrays, cell, code)
                assert (code == self.known[cell]).all()
                seen.add(cell)
        assert seen == self.known.keys()

    def query(self, code: Codes) -> tuple[Any, Any]:
        query = np.empty(PART, np.int8)
        norm = shift_query(code, query)
        return query, norm

    def distances(self, code: Codes) -> dict[int, int]:
        return {cell: int(((centre.astype(np.int64) - code) ** 2).sum()) for cell, centre in self.known.items()}


def some_codes(rng: np.random.Generator, n: int, groups: int = 12) -> Codes:
    middles = np.random.default_rng(5).integers(20, 236, (groups, PART))
    return np.clip(middles[rng.integers(0, groups, n)] + rng.normal(0, 15, (n, PART)), 0, 255).astype(np.uint8)


@given(st.lists(st.tuples(st.integers(0, 700), st.integers(0, 700)), min_size=1, max_size=5), st.integers(0, 9))
@settings(max_examples=15)
def test_cells_come_and_go_as_in_a_dictionary(phases: list[tuple[int, int]], seed: int) -> None:
    """Regions are divided and dissolved on the way."""
    rng = np.random.default_rng(seed)
    centres = Centres()
    for added, removed in phases:
        for code in some_codes(rng, min(added, 2900 - len(centres.known))):
            centres.add(code)
        for cell in rng.permutation(list(centres.known))[:removed].tolist():
            centres.remove(cell)
        centres.check()


def test_a_full_region_whose_parts_lie_farther_away_than_another_full_one() -> None:
    """Both are divided: one cell too many would lie in the next region's place."""
    centres, n = Centres(), 0
    arrays = centres.arrays
    for region, middles in enumerate([(50, 150), (112, 112)]):
        for place in range(REGION):
            code = np.full(PART, middles[place % 2], np.uint8)
            put_code(arrays.centres, arrays.norms, region * REGION + place, code)
            arrays.cells[region, place], arrays.places[n] = n, region * REGION + place
            centres.known[n] = code
            n += 1
        put_code(arrays.regions, arrays.region_norms, region, np.full(PART, sum(middles) // 2, np.uint8))
        arrays.filled[region] = REGION
    arrays.counts[:3] = 2, n, n
    centres.check()
    centres.add(np.full(PART, 104, np.uint8))
    centres.check()
    assert arrays.counts[N_REGIONS] == 4


def filled_centres(n: int) -> Centres:
    centres = Centres()
    for code in some_codes(np.random.default_rng(1), n):
        centres.add(code)
    return centres


@pytest.mark.parametrize("n", [1, 200, 1500])
def test_the_nearest_cell_is_found_nearly_always(n: int) -> None:
    """Always, where no more regions are there than are looked at."""
    centres = filled_centres(n)
    hits = 0
    for code in some_codes(np.random.default_rng(2), 100):
        cell, distance = nearest_cell(centres.arrays, *centres.query(code))
        distances = centres.distances(code)
        assert distances[cell] == distance
        hits += distance == min(distances.values())
    assert hits == 100 or (centres.arrays.counts[N_REGIONS] > cell_centres.ASSIGN_REGIONS and hits >= 95)


@pytest.mark.parametrize("n", [1, 900])
def test_cells_are_chosen_nearly_in_order(n: int) -> None:
    """To a thousandth of the range of all distances, each of them once."""
    centres = filled_centres(n)
    for code in some_codes(np.random.default_rng(3), 5):
        distances = centres.distances(code)
        chosen = nearest_cells(centres.arrays, *centres.query(code), n)
        assert sorted(chosen.tolist()) == sorted(centres.known)
        in_order = np.array([distances[cell] for cell in chosen.tolist()])
        step = (in_order.max() - in_order.min()) / cell_centres.STEPS + 1
        assert (np.diff(in_order) >= -2 * step).all()


@pytest.mark.parametrize("reads", [1, 7, 300])
def test_a_search_reads_a_cell_if_it_reads_as_many_as_it_takes(reads: int) -> None:
    """Measured reads are enough, and nearly as few as can be."""
    centres = filled_centres(1200)
    assert centres.arrays.counts[N_REGIONS] > 4
    enough = read = 0
    for code in some_codes(np.random.default_rng(4), 10):
        query = centres.query(code)
        needed = reads_to_reach(centres.arrays, *query, 600)
        chosen = set(nearest_cells(centres.arrays, *query, reads).tolist())
        within = {cell for cell in centres.known if needed[cell] <= reads}
        enough += len(within & chosen)
        read += len(within)
        assert len(chosen) == reads
        assert len(within) >= 0.5 * reads
    assert enough >= 0.9 * read


def test_what_is_found_does_not_depend_on_the_numbers_of_cells() -> None:
    """A number that is handed out again, as after a stop, changes nothing but itself."""
    rng = np.random.default_rng(6)
    codes = some_codes(rng, 600)
    ours, theirs = Centres(), Centres()
    for code in some_codes(rng, 50):
        theirs.add(code)
    for cell in list(theirs.known):
        theirs.remove(cell)
    for code in codes:
        ours.add(code)
    theirs.arrays.counts[N_REGIONS] = 0  # as where nothing was ever there
    for code in codes:
        theirs.add(code)
    assert list(ours.known) != list(theirs.known)
    for code in some_codes(rng, 20):
        found = [
            [centres.known[cell].tobytes() for cell in nearest_cells(centres.arrays, *centres.query(code), 40).tolist()]
            for centres in (ours, theirs)
        ]
        assert found[0] == found[1]
