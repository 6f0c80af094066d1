"""The interface of a neighbour index, and what all indexes that keep their states in this process share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mfec.config import AgentConfig, DeviceName
from mfec.device import Channel
from mfec.memory.neighbours.codes import all_entries

Shape = tuple[int, int, int]  # actions, capacity of each, numbers in a state


@dataclass(frozen=True)
class Found:
    """The nearest entries of a batch of states in all action buffers, nearest first, older first among equals."""

    states: NDArray[np.float32]  # (n, dim): what was searched for
    slots: NDArray[np.int64]  # (n, n_actions, k), -1 where there are fewer, or none were wanted
    squared: NDArray[np.float64]  # (n, n_actions, k): squared distances, infinity where there is no entry


class NeighbourIndex(Protocol):
    """Keeps the states of all action buffers, and finds the nearest in each.

    An index is made by `Index(shape, entry_ids, k=..., recall=..., device=...)`. A slot is a place in an action's
    buffer. The index reads `entry_ids`, int64 (n_actions, capacity), in place: the older of two entries has the
    smaller id. A subclass that keeps nothing beside the states inherits `settings`, `tensors` and `resume`.
    """

    name: str

    @property
    def active(self) -> str:
        """Name of the index that searches now."""

    @property
    def approximate(self) -> bool:
        """Whether the index that searches now may miss neighbours."""

    @property
    def measured_recall(self) -> float | None:
        """Share of the true neighbours that recent searches found; None if it was not measured."""

    @property
    def embeds(self) -> bool:
        """Whether the index embeds observations itself."""

    def embed_with(self, embedding: Any) -> bool:
        """Embed observations, uint8 (n, size), with this embedding from now on; False if the index cannot."""

    def put(self, actions: NDArray[np.int64], slots: NDArray[np.int64], states: NDArray[np.float32]) -> None:
        """Keep states, float32 (n, dim), in these slots; if two are for the same slot, the later one stays."""

    def fill(self, actions: NDArray[np.int64], slots: NDArray[np.int64], states: NDArray[np.float32]) -> None:
        """Keep states in these slots of an index that is being restored; `resume` or `take_in` follows."""
        self.put(actions, slots, states)

    def take_in(self, actions: NDArray[np.int64], slots: NDArray[np.int64]) -> None:
        """Index the states in these slots, which are new or have replaced others."""
        return

    def keep(self, actions: NDArray[np.int64], slots: NDArray[np.int64]) -> None:
        """Forget all states but those in these slots, which move to the front of their buffers.

        actions, slots: one buffer after the other, in slot order.
        """

    def rows(self, actions: NDArray[np.int64], slots: NDArray[np.int64]) -> NDArray[np.float32]:
        """The states, float32 (n, dim), that are kept in these slots."""

    def search(self, states: NDArray[Any], wanted: NDArray[np.bool_], k: int, *, learning: bool = False) -> Found:
        """The nearest entries in the wanted buffers, bool (n, n_actions).

        states: float32 (n, dim), or observations if the index embeds. An index may adapt to the look-ups of a
        `learning` agent. All other look-ups change neither a checkpoint nor what learning look-ups find.
        """

    @staticmethod
    def bytes_per_entry(dim: int) -> int:
        """Bytes that the index needs for one entry, its state not counted."""

    def settings(self) -> dict[str, Any]:
        """What a checkpoint must keep beside states and arrays, as JSON takes it."""
        return {}

    def tensors(self) -> dict[str, NDArray[Any]]:
        """Arrays that a checkpoint must keep beside the states."""
        return {}

    def restore(
        self,
        actions: NDArray[np.int64],
        slots: NDArray[np.int64],
        states: NDArray[np.float32],
        settings: dict[str, Any],
        tensors: dict[str, NDArray[Any]],
    ) -> None:
        """Put states into these slots, and continue from the settings and tensors of a checkpoint."""
        self.fill(actions, slots, states)
        self.resume(actions, slots, settings, tensors)

    def resume(
        self,
        actions: NDArray[np.int64],
        slots: NDArray[np.int64],
        settings: dict[str, Any],
        tensors: dict[str, NDArray[Any]],
    ) -> None:
        """Index the states in these slots, and continue from the settings and tensors of a checkpoint."""
        return


class IndexInMemory(NeighbourIndex):
    """An index with its states in this process, where compiled searches read them in place.

    A subclass overrides `take_in` and `find`; if it keeps more than the states, `settings`, `tensors` and `resume`.
    """

    approximate = False
    measured_recall: float | None = None
    embeds = False

    def __init__(
        self,
        shape: Shape,
        entry_ids: NDArray[np.int64],
        *,
        k: int = AgentConfig.k,
        recall: float = AgentConfig.recall,
        device: DeviceName | Channel = "cpu",
        states: NDArray[np.float32] | None = None,
    ) -> None:
        """states: the array of another index, if the two share it."""
        self.n_actions, self.capacity, self.dim = shape
        # Full-size arrays cost address space only: the system hands out pages as entries are written.
        self._states = np.empty(shape, np.float32) if states is None else states
        self._entry_ids = entry_ids
        self._sizes = np.zeros(self.n_actions, np.int64)
        self._k, self._recall = k, recall

    def embed_with(self, embedding: Any) -> bool:
        """False: the agent embeds."""
        return False

    def put(self, actions: NDArray[np.int64], slots: NDArray[np.int64], states: NDArray[np.float32]) -> None:
        """Keep states in these slots."""
        self.finish_reading()
        if len(actions):
            self._states[actions, slots] = states
            self.take_in(actions, slots)

    def keep(self, actions: NDArray[np.int64], slots: NDArray[np.int64]) -> None:
        """Forget all states but those in these slots, which move to the front of their buffers and are indexed anew."""
        self.finish_reading()
        self.forget()
        self._sizes[:] = 0
        sizes = np.bincount(actions, minlength=self.n_actions)
        ends = np.cumsum(sizes)
        for action, (size, end) in enumerate(zip(sizes.tolist(), ends.tolist(), strict=True)):
            self._states[action, :size] = self._states[action, slots[end - size : end]]
        if len(actions):
            self.take_in(*all_entries(sizes))

    def fill(self, actions: NDArray[np.int64], slots: NDArray[np.int64], states: NDArray[np.float32]) -> None:
        """Keep states in these slots, without indexing them yet."""
        self._states[actions, slots] = states

    def rows(self, actions: NDArray[np.int64], slots: NDArray[np.int64]) -> NDArray[np.float32]:
        """The states that are kept in these slots."""
        return self._states[actions, slots]

    def search(self, states: NDArray[Any], wanted: NDArray[np.bool_], k: int, *, learning: bool = False) -> Found:
        """The nearest entries in the wanted buffers."""
        return Found(states, *self.find(states, wanted, k))

    # -- For subclasses, and for `AutoIndex`, which searches with other indexes ---------------------------------------

    def take_in(self, actions: NDArray[np.int64], slots: NDArray[np.int64]) -> None:
        """Index the states in these slots, which are new or have replaced others."""

    def forget(self) -> None:
        """Forget what was made of the states that were taken in, but not the look-ups by which an index is set."""

    def find(
        self, states: NDArray[np.float32], wanted: NDArray[np.bool_], k: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Slots and squared distances, as in `Found`; the index does not change."""
        raise NotImplementedError

    def measure_recall(
        self, states: NDArray[np.float32], wanted: NDArray[np.bool_], squared: NDArray[np.float64]
    ) -> None:
        """Check the recall of a learning look-up that found these squared distances."""

    def finish_reading(self) -> None:
        """End what background threads read of the states, which are about to change."""

    def resume(
        self,
        actions: NDArray[np.int64],
        slots: NDArray[np.int64],
        settings: dict[str, Any],
        tensors: dict[str, NDArray[Any]],
    ) -> None:
        """Index the states in these slots, and continue from the settings and tensors of a checkpoint."""
        if len(actions):
            self.take_in(actions, slots)

    def count_entries(self, actions: NDArray[np.int64], slots: NDArray[np.int64]) -> None:
        """Count the entries of each buffer, with those in these slots."""
        np.maximum.at(self._sizes, actions, slots + 1)
