"""The cell index against a full sort of float64 distances: exact where everything is read, nearly so elsewhere."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from mfec.config import AgentConfig
from mfec.memory.neighbours import cells, index_bytes_per_entry, make_index
from mfec.memory.neighbours.cell_centres import REGION
from mfec.memory.neighbours.cell_rows import ROWS
from mfec.memory.neighbours.cell_search import SMALL
from mfec.memory.neighbours.cells import CellIndex
from mfec.memory.neighbours.codes import BLOCK
from mfec.memory.neighbours.recent import EVERY, KEPT

Array = NDArray[np.float32]
Make = Callable[[np.random.Generator, int, int], Array]
K = 11
ENOUGH = 0.97  # of the true neighbours


class Stored:
    """States in an index, with entry ids that do not follow the slots."""

    def __init__(
        self,
        *buffers: Array,
        capacity: int | None = None,
        asked: Array | None = None,
        wanted: float = AgentConfig.recall,
    ) -> None:
        self.sizes = [len(states) for states in buffers]
        capacity = capacity or max(self.sizes)
        dim = buffers[0].shape[1]
        self.states = np.full((len(buffers), capacity, dim), np.nan, np.float32)
        self.entry_ids = np.random.default_rng(7).permutation(len(buffers) * capacity).reshape(len(buffers), capacity)
        self.index = CellIndex(self.states.shape, self.entry_ids, recall=wanted, states=self.states)
        if asked is not None:
            self.look_up(asked)
        for action, states in enumerate(buffers):
            self.states[action, : len(states)] = states
        actions = np.repeat(np.arange(len(buffers)), self.sizes)
        slots = np.concatenate([np.arange(size) for size in self.sizes])
        self.index.put(actions, slots, self.states[actions, slots])

    def put(self, action: int, slots: NDArray[np.int64], states: Array) -> None:
        self.sizes[action] = max(self.sizes[action], int(slots.max()) + 1)
        self.index.put(np.full(len(slots), action), slots, states)

    def look_up(self, queries: Array, k: int = K) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """A search by a learning agent."""
        found = self.index.search(queries, np.ones((len(queries), len(self.sizes)), np.bool_), k, learning=True)
        return found.slots, found.squared

    def search(self, queries: Array, k: int = K) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        found = self.index.search(queries, np.ones((len(queries), len(self.sizes)), np.bool_), k)
        assert found.states is queries
        return found.slots, found.squared

    def nearest(self, query: Array, action: int, k: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """By a full sort, the older entry first among equals."""
        size = self.sizes[action]
        true = squared_distances(self.states[action, :size], query)
        order = np.lexsort((self.entry_ids[action, :size], true))[:k]
        return order, true[order]

    def check(self, queries: Array, k: int, actions: Iterable[int] | None = None) -> None:
        """Every slot and every bit of every distance equals the full sort's, for these actions or all."""
        slots, squared = self.search(queries, k)
        assert slots.shape == squared.shape == (len(queries), len(self.sizes), k)
        for row, query in enumerate(queries):
            for action in actions or range(len(self.sizes)):
                order, true = self.nearest(query, action, k)
                found = len(order)
                assert slots[row, action, :found].tolist() == order.tolist()
                assert squared[row, action, :found].tolist() == true.tolist()
                assert (slots[row, action, found:] == -1).all()
                assert np.isinf(squared[row, action, found:]).all()

    def recall(self, queries: Array, k: int = K, action: int | None = None) -> float:
        """Share of the true neighbours that are found, of one action or of all; what is found is checked too."""
        slots, squared = self.search(queries, k)
        found = there = 0
        for each in range(len(self.sizes)) if action is None else [action]:
            n = min(k, self.sizes[each])
            farthest = np.partition(self.all_distances(queries, each), n - 1, axis=1)[:, n - 1]
            # Products of matrices round: nothing lies within a millionth of the farthest neighbour but equals of it.
            found += int((squared[:, each] <= farthest[:, None] * (1 + 1e-6)).sum())
            there += n * len(queries)
            for query, some, distances in zip(queries[:8], slots[:, each], squared[:, each], strict=False):
                some, distances = some[some >= 0], distances[some >= 0]
                assert squared_distances(self.states[each, some], query).tolist() == distances.tolist()
                assert sorted(distances.tolist()) == distances.tolist()
                assert len(set(some.tolist())) == len(some)
        return found / there

    def all_distances(self, queries: Array, action: int) -> NDArray[np.float64]:
        """Squared distances (n, size), nearly."""
        centre = self.states[action, 0].astype(np.float64)  # near 0 less is lost
        states, asked = self.states[action, : self.sizes[action]] - centre, queries - centre
        return (asked**2).sum(axis=1)[:, None] + (states**2).sum(axis=1) - 2 * asked @ states.T


