"""The index on a device against the exact one on the CPU, and memories that move from one to the other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from mfec.checkpoint import CheckpointError
from mfec.device import open_channel
from mfec.embeddings import RandomProjection
from mfec.memory import EpisodicMemory
from mfec.memory.neighbours import cuda, make_index
from mfec.memory.neighbours.cuda import CudaIndex
from mfec.memory.neighbours.exact import ExactIndex

Array = NDArray[np.float32]
DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


class Both:
    """Both indexes over the same entries."""

    def __init__(self, n_actions: int, capacity: int, dim: int, device: str = "cpu") -> None:
        self.states = np.full((n_actions, capacity, dim), np.nan, np.float32)
        self.entry_ids = np.full((n_actions, capacity), -1)
        self.sizes = [0] * n_actions
        self.exact = ExactIndex(self.states.shape, self.entry_ids)
        self.cuda = CudaIndex(self.states.shape, self.entry_ids, device=open_channel(device))
        self.next_id = 0

    def write(self, actions: list[int], states: Array, victims: list[int]) -> None:
        """Add entries one after the other; a full buffer gives up the entry in the slot of `victims`."""
        slots = []
        for action, state, victim in zip(actions, states, victims, strict=True):
            full = self.sizes[action] == self.states.shape[1]
            slot = victim % self.states.shape[1] if full else self.sizes[action]
            self.sizes[action] += not full
            self.states[action, slot] = state
            self.entry_ids[action, slot] = self.next_id
            self.next_id += 1
            slots.append(slot)
        own, places = np.array(actions, np.int64), np.array(slots, np.int64)
        for index in (self.exact, self.cuda):
            index.put(own, places, np.asarray(states, np.float32))

    def check(self, queries: Array, wanted: NDArray[np.bool_], k: int) -> None:
        queries = np.asarray(queries, np.float32)
        found = self.cuda.search(queries, wanted, k)
        slots, squared = found.slots, found.squared
        expected, distances = self.exact.find(queries, wanted, k)
        assert slots.tolist() == expected.tolist()
        assert squared.tolist() == distances.tolist()
        for row, action in np.argwhere(wanted).tolist():  # and by a full sort: older first among equals
            size = self.sizes[action]
            steps = self.states[action, :size].astype(np.float64) - queries[row].astype(np.float64)
            order = np.lexsort((self.entry_ids[action, :size], np.cumsum(steps * steps, axis=1)[:, -1]))
            assert slots[row, action][slots[row, action] >= 0].tolist() == order[:k].tolist()


# -- The same neighbours ----------------------------------------------------------------------------------------------

whole_numbers = st.tuples(st.integers(0, 2), st.integers(0, 2))  # nine places: ties everywhere
anything = st.tuples(*[st.floats(-(2.0**60), 2.0**60, width=32)] * 2)


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[list[tuple[int, tuple[float, float], int]], list[tuple[float, float]]]]:
    """Writes, (action, state, slot of the victim) each, and queries after them, in turn."""
    states = draw(st.sampled_from([whole_numbers, whole_numbers, anything]))
    writes = st.lists(st.tuples(st.integers(0, 1), states, st.integers(0, 1000)), min_size=1, max_size=40)
    return draw(st.lists(st.tuples(writes, st.lists(states, min_size=1, max_size=3)), min_size=1, max_size=6))


@pytest.mark.parametrize("device", DEVICES)
@given(histories(), st.sampled_from([1, 3, 12, 40]), st.sampled_from([1, 3, 11]), st.randoms(use_true_random=False))
@settings(max_examples=20)
def test_any_history_gives_the_neighbours_of_the_exact_index(
    device: str, history: list[Any], capacity: int, k: int, random: Any
) -> None:
    both = Both(2, capacity, 2, device)
    for writes, queries in history:
        actions, states, victims = zip(*writes, strict=True)
        both.write(list(actions), np.array(states, np.float32), list(victims))
        wanted = np.array([[random.random() < 0.8 for _ in range(2)] for _ in queries])
        both.check(np.array(queries), wanted, k)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("numbers", "n"), [(2, 20), (1000, 1)])
def test_evictions_from_full_buffers_with_ties(device: str, numbers: int, n: int) -> None:
    """Larger than hypothesis goes: 500 entries of 16 whole numbers below `numbers`, replaced several times over."""
    rng = np.random.default_rng(numbers)
    both = Both(2, 250, 16, device)
    for _ in range(6):
        rows = int(rng.integers(1, 200))
        states = rng.integers(0, numbers, (rows, 16)) // (1 + 3 * (rng.random((rows, 1)) < 0.5))
        both.write(rng.integers(0, 2, rows).tolist(), states, rng.integers(0, 250, rows).tolist())
        queries = np.concatenate([states[:n], rng.integers(0, numbers, (n, 16))])[-n:]
        both.check(queries, rng.random((n, 2)) < 0.9, 11)


@pytest.mark.parametrize("device", DEVICES)
def test_the_oldest_of_equals_are_the_neighbours_in_the_order_of_their_age(device: str) -> None:
    both = Both(1, 100, 3, device)
    both.write([0] * 100, np.ones((100, 3), np.float32), [0] * 100)
    both.write([0] * 50, np.ones((50, 3), np.float32), list(range(50)))  # the first slots have the newest entries now
    found = both.cuda.search(np.zeros((1, 3), np.float32), np.ones((1, 1), np.bool_), 4)
    assert found.slots.tolist() == [[[50, 51, 52, 53]]]
    assert found.squared.tolist() == [[[3.0, 3.0, 3.0, 3.0]]]


def test_observations_are_searched_like_their_states() -> None:
    rng = np.random.default_rng(0)
    projection = RandomProjection(60, 4, seed=0)
    both = Both(2, 50, 4)
    both.write([0, 1] * 30, projection(rng.integers(0, 256, (60, 60), np.uint8)), [0] * 60)
    assert both.cuda.embed_with(projection)
    observations, wanted = rng.integers(0, 256, (3, 60), np.uint8), np.ones((3, 2), np.bool_)
    found = both.cuda.search(observations, wanted, 3)
    states = projection(observations)
    assert found.states.tobytes() == states.tobytes()
    expected, distances = both.exact.find(states, wanted, 3)
    assert found.slots.tolist() == expected.tolist()
    assert found.squared.tolist() == distances.tolist()


def test_it_is_made_by_name() -> None:
    assert make_index("cuda", (1, 2, 3), np.empty((1, 2), np.int64)).name == "cuda"


# -- Memories that move -----------------------------------------------------------------------------------------------


class Moved:
    """Makes memories go on in the same way, and compares them."""

    def __init__(self, eviction: str) -> None:
        self.eviction = eviction

    def begin(self, index: str) -> EpisodicMemory:
        memory = EpisodicMemory(3, 4, capacity=40, k=5, index=index, eviction=self.eviction)
        self.go_on(memory, seed=0)
        return memory

    def go_on(self, memory: EpisodicMemory, seed: int) -> list[list[float]]:
        """Write more than the buffers hold, with known states among it, and look up in between."""
        rng = np.random.default_rng(seed)
        values = []
        for _ in range(20):
            states = rng.integers(0, 3, (12, 4))
            memory.write(states, rng.integers(0, 3, 12), rng.standard_normal(12))
            values += memory.estimate(rng.integers(0, 3, (3, 4)) + rng.integers(0, 2, (3, 1)) / 2).values.tolist()
        return values

    def compare(self, memory: EpisodicMemory, other: EpisodicMemory) -> None:
        ours, theirs = memory.tensors(), other.tensors()
        for name in ("sizes", "states", "values", "entry_ids", "ticks", "keys"):
            assert ours[name].dtype == theirs[name].dtype
            assert ours[name].tobytes() == theirs[name].tobytes(), name
        changes = {"index", "index_kind", "index_state"}
        kept = [{k: v for k, v in each.settings().items() if k not in changes} for each in (memory, other)]
        assert kept[0] == kept[1]
        queries = np.random.default_rng(1).normal(1, 1, (20, 4))
        assert memory.estimate(queries, mark_used=False).values.tolist() == (
            other.estimate(queries, mark_used=False).values.tolist()
        )


@pytest.mark.parametrize(
    ("first", "second", "eviction"),
    [("exact", "cuda", "updated"), ("cuda", "cells", "used"), ("auto", "cuda", "used")],
)
def test_a_memory_that_moved_goes_on_like_one_that_stayed(
    tmp_path: Path, first: str, second: str, eviction: str
) -> None:
    """Buffers this small are searched exactly by every index."""
    moved = Moved(eviction)
    stayed = moved.begin(first)
    assert (stayed.sizes == 40).all()
    stayed.save(tmp_path / "first")
    memory = EpisodicMemory.load(tmp_path / "first", index=second)
    assert memory.index == second
    moved.compare(memory, stayed)
    assert moved.go_on(memory, seed=2) == moved.go_on(stayed, seed=2)
    moved.compare(memory, stayed)
    memory.save(tmp_path / "second")
    memory = EpisodicMemory.load(tmp_path / "second", index=first)
    assert memory.index == first
    assert moved.go_on(memory, seed=3) == moved.go_on(stayed, seed=3)
    moved.compare(memory, stayed)


def test_auto_is_cuda_on_a_device_and_another_one_elsewhere(tmp_path: Path) -> None:
    """A channel says where it leads; this one is on the CPU, and says it is a GPU's."""
    moved = Moved("updated")
    channel = open_channel("cpu")
    channel.device = "cuda"
    memory = EpisodicMemory(3, 4, capacity=40, k=5, index="auto", device=channel)
    assert (memory.index, memory.active_index) == ("auto", "cuda")
    moved.go_on(memory, seed=0)
    memory.save(tmp_path / "device")
    on_the_cpu = EpisodicMemory.load(tmp_path / "device")
    assert (on_the_cpu.index, on_the_cpu.active_index) == ("auto", "exact")
    moved.compare(on_the_cpu, memory)

    again = open_channel("cpu")
    again.device = "cuda"
    on_the_cpu.save(tmp_path / "cpu")
    back = EpisodicMemory.load(tmp_path / "cpu", device=again)
    assert (back.index, back.active_index) == ("auto", "cuda")
    assert moved.go_on(back, seed=4) == moved.go_on(memory, seed=4) == moved.go_on(on_the_cpu, seed=4)
    moved.compare(back, memory)
    moved.compare(on_the_cpu, memory)


