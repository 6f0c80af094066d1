"""The recall meter: what it reports, what it spends, and that a write ends it."""

from __future__ import annotations

import random
import threading
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mfec.memory import EpisodicMemory
from mfec.memory.neighbours import recall
from mfec.memory.neighbours.recall import LAST, RecallMeter

from ...waiting import PATIENCE

Array = NDArray[np.float32]


def squared_distances(states: Array, query: Array) -> NDArray[np.float64]:
    """In float64, term after term: equal to the last bit, not nearly."""
    total = np.zeros(len(states))
    for j in range(len(query)):
        step = states[:, j].astype(np.float64) - float(query[j])
        total += step * step
    return total


# -- The meter --------------------------------------------------------------------------------------------------------


class Searched:
    """Entries of three actions, one of them empty, and what a search for three states found in them."""

    def __init__(self, k: int = 10) -> None:
        rng = np.random.default_rng(1)
        self.k = k
        self.states = rng.standard_normal((3, 60, 4)).astype(np.float32)
        self.sizes = np.array([60, 0, 4])
        self.queries = rng.standard_normal((3, 4)).astype(np.float32)
        self.wanted = np.ones((3, 3), np.bool_)
        self.true = np.full((3, 3, 2 * k), np.inf)
        for row, query in enumerate(self.queries):
            for action, size in enumerate(self.sizes):
                distances = np.sort(squared_distances(self.states[action, :size], query))[: 2 * k]
                self.true[row, action, : len(distances)] = distances
        self.meter = RecallMeter(self.states)

    def watch(self, squared: NDArray[np.float64]) -> None:
        """One check, to its end."""
        self.meter.check(self.queries, self.wanted, squared, self.sizes)
        self.meter.finish()


@pytest.fixture
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recall, "SHARE_OF_TIME", 1e9)


@pytest.mark.usefixtures("unhurried")
def test_exact_answers_have_a_recall_of_1() -> None:
    searched = Searched()
    assert searched.meter.recall is None
    for _ in range(20):  # every pair has its turn
        searched.watch(searched.true[:, :, :10])
        assert searched.meter.recall == 1.0


@pytest.mark.usefixtures("unhurried")
@pytest.mark.parametrize("missed", [1, 3, 10])
def test_missed_neighbours_are_counted(missed: int) -> None:
    """Those that took their places are farther away."""
    searched = Searched()
    searched.wanted[:, 2] = False
    for _ in range(5):
        searched.watch(searched.true[:, :, missed : missed + 10])
    assert searched.meter.recall == pytest.approx(1 - missed / 10)


@pytest.mark.usefixtures("unhurried")
@pytest.mark.parametrize(("found", "expected"), [(4, 1.0), (3, 0.75), (0, 0.0)])
def test_a_small_buffer_has_no_more_neighbours_than_entries(found: int, expected: float) -> None:
    searched = Searched()
    searched.wanted[:, :2] = False
    squared = np.where(np.arange(10) < found, searched.true[:, :, :10], np.inf)
    searched.watch(squared)
    assert searched.meter.recall == expected


@pytest.mark.usefixtures("unhurried")
def test_equal_distances_count_whichever_entry_has_them() -> None:
    states = np.repeat(np.array([[[0.0], [1.0]]], np.float32), 5, axis=1)  # five times 0, five times 1
    meter = RecallMeter(states)
    meter.check(
        np.zeros((1, 1), np.float32), np.ones((1, 1), np.bool_), np.array([[[0.0] * 5 + [1.0]]]), np.array([10])
    )
    meter.finish()
    assert meter.recall == 1.0


@pytest.mark.usefixtures("unhurried")
def test_what_was_not_wanted_or_is_empty_is_not_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    searched = Searched()
    searched.wanted[:] = [False, True, False]
    searched.watch(searched.true[:, :, :10])
    assert searched.meter.recall is None
    searched.wanted[:] = False
    searched.watch(searched.true[:, :, :10])
    assert searched.meter.recall is None


@pytest.mark.usefixtures("unhurried")
def test_recall_is_the_mean_of_the_last_hundred_checks() -> None:
    searched = Searched()
    searched.wanted[:, 2] = False
    for _ in range(30):
        searched.watch(searched.true[:, :, 10:])
    assert searched.meter.recall == 0.0
    for n in range(1, LAST + 1):
        searched.watch(searched.true[:, :, :10])
        assert searched.meter.recall == pytest.approx(n / min(n + 30, LAST))
    assert (searched.meter.recall, LAST) == (1.0, 100)


