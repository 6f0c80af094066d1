"""Approximate k-nearest-neighbour search in cells of states that lie together, for buffers that change all the time.

The states of all actions share one set of cells, some hundred states in each. A search measures the distance to the
cells (one pass for all actions), reads the nearest of them, and ranks the best candidates by true distance. A write
moves a dozen rows inside one cell. A cell that is full is divided, one that is nearly empty dissolved, so cells fit
what is stored at any time, and no write ever waits for all of them. The number of cells that a search reads is set by
what it would have taken to find the true neighbours of recent queries. docs/memory.md explains why this was chosen over
a graph.
"""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfec.memory.neighbours.cell_centres import (
    CURSOR,
    N_CELLS,
    empty_centres,
)
from mfec.memory.neighbours.cell_changes import (
    Books,
    CodedCells,
    begin_book,
    drop_entries,
    put_entries,
    renew_cells,
)
from mfec.memory.neighbours.cell_rows import MEAN, empty_rows, most_cells, row_bytes_per_entry
from mfec.memory.neighbours.cell_search import (
    EVERYTHING_BY_CELLS,
    SMALL,
    measure_effort,
    search_rows,
)
from mfec.memory.neighbours.cells_on_disk import cells_fit, put_back, tensors_of
from mfec.memory.neighbours.codes import (
    LEVELS,
    PART,
    SAMPLE,
    fit_code_book,
    parts_of,
)
from mfec.memory.neighbours.index import Found, IndexInMemory, Shape
from mfec.memory.neighbours.recall import RecallMeter
from mfec.memory.neighbours.recent import KEPT, RecentQueries
from mfec.memory.neighbours.scan import Stored, scan
from mfec.memory.neighbours.shared_search import SharedSearch
from mfec.threads import n_threads, on_all_cores

