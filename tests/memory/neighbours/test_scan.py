"""Full scans against a float64 full sort."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from mfec.memory.neighbours.scan import enter, scan

Array = NDArray[np.float32]


def squared_distances(states: Array, query: Array) -> NDArray[np.float64]:
    """In float64, term after term: equal to the last bit, not nearly."""
    total = np.zeros(len(states))
    for j in range(len(query)):
        step = states[:, j].astype(np.float64) - float(query[j])
        total += step * step
    return total


def nearest_distances(states: Array, query: Array, k: int) -> NDArray[np.float64]:
    slots, squared = np.full(k, -1), np.full(k, np.inf)
    scan(states, np.arange(len(states)), query, slots, squared)
    assert squared_distances(states[slots], query).tolist() == squared.tolist()
    return squared


@pytest.mark.parametrize("dim", [1, 3, 64, 65, 130])
@pytest.mark.parametrize("k", [1, 11, 50])
def test_the_smallest_distances_are_found(dim: int, k: int) -> None:
    rng = np.random.default_rng(dim)
    for size in (k, k + 1, 500):
        for states in (rng.standard_normal((size, dim)), rng.integers(0, 2, (size, dim)), np.ones((size, dim)) * 1e4):
            entries = states.astype(np.float32)
            for query in (entries[0], rng.standard_normal(dim).astype(np.float32)):
                expected = np.sort(squared_distances(entries, query))[:k]
                assert nearest_distances(entries, query, k).tolist() == expected.tolist()


@pytest.mark.parametrize("scale", [1e-38, 1e-30, 1e-23, 1e-10, 1e5, 1e15, 1e20, 1e30, 1e37])
def test_huge_and_tiny_numbers_are_measured_rightly(scale: float) -> None:
    """The square of a float32 difference overflows or vanishes here."""
    rng = np.random.default_rng(0)
    entries = (rng.standard_normal((400, 8)) * scale).astype(np.float32)
    query = (rng.standard_normal(8) * scale).astype(np.float32)
    expected = np.sort(squared_distances(entries, query))[:11]
    assert nearest_distances(entries, query, 11).tolist() == expected.tolist()


def test_equal_distances_go_to_the_older_entry() -> None:
    states = np.zeros((6, 2), np.float32)
    slots, squared = np.full(3, -1), np.full(3, np.inf)
    scan(states, np.array([9, 2, 7, 1, 5, 3]), states[0], slots, squared)
    assert slots.tolist() == [3, 1, 5]


@pytest.mark.parametrize("order", [1, -1])
def test_squares_that_float32_rounds_up_to_its_smallest_number(order: int) -> None:
    """1e-45 and 7.5e-46 are both 1.4e-45 there."""
    states = np.array([[3.16e-23], [2.74e-23]][::order], np.float32)
    assert nearest_distances(states, np.zeros(1, np.float32), 1).tolist() == [float(np.float32(2.74e-23)) ** 2]


numbers = st.tuples(*[st.floats(allow_nan=False, allow_infinity=False, width=32)] * 2)


@given(st.lists(numbers, min_size=1, max_size=60), numbers, st.sampled_from([1, 3, 11]))
@settings(max_examples=200)
def test_any_states_are_ranked_as_by_a_full_sort(
    states: list[tuple[float, float]], query: tuple[float, float], k: int
) -> None:
    """Entry ids that go against the slots; nothing beyond the end of a short buffer."""
    entries, entry_ids = np.array(states, np.float32), -np.arange(len(states))
    slots, squared = np.full(k, -1), np.full(k, np.inf)
    scan(entries, entry_ids, np.array(query, np.float32), slots, squared)
    true = squared_distances(entries, np.array(query, np.float32))
    order = np.lexsort((entry_ids, true))[:k]
    assert slots.tolist() == [*order.tolist(), *[-1] * (k - len(order))]
    assert squared.tolist() == [*true[order].tolist(), *[np.inf] * (k - len(order))]


def test_small_differences_of_many_large_numbers_are_ranked_rightly() -> None:
    rng = np.random.default_rng(1)
    centre = rng.standard_normal(7000) * 1000
    states = (centre + rng.standard_normal((300, 7000)) * 0.01).astype(np.float32)
    expected = np.sort(squared_distances(states, centre.astype(np.float32)))[:11]
    assert nearest_distances(states, centre.astype(np.float32), 11).tolist() == expected.tolist()


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 99)), unique_by=lambda pair: pair[1], max_size=20))
@settings(max_examples=100)
def test_entering_one_by_one_keeps_the_nearest_and_oldest(entries: list[tuple[int, int]]) -> None:
    entry_ids = np.array([entry_id for _, entry_id in entries], np.int64)
    slots, squared = np.full(5, -1), np.full(5, np.inf)
    for slot, (distance, _) in enumerate(entries):
        enter(float(distance), slot, entry_ids, slots, squared)
    expected = sorted(range(len(entries)), key=lambda slot: entries[slot])[:5]
    assert slots[slots >= 0].tolist() == expected
    assert squared[slots >= 0].tolist() == [entries[slot][0] for slot in expected]
