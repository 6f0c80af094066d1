"""Exact search while it is the faster one on this machine, then cells."""

from __future__ import annotations

import logging
import statistics
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfec.memory.neighbours.cells import CellIndex
from mfec.memory.neighbours.codes import all_entries
from mfec.memory.neighbours.exact import ExactIndex
from mfec.memory.neighbours.index import Found, IndexInMemory, Shape
from mfec.memory.neighbours.recent import RecentQueries

FIRST_TRIAL = 65_536  # entries of all actions; below this an exact search takes a tenth of an emulator step
NEXT_TRIAL = 1.5  # times as many entries

log = logging.getLogger("mfec.memory")


class AutoIndex(IndexInMemory):
    """The exact index, until a trial on recent queries shows that cells are faster. Both read the same states.

    A trial is due at 65,536 entries, and again whenever there are half as many more. It waits until 64 queries have
    been kept (1,024 look-ups). Stored states cannot replace them: cells that were set by 64 stored states found 0.986
    of the neighbours of new states of Ms. Pac-Man, and 0.9925 were wanted. The outcome depends on this machine and
    its load, so a run that must be equal bit for bit on any machine names `exact` or `cells` instead.

    Look-ups of an agent that does not learn may not change the index. If a trial is due, they make one of their own.
    If cells win it, they serve these look-ups until the agent learns again, and are then dropped.
    """

    name = "auto"

    def __init__(self, shape: Shape, entry_ids: NDArray[np.int64], **settings: Any) -> None:
        super().__init__(shape, entry_ids, **settings)
        self._shape = shape
        self._queries = RecentQueries(self.dim)
        self._index: ExactIndex | CellIndex = ExactIndex(shape, entry_ids, states=self._states)
        self._next_trial = FIRST_TRIAL
        self._other_queries = RecentQueries(self.dim)  # of an agent that does not learn
        self._cells_for_others: CellIndex | None = None  # serve only those look-ups
        self._tried_for_others = False

    @staticmethod
    def bytes_per_entry(dim: int) -> int:
        """Bytes of both indexes, since both exist during a trial."""
        return ExactIndex.bytes_per_entry(dim) + CellIndex.bytes_per_entry(dim)

    @property
    def active(self) -> str:
        """The index that searches now."""
        return self._searching.active

    @property
    def approximate(self) -> bool:  # type: ignore[override]
        """Whether the index that searches now may miss neighbours."""
        return self._searching.approximate

    @property
    def measured_recall(self) -> float | None:  # type: ignore[override]
        """That of the index that searches now."""
        return self._searching.measured_recall

    def take_in(self, actions: NDArray[np.int64], slots: NDArray[np.int64]) -> None:
        """Pass the slots on to the index that searches."""
        self._index.take_in(actions, slots)
        self.count_entries(actions, slots)
        self._cells_for_others, self._tried_for_others = None, False
        self._try_if_due()

    def forget(self) -> None:
        """Begin again with exact search; the queries that the next trial is on stay."""
        self._index = ExactIndex(self._shape, self._entry_ids, states=self._states)
        self._next_trial = FIRST_TRIAL
        self._cells_for_others, self._tried_for_others = None, False

    def finish_reading(self) -> None:
        """As the index that searches does."""
        self._searching.finish_reading()

    def search(self, states: NDArray[Any], wanted: NDArray[np.bool_], k: int, *, learning: bool = False) -> Found:
        """The nearest entries, found by the index that searches now."""
        self._remember(states, learning=learning)
        found = super().search(states, wanted, k)
        if learning:
            self._searching.measure_recall(states, wanted, found.squared)
        return found

    def find(
        self, states: NDArray[np.float32], wanted: NDArray[np.bool_], k: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """What the index that searches now finds."""
        return self._searching.find(states, wanted, k)

    def _remember(self, states: NDArray[np.float32], *, learning: bool) -> None:
        if learning:
            self._cells_for_others = None
            self._queries.add(states)
            self._try_if_due()
        elif self._is_due and not self._tried_for_others:
            self._other_queries.add(states)
            if self._other_queries.full:
                self._tried_for_others = True
                self._cells_for_others = self._try_cells(self._other_queries)

    @property
    def _searching(self) -> ExactIndex | CellIndex:
        return self._cells_for_others or self._index

    @property
    def _is_due(self) -> bool:
        # The sum of a list: numpy's takes 2 us, and this is asked at every look-up.
        return isinstance(self._index, ExactIndex) and sum(self._sizes.tolist()) >= self._next_trial

    def _try_if_due(self) -> None:
        if self._is_due and self._queries.full:
            self._next_trial = int(NEXT_TRIAL * int(self._sizes.sum()))
            self._index = self._try_cells(self._queries) or self._index

    def _try_cells(self, queries: RecentQueries) -> CellIndex | None:
        """Cells, if they are faster on these queries and reach their recall; else None."""
        cells = self._new_cells(queries)
        cells.take_in(*all_entries(self._sizes))
        exact_ms, cells_ms = (milliseconds(index, queries.states, self._k) for index in (self._index, cells))
        if cells_ms >= exact_ms or not cells.reaches_its_recall:
            return None
        log.info("%s entries: searching cells from now on, %.2f ms a look-up instead of %.2f",
                 f"{int(self._sizes.sum()):,}", cells_ms, exact_ms)  # fmt: skip
        return cells

    def settings(self) -> dict[str, Any]:
        """Which index searches, its settings, and when the next trial is due."""
        return {
            "active": self._index.active,
            "next_trial": self._next_trial,
            "seen": self._queries.seen,
            "index": self._index.settings(),
        }

    def tensors(self) -> dict[str, NDArray[Any]]:
        """What the active index keeps, and the recent queries."""
        return {"queries": self._queries.kept.copy(), **self._index.tensors()}

    def resume(
        self,
        actions: NDArray[np.int64],
        slots: NDArray[np.int64],
        settings: dict[str, Any],
        tensors: dict[str, NDArray[Any]],
    ) -> None:
        """Continue with the index that `settings()` and `tensors()` describe."""
        self._queries.restore(tensors["queries"], int(settings["seen"]))
        if settings["active"] == CellIndex.name:
            self._index = self._new_cells(self._queries)
        self._index.resume(actions, slots, settings["index"], tensors)
        self.count_entries(actions, slots)
        self._next_trial = int(settings["next_trial"])

    def _new_cells(self, queries: RecentQueries) -> CellIndex:
        settings: dict[str, Any] = {"k": self._k, "recall": self._recall, "states": self._states}
        return CellIndex(self._shape, self._entry_ids, queries=queries, **settings)


def milliseconds(index: ExactIndex | CellIndex, queries: NDArray[np.float32], k: int) -> float:
    """The median time of looking up one of the queries in all actions."""
    taken = []
    for query in queries:
        began = time.perf_counter()
        index.find(query[None], np.ones((1, index.n_actions), np.bool_), k)
        taken.append(1000.0 * (time.perf_counter() - began))
    return statistics.median(taken)
