"""Cells of states that lie together: k-means in two levels, on byte codes.

All arithmetic is in whole numbers, so the same states give the same cells on every machine and for every number of
threads.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mfec.compiling import njit
from mfec.memory.neighbours.codes import BLOCK, empty_blocks, measure_rows, put_code, shift_query
from mfec.threads import n_threads, on_all_cores

REGION_SAMPLE = 64  # codes for each region that the clustering reads
ROUNDS = 4  # of k-means; more moved the share of found neighbours by less than its noise


class CellArrays(NamedTuple):
    """Regions and cells, as compiled functions take them."""

    regions: NDArray[np.uint8]  # codes, in blocks
    region_norms: NDArray[np.int32]
    centres: NDArray[np.uint8]  # codes, in blocks
    norms: NDArray[np.int32]
    first: NDArray[np.int64]  # (n_regions + 1,): where the cells of each region begin
    centre_codes: NDArray[np.uint8]  # (n_cells, width)


@dataclass(frozen=True)
class Cells:
    """Centres of cells, grouped into regions: those of region r are first[r] to first[r + 1]."""

    regions: NDArray[np.uint8]  # codes (n_regions, width)
    centres: NDArray[np.uint8]  # codes (n_cells, width)
    first: NDArray[np.int64]  # (n_regions + 1,)
    arrays: CellArrays

    def __len__(self) -> int:
        return len(self.centres)

    @classmethod
    def of(cls, regions: NDArray[np.uint8], centres: NDArray[np.uint8], first: NDArray[np.int64]) -> Cells:
        """Cells from their centres."""
        return cls(regions, centres, first, CellArrays(*_in_blocks(regions), *_in_blocks(centres), first, centres))


def cluster(codes: NDArray[np.uint8], n_cells: int) -> Cells:
    """About `n_cells` cells for codes (n, width): regions first, then cells within each region."""
    n_regions = max(1, round(n_cells**0.5))
    regions = _k_means(codes[:: max(1, len(codes) // (REGION_SAMPLE * n_regions))], n_regions)
    members = nearest_centres(codes, regions)
    order = np.argsort(members, kind="stable")
    bounds = np.searchsorted(members[order], np.arange(len(regions) + 1))
    parts = [regions[:0]] * len(regions)
    threads = n_threads()

    def divide(share: int) -> None:
        for region in range(share, len(regions), threads):
            inside = codes[order[bounds[region] : bounds[region + 1]]]
            share_of_cells = max(1, round(n_cells * len(inside) / len(codes)))
            parts[region] = _k_means(inside, share_of_cells) if len(inside) else regions[region, None]

    on_all_cores(divide, threads)
    first = np.concatenate([[0], np.cumsum([len(part) for part in parts])]).astype(np.int64)
    return Cells.of(regions, np.concatenate(parts), first)


def nearest_centres(codes: NDArray[np.uint8], centres: NDArray[np.uint8]) -> NDArray[np.int64]:
    """The nearest centre for each code, on all cores."""
    nearest = np.empty(len(codes), np.int64)
    blocks, norms = _in_blocks(centres)
    threads = n_threads()
    bounds = np.linspace(0, len(codes), threads + 1).astype(np.int64)

    def assign(share: int) -> None:
        part = slice(bounds[share], bounds[share + 1])
        _assign(codes[part], blocks, norms, len(centres), nearest[part])

    on_all_cores(assign, threads)
    return nearest


def _k_means(codes: NDArray[np.uint8], k: int) -> NDArray[np.uint8]:
    k = min(k, len(codes))
    centres = codes[np.arange(k) * len(codes) // k]  # spread evenly over the sample
    blocks, norms = _in_blocks(centres)
    return np.asarray(_lloyd(np.ascontiguousarray(codes), centres, blocks, norms))


def _in_blocks(codes: NDArray[np.uint8]) -> tuple[NDArray[np.uint8], NDArray[np.int32]]:
    n_blocks = -(-len(codes) // BLOCK)
    blocks, norms = empty_blocks((n_blocks,), codes.shape[1]), np.zeros(n_blocks * BLOCK, np.int32)
    _put_codes(blocks, norms, codes)
    return blocks, norms


@njit(nogil=True)
def _put_codes(blocks, norms, codes):
    for row in range(len(codes)):
        put_code(blocks, norms, row, codes[row])


@njit(nogil=True)
def _assign(codes, blocks, norms, n_centres, nearest):
    query = np.empty(codes.shape[1], np.int8)
    distances = np.empty(len(norms), np.int32)
    for i in range(len(codes)):
        norm = shift_query(codes[i], query)
        measure_rows(blocks, norms, 0, n_centres, query, norm, distances)
        nearest[i] = np.argmin(distances[:n_centres])


@njit(nogil=True)
def _lloyd(codes, centres, blocks, norms):
    """Rounds of k-means; centres without codes are dropped at the end."""
    nearest = np.empty(len(codes), np.int64)
    counts = np.zeros(len(centres), np.int64)
    for _ in range(ROUNDS):
        _assign(codes, blocks, norms, len(centres), nearest)
        sums = np.zeros(centres.shape, np.int64)
        counts[:] = 0
        for i in range(len(codes)):
            counts[nearest[i]] += 1
            for j in range(codes.shape[1]):
                sums[nearest[i], j] += codes[i, j]
        for c in range(len(centres)):
            if counts[c] > 0:
                for j in range(codes.shape[1]):
                    centres[c, j] = (2 * sums[c, j] + counts[c]) // (2 * counts[c])
        _put_codes(blocks, norms, centres)
    return centres[counts > 0]
