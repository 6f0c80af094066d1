"""Entries by place, an action and a slot: written, found by identity, moved, forgotten and kept on disk together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfec.checkpoint import Files
from mfec.config import DeviceName
from mfec.device import Channel
from mfec.memory.buffers import Buffers
from mfec.memory.compiled import Experience, Rule, enter_all, set_ticks, write_rows
from mfec.memory.entries import Entries, read_entries, read_in_parts
from mfec.memory.eviction import EvictionOrder
from mfec.memory.identities import IdentityTable
from mfec.memory.neighbours import index_bytes_per_entry, make_index
from mfec.memory.neighbours.index import Shape
from mfec.memory.parts import Parts

STORED = {"tick", "next_entry_id", "index_kind", "index_state"}  # `EntryStore.settings`


class EntryStore:
    """The action buffers with all that must change when they do: identities, the order of eviction, the index."""

    def __init__(self, shape: Shape, index: str, *, k: int, recall: float, device: DeviceName | Channel) -> None:
        self.buffers = Buffers(*shape[:2])
        self.index = make_index(index, shape, self.buffers.entry_ids, k=k, recall=recall, device=device)
        self.parts = Parts(self.buffers, self.index, shape[2])
        self.table = IdentityTable(self.buffers.keys)
        self.next_entry_id = 0
        self.shape = shape
        self._order = EvictionOrder(self.buffers.ticks, self.buffers.entry_ids)
        self._tick = 0

    def write(self, experience: Experience, states: NDArray[np.float32], rule: Rule) -> None:
        """Store steps in order: those of new states as new entries, in place of the oldest where a buffer is full."""
        n = len(states)
        slots, added = np.empty(n, np.int64), np.zeros(n, np.bool_)
        row = 0
        while row < n:  # the compiled loop returns early only if the eviction queue runs out
            row = write_rows(
                experience, row, rule, self.buffers.arrays, self.table.buckets,
                self._order.queue, self._order.queued, self._tick, self.next_entry_id, slots, added,
            )  # fmt: skip
            if row < n:
                self._order.refill(int(experience.actions[row]))
        self._tick += n
        self.next_entry_id += int(np.count_nonzero(added))
        there = slots >= 0
        if there.any():
            self.index.put(experience.actions[there], slots[there], states[there])

    def move(
        self,
        actions: NDArray[np.int64],
        slots: NDArray[np.int64],
        states: NDArray[np.float32],
        values: NDArray[np.float32],
    ) -> None:
        """Give entries other states and values; of two for one place the later stays."""
        self.buffers.values[actions, slots] = values
        self.buffers.files[actions, slots] = 0
        self.index.put(actions, slots, states)

    def mark_used(self, matches: NDArray[np.int64], neighbours: NDArray[np.int64]) -> None:
        """Mark slots, (n, n_actions) and (n, n_actions, k), as used now, -1 excepted."""
        set_ticks(self.buffers.ticks, self._tick, matches, neighbours)
        self._tick += len(matches)

    def read(self, actions: NDArray[np.int64], slots: NDArray[np.int64]) -> Entries:
        """The entries in these places, copied."""
        return read_entries(self.buffers, self.index, actions, slots)

    def in_parts(self, *, oldest_first: bool = False) -> Iterator[Entries]:
        """All entries, as `read_in_parts` has them."""
        return read_in_parts(self.buffers, self.index, oldest_first=oldest_first)

    def keep(self, kept: NDArray[np.bool_]) -> None:
        """Forget all entries but those of a mask over all of them."""
        actions, slots = (places[kept] for places in self.buffers.places())
        self.index.keep(actions, slots)
        front = self.buffers.keep(actions, slots)
        self.table.buckets[:] = 0
        enter_all(self.table.buckets, self.buffers.keys, *front)
        self._order.forget()

    def settings(self) -> dict[str, Any]:
        """What a checkpoint must keep beside the arrays, as JSON takes it."""
        return {
            "tick": self._tick,
            "next_entry_id": self.next_entry_id,
            "index_kind": self.index.name,
            "index_state": self.index.settings(),
        }

    def restore(self, settings: dict[str, Any], tensors: Mapping[str, NDArray[Any]] | Files) -> None:
        """Fill an empty store with what `settings` and its parts returned."""
        self._tick, self.next_entry_id = int(settings["tick"]), int(settings["next_entry_id"])
        kind = settings["index_kind"]
        index_bytes_per_entry(kind, 1)  # raises if there is no such kind
        of_index = self.parts.restore(tensors)
        actions, slots = self.buffers.places()
        if kind == self.index.name:
            self.index.resume(actions, slots, settings.get("index_state", {}), of_index)
        elif len(actions):  # an index cannot use the settings and tensors of another kind
            self.index.take_in(actions, slots)
        enter_all(self.table.buckets, self.buffers.keys, actions, slots)