OFTEN, LEAST_OFTEN = 512, 16  # measured after every 512th of the entries has changed, and after 16 changes at least
MORE, FEW_CELLS = 8, 512  # times as many cells as a search reads hold all neighbours that matter; and at least so many
RENEWED = 16  # entries put for each cell that is coded anew
OTHER_SCALE, OTHER_RANGE = 1.2, 1 / 16  # how much another book must differ to be taken
MANY_OUTSIDE = 0.1  # share of the entries put
OUTSIDE = 0.001  # share of numbers below the coded range, and above it; small, since half codes are coarser anyway
SPARES = (8, 16, 32, 64)  # candidates beyond k that are ranked by true distance: the fewest that reach the recall
TOLERANCE = 0.02
LEAST_SCANS = KEPT  # before a warning
SCANNED = 262_144  # entries of a buffer that is scanned in full to see what cells can find
WORTH_SHARING = 65_536  # entries to read; below this, waking another thread costs as much as it saves
PLENTY = 15  # times k candidates, with which reading so many cells is as good as exact

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
        self._queries = queries or RecentQueries(self.dim)
        self._meter = RecallMeter(self._states)
        self.forget()

    @staticmethod
    def bytes_per_entry(dim: int) -> int:
        """Its row in a cell, and its share of the cell's centre."""
        return row_bytes_per_entry(dim) + 3 * (parts_of(dim) * PART + 16) // MEAN + 1

    @property
    def measured_recall(self) -> float | None:  # type: ignore[override]
        """Share of the true neighbours that were found: a random look-up is compared with a full scan now and then."""
        return self._meter.recall

    @property
    def reaches_its_recall(self) -> bool:
        """Whether codes can tell neighbours apart, by what recent queries took; True before the first."""
        return self._finds >= self._recall - TOLERANCE

    def forget(self) -> None:
        """Forget the cells; the queries that they are set by stay."""
        books = Books(np.zeros((2, self.dim)), np.ones(2), np.zeros(1, np.int64))
        centres = empty_centres(most_cells(self.n_actions * self.capacity), self.dim)
        self._cells = CodedCells(books, centres, empty_rows(self.n_actions, self.capacity, self.dim))
        self._shared = SharedSearch(self._stored, self._cells, k=self._k, most_candidates=PLENTY * self._k + SPARES[-1])
        self._changes = 0  # entries put
        self._fitted_at, self._fitted_for = 0, 0  # changes and entries when the book was last looked at
        self._outside = 0  # entries put since then that lie outside the coded range
        self._measure_at = LEAST_OFTEN  # changes when effort is measured next
        self._efforts = 0  # queries whose effort was measured; the last of them:
        self._needed_reads = np.full((KEPT, self.n_actions, self._k), -1, np.int32)
        self._needed_places = np.full((KEPT, self.n_actions, self._k), -1, np.int32)
        self._scans = np.zeros((KEPT, 2), np.int64)  # neighbours that cells can find, and those of full scans
        self._finds = 1.0  # share of the neighbours, by these
        self._warned = False
        self._reads = 1  # cells that a search reads
        self._spare = SPARES[0]  # candidates beyond k

    # -- Taking in ----------------------------------------------------------------------------------------------------

    def take_in(self, actions: NDArray[np.int64], slots: NDArray[np.int64]) -> None:
        """Put the states in these slots, which are new or have replaced others, into cells."""
        drop_entries(self._states, actions, slots, self._cells)  # all at once: their states are others already
        first = 0
        while first < len(actions):
            some = slice(first, first + self._measure_at - self._changes)
            self.count_entries(actions[some], slots[some])
            self._fit_book()
            self._outside += put_entries(self._states, actions[some], slots[some], self._cells)
            n = len(actions[some])
            self._changes += n
            renew_cells(self._states, -(-n // RENEWED), self._cells)
            if self._changes == self._measure_at:
                self._measure_effort()
                self._measure_at += max(LEAST_OFTEN, int(self._sizes.sum()) // OFTEN)
            first += n

    def _fit_book(self) -> None:
        """Make a new book if states have come to lie elsewhere.

        That is looked at when a quarter of the entries has come since, or a sixteenth that lies mostly elsewhere.
        """
        changed = self._changes - self._fitted_at
        elsewhere = self._outside > MANY_OUTSIDE * changed
        if self._fitted_for and changed < max(LEAST_OFTEN, self._fitted_for // (16 if elsewhere else 4)):
            return
        entries = int(self._sizes.sum())
        self._fitted_at, self._fitted_for, self._outside = self._changes, entries, 0
        low, scale = fit_code_book(
            self._states[self._places(np.arange(0, entries, max(1, entries // SAMPLE)))], OUTSIDE
        )
        today = int(self._cells.books.today[0])
        old_low, old_scale = self._cells.books.lows[today], self._cells.books.scales[today]
        far = np.abs(low - old_low).max() > OTHER_RANGE * LEVELS * old_scale
        if far or not 1 / OTHER_SCALE < scale / old_scale < OTHER_SCALE:
            renew_cells(self._states, self._n_cells, self._cells)  # what is left of the book before that
            begin_book(low, scale, self._cells)

    def _places(self, entries: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Actions and slots of some entries, as they are counted buffer by buffer."""
        ends = np.cumsum(self._sizes)
        actions = np.searchsorted(ends, entries, side="right")
        return actions, entries - (ends - self._sizes)[actions]

    # -- Searching ----------------------------------------------------------------------------------------------------

    def search(self, states: NDArray[Any], wanted: NDArray[np.bool_], k: int, *, learning: bool = False) -> Found:
        """Nearly the k nearest entries. Some queries of a learning agent are kept to set how much is read by."""
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
        if self._n_cells == 0:
            return np.full((*wanted.shape, k), -1), np.full((*wanted.shape, k), np.inf)
        slots, squared = np.empty((*wanted.shape, k), np.int64), np.empty((*wanted.shape, k))
        if len(wanted) == 1 and k == self._k:
            self._shared.find(states[0], wanted[0], self._reads, k + self._spare, SMALL, slots[0], squared[0])
            return slots, squared
        slots[:], squared[:] = -1, np.inf
        share_read = min(1.0, self._reads / self._n_cells)
        to_read = np.count_nonzero(wanted) * share_read * int(self._sizes.sum()) / self.n_actions
        threads = n_threads() if to_read > WORTH_SHARING else 1

        def search_some(share: int) -> None:
            search_rows(
                self._stored, self._cells, states, wanted, share, threads, self._reads, k + self._spare, SMALL,
                slots, squared,
            )  # fmt: skip

        on_all_cores(search_some, threads)
        return slots, squared

    def measure_recall(
        self, states: NDArray[np.float32], wanted: NDArray[np.bool_], squared: NDArray[np.float64]
    ) -> None:
        """Compare one of these distances with a full scan now and then."""
        self._meter.check(states, wanted, squared, self._sizes)

    def finish_reading(self) -> None:
        """Give up the scan that measures the recall, if one is under way."""
        self._meter.stop()

    @property
    def _n_cells(self) -> int:
        return int(self._cells.centres.counts[N_CELLS])

    @property
    def _stored(self) -> Stored:
        return Stored(self._states, self._entry_ids, self._sizes)

    # -- How much to read ---------------------------------------------------------------------------------------------

    def _measure_effort(self) -> None:
        """Measure what it takes to find the neighbours of a recent query, and set what is read by the last of these.

        Where nothing was looked up yet, a stored state is asked for.
        """
        at = self._efforts % KEPT
        queries = self._queries.states
        if len(queries):
            query = queries[self._efforts % len(queries)]
        else:
            entry = self._efforts * 0x9E3779B1 % int(self._sizes.sum())
            query = self._states[self._places(np.array([entry]))][0]
        wanted = np.ones(self.n_actions, np.bool_)
        slots = np.full((self.n_actions, self._k), -1, np.int64)
        squared = np.full(slots.shape, np.inf)
        plenty = PLENTY * self._k + SPARES[-1]
        enough = min(self._n_cells, max(FEW_CELLS, MORE * self._reads))
        self._shared.find(query, wanted, enough, plenty, EVERYTHING_BY_CELLS, slots, squared)
        kept = self._shared.candidates(plenty)
        self._needed_reads[at], self._needed_places[at] = -1, -1
        measure_effort(self._cells, query, kept, slots, enough, self._needed_reads[at], self._needed_places[at])
        self._compare_with_scan(query, squared, self._efforts % self.n_actions, at)
        self._efforts += 1
        self._set_reads()

    def _set_reads(self) -> None:
        """The fewest cells, and candidates, with which the wanted share of these neighbours would have been found."""
        there = self._needed_reads > 0
        reads, places = self._needed_reads[there], self._needed_places[there]
        for self._spare in SPARES:
            within = reads[places < self._k + self._spare]
            if len(places) - len(within) <= (1.0 - self._recall) / 2 * len(places):
                break
        wanted = int(np.ceil(self._recall * len(places))) - 1
        self._reads = int(np.partition(within, wanted)[wanted]) if wanted < len(within) else self._n_cells
        found, scanned = self._scans.sum(axis=0).tolist()
        share = np.count_nonzero(within <= self._reads) / len(places)
        self._finds = share * (found / scanned if scanned else 1.0)
        if not self.reaches_its_recall and not self._warned and self._efforts >= LEAST_SCANS:
            self._warned = True
            log.warning(
                "cells can find no more than %.0f%% of the neighbours here: neighbours differ too little beside the "
                "whole range of states; --index exact finds all of them", 100 * self._finds,
            )  # fmt: skip

    def _compare_with_scan(
        self, query: NDArray[np.float32], squared: NDArray[np.float64], action: int, at: int
    ) -> None:
        """Count how many of the neighbours in one buffer all cells together can find. If it is too few, say so."""
        size = int(self._sizes[action])
        k = min(self._k, size)
        self._scans[at] = 0
        if SMALL < size <= SCANNED:  # smaller ones are read in full
            slots, true = np.full(k, -1), np.full(k, np.inf)
            scan(self._states[action, :size], self._entry_ids[action], query, slots, true)
            self._scans[at] = np.count_nonzero(squared[action] <= true[-1]), k

    # -- Storage ------------------------------------------------------------------------------------------------------

    def settings(self) -> dict[str, Any]:
        """The scales of codes, what is due when, and how many cells a search reads."""
        return {
            "changes": self._changes,
            "fitted_at": self._fitted_at,
            "fitted_for": self._fitted_for,
            "outside": self._outside,
            "scales": self._cells.books.scales.tolist(),
            "book": int(self._cells.books.today[0]),
            "cursor": int(self._cells.centres.counts[CURSOR]),
            "measure_at": self._measure_at,
            "efforts": self._efforts,
            "reads": self._reads,
            "spare": self._spare,
            "seen": self._queries.seen,
        }

    def tensors(self) -> dict[str, NDArray[Any]]:
        """The cells, region by region, the cell of each entry in slot order, and what recent queries took."""
        return {
            "queries": self._queries.kept.copy(),
            "needed_reads": self._needed_reads.copy(),
            "needed_places": self._needed_places.copy(),
            **tensors_of(self._cells, self._sizes),
        }

    def resume(
        self,
        actions: NDArray[np.int64],
        slots: NDArray[np.int64],
        settings: dict[str, Any],
        tensors: dict[str, NDArray[Any]],
    ) -> None:
        """Put the entries in these slots into the cells that `settings()` and `tensors()` describe.

        A checkpoint of before cells were divided has the queries alone that are of use.
        """
        self._queries.restore(tensors["queries"], int(settings["seen"]))
        if "filled" not in tensors:
            return super().resume(actions, slots, settings, tensors)
        self._check_fits(actions, settings, tensors)
        self.count_entries(actions, slots)
        self._changes, self._measure_at = int(settings["changes"]), int(settings["measure_at"])
        self._efforts = int(settings["efforts"])
        self._fitted_at, self._fitted_for = int(settings["fitted_at"]), int(settings["fitted_for"])
        self._outside = int(settings["outside"])
        self._reads, self._spare = int(settings["reads"]), int(settings["spare"])
        if tensors["needed_reads"].shape == self._needed_reads.shape:  # else they are of another k
            self._needed_reads[:], self._needed_places[:] = tensors["needed_reads"], tensors["needed_places"]
        put_back(self._cells, self._states, actions, slots, settings, tensors)
        return None

    def _check_fits(
        self, actions: NDArray[np.int64], settings: dict[str, Any], tensors: dict[str, NDArray[Any]]
    ) -> None:
        """Compiled code trusts what it is given: an error if a checkpoint is not one of this index."""
        effort = (*self._needed_reads.shape[:2], *tensors["needed_reads"].shape[2:])
        fits = (
            all(
                tensors[name].dtype == np.int32 and tensors[name].shape == effort and tensors[name].min() >= -1
                for name in ("needed_reads", "needed_places")
            )
            and cells_fit(self._cells, self._states.shape, actions, settings, tensors)
            and settings["spare"] in SPARES
            and 1 <= int(settings["reads"]) <= max(1, len(tensors["centres"]))
            and int(settings["measure_at"]) > int(settings["changes"])
            and min(int(settings[name]) for name in ("changes", "fitted_at", "fitted_for", "outside", "efforts")) >= 0
        )
        if not fits:
            raise ValueError("its cells do not fit its entries")
