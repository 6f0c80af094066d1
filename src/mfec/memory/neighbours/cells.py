"""Approximate k-nearest-neighbour search in cells of states that lie together, for buffers that change all the time.

The states of all actions share one set of cells, a few dozen states in each. A search measures the distance to the
cells (one pass for all actions), reads the nearest of them, and ranks the best candidates by true distance. A write
moves a dozen rows inside one cell. The cells are made anew whenever half of the entries have changed. The number of
cells that a search reads is then set so that it finds the wanted share of the true neighbours of recent queries.
docs/memory.md explains why this was chosen over a graph.
"""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfec.memory.neighbours.cell_rows import CellRows
from mfec.memory.neighbours.cell_search import (
    EVERYTHING_BY_CELLS,
    NOTHING,
    SMALL,
    SPLITS,
    Coded,
    assign_entries,
    codes_of,
    encode_laid_out,
    find_candidates,
    mean_spreads,
    merge_candidates,
    put_entries,
    rank_candidates,
    search_rows,
)
from mfec.memory.neighbours.clustering import Cells, cluster
from mfec.memory.neighbours.codes import COARSEST_STEP, PART, SAMPLE, all_entries, fit_code_book, parts_of
from mfec.memory.neighbours.index import Found, IndexInMemory, Shape
from mfec.memory.neighbours.recall import RecallMeter
from mfec.memory.neighbours.recent import RecentQueries
from mfec.memory.neighbours.scan import Stored, scan
from mfec.threads import n_threads, on_all_cores

CELL_SIZE = 96  # entries of all actions in a cell, when the cells are made
CELL_SAMPLE = 32  # entries for each cell, at most, that the clustering reads
SMALLEST_CHANGE = 1024  # entries put before cells are made anew, at least
CHECKED = 8  # recent queries that are compared with full scans
TOLERANCE = 0.02
MANY_MISFITS = 0.1  # share of the entries put
OUTSIDE = 0.001  # share of numbers below the coded range, and above it; small, since half codes are coarser anyway
SPARES = (8, 16, 32, 64)  # candidates beyond k that are ranked by true distance: the fewest that reach the recall
WORTH_SHARING = 65_536  # entries to read; below this, waking another thread costs as much as it saves

log = logging.getLogger("mfec.memory")


