"""When two states are the same: 128-bit keys, and for each action a hash table from key to slot.

A state is identified by its observation's bytes, never by floats that were computed from them: matrix products
differ in their last bits with batch size, thread count and device, and every exact match would be lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

import numba
import numpy as np
from numpy.typing import NDArray

from mfec.compiling import njit

Identities = Sequence[bytes] | Sequence[int] | NDArray[np.integer] | NDArray[np.uint64]

KEY_BYTES = 16


def identity_keys(identities: Identities) -> NDArray[np.uint64]:
    """Keys, uint64 (n, 2), of identities that are bytes or integers; equal identities have equal keys.

    An array that already holds keys, uint64 (n, 2), is returned as it is.
    """
    if isinstance(identities, np.ndarray) and identities.ndim == 2 and identities.dtype == np.uint64:
        if identities.shape[1] != 2:
            raise ValueError(f"keys must have the shape (n, 2), not {identities.shape}")
        return identities.astype(np.uint64, copy=False)
    digests = []
    for identity in identities:
        if isinstance(identity, (bytes, bytearray, memoryview)):
            digests.append(blake2b(identity, digest_size=KEY_BYTES).digest())
        elif isinstance(identity, (int, np.integer)):
            digests.append(blake2b(str(int(identity)).encode(), digest_size=KEY_BYTES, person=b"int").digest())
        else:
            raise TypeError(f"an identity must be bytes or an integer, not {type(identity).__name__}")
    return np.frombuffer(b"".join(digests), np.uint64).reshape(-1, 2)


def array_keys(rows: NDArray[np.generic]) -> NDArray[np.uint64]:
    """Keys, uint64 (n, 2), of the bytes of each row of an array, whatever the row's shape."""
    rows = np.ascontiguousarray(rows)
    digests = [blake2b(row.data, digest_size=KEY_BYTES).digest() for row in rows]
    return np.frombuffer(b"".join(digests), np.uint64).reshape(-1, 2)


class IdentityTable:
    """A hash table from key to slot for each action: open addressing, 8 bytes an entry; keys stay in the buffers."""

    def __init__(self, keys: NDArray[np.uint64]) -> None:
        """keys: uint64 (n_actions, capacity, 2), the keys of the entries, read in place."""
        n_actions, capacity, _ = keys.shape
        self.keys = keys
        # A bucket holds slot + 1, so that fresh memory, all zeros, is an empty table. It is at most half full.
        self.buckets = np.zeros((n_actions, 1 << int(2 * capacity - 1).bit_length()), np.int32)

    @staticmethod
    def bytes_per_buffer(capacity: int) -> int:
        """Size of one action's table."""
        return 4 << int(2 * capacity - 1).bit_length()

    def find(self, keys: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Slots, int64 (n, n_actions), of these keys in each action's buffer; -1 where a key is not there."""
        slots = np.empty((len(keys), len(self.buckets)), np.int64)
        _find_all(self.buckets, self.keys, keys, slots)
        return slots


@njit()
def _find_all(buckets, stored, keys, slots):
    for row in range(len(keys)):
        for action in range(len(buckets)):
            slots[row, action] = find_slot(buckets[action], stored[action], keys[row])


@njit()
def find_slot(buckets, stored, key):
    """Slot of `key` in one action's table, or -1."""
    mask = numba.uint64(len(buckets) - 1)
    bucket = key[0] & mask
    while buckets[bucket] != 0:
        slot = buckets[bucket] - 1
        if stored[slot, 0] == key[0] and stored[slot, 1] == key[1]:
            return slot
        bucket = (bucket + numba.uint64(1)) & mask
    return -1


@njit()
def add_slot(buckets, stored, slot):
    """Add `slot`, whose key is not in the table yet."""
    mask = numba.uint64(len(buckets) - 1)
    bucket = stored[slot, 0] & mask
    while buckets[bucket] != 0:
        bucket = (bucket + numba.uint64(1)) & mask
    buckets[bucket] = slot + 1


@njit()
def remove_slot(buckets, stored, slot):
    """Remove `slot`, and move later entries of its probe sequence up so that all stay reachable."""
    one = numba.uint64(1)
    mask = numba.uint64(len(buckets) - 1)
    hole = stored[slot, 0] & mask
    while buckets[hole] != slot + 1:
        hole = (hole + one) & mask
    bucket = hole
    while True:
        buckets[hole] = 0
        while True:
            bucket = (bucket + one) & mask
            if buckets[bucket] == 0:
                return
            home = stored[buckets[bucket] - 1, 0] & mask
            # The entry may move into the hole unless its home lies cyclically in (hole, bucket].
            if ((bucket - home) & mask) >= ((bucket - hole) & mask):
                break
        buckets[hole] = buckets[bucket]
        hole = bucket
