"""Keys of states, and the table from key to slot against a plain dictionary."""

from __future__ import annotations

import random
from hashlib import blake2b

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mfec.memory.identities import IdentityTable, add_slot, array_keys, find_slot, identity_keys, remove_slot


def digest(data: bytes) -> list[int]:
    return np.frombuffer(blake2b(data, digest_size=16).digest(), np.uint64).tolist()


# -- Keys -------------------------------------------------------------------------------------------------------------


def test_integers_of_every_type_have_one_key() -> None:
    keys = identity_keys([7, np.int64(7), np.uint8(7), np.int16(7)])
    assert keys.dtype == np.uint64
    assert keys.shape == (4, 2)
    assert (keys == keys[0]).all()
    for dtype in (np.uint8, np.int64, np.uint64):
        assert identity_keys(np.array([7, 7], dtype)).tolist() == keys[:2].tolist()


def test_bytes_of_every_type_have_one_key() -> None:
    keys = identity_keys([b"state", bytearray(b"state"), memoryview(b"state")])
    assert keys.tolist() == [digest(b"state")] * 3


@given(st.lists(st.one_of(st.integers(-(2**70), 2**70), st.binary(max_size=20)), unique=True, max_size=30))
@settings(max_examples=100)
def test_different_identities_have_different_keys(identities: list[int | bytes]) -> None:
    keys = identity_keys(identities)
    assert len({tuple(key) for key in keys.tolist()}) == len(identities)


def test_an_integer_is_not_its_digits() -> None:
    assert identity_keys([12]).tolist() != identity_keys([b"12"]).tolist()


def test_keys_are_taken_as_they_are() -> None:
    keys = array_keys(np.arange(6).reshape(3, 2))
    assert identity_keys(keys) is keys


def test_no_identities_have_no_keys() -> None:
    assert identity_keys([]).shape == (0, 2)
    assert array_keys(np.zeros((0, 4), np.float32)).shape == (0, 2)


@pytest.mark.parametrize(("identity", "kind"), [("text", "str"), (1.0, "float"), ((1, 2), "tuple"), (None, "NoneType")])
def test_other_identities_are_refused(identity: object, kind: str) -> None:
    with pytest.raises(TypeError, match=f"must be bytes or an integer, not {kind}"):
        identity_keys([1, identity])


@pytest.mark.parametrize("width", [0, 1, 3])
def test_keys_have_two_halves(width: int) -> None:
    with pytest.raises((ValueError, TypeError)):
        identity_keys(np.zeros((4, width), np.uint64))


@pytest.mark.parametrize("shape", [(5,), (5, 3), (5, 2, 4), (5, 84, 84)])
@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.int64])
def test_the_key_of_a_row_is_that_of_its_bytes(shape: tuple[int, ...], dtype: type) -> None:
    rows = np.random.default_rng(0).integers(0, 200, shape).astype(dtype)
    keys = array_keys(rows)
    assert keys.tolist() == [digest(np.asarray(row).tobytes()) for row in rows]
    assert keys.tolist() == identity_keys([np.asarray(row).tobytes() for row in rows]).tolist()


def test_the_key_of_a_row_does_not_depend_on_its_batch_or_layout() -> None:
    rows = np.random.default_rng(1).standard_normal((16, 64)).astype(np.float32)
    keys = array_keys(rows).tolist()
    assert [array_keys(row[None]).tolist()[0] for row in rows] == keys
    assert array_keys(np.asfortranarray(rows)).tolist() == keys
    assert array_keys(np.repeat(rows, 2, axis=0)[::2]).tolist() == keys
    assert array_keys(rows[::-1]).tolist() == keys[::-1]


# -- The table --------------------------------------------------------------------------------------------------------


class TableAndDictionary:
    """One buffer's table beside a dictionary, with a list of free slots."""

    def __init__(self, capacity: int) -> None:
        self.keys = np.full((1, capacity, 2), 2**64 - 1, np.uint64)
        self.table = IdentityTable(self.keys)
        self.slots: dict[tuple[int, int], int] = {}
        self.free = list(range(capacity))

    def toggle(self, key: tuple[int, int]) -> None:
        """Take the key out if it is there, else enter it if there is room."""
        buckets = self.table.buckets[0]
        if key in self.slots:
            slot = self.slots.pop(key)
            remove_slot(buckets, self.keys[0], slot)
            self.keys[0, slot] = 2**64 - 1  # what stood there must not be read again
            self.free.append(slot)
        elif self.free:
            slot = self.free.pop(0)
            self.keys[0, slot] = key
            add_slot(buckets, self.keys[0], slot)
            self.slots[key] = slot

    def compare(self, keys: list[tuple[int, int]]) -> None:
        found = self.table.find(np.array(keys, np.uint64))
        assert found[:, 0].tolist() == [self.slots.get(key, -1) for key in keys]
        assert np.count_nonzero(self.table.buckets) == len(self.slots)


# Homes at both ends of the table, so that runs of cells touch, overlap and wrap around; equal first halves too.
crowded_keys = [(home + 2**32 * high, low) for home in (0, 1, 2, 14, 15) for high in (0, 1) for low in (0, 1)]


@given(st.integers(1, 8), st.lists(st.sampled_from(crowded_keys), max_size=80))
@settings(max_examples=100)
def test_a_crowded_table_equals_a_dictionary(capacity: int, toggled: list[tuple[int, int]]) -> None:
    both = TableAndDictionary(capacity)
    for key in toggled:
        both.toggle(key)
        both.compare(crowded_keys)


def test_a_full_large_table_equals_a_dictionary() -> None:
    rng = random.Random(3)
    keys = [(rng.getrandbits(64) & ~0xFF0 | rng.getrandbits(2), rng.getrandbits(64)) for _ in range(900)]
    both = TableAndDictionary(300)
    for turn in range(6000):
        both.toggle(rng.choice(keys))
        if turn % 300 == 0:
            both.compare(keys)
    both.compare(keys)


def test_actions_have_their_own_tables() -> None:
    keys = np.zeros((3, 2, 2), np.uint64)
    keys[:, 0] = 5, 6
    table = IdentityTable(keys)
    add_slot(table.buckets[2], keys[2], 0)
    assert table.find(np.array([[5, 6], [5, 7]], np.uint64)).tolist() == [[-1, -1, 0], [-1, -1, -1]]
    assert find_slot(table.buckets[2], keys[2], np.array([5, 6], np.uint64)) == 0


@pytest.mark.parametrize("capacity", [1, 2, 3, 4, 5, 1000, 1024, 1025])
def test_a_table_is_never_more_than_half_full(capacity: int) -> None:
    table = IdentityTable(np.zeros((2, capacity, 2), np.uint64))
    assert table.buckets.shape[1] >= 2 * capacity
    assert table.buckets.nbytes == 2 * IdentityTable.bytes_per_buffer(capacity)
