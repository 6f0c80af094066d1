"""The centres of cells, grouped into regions of cells that lie together, and the cells that are nearest to a code.

A region has room for 256 cells; one that is full is divided. Cells have numbers, which are handed out again. Nothing
that is found depends on these numbers, but on the order of regions and of the cells in them, which a checkpoint keeps.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mfec.compiling import njit
from mfec.memory.neighbours.codes import (
    BLOCK,
    PART,
    copy_code,
    empty_blocks,
    get_code,
    measure_rows,
    parts_of,
    put_code,
    shift_query,
)
from mfec.memory.neighbours.division import divide

REGION = 256  # cells that a region has room for
ASSIGN_REGIONS = 4  # regions whose cells a new entry is compared with
LOOK_AT = 8  # cells whose distance is measured for each one that is read
STEPS = 1024  # that distances are rounded to when cells are ordered

N_REGIONS, N_CELLS, NUMBERS, RETURNED, CURSOR, OLD = range(6)  # places in `counts`


class CentreArrays(NamedTuple):
    """Regions and cells, as compiled functions take them."""

    regions: NDArray[np.uint8]  # codes, in blocks
    region_norms: NDArray[np.int32]
    cells: NDArray[np.int32]  # (regions, REGION): numbers of the cells in each
    filled: NDArray[np.int32]  # (regions,): how many those are
    centres: NDArray[np.uint8]  # codes of cells, in blocks, in the order of `cells`
    norms: NDArray[np.int32]
    codes: NDArray[np.uint8]  # (cells, width): the centre of each cell, in the book that its entries are coded by
    places: NDArray[np.int32]  # (cells,): where in `cells`, of those that are in use
    steps: NDArray[np.int32]  # (cells,): codes to a step of half codes
    misfits: NDArray[np.int32]  # (cells,): entries that lie far from the centre
    books: NDArray[np.uint8]  # (cells,): the book that its entries are coded by
    unused: NDArray[np.int32]  # numbers of cells that were given back
    counts: NDArray[np.int64]  # regions; cells; numbers ever used; numbers given back; see `cells.py` for the others


def empty_centres(cells: int, dim: int) -> CentreArrays:
    """Centres for so many cells at most. They cost address space only, until they are written."""
    width = parts_of(dim) * PART
    regions = cells // (REGION // 8) + 2
    return CentreArrays(
        regions=empty_blocks((-(-regions // BLOCK),), dim),
        region_norms=np.empty(-(-regions // BLOCK) * BLOCK, np.int32),
        cells=np.empty((regions, REGION), np.int32),
        filled=np.zeros(regions, np.int32),
        centres=empty_blocks((regions * REGION // BLOCK,), dim),
        norms=np.empty(regions * REGION, np.int32),
        codes=np.empty((cells, width), np.uint8),
        places=np.empty(cells, np.int32),
        steps=np.empty(cells, np.int32),
        misfits=np.empty(cells, np.int32),
        books=np.empty(cells, np.uint8),
        unused=np.empty(cells, np.int32),
        counts=np.zeros(6, np.int64),
    )


@njit(nogil=True)
def add_cell(centres, code):
    """A new cell around this centre, in the nearest region; returns its number."""
    counts = centres.counts
    if counts[RETURNED] > 0:
        counts[RETURNED] -= 1
        cell = np.int64(centres.unused[counts[RETURNED]])
    else:
        cell = counts[NUMBERS]
        counts[NUMBERS] += 1
    counts[N_CELLS] += 1
    _put_into_region(centres, cell, code)
    return cell


@njit(nogil=True)
def remove_cell(centres, cell):
    """Give a cell up. A region that is left with few cells is given up, too, and its cells go to the nearest others."""
    counts = centres.counts
    centres.unused[counts[RETURNED]] = cell
    counts[RETURNED] += 1
    counts[N_CELLS] -= 1
    region = centres.places[cell] // REGION
    last = region * REGION + centres.filled[region] - 1
    _move_cell(centres, last, centres.places[cell])
    centres.filled[region] -= 1
    if centres.filled[region] < REGION // 8 and counts[N_REGIONS] > 1:
        _dissolve_region(centres, region)


@njit(nogil=True)
def centre_of(centres, cell, code):
    """Write the centre of a cell, in the book of today, into `code`."""
    get_code(centres.centres, centres.places[cell], code)


@njit(nogil=True)
def nearest_cell(centres, query, norm):
    """The cell that an entry belongs to, and its distance: the nearest one in the nearest regions."""
    to_region, distances = _measure_regions(centres, query, norm), np.empty(REGION, np.int32)
    nearest, place = np.int64(np.iinfo(np.int32).max), np.int64(0)
    for _ in range(min(ASSIGN_REGIONS, len(to_region))):
        region = np.argmin(to_region)
        to_region[region] = np.iinfo(np.int32).max
        begin = region * REGION
        measure_rows(centres.centres, centres.norms, begin, begin + centres.filled[region], query, norm, distances)
        i = np.argmin(distances[: centres.filled[region]])
        if distances[i] < nearest:
            nearest, place = distances[i], begin + i
    return centres.cells[place // REGION, place % REGION], nearest


@njit(nogil=True)
def nearest_cells(centres, query, norm, reads):
    """The nearest cells to a query, nearly in order, from as many of the nearest regions as are worth looking at."""
    order = _nearest_regions(centres, query, norm)
    looked = room = 0
    while looked < len(order) and room < LOOK_AT * reads:
        room += centres.filled[order[looked]]
        looked += 1
    places, distances = _measure_cells(centres, order[:looked], query, norm, room)
    chosen = np.empty(min(reads, room), np.int64)
    _order_nearly(distances, chosen)
    for i in range(len(chosen)):
        place = places[chosen[i]]
        chosen[i] = centres.cells[place // REGION, place % REGION]
    return chosen


@njit(nogil=True)
def reads_to_reach(centres, query, norm, most):
    """How many cells a search must read until it reads each cell, int64 (numbers,): its place in the order of all.

    At least so many that its region is looked at. All that lie beyond the `most` nearest count as the last.
    """
    order = _nearest_regions(centres, query, norm)
    places, distances = _measure_cells(centres, order, query, norm, centres.counts[N_CELLS])
    looked_at = np.empty(len(order), np.int64)
    before = 0
    for region in order:
        looked_at[region] = before // LOOK_AT + 1
        before += centres.filled[region]
    near = np.flatnonzero(distances <= np.partition(distances, most - 1)[most - 1])
    reads = np.full(centres.counts[NUMBERS], centres.counts[N_CELLS])
    for nearer, i in enumerate(near[np.argsort(distances[near])]):
        region = places[i] // REGION
        reads[centres.cells[region, places[i] % REGION]] = max(nearer + 1, looked_at[region])
    return reads


@njit(nogil=True)
def _measure_cells(centres, regions, query, norm, n):
    """Places and distances of all cells, n of them, of these regions."""
    places, distances = np.empty(n, np.int64), np.empty(n + BLOCK, np.int32)
    done = 0
    for region in regions:
        begin, size = region * REGION, centres.filled[region]
        measure_rows(centres.centres, centres.norms, begin, begin + size, query, norm, distances[done:])
        for i in range(size):
            places[done + i] = begin + i
        done += size
    return places, distances[:n]


@njit(nogil=True)
def _nearest_regions(centres, query, norm):
    order = np.empty(centres.counts[N_REGIONS], np.int64)
    _order_nearly(_measure_regions(centres, query, norm), order)
    return order


@njit(nogil=True)
def _measure_regions(centres, query, norm):
    n = centres.counts[N_REGIONS]
    distances = np.empty((n + BLOCK - 1) // BLOCK * BLOCK, np.int32)
    measure_rows(centres.regions, centres.region_norms, 0, n, query, norm, distances)
    return distances[:n]


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
    last = np.searchsorted(before, len(order)) - 1  # no distance beyond this step has a place
    for i in range(len(distances)):
        if step_of[i] <= last:
            place = before[step_of[i]]
            before[step_of[i]] += 1
            if place < len(order):
                order[place] = i


@njit(nogil=True)
def _put_into_region(centres, cell, code):
    """Put a cell into the region whose centre is nearest to its own, `code`."""
    counts = centres.counts
    if counts[N_REGIONS] == 0:
        counts[N_REGIONS] = 1
        put_code(centres.regions, centres.region_norms, 0, code)
    query = np.empty(len(code), np.int8)
    norm = shift_query(code, query)
    region = np.argmin(_measure_regions(centres, query, norm))
    while centres.filled[region] == REGION:  # its parts may lie farther away than another region, which may be full too
        _divide_region(centres, region)
        region = np.argmin(_measure_regions(centres, query, norm))
    place = region * REGION + centres.filled[region]
    centres.filled[region] += 1
    centres.cells[region, place % REGION] = cell
    centres.places[cell] = place
    put_code(centres.centres, centres.norms, place, code)


@njit(nogil=True)
def _divide_region(centres, region):
    """Give a part of the cells of a full region to a new one. The others keep their order."""
    width = centres.codes.shape[1]
    codes, means = np.empty((REGION, width), np.uint8), np.empty((2, width), np.uint8)
    for i in range(REGION):
        get_code(centres.centres, region * REGION + i, codes[i])
    side = np.empty(REGION, np.bool_)
    divide(codes, np.arange(REGION), side, means)
    other = centres.counts[N_REGIONS]
    centres.counts[N_REGIONS] += 1
    filled = np.zeros(2, np.int32)
    for i in range(REGION):
        into = (other if side[i] else region) * REGION + filled[int(side[i])]
        filled[int(side[i])] += 1
        _move_cell(centres, region * REGION + i, into)
    centres.filled[region], centres.filled[other] = filled[0], filled[1]
    put_code(centres.regions, centres.region_norms, region, means[0])
    put_code(centres.regions, centres.region_norms, other, means[1])


@njit(nogil=True)
def _dissolve_region(centres, region):
    """Give a region up; the last region takes its number."""
    n = centres.filled[region]
    cells = centres.cells[region, :n].copy()
    codes = np.empty((n, centres.codes.shape[1]), np.uint8)
    for i in range(n):
        centre_of(centres, cells[i], codes[i])
    centres.counts[N_REGIONS] -= 1
    last = centres.counts[N_REGIONS]
    if last != region:
        for i in range(centres.filled[last]):
            _move_cell(centres, last * REGION + i, region * REGION + i)
        centres.filled[region] = centres.filled[last]
        copy_code(centres.regions, centres.region_norms, last, region)
    centres.filled[last] = 0
    for i in range(n):
        _put_into_region(centres, cells[i], codes[i])


@njit(nogil=True)
def _move_cell(centres, source, target):
    """Move a cell from one place to another, whose cell was moved or given up before."""
    cell = centres.cells[source // REGION, source % REGION]
    centres.cells[target // REGION, target % REGION] = cell
    centres.places[cell] = target
    copy_code(centres.centres, centres.norms, source, target)
