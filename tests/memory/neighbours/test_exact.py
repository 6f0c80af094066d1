"""The exact index against a full sort of float64 distances."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from mfec.memory import EpisodicMemory
from mfec.memory.neighbours import index_bytes_per_entry, make_index, shares
from mfec.memory.neighbours.exact import ExactIndex

Array = NDArray[np.float32]
KS = (1, 11, 50)


class Stored:
    """States in an index, with entry ids that do not follow the slots."""

    def __init__(self, *buffers: Array, capacity: int | None = None) -> None:
        self.sizes = [len(states) for states in buffers]
        capacity = capacity or max(self.sizes)
        self.states = np.full((len(buffers), capacity, buffers[0].shape[1]), np.nan, np.float32)
        self.entry_ids = np.random.default_rng(7).permutation(len(buffers) * capacity).reshape(len(buffers), capacity)
        self.index = ExactIndex(self.states.shape, self.entry_ids, states=self.states)
        for action, states in enumerate(buffers):
            self.put(action, np.arange(len(states)), states)

    def put(self, action: int, slots: NDArray[np.int64], states: Array) -> None:
        self.index.put(np.full(len(slots), action), slots, states)

    def check(self, queries: Array, k: int) -> None:
        """Every slot and every bit of every distance equals the full sort's."""
        queries = np.ascontiguousarray(queries, np.float32)
        slots, squared = self.index.find(queries, np.ones((len(queries), len(self.sizes)), np.bool_), k)
        assert slots.shape == squared.shape == (len(queries), len(self.sizes), k)
        for row, query in enumerate(queries):
            for action, size in enumerate(self.sizes):
                true = squared_distances(self.states[action, :size], query)
                order = np.lexsort((self.entry_ids[action, :size], true))[:k]
                found = len(order)
                assert slots[row, action, :found].tolist() == order.tolist()
                assert squared[row, action, :found].tolist() == true[order].tolist()
                assert (slots[row, action, found:] == -1).all()
                assert np.isinf(squared[row, action, found:]).all()


def squared_distances(states: Array, query: Array) -> NDArray[np.float64]:
    """In float64, term after term, as no library sums it: equal to the last bit, not nearly."""
    total = np.zeros(len(states))
    for j in range(len(query)):
        step = states[:, j].astype(np.float64) - float(query[j])
        total += step * step
    return total


# -- Data like that of a game, and worse ------------------------------------------------------------------------------


def gaussian(rng: np.random.Generator, n: int, dim: int) -> Array:
    return rng.standard_normal((n, dim)).astype(np.float32)


def clustered(rng: np.random.Generator, n: int, dim: int) -> Array:
    """Rooms far apart, with small differences inside each, as a game's screens have them."""
    centres = rng.normal(0, 3000, (6, dim))
    changes = rng.normal(0, 2, (n, dim)) * rng.integers(0, 2, (n, dim))
    return (centres[rng.integers(0, 6, n)] + changes).astype(np.float32)


