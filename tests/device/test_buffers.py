"""Action buffers in pages against a plain dictionary of (action, slot) to state."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from mfec.device import buffers as module
from mfec.device.buffers import ActionBuffers
from mfec.device.layout import BLOCK, PAGE

Array = NDArray[np.float32]
DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


class Both:
    """Buffers and a dictionary, told the same things."""

    def __init__(self, n_actions: int, capacity: int, dim: int, device: str = "cpu") -> None:
        self.buffers = ActionBuffers(n_actions, capacity, dim, torch.device(device))
        self.kept: dict[tuple[int, int], list[float]] = {}

    def store(self, actions: NDArray[np.int64], slots: NDArray[np.int64], states: Array) -> None:
        self.buffers.store(actions, slots, states)
        self.kept.update(zip(zip(actions.tolist(), slots.tolist(), strict=True), states.tolist(), strict=True))

    def check(self, rng: np.random.Generator) -> None:
        sizes = [sum(action == own for action, _ in self.kept) for own in range(self.buffers.n_actions)]
        assert self.buffers.sizes.tolist() == sizes
        places = np.array([*self.kept])[rng.permutation(len(self.kept))]
        actions, slots = np.concatenate([places, places[:3]]).T.copy()  # some are asked for twice
        expected = [self.kept[place] for place in zip(actions.tolist(), slots.tolist(), strict=True)]
        rows = self.buffers.rows(actions, slots)
        assert rows.dtype == np.float32
        assert rows.tolist() == expected
        assert self.buffers.gather(actions, slots).tolist() == expected
        for action, size in enumerate(sizes):
            if size:
                in_order = [self.kept[action, slot] for slot in range(size)]
                assert self.buffers.entries(action).tolist() == in_order
                pages = self.buffers.pages(action)  # (pages, blocks, dim, entries)
                assert pages.shape[2:] == (self.buffers.dim, BLOCK)
                numbers_first = pages.permute(2, 0, 1, 3).reshape(self.buffers.dim, -1)[:, :size]
                assert numbers_first.tolist() == [list(column) for column in zip(*in_order, strict=True)]


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that little data fills many slabs; the kernels, which know the true size of a page, are not asked here."""
    monkeypatch.setattr(module, "PAGE", 64)
    monkeypatch.setattr(module, "FIRST_SLAB", 2)


@st.composite
def fillings(draw: st.DrawFn) -> list[list[tuple[int, int]]]:
    """Places of several stores, (action, slot) each: new ones follow the last, old ones may come again and again."""
    sizes = [0, 0, 0]
    stores = []
    for _ in range(draw(st.integers(1, 6))):
        places = []
        for action, new in draw(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 90)), min_size=1, max_size=3)):
            new = min(new, 200 - sizes[action])
            places += [(action, slot) for slot in range(sizes[action], sizes[action] + new)]
            sizes[action] += new
            if sizes[action]:
                again = draw(st.lists(st.integers(0, sizes[action] - 1), max_size=5))
                places += [(action, slot) for slot in again]
        stores.append(places)
    return stores


@given(fillings(), fillings(), st.lists(st.integers(0, 90), min_size=3, max_size=3), st.randoms(use_true_random=False))
@settings(max_examples=40)
def test_after_shrinking_the_front_is_there_and_the_rest_is_written_anew(
    before, after, sizes: list[int], random
) -> None:
    rng = np.random.default_rng(random.getrandbits(32))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "PAGE", 64)
        patch.setattr(module, "FIRST_SLAB", 2)
        both = Both(3, 200, 4)
        for stores in (before, after):
            for places in stores:
                actions, slots = np.array(places, np.int64).reshape(-1, 2).T
                both.store(actions, slots, rng.standard_normal((len(places), 4)).astype(np.float32))
            both.buffers.shrink(np.array(sizes))
            both.kept = {place: state for place, state in both.kept.items() if place[1] < sizes[place[0]]}
            if both.kept:
                both.check(rng)
            sizes = [0, 0, 0]
            both.buffers.shrink(np.array(sizes))
            both.kept = {}


