"""What the episodic memory asks of a neighbour index, and what all indexes with states in this process share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mfec.config import AgentConfig, DeviceName
from mfec.device import Channel

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
    buffer; `entry_ids`, int64 (n_actions, capacity), is read in place and says which of two entries is older.
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
        """Share of the true neighbours that were found lately; None where nothing was measured."""

    @property
    def embeds(self) -> bool:
        """Whether the index makes states of observations itself."""

    def embed_with(self, embedding: Any) -> bool:
        """Make states of observations, uint8 (n, size), with this embedding from now on; False if it cannot."""

    def put(self, actions: NDArray[np.int64], slots: NDArray[np.int64], states: NDArray[np.float32]) -> None:
        """Keep states, float32 (n, dim), in these slots; of two for the same slot the later one stays."""

    def rows(self, actions: NDArray[np.int64], slots: NDArray[np.int64]) -> NDArray[np.float32]:
        """The states, float32 (n, dim), that are kept in these slots."""

    def search(self, states: NDArray[Any], wanted: NDArray[np.bool_], k: int, *, learning: bool = False) -> Found:
        """The nearest entries in the wanted buffers, bool (n, n_actions).

        states: float32 (n, dim), or observations where the index embeds. An index may set itself by the look-ups of a
        `learning` agent; others leave no trace on what a checkpoint keeps, nor on what learning look-ups find.
        """

    @staticmethod
    def bytes_per_entry(dim: int) -> int:
        """What the index adds to the bytes of one entry beside its state."""

    def settings(self) -> dict[str, Any]:
        """Everything that a checkpoint must keep beside states and arrays."""

    def tensors(self) -> dict[str, NDArray[Any]]:
        """Arrays that a checkpoint must keep beside the states."""

    def restore(
        self,
        actions: NDArray[np.int64],
        slots: NDArray[np.int64],
        states: NDArray[np.float32],
        settings: dict[str, Any],
        tensors: dict[str, NDArray[Any]],
    ) -> None:
        """Keep states in these slots, and go on where the index stood of which settings and tensors were kept."""


class IndexInMemory:
    """States in this process, where compiled searches read them in place.

    A subclass overrides `take_in` and `find`, and what it keeps beside the states.
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
        """states: those of another index, which keeps them for both."""
        self.n_actions, self.capacity, self.dim = shape
        # Full-size arrays cost address space only: the system hands out pages as entries are written.
        self._states = np.empty(shape, np.float32) if states is None else states
        self._entry_ids = entry_ids
        self._sizes = np.zeros(self.n_actions, np.int64)
        self._k, self._recall = k, recall

    def embed_with(self, embedding: Any) -> bool:
        """No: the agent embeds."""
        return False

    def put(self, actions: NDArray[np.int64], slots: NDArray[np.int64], states: NDArray[np.float32]) -> None:
        """Keep states in these slots."""
        self.finish_reading()
        if len(actions):
            self._states[actions, slots] = states
            self.take_in(actions, slots)

    def rows(self, actions: NDArray[np.int64], slots: NDArray[np.int64]) -> NDArray[np.float32]:
        """The states that are kept in these slots."""
        return self._states[actions, slots]

    def search(self, states: NDArray[Any], wanted: NDArray[np.bool_], k: int, *, learning: bool = False) -> Found:
        """The nearest entries in the wanted buffers."""
        return Found(states, *self.find(states, wanted, k))

    def settings(self) -> dict[str, Any]:
        """Nothing: the states say everything."""
        return {}

    def tensors(self) -> dict[str, NDArray[Any]]:
        """Nothing: the states say everything."""
        return {}

    def restore(
        self,
        actions: NDArray[np.int64],
        slots: NDArray[np.int64],
        states: NDArray[np.float32],
        settings: dict[str, Any],
        tensors: dict[str, NDArray[Any]],
    ) -> None:
        """Keep states in these slots, and go on where the index stood."""
        self._states[actions, slots] = states
        self.resume(actions, slots, settings, tensors)

    # -- For subclasses, and for an index that searches by another one ------------------------------------------------

    def take_in(self, actions: NDArray[np.int64], slots: NDArray[np.int64]) -> None:
        """States stand in these slots, new ones and replaced ones alike."""

    def find(
        self, states: NDArray[np.float32], wanted: NDArray[np.bool_], k: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Slots and squared distances, as `Found` has them; without a trace."""
        raise NotImplementedError

    def watch(self, states: NDArray[np.float32], wanted: NDArray[np.bool_], squared: NDArray[np.float64]) -> None:
        """A learning agent was told these distances."""

    def finish_reading(self) -> None:
        """States are about to change: whatever reads them beside the run comes to an end."""

    def resume(
        self,
        actions: NDArray[np.int64],
        slots: NDArray[np.int64],
        settings: dict[str, Any],
        tensors: dict[str, NDArray[Any]],
    ) -> None:
        """Take in the states in these slots, and go on where settings and tensors were kept."""
        if len(actions):
            self.take_in(actions, slots)

    def grow(self, actions: NDArray[np.int64], slots: NDArray[np.int64]) -> None:
        """Count the entries of each buffer."""
        np.maximum.at(self._sizes, actions, slots + 1)
