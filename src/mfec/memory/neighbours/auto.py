"""Exact search while that is the faster one on this machine, then cells."""

from __future__ import annotations

import logging
import statistics
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfec.config import AgentConfig
from mfec.memory.neighbours.cells import CellIndex
from mfec.memory.neighbours.codes import all_entries
from mfec.memory.neighbours.exact import ExactIndex
from mfec.memory.neighbours.recent import RecentQueries

FIRST_TRIAL = 65_536  # entries of all actions; below this an exact search takes a tenth of an emulator step
NEXT_TRIAL = 1.5  # times as many entries

log = logging.getLogger("mfec.memory")


class AutoIndex:
    """The exact index, until a trial on recent queries shows that cells are faster.

    A trial is made at 65,536 entries and whenever there are half as many again. Its outcome depends on this machine
    and its load: runs that must be equal to the bit on any machine name their index instead.
    """

    name = "auto"

    def __init__(
        self,
        states: NDArray[np.float32],
        entry_ids: NDArray[np.int64],
        recall: float = AgentConfig.recall,
        *,
        k: int = AgentConfig.k,
    ) -> None:
        self._recall, self._k = recall, k
        self._states, self._entry_ids = states, entry_ids
        self._sizes = np.zeros(len(states), np.int64)
        self._queries = RecentQueries(states.shape[2])
        self._index: ExactIndex | CellIndex = ExactIndex(states, entry_ids)
        self._next_trial = FIRST_TRIAL

    @staticmethod
    def bytes_per_entry(dim: int) -> int:
        """What the index adds to one entry; both kinds exist during a trial."""
        return ExactIndex.bytes_per_entry(dim) + CellIndex.bytes_per_entry(dim)

    @property
    def active(self) -> str:
        """The index that searches now."""
        return self._index.active

    @property
    def approximate(self) -> bool:
        """Whether the index that searches now may miss neighbours."""
        return self._index.approximate

    def put(self, actions: NDArray[np.int64], slots: NDArray[np.int64]) -> None:
        """Take in the states that now stand in these slots, new ones and replaced ones alike."""
        self._index.put(actions, slots)
        np.maximum.at(self._sizes, actions, slots + 1)
        entries = int(self._sizes.sum())
        if isinstance(self._index, ExactIndex) and entries >= self._next_trial:
            self._next_trial = int(NEXT_TRIAL * entries)
            self._try_cells(entries)

    def search(
        self, states: NDArray[np.float32], wanted: NDArray[np.bool_], k: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The nearest entries, as the active index finds them."""
        return self._index.search(states, wanted, k)

    def asked(self, states: NDArray[np.float32]) -> None:
        """States were looked up."""
        self._queries.add(states)

    def _try_cells(self, entries: int) -> None:
        queries = self._queries.states
        if len(queries) == 0:
            return
        cells = self._new_cells()
        cells.put(*all_entries(self._sizes))
        exact_ms, cells_ms = milliseconds(self._index, queries, self._k), milliseconds(cells, queries, self._k)
        if cells_ms < exact_ms and cells.reaches_its_recall:
            self._index = cells
            log.info("%s entries: searching cells from now on, %.2f ms a look-up instead of %.2f",
                     f"{entries:,}", cells_ms, exact_ms)  # fmt: skip

    def settings(self) -> dict[str, Any]:
        """Everything that is not an array, as JSON takes it."""
        return {
            "active": self.active,
            "next_trial": self._next_trial,
            "seen": self._queries.seen,
            "index": self._index.settings(),
        }

    def tensors(self) -> dict[str, NDArray[Any]]:
        """What the active index keeps, and the recent queries."""
        return {"queries": self._queries.kept.copy(), **self._index.tensors()}

    def restore(
        self,
        actions: NDArray[np.int64],
        slots: NDArray[np.int64],
        settings: dict[str, Any],
        tensors: dict[str, NDArray[Any]],
    ) -> None:
        """Go on with the index of which `settings()` and `tensors()` were kept."""
        self._queries.restore(tensors["queries"], int(settings["seen"]))
        if settings["active"] == CellIndex.name:
            self._index = self._new_cells()
        self._index.restore(actions, slots, settings["index"], tensors)
        np.maximum.at(self._sizes, actions, slots + 1)
        self._next_trial = int(settings["next_trial"])

    def _new_cells(self) -> CellIndex:
        return CellIndex(self._states, self._entry_ids, self._recall, k=self._k, queries=self._queries)


def milliseconds(index: ExactIndex | CellIndex, queries: NDArray[np.float32], k: int) -> float:
    """The median time of looking up one of the queries in all actions."""
    taken = []
    for query in queries:
        began = time.perf_counter()
        index.search(query[None], np.ones((1, index.n_actions), np.bool_), k)
        taken.append(1000.0 * (time.perf_counter() - began))
    return statistics.median(taken)