def with_outliers(rng: np.random.Generator, n: int, dim: int) -> Array:
    states = rng.standard_t(1.0, (n, dim))
    states[:: max(1, n // 3)] *= 1e6
    return states.astype(np.float32)


def with_constant_dimensions(rng: np.random.Generator, n: int, dim: int) -> Array:
    states = rng.standard_normal((n, dim))
    states[:, ::2] = 40_000.0
    states[0, ::2] = 39_999.0
    return states.astype(np.float32)


def all_identical(rng: np.random.Generator, n: int, dim: int) -> Array:
    return np.repeat(rng.normal(0, 100, (1, dim)), n, axis=0).astype(np.float32)


def on_a_grid(rng: np.random.Generator, n: int, dim: int) -> Array:
    """Equal distances everywhere: the entry ids decide."""
    return rng.integers(0, 3, (n, dim)).astype(np.float32)


def of_uneven_scales(rng: np.random.Generator, n: int, dim: int) -> Array:
    return (rng.standard_normal((n, dim)) * 10.0 ** rng.integers(-6, 7, dim)).astype(np.float32)


DATA = [
    gaussian, clustered, with_outliers, with_constant_dimensions, all_identical, on_a_grid, of_uneven_scales,
]  # fmt: skip


@pytest.mark.parametrize("dim", [1, 3, 64, 65, 130])
@pytest.mark.parametrize("make", DATA)
def test_the_nearest_entries_are_found(make: Callable[..., Array], dim: int) -> None:
    rng = np.random.default_rng(dim)
    stored = Stored(make(rng, 700, dim), make(rng, 30, dim), make(rng, 1, dim))
    known = stored.states[0, rng.integers(0, 700, 4)]
    near = known + gaussian(rng, 4, dim) * np.float32(1e-3)
    outside = np.concatenate([known * 100 + 1e5, known * -3 - 1e4])
    for k in KS:
        stored.check(np.concatenate([known, near, make(rng, 4, dim), outside]), k)


@given(
    st.lists(st.tuples(*[st.floats(-(2.0**60), 2.0**60, width=32)] * 2), min_size=1, max_size=80),
    st.lists(st.tuples(*[st.floats(-(2.0**60), 2.0**60, width=32)] * 2), min_size=1, max_size=4),
    st.sampled_from([1, 3, 11]),
)
@settings(max_examples=100)
def test_any_states_are_ranked_as_by_a_full_sort(
    states: list[tuple[float, float]], queries: list[tuple[float, float]], k: int
) -> None:
    stored = Stored(np.array(states, np.float32))
    stored.check(np.array(queries + states[:4], np.float32), k)


@pytest.mark.parametrize("scale", [1e-38, 1e-30, 1e-20, 1e-10, 1e-3, 1e5, 1e15, 1e20, 1e30, 1e37])
def test_huge_and_tiny_numbers_are_ranked_rightly(scale: float) -> None:
    """A float32 difference, or its square, would overflow or vanish here."""
    rng = np.random.default_rng(0)
    stored = Stored((rng.standard_normal((400, 8)) * scale).astype(np.float32))
    for k in KS:
        stored.check((rng.standard_normal((6, 8)) * scale).astype(np.float32), k)


def test_distances_are_measured_in_float64() -> None:
    """1 - 1e-9 is 1 in float32, and then the wrong entry is the nearest."""
    stored = Stored(np.array([[1e-9], [2e-9], [3e-9]], np.float32))
    stored.entry_ids[0] = 0, 1, 2
    slots, squared = stored.index.find(np.array([[1.0]], np.float32), np.ones((1, 1), np.bool_), 3)
    assert slots.tolist() == [[[2, 1, 0]]]
    assert squared[0, 0, 0] == (1.0 - float(np.float32(3e-9))) ** 2


@pytest.mark.parametrize("norm", [40.0, 40_000.0])
def test_small_differences_of_large_numbers_are_ranked_rightly(norm: float) -> None:
    rng = np.random.default_rng(1)
    centre = rng.standard_normal(64)
    centre *= norm / np.linalg.norm(centre)
    stored = Stored((centre + rng.standard_normal((500, 64)) * norm * 1e-6).astype(np.float32), gaussian(rng, 500, 64))
    for k in KS:
        stored.check(np.concatenate([centre[None].astype(np.float32), stored.states[0, :5]]), k)


@pytest.mark.parametrize("spread", [1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3])
def test_a_range_that_vanishes_beside_its_place_loses_no_neighbours(spread: float) -> None:
    """One number stands at 1e10 in nearly all states; the others differ by less than 1e10's own rounding."""
    rng = np.random.default_rng(2)
    corners = rng.integers(0, 2, (1000, 8))
    corners[corners.sum(axis=1) < 2] = 1
    states = np.concatenate([np.full((1000, 1), 1e10), corners * spread], axis=1).astype(np.float32)
    states[:5, 0] = np.nextafter(np.float32(1e10), np.float32(2e10))
    states[:5, 1:] = rng.random((5, 8)) * spread * 0.01
    stored = Stored(states)
    for k in (1, 3, 11):
        stored.check(states[:10], k)


def test_more_states_than_there_is_room_for_at_the_same_distance() -> None:
    """Entry ids decide among thousands of equals, which all have to be ranked."""
    rng = np.random.default_rng(13)
    stored = Stored(all_identical(rng, 5000, 3))
    for k in KS:
        stored.check(np.concatenate([stored.states[0, :1], stored.states[0, :1] + 7]), k)


# -- Guesses: a search begins where the one before it has found its neighbours ----------------------------------------


def test_what_was_looked_up_before_changes_nothing() -> None:
    """From one cluster to another and back, alone and in batches."""
    rng = np.random.default_rng(14)
    stored = Stored(clustered(rng, 2000, 64), clustered(rng, 40, 64), gaussian(rng, 8, 64))
    for row in rng.integers(0, 2000, 20):
        query = stored.states[0, row : row + 1] + gaussian(rng, 1, 64)
        stored.check(query, 11)
        stored.check(query * -3, 11)
        stored.check(np.repeat(query, 3, axis=0), 11)


def test_guesses_are_forgotten_with_the_entries_that_they_name() -> None:
    rng = np.random.default_rng(15)
    stored = Stored(gaussian(rng, 500, 5), gaussian(rng, 500, 5))
    query = stored.states[0, 490:491].copy()
    stored.check(query, 11)
    stored.index.keep(np.repeat([0, 1], 20), np.tile(np.arange(20), 2))
    stored.sizes = [20, 20]
    stored.entry_ids[:, :20] = rng.permutation(40).reshape(2, 20)
    stored.states[:, 20:] = np.nan
    stored.check(query, 11)


def test_a_buffer_that_was_too_small_for_a_guess() -> None:
    """The one entry of then is not two of the two entries now."""
    stored = Stored(np.zeros((1, 2), np.float32), capacity=2)
    query = np.array([[1.0, 2.0]], np.float32)
    stored.check(query, 2)
    stored.put(0, np.array([1]), np.array([[3.0, 0.0]], np.float32))
    stored.sizes[0] = 2
    stored.check(query, 2)


def test_replaced_entries_are_no_bound() -> None:
    """What was nearest is somewhere else by now."""
    rng = np.random.default_rng(16)
    stored = Stored(gaussian(rng, 3000, 64))
    query = gaussian(rng, 1, 64)
    for _ in range(5):
        slots, _ = stored.index.find(query, np.ones((1, 1), np.bool_), 11)
        stored.put(0, slots[0, 0], gaussian(rng, 11, 64) * np.float32(100))
        stored.check(query, 11)


# -- Growth, replacement, shifts --------------------------------------------------------------------------------------


def test_what_arrives_after_the_code_book_is_found_wherever_it_lies() -> None:
    """The last states before a new code book lie far outside the range of the old one."""
    rng = np.random.default_rng(3)
    stored = Stored(gaussian(rng, 300, 5), capacity=900)
    for start in range(300, 890, 59):
        slots = np.arange(start, start + 59)
        shifted = gaussian(rng, 59, 5) * np.float32(start / 50) + np.float32(start * (-1) ** start)
        stored.put(0, slots, shifted)
        stored.sizes[0] = start + 59
        for k in KS:
            stored.check(np.concatenate([shifted[:3], stored.states[0, :3], shifted[:2] * 7]), k)


def test_replaced_states_are_gone_and_new_ones_found() -> None:
    """A full buffer whose every state is replaced, far away from where the code book was made."""
    rng = np.random.default_rng(4)
    stored = Stored(gaussian(rng, 200, 65), gaussian(rng, 200, 65))
    before = stored.states[0, :4].copy()
    for turn in range(10):
        slots = rng.permutation(200)[:60]
        stored.put(turn % 2, slots, gaussian(rng, 60, 65) * np.float32(0.01) + np.float32(50 * turn))
        stored.check(np.concatenate([before, stored.states[turn % 2, slots[:4]]]), 11)


def test_one_put_may_name_a_slot_twice() -> None:
    """A slot that is evicted twice within one write holds the last state."""
    rng = np.random.default_rng(5)
    stored = Stored(gaussian(rng, 100, 3))
    twice = np.array([[1, 1, 1], [2, 2, 2], [9, 9, 9]], np.float32)
    stored.index.put(np.zeros(3, np.int64), np.array([8, 8, 8]), twice)
    stored.check(np.array([[9.0, 9.0, 9.0], [0.0, 0.0, 0.0]], np.float32), 11)


def test_entries_one_by_one_equal_all_at_once() -> None:
    rng = np.random.default_rng(6)
    states = clustered(rng, 130, 3)
    stored = Stored(states[:1], capacity=130)
    for row in range(1, 130):
        stored.put(0, np.array([row]), states[row : row + 1])
        stored.sizes[0] = row + 1
        stored.check(states[row : row + 1] + 1, 11)


def test_a_code_book_from_a_sample_of_many_entries() -> None:
    """More entries than the book is made from, with the rare ones between the sampled rows."""
    rng = np.random.default_rng(8)
    states = gaussian(rng, 13_000, 3)
    states[1::1000] *= 1e4
    stored = Stored(states)
    for k in KS:
        stored.check(np.concatenate([states[:3], states[1:3000:1000]]), k)


def test_only_wanted_pairs_are_searched() -> None:
    rng = np.random.default_rng(9)
    stored = Stored(gaussian(rng, 50, 4), gaussian(rng, 60, 4))
    queries = gaussian(rng, 3, 4)
    all_slots, all_squared = stored.index.find(queries, np.ones((3, 2), np.bool_), 5)
    wanted = np.array([[True, False], [False, False], [True, True]])
    slots, squared = stored.index.find(queries, wanted, 5)
    assert (slots[wanted] == all_slots[wanted]).all()
    assert (squared[wanted] == all_squared[wanted]).all()
    assert (slots[~wanted] == -1).all()
    assert np.isinf(squared[~wanted]).all()


def test_an_empty_index_finds_nothing() -> None:
    index = ExactIndex((2, 10, 3), np.empty((2, 10), np.int64))
    index.put(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros((0, 3), np.float32))
    slots, squared = index.find(np.zeros((2, 3), np.float32), np.ones((2, 2), np.bool_), 4)
    assert (slots == -1).all()
    assert np.isinf(squared).all()


# -- Threads and batches ----------------------------------------------------------------------------------------------


def test_the_answer_does_not_depend_on_the_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(10)
    stored = Stored(clustered(rng, 900, 64), clustered(rng, 300, 64), on_a_grid(rng, 500, 64))
    queries = np.concatenate([clustered(rng, 8, 64), stored.states[0, :8]])
    monkeypatch.setattr(shares, "WORTH_SHARING", 0)  # else these few entries would stay in one thread
    for k in KS:
        answers = []
        for number in ("1", "2", "5"):
            monkeypatch.setenv("MFEC_THREADS", number)
            slots, squared = stored.index.find(queries, np.ones((16, 3), np.bool_), k)
            answers.append((slots.tobytes(), squared.tobytes()))
        assert answers[0] == answers[1] == answers[2]
        stored.check(queries, k)


@pytest.mark.parametrize("k", KS)
def test_the_answer_does_not_depend_on_the_batch(k: int) -> None:
    rng = np.random.default_rng(11)
    stored = Stored(with_outliers(rng, 600, 65), on_a_grid(rng, 200, 65))
    queries = np.concatenate([with_outliers(rng, 8, 65), on_a_grid(rng, 8, 65)])
    slots, squared = stored.index.find(queries, np.ones((16, 2), np.bool_), k)
    for row in range(16):
        alone = stored.index.find(queries[row : row + 1], np.ones((1, 2), np.bool_), k)
        assert alone[0][0].tolist() == slots[row].tolist()
        assert alone[1][0].tolist() == squared[row].tolist()


def test_the_memory_estimates_from_the_true_neighbours() -> None:
    """End to end: Eq. 2 over what the full sort finds."""
    rng = np.random.default_rng(12)
    states, values = clustered(rng, 2000, 64), rng.standard_normal(2000).astype(np.float32)
    memory = EpisodicMemory(1, 64, capacity=2000, k=11)
    memory.write(states, np.zeros(2000, np.int64), values)
    queries = clustered(rng, 16, 64)
    estimates = memory.estimate(queries).values[:, 0]
    for query, estimate in zip(queries, estimates, strict=True):
        order = np.argsort(squared_distances(memory.tensors()["states"], query), kind="stable")[:11]
        assert estimate == np.float32(sum(memory.tensors()["values"][order].tolist()) / 11)


# -- Making one -------------------------------------------------------------------------------------------------------


def test_an_index_is_made_by_name() -> None:
    assert make_index("exact", (1, 2, 3), np.empty((1, 2), np.int64)).name == "exact"
    with pytest.raises(ValueError, match=r"index must be one of exact.*not 'tree'"):
        make_index("tree", (1, 2, 3), np.empty((1, 2), np.int64))


@pytest.mark.parametrize(("dim", "expected"), [(1, 68), (64, 68), (65, 132)])
def test_bytes_of_an_entry(dim: int, expected: int) -> None:
    assert index_bytes_per_entry("exact", dim) == expected
