"""Exact k-nearest-neighbour search on the device that keeps the states: a GPU, or the CPU through the same code."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfec.compiling import njit
from mfec.config import AgentConfig, DeviceName
from mfec.device import Channel, open_channel
from mfec.memory.neighbours.codes import all_entries
from mfec.memory.neighbours.index import Found, NeighbourIndex, Shape

AT_ONCE = 65_536  # states that move at a time


class CudaIndex(NeighbourIndex):
    """An index with its states on a device.

    It finds what `ExactIndex` finds: the k nearest by the distance in float64, older first among equals.
    """

    name = active = "cuda"
    approximate = False
    measured_recall: float | None = None
    embeds = False

    def __init__(
        self,
        shape: Shape,
        entry_ids: NDArray[np.int64],
        *,
        k: int = AgentConfig.k,
        recall: float = 1.0,
        device: DeviceName | Channel = "cpu",
    ) -> None:
        """device: its name, or a channel to one that several memories share."""
        self.n_actions, _, self._dim = shape
        self._entry_ids = entry_ids
        self._channel = open_channel(device) if isinstance(device, str) else device
        self._channel.open(*shape)

    @staticmethod
    def bytes_per_entry(dim: int) -> int:
        """Nothing beside its state."""
        return 0

    def embed_with(self, embedding: Any) -> bool:
        """Embed observations on the device, if the embedding can be handed over: each is then copied there once."""
        hand_over = getattr(embedding, "hand_over", None)
        self.embeds = hand_over is not None and hand_over(self._channel)
        return self.embeds

    def put(self, actions: NDArray[np.int64], slots: NDArray[np.int64], states: NDArray[np.float32]) -> None:
        """Keep states in these slots."""
        self._channel.store(actions, slots, states)

    def keep(self, actions: NDArray[np.int64], slots: NDArray[np.int64]) -> None:
        """Forget all states but those in these slots, which move to the front of their buffers."""
        sizes = np.bincount(actions, minlength=self.n_actions)
        front = all_entries(sizes)[1]
        # A state only moves towards the front, to where all before it have been read already.
        moving = np.flatnonzero(front != slots)
        for begin in range(0, len(moving), AT_ONCE):
            some = moving[begin : begin + AT_ONCE]
            self.put(actions[some], front[some], self.rows(actions[some], slots[some]))
        self._channel.shrink(sizes)

    def rows(self, actions: NDArray[np.int64], slots: NDArray[np.int64]) -> NDArray[np.float32]:
        """The states that are kept in these slots."""
        return self._channel.rows(actions, slots)

    def search(self, states: NDArray[Any], wanted: NDArray[np.bool_], k: int, *, learning: bool = False) -> Found:
        """The nearest entries in the wanted buffers."""
        found = self._channel.look_up(states, wanted, k)
        slots, squared = np.ascontiguousarray(found.slots), np.ascontiguousarray(found.squared)
        for row, action in np.argwhere(_put_in_order(slots, squared, found.unsure, self._entry_ids)).tolist():
            # More entries are as near as the last one. The oldest of them are the neighbours.
            distances = self._channel.distances(found.states[row], action)
            order = np.lexsort((self._entry_ids[action, : len(distances)], distances))[:k]
            slots[row, action, : len(order)], squared[row, action, : len(order)] = order, distances[order]
        return Found(found.states, slots[..., :k], squared[..., :k])


@njit()
def _put_in_order(slots, squared, unsure, entry_ids):
    """Order equally near neighbours by age; return where entries beyond k may be as near, bool (n, n_actions)."""
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
