"""The entries of all action buffers as arrays, by action and slot. The neighbour index keeps their states."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

COLUMNS = ("values", "ticks", "matched")  # what look-ups change, too, of any number of entries
ROWS = ("entry_ids", "keys", "origins")  # what only a write changes
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
    files: NDArray[np.uint16]  # which file of the last checkpoint holds the entry as it is (`Parts`), 0 if none


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
            files=np.zeros(shape, np.uint16),
        )
        self.sizes, self.values, self.entry_ids, self.ticks, self.keys = self.arrays[:5]
        self.origins, self.matched, self.files = self.arrays[5:]

    @staticmethod
    def bytes_per_entry() -> int:
        """Bytes of one entry: value, entry id, tick, key, origin, matches, file."""
        return 4 + 8 + 8 + 16 + 8 + 4 + 2

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
        for name in (*COLUMNS, *ROWS):
            array = getattr(self, name)
            array[front] = array[actions, slots]
        self.files[front] = np.where(front[1] == slots, self.files[actions, slots], 0)
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
        return {"sizes": self.sizes.copy(), **self.rows(*self.places(), (*COLUMNS, *ROWS))}

    def columns(self) -> dict[str, Any]:
        """What look-ups change, too, of all entries in slot order: views of one buffer after the other."""
        views = {
            name: [own[:size] for own, size in zip(getattr(self, name), self.sizes, strict=True)] for name in COLUMNS
        }
        return {"sizes": self.sizes.copy(), **views}

    def rows(
        self, actions: NDArray[np.int64], slots: NDArray[np.int64], names: tuple[str, ...] = ROWS
    ) -> dict[str, NDArray[Any]]:
        """What the entries in these places have, copied."""
        return {name: getattr(self, name)[actions, slots] for name in names}

    def restore_columns(self, tensors: Mapping[str, NDArray[Any]]) -> None:
        """Take over sizes and columns that `columns` or `tensors` returned."""
        sizes = tensors["sizes"]
        fit = (sizes.dtype, sizes.shape) == (self.sizes.dtype, self.sizes.shape)
        if not fit or sizes.min() < 0 or sizes.max() > self.values.shape[1]:
            raise ValueError("the sizes of its buffers do not fit its settings")
        self.sizes[:] = sizes
        ends = np.cumsum(sizes).tolist()
        for name in COLUMNS:
            array = getattr(self, name)
            given = _fitting(tensors, name, array, ends[-1])
            for own, size, end in zip(array, sizes.tolist(), ends, strict=True):
                own[:size] = given[end - size : end]

    def put_rows(
        self, actions: NDArray[np.int64], slots: NDArray[np.int64], tensors: Mapping[str, NDArray[Any]]
    ) -> None:
        """Give the entries in these places what `rows` or `tensors` returned."""
        for name in ROWS:
            array = getattr(self, name)
            array[actions, slots] = _fitting(tensors, name, array, len(actions))


def _fitting(tensors: Mapping[str, NDArray[Any]], name: str, array: NDArray[Any], n: int) -> NDArray[Any]:
    given = tensors[name]
    if given.dtype != array.dtype or given.shape != (n, *array.shape[2:]):
        raise ValueError(f"its tensor {name!r} does not fit its settings")
    return given
