"""The entries of a memory: one by one, many as arrays, and which of them a user wants to keep."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Self, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mfec.memory.buffers import Buffers
from mfec.memory.neighbours import NeighbourIndex

AT_ONCE = 65_536  # entries that are read together: 64 numbers each make 17 MB


class Entry(NamedTuple):
    """What a memory holds of one state and action."""

    action: int  # counted from 0
    state: NDArray[np.float32]  # (dim,)
    value: float
    episode: int  # where the value comes from, -1 if unknown
    frame: int
    matched: int  # learning look-ups that matched this entry exactly
    entry_id: int  # the older of two entries has the smaller one
    tick: int  # when it was last written, or used under `eviction="used"`
    key: NDArray[np.uint64]  # (2,): the identity of its state


@dataclass(frozen=True)
class Entries:
    """Some entries of one action's buffer, or of several, as arrays. Iterating over them yields each as an `Entry`."""

    states: NDArray[np.float32]  # (m, dim)
    values: NDArray[np.float32]  # (m,)
    entry_ids: NDArray[np.int64]  # (m,): the older of two entries has the smaller one
    origins: NDArray[np.int32]  # (m, 2): episode and frame that the value comes from, -1 if unknown
    matched: NDArray[np.int32]  # (m,): how many learning look-ups matched this entry exactly
    actions: NDArray[np.int64]  # (m,)
    ticks: NDArray[np.int64]  # (m,): when it was last written, or used under `eviction="used"`
    keys: NDArray[np.uint64]  # (m, 2): the identity of its state, as `estimate` and `write` take it

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Iterator[Entry]:
        yield from map(
            Entry, self.actions.tolist(), self.states, self.values.tolist(), *self.origins.T.tolist(),
            self.matched.tolist(), self.entry_ids.tolist(), self.ticks.tolist(), self.keys,
        )  # fmt: skip

    @overload
    def __getitem__(self, which: int | np.integer[Any]) -> Entry: ...

    @overload
    def __getitem__(self, which: slice | ArrayLike) -> Self: ...

    def __getitem__(self, which: Any) -> Entry | Self:
        """One of them, by its position; or some, by a slice, a mask or positions."""
        if isinstance(which, (int, np.integer)):
            return next(iter(self[np.array([which])]))
        return type(self)(**{name: array[which] for name, array in vars(self).items()})


def read_entries(
    buffers: Buffers, index: NeighbourIndex, actions: NDArray[np.int64], slots: NDArray[np.int64]
) -> Entries:
    """The entries in these places, copied."""
    return Entries(
        states=index.rows(actions, slots),
        values=buffers.values[actions, slots],
        entry_ids=buffers.entry_ids[actions, slots],
        origins=buffers.origins[actions, slots],
        matched=buffers.matched[actions, slots],
        actions=np.array(actions),
        ticks=buffers.ticks[actions, slots],
        keys=buffers.keys[actions, slots],
    )


def read_in_parts(buffers: Buffers, index: NeighbourIndex, *, oldest_first: bool = False) -> Iterator[Entries]:
    """All entries, 65,536 at a time: buffer by buffer in slot order, or those first that eviction would take first."""
    actions, slots = buffers.places()
    if oldest_first:
        order = np.lexsort((buffers.entry_ids[actions, slots], buffers.ticks[actions, slots]))
        actions, slots = actions[order], slots[order]
    ids = buffers.entry_ids[actions, slots]
    for begin in range(0, len(slots), AT_ONCE):
        some = slice(begin, begin + AT_ONCE)
        here = actions[some], slots[some]
        if (slots[some] >= buffers.sizes[actions[some]]).any() or (buffers.entry_ids[here] != ids[some]).any():
            raise RuntimeError("the memory was written or filtered while its entries were read; read them again")
        yield read_entries(buffers, index, *here)


def which_to_keep(
    buffers: Buffers, index: NeighbourIndex, keep: Callable[[Entries], ArrayLike] | ArrayLike
) -> NDArray[np.bool_]:
    """For every entry whether to keep it, bool (all entries,), by a function of some of them or as it is given."""
    if callable(keep):
        parts = [_checked(keep(part), len(part), "what the function returns") for part in read_in_parts(buffers, index)]
        return np.concatenate([np.zeros(0, np.bool_), *parts])
    return _checked(keep, int(buffers.sizes.sum()), "the mask")


def _checked(given: ArrayLike, n: int, what: str) -> NDArray[np.bool_]:
    mask = np.asarray(given)
    if mask.dtype != np.bool_ or mask.shape != (n,):
        raise ValueError(f"{what} must have a bool for each of {n} entries, not {mask.dtype} of shape {mask.shape}")
    return mask