def squared_distances(states: Array, query: Array) -> NDArray[np.float64]:
    """In float64, term after term, as no library sums it: equal to the last bit, not nearly."""
    total = np.zeros(len(states))
    for j in range(len(query)):
        step = states[:, j].astype(np.float64) - float(query[j])
        total += step * step
    return total


def answers_equal(ours: tuple[Any, ...], theirs: tuple[Any, ...]) -> bool:
    return all(a.tobytes() == b.tobytes() for a, b in zip(ours, theirs, strict=True))


# -- Data -------------------------------------------------------------------------------------------------------------


def gaussian(rng: np.random.Generator, n: int, dim: int) -> Array:
    return rng.standard_normal((n, dim)).astype(np.float32)


def clustered(rng: np.random.Generator, n: int, dim: int) -> Array:
    """A hundred rooms, ten times as far apart as they are wide."""
    centres = np.random.default_rng(dim).normal(0, 3000, (100, dim))
    changes = rng.normal(0, 300, (n, dim)) * rng.integers(0, 2, (n, dim))
    return (centres[rng.integers(0, 100, n)] + changes).astype(np.float32)


def curved(rng: np.random.Generator, n: int, dim: int) -> Array:
    """A bent surface of eight dimensions, as the screens of a game with eight moving things make one."""
    directions = np.random.default_rng(dim).standard_normal((8, dim))
    return (np.tanh(rng.standard_normal((n, 8))) @ directions + rng.normal(0, 0.02, (n, dim))).astype(np.float32)


def on_a_grid(rng: np.random.Generator, n: int, dim: int) -> Array:
    """Equal distances everywhere."""
    return rng.integers(0, 3, (n, dim)).astype(np.float32)