def test_an_empty_memory_moves(tmp_path: Path) -> None:
    EpisodicMemory(2, 3, capacity=10, k=2, index="exact").save(tmp_path / "exact")
    memory = EpisodicMemory.load(tmp_path / "exact", index="cuda")
    assert len(memory) == 0
    memory.write([[1.0, 2.0, 3.0]], [1], [4.0])
    memory.save(tmp_path / "cuda")
    back = EpisodicMemory.load(tmp_path / "cuda", index="exact")
    assert back.estimate([[1.0, 2.0, 3.0]]).values[0, 1] == 4.0


def test_states_that_do_not_fit_are_a_checkpoint_error() -> None:
    memory = Moved("updated").begin("cuda")
    for states in (memory.tensors()["states"][:-1], memory.tensors()["states"].astype(np.float64)):
        with pytest.raises(CheckpointError, match="'states' does not fit"):
            EpisodicMemory.restore(memory.settings(), {**memory.tensors(), "states": states})


def test_two_memories_may_not_hold_their_states_in_each_others_way() -> None:
    """Each has its own buffers, also where they share an engine."""
    one, other = EpisodicMemory(1, 2, capacity=5, k=1, index="cuda"), EpisodicMemory(1, 2, capacity=5, index="cuda")
    one.write([[1.0, 1.0]], [0], [1.0])
    other.write([[2.0, 2.0]], [0], [2.0])
    assert one.neighbours([0.0, 0.0], 0).states.tolist() == [[1.0, 1.0]]
    assert other.neighbours([0.0, 0.0], 0).states.tolist() == [[2.0, 2.0]]


@pytest.mark.parametrize("device", DEVICES)
def test_a_filtered_memory_on_a_device_is_the_filtered_one_of_the_cpu(device: str) -> None:
    """Of several pages, and moved in several parts."""
    rng = np.random.default_rng(0)
    states, actions, returns = rng.standard_normal((20_000, 4)), rng.integers(0, 2, 20_000), rng.standard_normal(20_000)
    more = rng.standard_normal((3000, 4))
    queries = rng.standard_normal((20, 4))
    found = []
    for index, where in (("exact", "cpu"), ("cuda", device)):
        memory = EpisodicMemory(2, 4, capacity=9000, k=5, index=index, device=where)
        memory.write(states, actions, returns)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(cuda, "AT_ONCE", 1000)
            memory.filter(lambda entries: entries.values > 0.0)
        memory.write(more, actions[:3000], returns[:3000])
        estimates = memory.estimate(np.concatenate([queries, more[:5], states[:50]]))
        found.append((memory.sizes.tolist(), estimates.values.tolist(), memory.entries().states.tolist()))
    assert found[0] == found[1]
    assert found[0][2]
