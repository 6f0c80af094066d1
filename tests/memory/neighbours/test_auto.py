"""The index that begins exact and changes to cells when a trial finds them faster."""

from __future__ import annotations

import json
import logging
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mfec.memory.neighbours import auto, make_index
from mfec.memory.neighbours.auto import AutoIndex, milliseconds
from mfec.memory.neighbours.cells import CellIndex
from mfec.memory.neighbours.exact import ExactIndex
from mfec.memory.neighbours.recent import EVERY, KEPT

Array = NDArray[np.float32]
CAPACITY = 400
ENOUGH = KEPT * EVERY  # look-ups for a trial


class Trials:
    """Stands in for the clock: the times it was asked, and the milliseconds of either index."""

    def __init__(self) -> None:
        self.took = {"exact": 1.0, "cells": 2.0}
        self.timed: list[tuple[str, int, int]] = []  # index, queries, k

    def __call__(self, index: Any, queries: Array, k: int) -> float:
        self.timed.append((index.name, len(queries), k))
        return self.took[index.name]


@pytest.fixture
def trials(monkeypatch: pytest.MonkeyPatch) -> Trials:
    """The first trial at 100 entries, by a clock that the test sets."""
    clock = Trials()
    monkeypatch.setattr(auto, "FIRST_TRIAL", 100)
    monkeypatch.setattr(auto, "milliseconds", clock)
    return clock