class CellIndex(IndexInMemory):
    """The approximate neighbour index over all action buffers: the states, and short codes of them, cell by cell.

    `recall` is the share of the k true neighbours to find. `queries` are the recent queries of another index, if the
    two share them.
    """

    name = active = "cells"
    approximate = True

    def __init__(
        self, shape: Shape, entry_ids: NDArray[np.int64], *, queries: RecentQueries | None = None, **settings: Any
    ) -> None:
        super().__init__(shape, entry_ids, **settings)
        self._rows = CellRows(*shape)
        self._low, self._scale = np.zeros(self.dim), 1.0
        self._steps = np.ones(0, np.int32)  # codes to a step of half codes, for each cell
        self._cells: Cells | None = None
        self._changes = 0  # entries put since the cells were made
        self._made_for = 0  # entries at that time
        self._scattered = 0  # entries put since the rows of each cell were laid out side by side
        self._misfits = 0  # entries put since the cells were made that lie far from every cell
        self.reaches_its_recall = True  # False if codes are too coarse to tell neighbours apart
        self._reads = 1  # cells that a search reads
        self._spare = SPARES[0]  # candidates beyond k
        self._queries = queries or RecentQueries(self.dim)
        self._meter = RecallMeter(self._states)

    @staticmethod
    def bytes_per_entry(dim: int) -> int:
        """Its row in a cell, and its share of the cell's centre."""
        return CellRows.bytes_per_entry(dim) + 2 * (parts_of(dim) * PART + 4) // CELL_SIZE + 1

    @property
    def measured_recall(self) -> float | None:  # type: ignore[override]
        """Share of the true neighbours that were found: a random look-up is compared with a full scan now and then."""
        return self._meter.recall

    def take_in(self, actions: NDArray[np.int64], slots: NDArray[np.int64]) -> None:
        """Put the states in these slots, which are new or have replaced others, into cells."""
        self.count_entries(actions, slots)
        self._changes += len(actions)
        if self._cells is None or self._is_outdated():
            self._make_cells()
        else:
            self._misfits += put_entries(self._states, actions, slots, self._coded(self._cells))
            self._scattered += len(actions)
            if self._scattered >= max(SMALLEST_CHANGE, self._made_for // 8):
                entries = all_entries(self._sizes)
                self._fill(*entries, self._rows.cells_of(*entries))

    def forget(self) -> None:
        """Forget the cells; the queries that they are set by stay."""
        self._rows = CellRows(*self._states.shape)
        self._cells = None
        self._changes = self._made_for = self._scattered = self._misfits = 0

    def _is_outdated(self) -> bool:
        """Whether half of the entries have changed, or a sixteenth if many of them fit no cell."""
        drifting = self._misfits > MANY_MISFITS * self._changes
        return self._changes >= max(SMALLEST_CHANGE, self._made_for // (16 if drifting else 2))

    def search(self, states: NDArray[Any], wanted: NDArray[np.bool_], k: int, *, learning: bool = False) -> Found:
        """Nearly the k nearest entries. Some queries of a learning agent are kept to set the next cells by."""
        if learning:
            self._queries.add(states)
        found = super().search(states, wanted, k)
        if learning:
            self.measure_recall(states, wanted, found.squared)
        return found

    def find(
        self, states: NDArray[np.float32], wanted: NDArray[np.bool_], k: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Nearly the k nearest entries of each wanted (state, action) pair."""
        return self._search(states, wanted, k, self._reads, self._spare)

    def measure_recall(
        self, states: NDArray[np.float32], wanted: NDArray[np.bool_], squared: NDArray[np.float64]
    ) -> None:
        """Compare one of these distances with a full scan now and then."""
        self._meter.check(states, wanted, squared, self._sizes)

    def finish_reading(self) -> None:
        """Wait for the scan that measures the recall."""
        self._meter.finish()

    def _coded(self, cells: Cells) -> Coded:
        return Coded(self._low, self._scale, self._steps, cells.arrays, self._rows.arrays)

    def _search(
        self, states: NDArray[np.float32], wanted: NDArray[np.bool_], k: int, reads: int, spare: int, small: int = SMALL
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        slots = np.full((*wanted.shape, k), -1, np.int64)
        squared = np.full((*wanted.shape, k), np.inf)
        if self._cells is None or not wanted.any():
            return slots, squared
        stored, coded = Stored(self._states, self._entry_ids, self._sizes), self._coded(self._cells)
        share_read = min(1.0, reads / len(self._cells))
        to_read = np.count_nonzero(wanted) * share_read * int(self._sizes.sum()) / self.n_actions
        threads = min(n_threads(), max(SPLITS, len(wanted))) if to_read > WORTH_SHARING else 1

        def search_some_rows(share: int) -> None:
            search_rows(stored, coded, states, wanted, share, threads, reads, k + spare, small, slots, squared)

        def search_some_splits(share: int) -> None:
            find_candidates(coded, states[0], wanted[0] & (self._sizes > small), reads, share, threads, kept[share])

        if len(wanted) > 1 or threads == 1:
            on_all_cores(search_some_rows, threads)
        else:
            kept = np.full((threads, self.n_actions, k + spare), NOTHING, np.int64)
            on_all_cores(search_some_splits, threads)
            merge_candidates(kept)
            rank_candidates(stored, states[0], wanted[0], kept[0], small, slots[0], squared[0])
        return slots, squared

    # -- Making cells -------------------------------------------------------------------------------------------------

    def _make_cells(self) -> None:
        actions, slots = all_entries(self._sizes)
        some = slice(None, None, max(1, len(slots) // SAMPLE))
        self._low, self._scale = fit_code_book(self._states[actions[some], slots[some]], OUTSIDE)
        n_cells = max(1, len(slots) // CELL_SIZE)
        some = slice(None, None, max(1, len(slots) // (CELL_SAMPLE * n_cells)))
        codes = codes_of(self._states, actions[some], slots[some], self._low, self._scale)
        self._cells = cluster(codes, n_cells)
        cell_of = self._assign(actions, slots)
        # 15 steps of a half code cover 98% of a normal distribution around the centre of a cell.
        spreads = mean_spreads(self._states, actions, slots, self._low, self._scale, self._cells.arrays, cell_of)
        self._steps = np.clip(np.ceil(2 * 2.33 / 15 * np.sqrt(spreads)), 1, COARSEST_STEP).astype(np.int32)
        self._fill(actions, slots, cell_of)
        self._changes, self._misfits, self._made_for = 0, 0, len(slots)
        self._set_reads()

    def _assign(self, actions: NDArray[np.int64], slots: NDArray[np.int64]) -> NDArray[np.int32]:
        """The cell of each of these entries, on all cores."""
        assert self._cells is not None
        arrays = self._cells.arrays
        cell_of = np.empty(len(actions), np.int32)
        threads = n_threads()
        bounds = np.linspace(0, len(actions), threads + 1).astype(np.int64)

        def assign(share: int) -> None:
            part = slice(bounds[share], bounds[share + 1])
            assign_entries(self._states, actions[part], slots[part], self._low, self._scale, arrays, cell_of[part])

        on_all_cores(assign, threads)
        return cell_of

    def _fill(self, actions: NDArray[np.int64], slots: NDArray[np.int64], cell_of: NDArray[np.int32]) -> None:
        assert self._cells is not None
        self._rows.lay_out(len(self._cells), actions, slots, cell_of)
        self._scattered = 0
        encode_laid_out(self._states, actions, slots, cell_of, self._coded(self._cells))

    def _set_reads(self) -> None:
        """Find by bisection the fewest cells to read for the wanted recall on recent queries."""
        assert self._cells is not None
        queries = self._queries.states
        if len(queries) == 0:  # nothing was looked up yet: use stored states
            actions, slots = all_entries(self._sizes)
            some = slice(None, None, max(1, len(slots) // len(self._queries.kept)))
            queries = self._states[actions[some], slots[some]]
        wanted = np.ones((len(queries), self.n_actions), np.bool_)
        plenty = 15 * self._k + SPARES[-1]  # candidates with which reading all cells is as good as exact
        _, truth = self._search(queries, wanted, self._k, len(self._cells), plenty, EVERYTHING_BY_CELLS)
        there = np.isfinite(truth)
        farthest = np.where(there, truth, -np.inf).max(axis=2, keepdims=True)

        def recall(reads: int) -> float:
            _, found = self._search(queries, wanted, self._k, reads, self._spare, EVERYTHING_BY_CELLS)
            return int(np.count_nonzero(found <= farthest)) / max(1, int(np.count_nonzero(there)))

        for self._spare in SPARES:
            if 1.0 - recall(len(self._cells)) <= (1.0 - self._recall) / 2:
                break
        few, many = 0, len(self._cells)
        while many - few > max(1, few // 16):
            reads = (few + many) // 2
            few, many = (few, reads) if recall(reads) >= self._recall else (reads, many)
        self._reads = many
        self._judge(recall(many) * self._share_of_truth(queries[:CHECKED], truth))

    def _share_of_truth(self, queries: NDArray[np.float32], found: NDArray[np.float64]) -> float:
        """The share of the neighbours of full scans that is among `found`, squared distances (n, n_actions, k)."""
        hits = neighbours = 0
        for query, of_query in zip(queries, found, strict=False):
            for action, size in enumerate(self._sizes.tolist()):
                k = min(self._k, size)
                slots, squared = np.full(k, -1), np.full(k, np.inf)
                if k:
                    scan(self._states[action, :size], self._entry_ids[action], query, slots, squared)
                    hits += int(np.count_nonzero(of_query[action] <= squared[-1]))
                    neighbours += k
        return hits / max(1, neighbours)

    def _judge(self, reached: float) -> None:
        self.reaches_its_recall = reached >= self._recall - TOLERANCE
        if not self.reaches_its_recall:
            log.warning(
                "cells can find no more than %.0f%% of the neighbours here: neighbours differ too little beside the "
                "whole range of states; --index exact finds all of them", 100 * reached,
            )  # fmt: skip

    # -- Storage ------------------------------------------------------------------------------------------------------

    def settings(self) -> dict[str, Any]:
        """The scale of codes, how old the cells are, and how many a search reads."""
        return {
            "scale": self._scale,
            "changes": self._changes,
            "made_for": self._made_for,
            "misfits": self._misfits,
            "reads": self._reads,
            "spare": self._spare,
            "seen": self._queries.seen,
        }

    def tensors(self) -> dict[str, NDArray[Any]]:
        """The cells, the cell of each entry in slot order, and the recent queries."""
        kept: dict[str, NDArray[Any]] = {"queries": self._queries.kept.copy()}
        if self._cells is not None:
            kept |= {
                "low": self._low.copy(),
                "steps": self._steps.copy(),
                "regions": self._cells.regions.copy(),
                "centres": self._cells.centres.copy(),
                "first": self._cells.first.copy(),
                "cell_of": self._rows.cells_of(*all_entries(self._sizes)),
            }
        return kept

    def resume(
        self,
        actions: NDArray[np.int64],
        slots: NDArray[np.int64],
        settings: dict[str, Any],
        tensors: dict[str, NDArray[Any]],
    ) -> None:
        """Put the entries in these slots into the cells that `settings()` and `tensors()` describe."""
        self._scale = float(settings["scale"])
        self._changes, self._made_for = int(settings["changes"]), int(settings["made_for"])
        self._misfits = int(settings["misfits"])
        self._reads, self._spare = int(settings["reads"]), int(settings["spare"])
        self._queries.restore(tensors["queries"], int(settings["seen"]))
        if "cell_of" not in tensors:
            return super().resume(actions, slots, settings, tensors)
        regions, centres, first, cell_of = (tensors[name] for name in ("regions", "centres", "first", "cell_of"))
        width = parts_of(self.dim) * PART
        fits = (
            1 <= self._reads <= len(centres)
            and 1 <= self._spare <= SPARES[-1]
            and 0.0 < self._scale < np.inf
            and bool(np.isfinite(tensors["low"]).all())
            and tensors["low"].shape == self._low.shape
            and all(codes.dtype == np.uint8 and codes.shape == (len(codes), width) for codes in (regions, centres))
            and first.shape == (len(regions) + 1,)
            and (first[0], first[-1]) == (0, len(centres))
            and bool((np.diff(first) > 0).all())
            and tensors["steps"].shape == (len(centres),)
            and bool(((tensors["steps"] >= 1) & (tensors["steps"] <= COARSEST_STEP)).all())
            and cell_of.shape == actions.shape
            and (len(cell_of) == 0 or (cell_of.min() >= 0 and cell_of.max() < len(centres)))
        )
        if not fits:
            raise ValueError("its cells do not fit its entries")
        self.count_entries(actions, slots)
        self._low, self._steps = tensors["low"].astype(np.float64), tensors["steps"].astype(np.int32)
        self._cells = Cells.of(regions.copy(), centres.copy(), first.astype(np.int64))
        self._fill(actions, slots, cell_of.astype(np.int32))
        return None