@pytest.mark.usefixtures("unhurried")
def test_a_check_keeps_what_it_was_given() -> None:
    """The arrays that a caller uses again may change while it runs."""
    searched = Searched()
    go = threading.Event()
    check = recall._check
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recall, "_check", lambda *given: (go.wait(PATIENCE), check(*given))[1])
        squared = searched.true[:, :, :10].copy()
        searched.meter.check(searched.queries, searched.wanted, squared, searched.sizes)
        squared[:] = np.inf
        searched.queries[:] = 0.0  # nearer to the entries than they were
        searched.sizes[:] = 0
        go.set()
        searched.meter.finish()
    assert searched.meter.recall == 1.0


# -- Time -------------------------------------------------------------------------------------------------------------


def test_no_more_than_its_share_of_time_is_spent(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock of the test: each check takes 2 s, so there is one every 200 s."""
    now = 1000.0
    monkeypatch.setattr(recall, "time", SimpleNamespace(perf_counter=lambda: now))
    monkeypatch.setattr(recall, "_check", lambda *_: (1.0, 2.0))
    monkeypatch.setattr(recall, "SHARE_OF_TIME", 0.01)
    searched = Searched()
    checked_at = []
    for second in range(1000):
        now = 1000.0 + second
        before = len(searched.meter._checks)
        searched.watch(searched.true[:, :, :10])
        if len(searched.meter._checks) > before:
            checked_at.append(second)
    assert checked_at == [0, 200, 400, 600, 800]


def test_no_share_of_time_allows_the_first_check_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recall, "SHARE_OF_TIME", 0.0)
    searched = Searched()
    searched.watch(searched.true[:, :, :10])
    for _ in range(10):
        searched.watch(searched.true[:, :, 10:])
    assert searched.meter.recall == 1.0


@pytest.mark.usefixtures("unhurried")
def test_a_look_up_does_not_wait_and_finish_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """While one check is under way there is no other, and nothing to report."""
    searched = Searched()
    begun, go = threading.Event(), threading.Event()
    checks = []

    def check(*_: Any) -> tuple[float, float]:
        checks.append(threading.current_thread())
        begun.set()
        assert go.wait(PATIENCE)
        return 0.5, 1.0

    monkeypatch.setattr(recall, "_check", check)
    for _ in range(5):
        searched.meter.check(searched.queries, searched.wanted, searched.true[:, :, :10], searched.sizes)
    assert begun.wait(PATIENCE)
    assert searched.meter.recall is None
    waiting = threading.Timer(0.05, go.set)
    waiting.start()
    searched.meter.finish()
    assert go.is_set()
    assert searched.meter.recall == 0.5
    assert [thread is threading.main_thread() for thread in checks] == [False]


def test_finishing_nothing_is_no_work() -> None:
    meter = Searched().meter
    meter.finish()
    meter.finish()
    assert meter.recall is None


@pytest.mark.usefixtures("unhurried")
def test_an_error_in_a_check_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def check(*_: Any) -> tuple[float, float]:
        raise ArithmeticError("in the background")

    monkeypatch.setattr(recall, "_check", check)
    with pytest.raises(ArithmeticError, match="in the background"):
        Searched().watch(np.zeros((3, 3, 10)))


# -- In a memory ------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("unhurried")
def test_a_write_ends_the_check_that_reads_the_buffers(monkeypatch: pytest.MonkeyPatch) -> None:
    """It reads nothing after the write has begun, and does not count; one that nothing disturbs does."""
    rng = np.random.default_rng(2)
    memory = EpisodicMemory(1, 4, capacity=50, k=3, index="cells")
    memory.write(rng.standard_normal((50, 4)), [0] * 50, np.zeros(50))
    begun = threading.Event()
    unchanged = []
    check = recall._check

    def slow_check(entries: Array, *rest: Any) -> tuple[float | None, float]:
        before = entries.copy()
        begun.set()
        assert rest[-1].wait(PATIENCE)  # until it is stopped
        unchanged.append(bool((entries == before).all()))
        return check(entries, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(recall, "_check", slow_check)
        patch.setattr(recall, "PART", 10)
        for _ in range(4):
            begun.clear()
            memory.estimate(rng.standard_normal((2, 4)))
            assert begun.wait(PATIENCE)
            memory.write(rng.standard_normal((50, 4)), [0] * 50, np.zeros(50))  # every entry is replaced
    assert unchanged == [True] * 4
    assert memory.measured_recall is None
    memory.estimate(rng.standard_normal((2, 4)))
    memory._store.index._meter.finish()  # type: ignore[attr-defined]
    assert memory.measured_recall == 1.0


@pytest.mark.usefixtures("unhurried")
def test_what_is_checked_does_not_touch_global_randomness() -> None:
    np.random.seed(0)
    random.seed(0)
    expected = random.random(), np.random.random()
    np.random.seed(0)
    random.seed(0)
    searched = Searched()
    searched.watch(searched.true[:, :, :10])
    assert (random.random(), np.random.random()) == expected
