"""The entries of all action buffers as arrays, by action and slot. The neighbour index keeps their states."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

SUMMARY = ("action", "entries", "lowest value", "mean", "highest", "exact matches")  # columns of `Buffers.summary`


class BufferArrays(NamedTuple):
    """All that an entry has beside its state, as compiled functions take it."""

    sizes: NDArray[np.int64]  # (n_actions,): entries of each buffer
    values: NDArray[np.float32]  # (n_actions, capacity), and so on
    entry_ids: NDArray[np.int64]
    ticks: NDArray[np.int64]  # when the entry was last updated, or used
    keys: NDArray[np.uint64]  # (n_actions, capacity, 2)
    origins: NDArray[np.int32]  # (..., 2): episode and frame that the value comes from, -1 if unknown
    matched: NDArray[np.int32]  # learning look-ups that matched this entry exactly


class Buffers:
    """All that entries have beside their states.

    Full-size arrays cost address space only: the system hands out pages as entries are written.
    """

    def __init__(self, n_actions: int, capacity: int) -> None:
        shape = (n_actions, capacity)
        self.arrays = BufferArrays(
            sizes=np.zeros(n_actions, np.int64),
            values=np.empty(shape, np.float32),
            entry_ids=np.empty(shape, np.int64),
            ticks=np.empty(shape, np.int64),
            keys=np.empty((*shape, 2), np.uint64),
            origins=np.empty((*shape, 2), np.int32),
            matched=np.empty(shape, np.int32),
        )
        self.sizes, self.values, self.entry_ids, self.ticks, self.keys, self.origins, self.matched = self.arrays

    @staticmethod
    def bytes_per_entry() -> int:
        """Bytes of one entry: value, entry id, tick, key, origin, matches."""
        return 4 + 8 + 8 + 16 + 8 + 4

    def places(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Actions and slots of all entries, one buffer after the other."""
        actions, slots = np.nonzero(np.arange(self.sizes.max(initial=0)) < self.sizes[:, None])
        return actions, slots

    def keep(self, actions: NDArray[np.int64], slots: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Forget all entries but these, which move to the front of their buffers; returns their new places.

        actions, slots: one buffer after the other, in slot order.
        """
        self.sizes[:] = np.bincount(actions, minlength=len(self.sizes))
        front = self.places()
        for array in self._arrays().values():
            array[front] = array[actions, slots]
        return front

    def draw(self, size: int, rng: np.random.Generator) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Actions and slots of at most `size` entries, each at most once, drawn evenly from all buffers."""
        ends = np.cumsum(self.sizes)
        drawn = np.sort(rng.permutation(int(ends[-1]))[:size])
        actions = np.searchsorted(ends, drawn, side="right")
        return actions, drawn - (ends - self.sizes)[actions]

    def entries_of_episodes(self) -> NDArray[np.int64]:
        """How many entries come from each episode, int64 (highest number + 1,)."""
        episodes = [origins[:size, 0] for origins, size in zip(self.origins, self.sizes, strict=True)]
        counts = np.zeros(max(int(numbers.max(initial=-1)) + 1 for numbers in episodes), np.int64)
        for numbers in episodes:
            counts += np.bincount(numbers[numbers >= 0], minlength=len(counts))
        return counts

    def seen_in(self, episode: int) -> tuple[NDArray[np.int32], NDArray[np.uint64]]:
        """Frames, int32 (m,), and keys, uint64 (m, 2), of the states whose entries come from an episode."""
        actions, slots = np.nonzero(self.origins[:, : self.sizes.max(initial=0), 0] == episode)
        there = slots < self.sizes[actions]
        actions, slots = actions[there], slots[there]
        return self.origins[actions, slots, 1], self.keys[actions, slots]

    def summary(self) -> list[tuple[str, ...]]:
        """What each buffer holds, a row of texts for each action."""
        rows = []
        for action, size in enumerate(self.sizes.tolist()):
            values, matched = self.values[action, :size], self.matched[action, :size]
            worth = (values.min(), values.mean(dtype=np.float64), values.max()) if size else ()
            numbers = [f"{value:,.6g}" for value in worth] or ["-"] * 3
            rows.append((str(action), f"{size:,}", *numbers, f"{matched.sum(dtype=np.int64):,}"))
        return rows

    # -- Storage ------------------------------------------------------------------------------------------------------

    def tensors(self) -> dict[str, NDArray[Any]]:
        """All entries, one buffer after the other in slot order."""
        places = self.places()
        return {"sizes": self.sizes.copy(), **{name: array[places] for name, array in self._arrays().items()}}

    def restore(self, tensors: dict[str, NDArray[Any]]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Fill the buffers with what `tensors` returned; returns actions and slots of all entries."""
        sizes = tensors["sizes"]
        fit = (sizes.dtype, sizes.shape) == (self.sizes.dtype, self.sizes.shape)
        if not fit or sizes.min() < 0 or sizes.max() > self.values.shape[1]:
            raise ValueError("the sizes of its buffers do not fit its settings")
        self.sizes[:] = sizes
        places = self.places()
        n = int(sizes.sum())
        for name, array in self._arrays().items():
            given = tensors[name]
            if given.dtype != array.dtype or given.shape != (n, *array.shape[2:]):
                raise ValueError(f"its tensor {name!r} does not fit its settings")
            array[places] = given
        return places

    def _arrays(self) -> dict[str, NDArray[Any]]:
        return {name: array for name, array in self.arrays._asdict().items() if name != "sizes"}