def with_outliers(rng: np.random.Generator, n: int, dim: int) -> Array:
    states = rng.standard_t(1.0, (n, dim))
    states[:: max(1, n // 3)] *= 1e6
    return states.astype(np.float32)


def narrow_rooms(rng: np.random.Generator, n: int, dim: int) -> Array:
    """Rooms far apart, with small differences inside each, as test_exact.py has them."""
    centres = np.random.default_rng(dim).normal(0, 3000, (6, dim))
    changes = rng.normal(0, 2, (n, dim)) * rng.integers(0, 2, (n, dim))
    return (centres[rng.integers(0, 6, n)] + changes).astype(np.float32)


# -- Few entries: the answer is exact ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "dim"),
    [(gaussian, 1), (on_a_grid, 64), (with_outliers, 65), (narrow_rooms, 130)],
)
def test_small_buffers_are_searched_exactly(make: Make, dim: int) -> None:
    """Whatever their neighbours in other buffers, an empty one among them."""
    rng = np.random.default_rng(dim)
    sizes = (SMALL, 7, 0, 1, 150, 3 * SMALL)
    stored = Stored(*[make(rng, size, dim) for size in sizes])
    known = stored.states[0, :2]
    queries = np.concatenate([known, known + np.float32(1e-3), make(rng, 2, dim), known * 100 + 1e5])
    for k in (1, 50):
        stored.check(queries, k, actions=range(5))


coordinates = st.tuples(*[st.floats(-(2.0**60), 2.0**60, width=32)] * 2)


@given(
    st.lists(coordinates, min_size=1, max_size=40),
    st.lists(coordinates, min_size=1, max_size=4),
    st.sampled_from([1, 3, 11]),
)
@settings(max_examples=40)
def test_any_few_states_are_ranked_as_by_a_full_sort(
    states: list[tuple[float, float]], queries: list[tuple[float, float]], k: int
) -> None:
    stored = Stored(np.array(states, np.float32))
    stored.check(np.array(queries + states[:4], np.float32), k)


@pytest.mark.parametrize("make", [clustered, on_a_grid])
def test_a_search_that_reads_and_ranks_everything_is_exact(make: Make) -> None:
    """All cells of a large buffer, and nearly as many neighbours as it has entries."""
    rng = np.random.default_rng(0)
    size = SMALL + 300
    stored = Stored(make(rng, size, 12))
    stored = restored(stored, reads=len(stored.index.tensors()["centres"]))
    stored.check(np.concatenate([make(rng, 4, 12), stored.states[0, :4], gaussian(rng, 2, 12) * 1e5]), size - 5)


def test_an_empty_index_finds_nothing() -> None:
    index = CellIndex((2, 10, 3), np.empty((2, 10), np.int64))
    index.put(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros((0, 3), np.float32))
    slots, squared = index.find(np.zeros((2, 3), np.float32), np.ones((2, 2), np.bool_), 4)
    assert slots.shape == squared.shape == (2, 2, 4)
    assert (slots == -1).all()
    assert np.isinf(squared).all()


def test_equal_distances_go_to_the_older_entry() -> None:
    stored = Stored(np.array([[1.0], [-1.0], [1.0], [-1.0], [3.0]], np.float32))
    stored.entry_ids[0] = 30, 10, 40, 20, 0
    slots, squared = stored.search(np.zeros((1, 1), np.float32), 5)
    assert slots.tolist() == [[[1, 3, 0, 2, 4]]]
    assert squared.tolist() == [[[1.0, 1.0, 1.0, 1.0, 9.0]]]


def test_identical_states_in_all_slots() -> None:
    """More of them than fit one cell; then one that differs."""
    same = np.repeat(gaussian(np.random.default_rng(2), 1, 5), 2 * SMALL, axis=0)
    stored = Stored(same, same)
    slots, squared = stored.search(same[:1] + 1, K)
    assert all(len(set(slots[0, action].tolist())) == K for action in (0, 1))
    assert (squared == squared_distances(same[:1], same[0] + 1)).all()
    stored.put(1, np.array([123]), same[:1] + 2)
    slots, squared = stored.search(same[:1] + 2, 1)
    assert (slots[0, 1, 0], squared[0, 1, 0]) == (123, 0.0)


@pytest.mark.parametrize(("size", "k"), [(39, 200), (1500, 2000)])
def test_more_neighbours_than_there_are_entries(size: int, k: int) -> None:
    rng = np.random.default_rng(3)
    Stored(gaussian(rng, size, 4), gaussian(rng, 5, 4)).check(gaussian(rng, 4, 4), k)


# -- Many entries: nearly all neighbours are found --------------------------------------------------------------------


@pytest.mark.parametrize(("make", "dim"), [
    (gaussian, 130), (curved, 64), (on_a_grid, 64),
])  # fmt: skip
def test_nearly_all_neighbours_of_new_states_are_found(make: Make, dim: int) -> None:
    rng = np.random.default_rng(0)
    stored = Stored(make(rng, 6_000, dim), make(rng, 4_000, dim), asked=make(rng, KEPT * EVERY, dim))
    assert stored.recall(make(rng, 128, dim)) >= ENOUGH


def test_the_wanted_recall_sets_how_much_is_read() -> None:
    """Measured: 0.708 for 0.7, 0.910 for 0.9, 1 for 1."""
    rng = np.random.default_rng(9)
    states, asked, queries = gaussian(rng, 6_000, 16), gaussian(rng, KEPT * EVERY, 16), gaussian(rng, 128, 16)
    reads = []
    for wanted in (0.7, 0.9, 1.0):
        stored = Stored(states, asked=asked, wanted=wanted)
        assert stored.recall(queries) == pytest.approx(wanted, abs=0.05)
        reads.append(stored.index.settings()["reads"])
    assert reads[0] < reads[1] < reads[2]


def test_recall_stays_while_everything_is_replaced() -> None:
    """64 recent queries set what is read, so single makings of cells lie a hundredth or two beside their aim."""
    rng = np.random.default_rng(2)
    stored = Stored(clustered(rng, 4_000, 32), clustered(rng, 4_000, 32), asked=clustered(rng, KEPT * EVERY, 32))
    for first in range(0, 4_000, 1_000):
        for action in (0, 1):
            stored.put(action, np.arange(first, first + 1_000), clustered(rng, 1_000, 32))
            stored.look_up(clustered(rng, 100, 32))
        assert stored.recall(clustered(rng, 128, 32)) >= ENOUGH - 0.02


def test_recall_holds_at_every_size_of_a_growing_memory() -> None:
    """Episodes of 100 states each, through the size at which a buffer is no longer read in full."""
    rng = np.random.default_rng(3)
    stored = Stored(curved(rng, 100, 16), np.empty((0, 16), np.float32), capacity=3000)
    for first in range(100, 3000, 100):
        stored.put(0, np.arange(first, first + 100), curved(rng, 100, 16))
        stored.put(1, np.arange(first - 100, first), curved(rng, 100, 16))
        stored.look_up(curved(rng, 100, 16))
        if first % 500 == 0:
            assert stored.recall(curved(rng, 128, 16)) >= ENOUGH


# -- Hard cases -------------------------------------------------------------------------------------------------------


def test_a_memory_that_began_with_one_state() -> None:
    """The range of one state is nothing; what comes next must still be told apart."""
    rng = np.random.default_rng(4)
    states = gaussian(rng, 3 * SMALL, 8)
    stored = Stored(states[:1], capacity=len(states))
    stored.put(0, np.arange(1, len(states)), states[1:])
    assert stored.recall(gaussian(rng, 64, 8)) >= ENOUGH


def test_states_beyond_the_range_of_the_last_ones() -> None:
    """A new level of a game: less than half of the states are of it, so the cells are still the old ones."""
    rng = np.random.default_rng(5)
    stored = Stored(curved(rng, 5_000, 64), asked=curved(rng, KEPT * EVERY, 64))
    for first in range(0, 2_000, 200):
        stored.put(0, np.arange(first, first + 200), curved(rng, 200, 64) + 20)
        stored.look_up(curved(rng, 100, 64) + 20)
    assert stored.recall(curved(rng, 64, 64) + 20) >= ENOUGH


@pytest.mark.parametrize(("states", "dim"), [(narrow_rooms, 64), (gaussian, 1)])
def test_differences_that_codes_cannot_show_are_reported(
    states: Any, dim: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Small differences within rooms far apart, and 20,000 single numbers: recall is 0.04 and 0.59."""
    rng = np.random.default_rng(6)
    with caplog.at_level("WARNING", "mfec.memory"):
        stored = Stored(states(rng, 20_000, dim), asked=states(rng, KEPT * EVERY, dim))
    assert stored.recall(states(rng, 64, dim)) < ENOUGH
    assert not stored.index.reaches_its_recall
    assert "cells can find no more than" in caplog.text


def test_differences_that_codes_can_show_are_not_reported(caplog: pytest.LogCaptureFixture) -> None:
    rng = np.random.default_rng(6)
    with caplog.at_level("WARNING", "mfec.memory"):
        stored = Stored(gaussian(rng, 5_000, 64), asked=gaussian(rng, KEPT * EVERY, 64))
    assert stored.index.reaches_its_recall
    assert caplog.text == ""


def test_the_neighbours_of_a_rare_action() -> None:
    """Its entries weigh little among those that set what is read, and lie in cells far away."""
    rng = np.random.default_rng(8)
    buffers = [*(clustered(rng, 1_200, 64) for _ in range(5)), clustered(rng, 3, 64)]
    stored = Stored(*buffers, asked=clustered(rng, KEPT * EVERY, 64))
    assert stored.recall(clustered(rng, 64, 64), action=5) >= ENOUGH


# -- Replacement ------------------------------------------------------------------------------------------------------


def test_a_replaced_state_is_gone_and_the_new_one_found() -> None:
    rng = np.random.default_rng(4)
    stored = Stored(curved(rng, 3000, 16), curved(rng, 3000, 16), asked=curved(rng, KEPT * EVERY, 16))
    for turn in range(5):  # cells are made anew on the way
        action, slots = turn % 2, rng.permutation(3000)[:800]
        before, after = stored.states[action, slots].copy(), curved(rng, 800, 16)
        stored.put(action, slots, after)
        found, squared = stored.search(after, 1)
        assert found[:, action, 0].tolist() == slots.tolist()
        assert not squared[:, action].any()
        assert stored.search(before, 1)[1][:, action].all()
    stored.recall(before)  # no distance is that of a state that was there before


def test_one_put_may_name_a_slot_twice() -> None:
    """A slot that is evicted twice within one write holds the last state."""
    rng = np.random.default_rng(5)
    stored = Stored(gaussian(rng, 20, 3))
    twice = np.array([[1, 1, 1], [2, 2, 2], [9, 9, 9]], np.float32)
    stored.index.put(np.zeros(3, np.int64), np.array([8, 8, 8]), twice)
    stored.check(np.array([[9.0, 9.0, 9.0], [0.0, 0.0, 0.0]], np.float32), K)


# -- Threads, batches, masks ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch", [1, 5])
def test_the_answer_does_not_depend_on_threads_or_the_batch(monkeypatch: pytest.MonkeyPatch, batch: int) -> None:
    rng = np.random.default_rng(6)
    stored = Stored(clustered(rng, 4000, 64), on_a_grid(rng, 1500, 64), clustered(rng, 1, 64))
    queries = np.concatenate([clustered(rng, 6, 64), stored.states[0, :5], on_a_grid(rng, 5, 64)])
    for k in (1, 50):
        monkeypatch.setenv("MFEC_THREADS", "1")
        expected = stored.search(queries, k)
        monkeypatch.setattr(cells, "WORTH_SHARING", 0)  # else these few entries would stay in one thread
        for number in ("1", "3"):
            monkeypatch.setenv("MFEC_THREADS", number)
            for first in range(0, 16, batch):
                found = stored.search(queries[first : first + batch], k)
                assert answers_equal(found, tuple(part[first : first + batch] for part in expected))


def test_the_index_does_not_depend_on_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cells made, refilled and read by 1 and 3 threads."""
    monkeypatch.setattr(cells, "WORTH_SHARING", 0)
    kept = []
    for number in ("1", "3"):
        monkeypatch.setenv("MFEC_THREADS", number)
        rng = np.random.default_rng(7)
        stored = Stored(curved(rng, 2000, 8), curved(rng, 1500, 8), capacity=2500)
        for _ in range(8):
            stored.put(0, rng.permutation(2000)[:400], curved(rng, 400, 8))
            stored.look_up(curved(rng, 50, 8))
        tensors = {name: tensor.tobytes() for name, tensor in stored.index.tensors().items()}
        kept.append((stored.index.settings(), tensors))
    assert kept[0] == kept[1]


def test_only_wanted_pairs_are_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    n = 2
    rng = np.random.default_rng(8)
    stored = Stored(gaussian(rng, 1500, 4), gaussian(rng, 800, 4), gaussian(rng, 700, 4))
    queries = gaussian(rng, n, 4)
    all_slots, all_squared = stored.search(queries, 5)
    for number, worth in (("1", cells.WORTH_SHARING), ("3", 0)):
        monkeypatch.setenv("MFEC_THREADS", number)
        monkeypatch.setattr(cells, "WORTH_SHARING", worth)
        for mask in range(2 ** (3 * n)):
            wanted = np.array([mask >> bit & 1 for bit in range(3 * n)], np.bool_).reshape(n, 3)
            slots, squared = stored.index.find(queries, wanted, 5)
            assert (slots == np.where(wanted[:, :, None], all_slots, -1)).all()
            assert (squared == np.where(wanted[:, :, None], all_squared, np.inf)).all()


def test_no_queries_at_all() -> None:
    stored = Stored(gaussian(np.random.default_rng(9), 50, 4))
    slots, squared = stored.search(np.empty((0, 4), np.float32), 5)
    assert slots.shape == squared.shape == (0, 1, 5)


# -- What was looked up -----------------------------------------------------------------------------------------------


def test_look_ups_change_what_is_read_later_not_the_cells() -> None:
    rng = np.random.default_rng(10)
    states = [gaussian(rng, 2500, 16), gaussian(rng, 2500, 16)]
    stored, other = Stored(*states), Stored(*states)
    queries = gaussian(rng, 50, 16)
    # Far from everything, a search must read many cells to find what is nearest.
    stored.look_up(gaussian(rng, KEPT * EVERY, 16) * 5)
    assert answers_equal(stored.search(queries), other.search(queries))
    assert stored.index.settings()["reads"] == other.index.settings()["reads"]
    for each in (stored, other):
        for turn in range(2):
            each.put(0, np.arange(2500), states[1 - turn])
    ours, theirs = stored.index.tensors(), other.index.tensors()
    assert all((ours[name] == theirs[name]).all() for name in ("regions", "centres", "filled", "cell_of"))
    assert stored.index.settings()["reads"] > 1.1 * other.index.settings()["reads"]


# -- Saving and going on ----------------------------------------------------------------------------------------------


def restored(stored: Stored, **changed: Any) -> Stored:
    """Another index over a copy of the same buffers, from what was kept; `changed` settings and tensors win."""
    again = Stored.__new__(Stored)
    again.sizes, again.states, again.entry_ids = list(stored.sizes), stored.states.copy(), stored.entry_ids
    again.index = CellIndex(again.states.shape, again.entry_ids, states=again.states)
    actions = np.repeat(np.arange(len(stored.sizes)), stored.sizes)
    slots = np.concatenate([np.arange(size) for size in stored.sizes])
    kept = {name: changed.get(name, value) for name, value in stored.index.settings().items()}
    tensors = {name: changed.get(name, tensor.copy()) for name, tensor in stored.index.tensors().items()}
    given = {name: array for name, array in tensors.items() if array is not None}
    again.index.restore(actions, slots, stored.states[actions, slots], kept, given)
    return again


def same(ours: CellIndex, theirs: CellIndex) -> bool:
    our_tensors, their_tensors = ours.tensors(), theirs.tensors()
    return (
        ours.settings() == theirs.settings()
        and our_tensors.keys() == their_tensors.keys()
        and all(our_tensors[name].tobytes() == their_tensors[name].tobytes() for name in our_tensors)
    )


@pytest.mark.parametrize(("entries", "dim"), [(0, 3), (2300, 65)])
def test_a_restored_index_goes_on_as_the_saved_one_would(entries: int, dim: int) -> None:
    """Through growth, replacement, divided cells and another book, bit for bit."""
    rng = np.random.default_rng(entries + dim)
    stored = Stored(clustered(rng, entries, dim), clustered(rng, entries // 3, dim), capacity=3000)
    if entries:
        stored.put(0, rng.permutation(entries)[:100], clustered(rng, min(entries, 100), dim))
        stored.look_up(clustered(rng, 333, dim), 5)
    again = restored(stored)
    assert same(again.index, stored.index)
    books = 0
    for turn in range(25):
        n = int(rng.integers(1, 400))
        size = stored.sizes[turn % 2]
        slots = np.arange(size, size + n) if size + n <= 3000 and turn % 3 else rng.permutation(max(size, n))[:n]
        slots = slots if size else np.arange(n)
        states, queries = clustered(rng, n, dim), clustered(rng, 20, dim)
        states += 20_000 * (turn > 8)  # from here on they lie elsewhere
        book = stored.index.settings()["book"]
        for each in (stored, again):
            each.put(turn % 2, slots, states)
        books += stored.index.settings()["book"] != book
        assert answers_equal(again.look_up(queries, 5), stored.look_up(queries, 5))
        if turn == 12:
            again = restored(again)
    assert books >= 1
    assert same(again.index, stored.index)


def test_settings_are_kept_by_json() -> None:
    index = Stored(gaussian(np.random.default_rng(12), 200, 3)).index
    assert json.loads(json.dumps(index.settings())) == index.settings()


@cache
def small() -> Stored:
    rng = np.random.default_rng(13)
    return Stored(gaussian(rng, 300, 3), gaussian(rng, 200, 3), asked=gaussian(rng, 100, 3))


def broken_tensors() -> dict[str, dict[str, Any]]:
    kept = small().index.tensors()
    cell_of, filled, centres, regions = (kept[name] for name in ("cell_of", "filled", "centres", "regions"))
    return {
        "a cell too many": {"cell_of": np.where(np.arange(500) == 77, len(centres), cell_of)},
        "a cell below 0": {"cell_of": np.where(np.arange(500) == 77, -1, cell_of)},
        "all in one cell": {"cell_of": np.zeros_like(cell_of)},
        "an entry without a cell": {"cell_of": cell_of[:-1]},
        "cells in a square": {"cell_of": cell_of.reshape(2, 250)},
        "cells of another type": {"cell_of": cell_of.astype(np.int64)},
        "no cells": {"centres": centres[:0]},
        "a cell less": {"centres": centres[:-1]},
        "centres too short": {"centres": centres[:, :-1].copy()},
        "centres too long": {"centres": np.concatenate([centres, centres], axis=1)},
        "centres of another type": {"centres": centres.astype(np.int16)},
        "codes of fewer cells": {"codes": kept["codes"][:-1]},
        "a region less": {"regions": regions[:-1]},
        "regions too short": {"regions": regions[:, :1].copy()},
        "regions of another type": {"regions": regions.astype(np.float32)},
        "a region without cells": {"filled": np.append(filled, 0).astype(np.int32),
                                   "regions": np.concatenate([regions, regions[:1]])},
        "a region with too many cells": {"filled": filled + 300},
        "more regions than there can be": {"filled": np.ones(len(centres), np.int32),
                                           "regions": np.repeat(regions[:1], len(centres), axis=0)},
        "a step less": {"steps": kept["steps"][:-1]},
        "a step of nothing": {"steps": np.where(np.arange(len(centres)) == 1, 0, kept["steps"])},
        "a step too wide": {"steps": np.where(np.arange(len(centres)) == 1, 65, kept["steps"])},
        "a book that there is not": {"books": kept["books"] + 2},
        "fewer misfits": {"misfits": kept["misfits"][1:]},
        "another lowest number": {"lows": np.zeros((2, 4))},
        "lowest numbers that are none": {"lows": np.full((2, 3), np.nan)},
        "efforts of other actions": {"needed_reads": kept["needed_reads"][:, :1]},
        "efforts of two k": {"needed_places": kept["needed_places"][:, :, :1]},
        "fewer queries": {"queries": kept["queries"][:-1]},
        "longer queries": {"queries": np.zeros((KEPT, 4), np.float32)},
        "longer queries and no cells": {"queries": np.zeros((KEPT, 4), np.float32), "filled": None},
    }  # fmt: skip


@pytest.mark.parametrize("what", list(broken_tensors()))
def test_tensors_that_do_not_fit_are_refused(what: str) -> None:
    with pytest.raises(ValueError):
        restored(small(), **broken_tensors()[what])


def test_entries_without_cells_are_refused() -> None:
    """No cells at all, for no entries at all: the first search would divide by 0, the first write go astray."""
    stored = small()
    nothing = np.zeros(0, np.int64)
    tensors = {**stored.index.tensors(), "cell_of": nothing.astype(np.int32)}
    with pytest.raises(ValueError):
        CellIndex(stored.states.shape, stored.entry_ids).restore(
            nothing, nothing, np.zeros((0, stored.states.shape[2]), np.float32), stored.index.settings(), tensors
        )


@pytest.mark.parametrize(("name", "value"), [
    ("spare", 0), ("spare", -3), ("spare", 10**30), ("reads", 0), ("reads", -1), ("reads", 10**30),
    ("scales", [0.0, 1.0]), ("scales", [1.0, -1.0]), ("scales", [1.0, np.nan]), ("scales", [np.inf, 1.0]),
    ("scales", [1.0]), ("scales", ["wide", 1.0]), ("spare", "wide"), ("book", 2), ("cursor", -1), ("cursor", 10**9),
    ("changes", -1), ("efforts", -1),
])  # fmt: skip
def test_settings_that_cannot_be_are_refused(name: str, value: Any) -> None:
    with pytest.raises(ValueError):
        restored(small(), **{name: value})


@pytest.mark.parametrize("name", ["scales", "book", "spare", "changes", "fitted_for", "reads", "seen"])
def test_a_missing_setting_is_refused(name: str) -> None:
    stored = small()
    kept = stored.index.settings()
    del kept[name]
    actions, slots = np.repeat([0, 1], [300, 200]), np.concatenate([np.arange(300), np.arange(200)])
    with pytest.raises(KeyError, match=name):
        CellIndex(stored.states.shape, stored.entry_ids).restore(
            actions, slots, stored.states[actions, slots], kept, stored.index.tensors()
        )


# -- Making one -------------------------------------------------------------------------------------------------------


def test_an_index_is_made_by_name() -> None:
    index = make_index("cells", (1, 2, 3), np.empty((1, 2), np.int64), recall=0.99)
    assert isinstance(index, CellIndex)
    assert (index.name, index.active, index.approximate) == ("cells", "cells", True)


def test_bytes_of_an_entry() -> None:
    """What is said against what is held, after growth and replacement."""
    dim = 64
    rng = np.random.default_rng(14)
    stored = Stored(curved(rng, 5000, dim), curved(rng, 5000, dim), capacity=7400)
    for action in (0, 1):
        stored.put(action, np.arange(5000, 7400), curved(rng, 2400, dim))
        stored.put(action, rng.permutation(7400)[:3000], curved(rng, 3000, dim))
    _, centres, rows = stored.index._cells
    regions, _, numbers, *_ = centres.counts.tolist()
    held = rows.where.nbytes + sum(
        part[:numbers].nbytes
        for part in (centres.codes, centres.places, centres.steps, centres.misfits, centres.books, rows.starts)
    )
    held += sum(part[: numbers * ROWS].nbytes for part in (rows.norms, rows.owners))
    held += rows.codes[: numbers * ROWS // BLOCK].nbytes
    held += sum(part[: regions * REGION].nbytes for part in (centres.norms, centres.cells.reshape(-1)))
    held += centres.centres[: regions * REGION // BLOCK].nbytes
    assert held / 14_800 == pytest.approx(index_bytes_per_entry("cells", dim), rel=0.15)
