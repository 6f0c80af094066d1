"""Which states are the same one: 128-bit keys, and a table from key to slot for each action.

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
    """For each action, from key to slot: open addressing, 8 bytes an entry; the keys stay in the buffers."""

    def __init__(self, keys: NDArray[np.uint64]) -> None:
        """keys: uint64 (n_actions, capacity, 2), the keys of the entries, read in place."""
        n_actions, capacity, _ = keys.shape
        self.keys = keys
        # Slot + 1, so that memory fresh from the system, all zeros, is an empty table. At most half full.
        self.cells = np.zeros((n_actions, 1 << int(2 * capacity - 1).bit_length()), np.int32)

    @staticmethod
    def bytes_per_buffer(capacity: int) -> int:
        """Size of one action's table."""
        return 4 << int(2 * capacity - 1).bit_length()

    def find(self, keys: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Slots, int64 (n, n_actions), of these keys in each action's buffer; -1 where a key is not there."""
        slots = np.empty((len(keys), len(self.cells)), np.int64)
        _find_all(self.cells, self.keys, keys, slots)
        return slots


@njit()
def _find_all(cells, stored, keys, slots):
    for row in range(len(keys)):
        for action in range(len(cells)):
            slots[row, action] = find_slot(cells[action], stored[action], keys[row])


@njit()
def find_slot(cells, stored, key):
    """Slot of `key` in one action's table, or -1."""
    mask = numba.uint64(len(cells) - 1)
    cell = key[0] & mask
    while cells[cell] != 0:
        slot = cells[cell] - 1
        if stored[slot, 0] == key[0] and stored[slot, 1] == key[1]:
            return slot
        cell = (cell + numba.uint64(1)) & mask
    return -1


@njit()
def add_slot(cells, stored, slot):
    """Enter `slot`, whose key is not in the table yet."""
    mask = numba.uint64(len(cells) - 1)
    cell = stored[slot, 0] & mask
    while cells[cell] != 0:
        cell = (cell + numba.uint64(1)) & mask
    cells[cell] = slot + 1


@njit()
def remove_slot(cells, stored, slot):
    """Take `slot` out, moving later entries of its run up so that none becomes unreachable."""
    one = numba.uint64(1)
    mask = numba.uint64(len(cells) - 1)
    hole = stored[slot, 0] & mask
    while cells[hole] != slot + 1:
        hole = (hole + one) & mask
    cell = hole
    while True:
        cells[hole] = 0
        while True:
            cell = (cell + one) & mask
            if cells[cell] == 0:
                return
            home = stored[cells[cell] - 1, 0] & mask
            # The entry may move into the hole unless its home lies cyclically in (hole, cell].
            if ((cell - home) & mask) >= ((cell - hole) & mask):
                break
        cells[hole] = cells[cell]
        hole = cell
