"""Exact k-nearest-neighbour search where the states are: on a GPU, or on the CPU through the same code."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfec.compiling import njit
from mfec.device import Channel, DeviceEncoder, Seen
from mfec.memory.neighbours.stateless import StatelessIndex


class CudaIndex(StatelessIndex):
    """The index of buffers that live on a device; it keeps the states, and the memory keeps none.

    Its answers are those of `ExactIndex`: the k nearest by the distance in float64, older first among equals.
    """

    active = "cuda"

    def __init__(self, channel: Channel, shape: tuple[int, int, int], entry_ids: NDArray[np.int64], name: str) -> None:
        """shape: actions, capacity, dimensions; name: as the index was asked for, `cuda` or `auto`."""
        self.name = name
        self.n_actions, _, self._dim = shape
        self._entry_ids = entry_ids
        self._channel = channel
        channel.open(*shape)

    @staticmethod
    def bytes_per_entry(dim: int) -> int:
        """What the index adds to one entry beside its state: nothing."""
        return 0

    def project_with(self, weights: NDArray[np.float32]) -> None:
        """Make states of observations by these weights, float32 (observation size, dim)."""
        self._channel.project_with(weights)

    def encode_with(self, encoder: DeviceEncoder) -> None:
        """Make states of observations by this encoder."""
        self._channel.encode_with(encoder)

    def store(self, actions: NDArray[np.int64], slots: NDArray[np.int64], states: NDArray[np.float32]) -> None:
        """Keep states, float32 (n, dim), in these slots."""
        self._channel.store(actions, slots, states)

    def rows(self, actions: NDArray[np.int64], slots: NDArray[np.int64]) -> NDArray[np.float32]:
        """The states, float32 (n, dim), that are kept in these slots."""
        return self._channel.rows(actions, slots)

    def put(self, actions: NDArray[np.int64], slots: NDArray[np.int64]) -> None:
        """Nothing: `store` has told everything."""

    def search(
        self, states: NDArray[np.float32] | Seen, wanted: NDArray[np.bool_], k: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Slots, int64 (n, n_actions, k), -1 where there are none, and squared distances of the nearest entries."""
        found = self._channel.look_up(states.observations if isinstance(states, Seen) else states, wanted, k)
        if isinstance(states, Seen):
            states.states = found.states
        slots, squared = np.ascontiguousarray(found.slots), np.ascontiguousarray(found.squared)
        for row, action in np.argwhere(_put_in_order(slots, squared, found.unsure, self._entry_ids)).tolist():
            # More entries are as near as the last one: the oldest of them count.
            distances = self._channel.distances(found.states[row], action)
            order = np.lexsort((self._entry_ids[action, : len(distances)], distances))[:k]
            slots[row, action, : len(order)], squared[row, action, : len(order)] = order, distances[order]
        return slots[..., :k], squared[..., :k]

    def restore(
        self,
        actions: NDArray[np.int64],
        slots: NDArray[np.int64],
        settings: dict[str, Any],
        tensors: dict[str, NDArray[Any]],
    ) -> None:
        """Nothing: `store` has told everything."""


@njit()
def _put_in_order(slots, squared, unsure, entry_ids):
    """Put equally near neighbours in the order of their age; return where it must be found out who they are."""
    n, n_actions, one_more = slots.shape
    k = one_more - 1
    open_ends = unsure.copy()
    for row in range(n):
        for action in range(n_actions):
            own, far = slots[row, action], squared[row, action]
            if own[k] >= 0 and far[k - 1] == far[k]:
                open_ends[row, action] = True
            for i in range(1, k):
                at = i
                while (
                    own[at] >= 0
                    and at > 0
                    and far[at] == far[at - 1]
                    and entry_ids[action, own[at]] < entry_ids[action, own[at - 1]]
                ):
                    own[at], own[at - 1] = own[at - 1], own[at]
                    at -= 1
    return open_ends
