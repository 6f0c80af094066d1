"""One look-up shared with helpers that are awake: beside the same look-up in a batch, which one thread makes alone."""

from __future__ import annotations

import gc
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.waiting import wait_until

from mfec.memory.neighbours import shared_search
from mfec.memory.neighbours.cells import CellIndex

K = 11
SIZES = (6_000, 5_000, 1_500, 40)
Array = NDArray[Any]


@pytest.fixture(params=["1", "2", "4"], autouse=True)
def threads(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MFEC_THREADS", request.param)
    monkeypatch.setattr(shared_search, "WORTH_HELP", 0)


def rooms(rng: np.random.Generator, n: int) -> Array:
    """Forty rooms, far apart."""
    centres = np.random.default_rng(0).normal(0, 3000, (40, 24))
    return (centres[rng.integers(0, 40, n)] + rng.normal(0, 400, (n, 24))).astype(np.float32)


def filled() -> CellIndex:
    rng = np.random.default_rng(1)
    entry_ids = rng.permutation(len(SIZES) * max(SIZES)).reshape(len(SIZES), -1)
    index = CellIndex((len(SIZES), max(SIZES), 24), entry_ids, k=K)
    index.search(rooms(rng, 2_000), np.ones((2_000, len(SIZES)), np.bool_), K, learning=True)
    for action, size in enumerate(SIZES):
        index.put(np.full(size, action), np.arange(size), rooms(rng, size))
    return index


def alone(index: CellIndex, query: Array, wanted: Array) -> tuple[bytes, bytes]:
    """What one thread finds by itself: two states are not shared."""
    slots, squared = index.find(np.stack([query, query]), np.stack([wanted, wanted]), K)
    return slots[0].tobytes(), squared[0].tobytes()


def shared(index: CellIndex, query: Array, wanted: Array) -> tuple[bytes, bytes]:
    slots, squared = index.find(query[None], wanted[None], K)
    return slots[0].tobytes(), squared[0].tobytes()


def test_helpers_change_nothing_also_where_the_last_state_was_elsewhere() -> None:
    index, rng = filled(), np.random.default_rng(2)
    near = rooms(rng, 1)[0]
    queries = [*(near + rng.normal(0, 50, (30, 24))), *rooms(rng, 60), *rng.normal(0, 9_000, (30, 24)), near]
    for query in np.array(queries, np.float32):
        for wanted in (np.ones(4, np.bool_), rng.random(4) < 0.5, np.zeros(4, np.bool_)):
            assert shared(index, query, wanted) == alone(index, query, wanted)


def test_more_cells_are_read_for_an_action_that_lies_elsewhere() -> None:
    """No neighbour is missing, and none of the rare action's is a far one, though the nearest cells hold none."""
    rng = np.random.default_rng(3)
    centres = np.array([0.0, 50_000.0])[:, None] + np.zeros(24)
    buffers = [centres[0] + rng.normal(0, 400, (20_000, 24)), centres[1] + rng.normal(0, 400, (2_000, 24))]
    index = CellIndex((2, 20_000, 24), np.arange(40_000).reshape(2, -1), k=K)
    index.search(buffers[0][:1_024].astype(np.float32), np.ones((1_024, 2), np.bool_), K, learning=True)
    for action, states in enumerate(buffers):
        index.put(np.full(len(states), action), np.arange(len(states)), states.astype(np.float32))
    for query in (centres[0] + rng.normal(0, 400, (20, 24))).astype(np.float32):
        assert shared(index, query, np.ones(2, np.bool_)) == alone(index, query, np.ones(2, np.bool_))
        slots, squared = index.find(query[None], np.ones((1, 2), np.bool_), K)
        assert (slots >= 0).all()
        true = np.sort(((buffers[1].astype(np.float32).astype(np.float64) - query) ** 2).sum(axis=1))[:K]
        assert (squared[0, 1] <= 1.01 * true[-1]).all()


def test_several_threads_may_ask_at_once() -> None:
    index, rng = filled(), np.random.default_rng(4)
    queries, wanted = rooms(rng, 200), np.ones(4, np.bool_)
    expected = [alone(index, query, wanted) for query in queries]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda query: shared(index, query, wanted), queries)) == expected


def test_after_a_helper_was_late_look_ups_are_made_alone_for_a_while() -> None:
    index, rng = filled(), np.random.default_rng(7)
    numbers, wanted = index._shared._look_up.numbers, np.ones(4, np.bool_)
    numbers[shared_search.ALONE] = 5
    for left in (4, 3, 2, 1, 0):
        query = rooms(rng, 1)[0]
        assert shared(index, query, wanted) == alone(index, query, wanted)
        assert numbers[shared_search.ALONE] == left


def test_cells_that_change_between_look_ups() -> None:
    index, rng = filled(), np.random.default_rng(5)
    for _ in range(30):
        slots = rng.choice(SIZES[0], 100, replace=False)
        index.put(np.zeros(100, np.int64), slots, rooms(rng, 100))
        query = rooms(rng, 1)[0]
        assert shared(index, query, np.ones(4, np.bool_)) == alone(index, query, np.ones(4, np.bool_))


def test_helpers_that_sleep_are_woken_and_end_with_their_index() -> None:
    before = helpers()
    index, query = filled(), rooms(np.random.default_rng(6), 1)[0]
    expected = alone(index, query, np.ones(4, np.bool_))
    signals = index._shared._look_up.signals
    for _ in range(3):
        assert shared(index, query, np.ones(4, np.bool_)) == expected
        wait_until(lambda: signals[shared_search.AWAKE] == 0, "helpers to sleep")
    del index
    gc.collect()
    wait_until(lambda: helpers() <= before, "helpers to end")


def helpers() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "mfec-search"}
