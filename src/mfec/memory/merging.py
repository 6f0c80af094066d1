"""Two memories can be merged only if they have one shape and one embedding, which the states that both know show."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mfec.memory.entries import AT_ONCE
from mfec.memory.store import EntryStore

# Of one embedding, two states of an observation differ by rounding at most, some 1e-6 of their norm on another device.
TOLERANCE = 1e-3


def refuse_other_memory(ours: EntryStore, theirs: EntryStore) -> None:
    """Raise if the entries of a memory cannot be written into this one."""
    if ours is theirs:
        raise ValueError("a memory cannot be merged with itself")
    if ours.shape[::2] != theirs.shape[::2]:
        raise ValueError(
            f"this memory has {ours.shape[0]} actions and states of {ours.shape[2]} numbers, the other "
            f"{theirs.shape[0]} and {theirs.shape[2]}"
        )
    actions, slots = theirs.buffers.places()
    some = slice(None, None, max(1, len(actions) // AT_ONCE))
    entries = theirs.read(actions[some], slots[some])
    matches = ours.table.find(entries.keys)
    rows = np.flatnonzero((matches >= 0).any(axis=1))
    # Where states have moved, an observation has one for each action: that of the same action is compared, if known.
    known = matches[rows] >= 0
    same = entries.actions[rows]
    own = np.where(known[np.arange(len(rows)), same], same, known.argmax(axis=1))
    refuse_other_embedding(ours.read(own, matches[rows, own]).states, entries.states[rows])


def refuse_other_embedding(ours: NDArray[np.float32], theirs: NDArray[np.float32]) -> None:
    """Raise if two memories have other states, float32 (n, dim), for most of the observations that both know."""
    exactly = ours.astype(np.float64)
    apart = np.linalg.norm(exactly - theirs, axis=1) > TOLERANCE * np.linalg.norm(exactly, axis=1)
    if 2 * np.count_nonzero(apart) > len(apart):
        raise ValueError(
            f"{np.count_nonzero(apart):,} of {len(apart):,} observations that both memories know have other states in "
            "the one than in the other: their embeddings differ. Merge memories of one embedding, as of agents that "
            "were made with the same `embedding=` object"
        )