@given(fillings(), st.sampled_from([3, 50, 2**18]), st.randoms(use_true_random=False))
@settings(max_examples=60)
def test_any_stores_leave_what_a_dictionary_holds(stores: list[list[tuple[int, int]]], at_once: int, random) -> None:
    rng = np.random.default_rng(random.randrange(2**32))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "PAGE", 64)
        patch.setattr(module, "FIRST_SLAB", 2)
        patch.setattr(module, "AT_ONCE", at_once)
        both = Both(3, 200, 2)
        for places in stores:
            actions, slots = np.array(places, np.int64).reshape(-1, 2).T.copy()
            both.store(actions, slots, rng.standard_normal((len(places), 2)).astype(np.float32))
        if both.kept:
            both.check(rng)


@pytest.mark.parametrize("device", DEVICES)
def test_real_pages_in_several_slabs_hold_what_a_dictionary_holds(device: str) -> None:
    rng = np.random.default_rng(0)
    both = Both(2, 5 * PAGE, 3, device)
    for begin in range(0, 4 * PAGE, PAGE - 5):
        slots = np.repeat(np.arange(begin, min(begin + PAGE - 5, 4 * PAGE)), 2)
        actions = np.tile([0, 1], len(slots) // 2)
        both.store(actions, slots, rng.standard_normal((len(slots), 3)).astype(np.float32))
    both.check(rng)
    assert len(both.buffers._slabs) > 1


@pytest.mark.parametrize("device", DEVICES)
def test_of_two_states_for_the_same_slot_the_later_one_stays(device: str) -> None:
    buffers = ActionBuffers(2, 100, 1, torch.device(device))
    slots = np.repeat(np.arange(50), 40)[np.random.default_rng(1).permutation(2000)]
    actions = np.zeros(2000, np.int64)
    buffers.store(actions, slots, np.arange(2000, dtype=np.float32)[:, None])
    last = {slot: number for number, slot in enumerate(slots.tolist())}
    assert buffers.rows(actions[:50], np.arange(50)).ravel().tolist() == [last[slot] for slot in range(50)]


def test_nothing_stored_is_nothing_taken() -> None:
    buffers = ActionBuffers(2, 100, 4, torch.device("cpu"))
    nothing = np.zeros(0, np.int64)
    before = buffers.nbytes
    buffers.store(nothing, nothing, np.zeros((0, 4), np.float32))
    assert buffers.rows(nothing, nothing).shape == (0, 4)
    assert buffers.nbytes == before
    assert buffers.sizes.tolist() == [0, 0]


@pytest.mark.usefixtures("small_pages")
def test_states_that_are_read_are_copies() -> None:
    rng = np.random.default_rng(2)
    both = Both(1, 300, 2)
    both.store(np.zeros(150, np.int64), np.arange(150), rng.standard_normal((150, 2)).astype(np.float32))
    both.buffers.rows(np.zeros(150, np.int64), np.arange(150))[:] = 9.0
    both.buffers.gather(np.zeros(150, np.int64), np.arange(150))[:] = 9.0
    both.check(rng)


@pytest.mark.usefixtures("small_pages")
def test_a_page_never_moves() -> None:
    """The kernels read pages where the table says they lie."""
    rng = np.random.default_rng(3)
    both = Both(3, 2000, 2)
    before = both.buffers.table.clone()
    for begin in range(0, 2000, 100):
        for action in range(3):
            slots = np.arange(begin, begin + 100)
            both.store(np.full(100, action), slots, rng.standard_normal((100, 2)).astype(np.float32))
            table = both.buffers.table.clone()
            assert (table[before != 0] == before[before != 0]).all()
            before = table
    assert len(both.buffers._slabs) > 5
    assert len(before.unique()) == before.numel(), "every page has a place of its own"
    for action in range(3):
        for page, address in enumerate(before[action].tolist()):
            there = np.array((ctypes.c_float * (64 * 2)).from_address(address)).reshape(2, 2, BLOCK)
            for inside in range(min(64, 2000 - 64 * page)):
                state = there[inside // BLOCK, :, inside % BLOCK].tolist()
                assert state == both.kept[action, 64 * page + inside]


@pytest.mark.parametrize("at_once", [500, 40_000])
def test_little_more_is_taken_than_the_states_need(at_once: int) -> None:
    """Whether they come episode by episode or, from a checkpoint, in one go."""
    buffers = ActionBuffers(3, 1_000_000, 4, torch.device("cpu"))
    for begin in range(0, 40_000, at_once):
        slots = np.tile(np.arange(begin, begin + at_once), 3)
        buffers.store(np.repeat([0, 1, 2], at_once), slots, np.zeros((len(slots), 4), np.float32))
    states = 3 * 40_000 * 4 * 4
    assert states <= buffers.nbytes <= 1.3 * states