class Stored:
    """Random states in an automatic index of two actions, and in an exact one beside it."""

    def __init__(self, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)
        self.states = np.zeros((2, CAPACITY, 4), np.float32)
        self.entry_ids = np.arange(2 * CAPACITY).reshape(2, CAPACITY)
        self.size = 0
        self.index = AutoIndex(self.states.shape, self.entry_ids, k=3, states=self.states)
        self.exact = ExactIndex(self.states.shape, self.entry_ids, states=self.states)

    def grow(self, entries: int) -> None:
        """To so many entries, half of each action."""
        actions, slots = np.divmod(np.arange(entries - 2 * self.size), entries // 2 - self.size)
        self.replace(actions, slots + self.size)
        self.size = entries // 2

    def replace(self, actions: NDArray[np.int64], slots: NDArray[np.int64]) -> None:
        self.index.put(actions, slots, self.rng.standard_normal((len(actions), 4)).astype(np.float32))
        self.exact.take_in(actions, slots)  # the states are the same array

    def look_up(self, n: int = ENOUGH, k: int = 3, *, learning: bool = True) -> tuple[Any, Any]:
        """As a learning agent does, or as one that only plays; what was found."""
        queries = self.rng.standard_normal((n, 4)).astype(np.float32)
        everything = self.index.search(queries, np.ones((n, 2), np.bool_), k, learning=learning)
        found = everything.slots, everything.squared
        if self.index.active == "exact":
            true = self.exact.find(queries, np.ones((n, 2), np.bool_), k)
            assert all(a.tobytes() == b.tobytes() for a, b in zip(found, true, strict=True))
        return found

    def restored(self) -> Stored:
        """Another one, from what a checkpoint keeps."""
        again = Stored()
        again.rng = np.random.default_rng()
        again.rng.bit_generator.state = self.rng.bit_generator.state
        again.states[:], again.size = self.states, self.size
        actions, slots = (part.ravel() for part in np.indices((2, self.size)))
        kept = json.loads(json.dumps(self.index.settings()))
        tensors = {name: tensor.copy() for name, tensor in self.index.tensors().items()}
        again.index.restore(actions, slots, self.states[actions, slots], kept, tensors)
        again.exact.put(actions, slots, self.states[actions, slots])
        return again


def test_it_begins_exact() -> None:
    index = make_index("auto", (1, 5, 3), np.zeros((1, 5), np.int64), recall=0.99)
    assert (index.name, index.active, index.approximate) == ("auto", "exact", False)
    found = index.search(np.zeros((1, 3), np.float32), np.ones((1, 1), np.bool_), 2)
    assert (found.slots == -1).all()
    assert np.isinf(found.squared).all()


def test_it_changes_when_cells_are_faster(trials: Trials, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "mfec.memory")
    trials.took = {"exact": 2.0, "cells": 1.25}
    stored = Stored()
    stored.grow(98)
    stored.look_up()
    assert (stored.index.active, trials.timed) == ("exact", [])
    stored.grow(100)
    assert (stored.index.name, stored.index.active, stored.index.approximate) == ("auto", "cells", True)
    assert trials.timed == [("exact", KEPT, 3), ("cells", KEPT, 3)]
    stored.look_up()
    stored.grow(600)
    assert len(trials.timed) == 2
    assert [(record.name, record.levelno) for record in caplog.records] == [("mfec.memory", logging.INFO)]
    message = caplog.records[0].getMessage()
    assert "100 entries" in message
    assert "1.25 ms" in message
    assert "2.00" in message


def test_it_stays_exact_while_that_is_faster(trials: Trials, caplog: pytest.LogCaptureFixture) -> None:
    """Each trial at half as many entries again as there were at the last one."""
    caplog.set_level(logging.INFO, "mfec.memory")
    stored = Stored()
    tried = []
    for entries in range(10, 600, 10):
        stored.look_up()
        before = len(trials.timed)
        stored.grow(entries)
        if len(trials.timed) > before:
            tried.append(entries)
    assert tried == [100, 150, 230, 350, 530]  # 150, 225, 345 and 525 are the numbers they had to reach
    assert stored.index.active == "exact"
    assert not caplog.records


def test_a_tie_goes_to_the_exact_index(trials: Trials) -> None:
    trials.took = {"exact": 1.0, "cells": 1.0}
    stored = Stored()
    stored.look_up()
    stored.grow(200)
    assert len(trials.timed) == 2
    assert stored.index.active == "exact"


def test_a_later_trial_may_change_it(trials: Trials) -> None:
    stored = Stored()
    stored.look_up()
    stored.grow(100)
    trials.took["cells"] = 0.5
    stored.grow(148)
    assert stored.index.active == "exact"
    stored.grow(150)
    assert stored.index.active == "cells"


def test_a_trial_waits_until_there_are_enough_look_ups(trials: Trials) -> None:
    """A memory that was filled first, and is asked later, is tried then; it need not grow any more."""
    trials.took["cells"] = 0.5
    stored = Stored()
    stored.grow(120)
    stored.look_up(ENOUGH - EVERY)
    stored.grow(300)
    assert (stored.index.active, trials.timed) == ("exact", [])
    stored.look_up(1)
    assert (stored.index.active, len(trials.timed)) == ("cells", 2)


def test_a_trial_that_waits_is_made_once(trials: Trials) -> None:
    stored = Stored()
    stored.grow(120)
    for _ in range(5):
        stored.look_up()
    assert (stored.index.active, len(trials.timed)) == ("exact", 2)


@pytest.mark.parametrize("looked_up", [0, 100, ENOUGH - EVERY])
def test_a_trial_that_waits_is_restored(trials: Trials, looked_up: int) -> None:
    trials.took["cells"] = 0.5
    stored = Stored()
    stored.grow(120)
    if looked_up:
        stored.look_up(looked_up)
    again = stored.restored()
    assert again.index.settings() == stored.index.settings()
    again.look_up(ENOUGH - looked_up)
    assert again.index.active == "cells"


# -- Look-ups that must leave no trace --------------------------------------------------------------------------------


def kept_of(stored: Stored) -> tuple[dict[str, Any], dict[str, bytes]]:
    return stored.index.settings(), {name: tensor.tobytes() for name, tensor in stored.index.tensors().items()}


def test_one_who_only_plays_searches_cells_where_they_are_faster(trials: Trials) -> None:
    """But a checkpoint does not know of it."""
    trials.took["cells"] = 0.5
    stored = Stored()
    stored.grow(120)
    before = kept_of(stored)
    stored.look_up(learning=False)
    assert (stored.index.active, stored.index.approximate) == ("cells", True)
    stored.look_up(learning=False)
    assert trials.timed == [("exact", KEPT, 3), ("cells", KEPT, 3)]
    assert kept_of(stored) == before
    assert stored.restored().index.active == "exact"


def test_one_who_learns_goes_on_as_if_nobody_had_played(trials: Trials) -> None:
    """What it finds, what is tried and what is kept are the same with look-ups of a player in between."""
    answers = []
    for plays in (False, True):
        stored = Stored()
        trials.timed.clear()
        trials.took["cells"] = 0.5
        stored.grow(120)
        found = []
        for size in range(140, 400, 40):
            rng = stored.rng
            if plays:
                stored.rng = np.random.default_rng(1)
                stored.look_up(learning=False)
                stored.rng = rng
            found += [part.tobytes() for part in stored.look_up(200)]
            stored.grow(size)
            found.append(stored.index.active)
        answers.append((found, kept_of(stored)))
    assert answers[0] == answers[1]
    assert "cells" in answers[0][0]


def test_one_who_only_plays_has_no_trial_where_one_was_made(trials: Trials) -> None:
    stored = Stored()
    stored.look_up()
    stored.grow(120)
    assert len(trials.timed) == 2
    trials.took["cells"] = 0.5
    stored.look_up(learning=False)
    assert (stored.index.active, len(trials.timed)) == ("exact", 2)


def test_replaced_entries_do_not_count(trials: Trials) -> None:
    stored = Stored()
    stored.look_up()
    stored.grow(80)
    for _ in range(5):
        stored.replace(np.repeat([0, 1], 40), np.tile(np.arange(40), 2))
    assert trials.timed == []


def test_all_entries_are_in_cells_after_the_change(trials: Trials) -> None:
    """And those that are put later too."""
    trials.took["cells"] = 0.5
    stored = Stored()
    stored.look_up()
    stored.grow(300)
    assert stored.index.active == "cells"
    stored.replace(np.array([0, 1, 1]), np.array([5, 7, 149]))
    stored.grow(320)
    queries = stored.states[:, : stored.size].reshape(-1, 4)
    slots, squared = stored.index.find(queries, np.ones((320, 2), np.bool_), 1)
    for action in (0, 1):
        mine = slice(action * stored.size, (action + 1) * stored.size)
        assert slots[mine, action, 0].tolist() == list(range(stored.size))
        assert not squared[mine, action].any()


@pytest.mark.parametrize("faster", ["exact", "cells"])
@pytest.mark.parametrize("entries", [0, 60, 120, 300])
def test_a_restored_index_goes_on_as_the_saved_one_would(trials: Trials, faster: str, entries: int) -> None:
    """On both sides of a trial and of the change, bit for bit."""
    trials.took[faster] = 0.5
    stored = Stored()
    stored.look_up()
    if entries:
        stored.grow(entries)
        stored.look_up(10)
    again = stored.restored()
    assert again.index.active == stored.index.active == ("cells" if entries >= 100 and faster == "cells" else "exact")
    answers = []
    for each in (stored, again):
        trials.timed.clear()
        found = []
        for size in range(entries + 20, entries + 400, 20):
            each.grow(size)
            each.replace(np.repeat([0, 1], 3), np.tile(np.array([0, size // 4, size // 2 - 1]), 2))
            found += [part.tobytes() for part in each.look_up()]
        tensors = {name: tensor.tobytes() for name, tensor in each.index.tensors().items()}
        answers.append((found, list(trials.timed), each.index.settings(), tensors))
    assert answers[0] == answers[1]


def test_a_restored_index_counts_the_entries_of_all_actions(trials: Trials) -> None:
    stored = Stored()
    stored.look_up()
    stored.grow(60)
    again = stored.restored()
    again.replace(np.zeros(39, np.int64), np.arange(30, 69))
    assert trials.timed == []
    again.replace(np.zeros(1, np.int64), np.array([69]))
    assert len(trials.timed) == 2


@pytest.mark.parametrize("shape", [(63, 4), (64, 5), (64,)])
def test_queries_that_do_not_fit_are_refused(shape: tuple[int, ...]) -> None:
    """A trial would search for them, and compiled code does not look where a state ends."""
    stored = Stored()
    stored.grow(20)
    tensors = {**stored.index.tensors(), "queries": np.zeros(shape, np.float32)}
    actions, slots = (part.ravel() for part in np.indices((2, 10)))
    with pytest.raises(ValueError):
        AutoIndex(stored.states.shape, stored.entry_ids).restore(
            actions, slots, stored.states[actions, slots], stored.index.settings(), tensors
        )


def test_times_are_medians_in_milliseconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock of the test: the look-ups take 1, 8 and 3 ms."""
    stored = Stored()
    stored.grow(400)
    queries = stored.rng.standard_normal((3, 4)).astype(np.float32)
    for index in (stored.exact, CellIndex(stored.states.shape, stored.entry_ids, states=stored.states)):
        clock = iter([1.0, 1.001, 2.0, 2.008, 3.0, 3.003])
        monkeypatch.setattr(auto, "time", SimpleNamespace(perf_counter=clock.__next__))
        assert milliseconds(index, queries, 3) == pytest.approx(3.0)


def test_cells_that_would_miss_too_much_are_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """However fast they are: 20,000 single numbers have more differences than codes can show."""
    monkeypatch.setattr(auto, "FIRST_TRIAL", 20_000)
    monkeypatch.setattr(auto, "milliseconds", lambda index, queries, k: 1.0 if index.active == "cells" else 2.0)
    rng = np.random.default_rng(0)
    states = rng.standard_normal((1, 20_000, 1)).astype(np.float32)
    index = AutoIndex(states.shape, np.arange(20_000)[None])
    queries = rng.standard_normal((1024, 1)).astype(np.float32)
    index.search(queries, np.ones((1024, 1), np.bool_), 3, learning=True)
    index.put(np.zeros(20_000, np.int64), np.arange(20_000), states[0])
    assert index.active == "exact"
