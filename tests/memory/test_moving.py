"""Keys that move, neighbours by place, values that step: against full scans in 64 bits, and by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mfec.memory import EpisodicMemory
from mfec.memory.neighbours import recall

from .reference import ACTIVE, early_change, every_index  # noqa: F401

Array = NDArray[Any]


class Drifting:
    """A memory, and a copy of its states, which all drift in one direction, some at a time."""

    def __init__(self, n: int, dim: int, **options: Any) -> None:
        self.rng = np.random.default_rng(0)
        self.states = self.rng.standard_normal((2, n, dim)).astype(np.float32)
        self.memory = EpisodicMemory(2, dim, capacity=n, **options)
        self.memory.write(self.states.reshape(-1, dim), np.repeat([0, 1], n), np.zeros(2 * n), np.arange(2 * n))
        self.look_up(4)

    def move(self, n: int, step: float, apart: float = 0.1) -> tuple[Array, Array]:
        """Move this many, some of them twice in one call; returns their places."""
        actions, slots = self.rng.integers(0, 2, n), self.rng.integers(0, self.states.shape[1], n)
        noise = self.rng.standard_normal((n, self.states.shape[2]))
        to = (self.states[actions, slots] + step + apart * noise).astype(np.float32)
        self.memory.move(actions, slots, to, np.arange(n))
        for row in range(n):
            self.states[actions[row], slots[row]] = to[row]
        return actions, slots

    def queries(self, n: int) -> tuple[Array, Array]:
        actions, slots = self.rng.integers(0, 2, n), self.rng.integers(0, self.states.shape[1], n)
        noise = 0.3 * self.rng.standard_normal((n, self.states.shape[2]))
        return (self.states[actions, slots] + noise).astype(np.float32), actions

    def look_up(self, n: int) -> tuple[Array, Array, Array, Array]:
        """Slots and squared distances of new states, as the memory has them, and then as a full sort has them."""
        queries, actions = self.queries(n)
        slots, squared = self.memory.nearest(queries, actions, mark_used=True)
        all_of = np.stack(
            [distances(self.states[action], query) for query, action in zip(queries, actions, strict=True)]
        )
        order = np.argsort(all_of, axis=1, kind="stable")[:, : self.memory.k]
        return slots, squared, order, np.take_along_axis(all_of, order, axis=1)


def distances(states: Array, query: Array) -> Array:
    """Squared, in float64, summed in the order of the numbers."""
    return ((states.astype(np.float64) - query.astype(np.float64)) ** 2).cumsum(axis=1)[:, -1]


@pytest.mark.parametrize("index", ["exact", pytest.param("cuda", marks=pytest.mark.torch)])
@pytest.mark.parametrize("dim", [3, 64])
def test_exact_search_stays_exact_while_all_keys_drift(index: str, dim: int) -> None:
    """By nine standard deviations, which is far beyond what the first code book covers."""
    drifting = Drifting(700, dim, k=50, index=index)
    for _ in range(60):
        drifting.move(500, 0.5)
        slots, squared, order, truth = drifting.look_up(5)
        assert squared.tolist() == truth.tolist()
        assert slots.tolist() == order.tolist()
    assert np.median(drifting.states) > 8


def test_exact_search_is_as_fast_for_states_that_have_drifted() -> None:
    """Codes tell them apart as before; those of states outside the coded range would all be the same."""
    drifting = Drifting(3000, 64, k=11, index="exact")
    before = spread_of_codes(drifting.memory)
    for _ in range(40):
        drifting.move(3000, 0.5)
    assert 0.8 * before < spread_of_codes(drifting.memory)


def spread_of_codes(memory: EpisodicMemory) -> float:
    """How far the codes of an exact index spread: the mean standard deviation of a number's code."""
    codes: Array = memory._store.index._codes  # type: ignore[attr-defined]
    return float(codes.transpose(0, 1, 4, 2, 3, 5).reshape(-1, 64)[: memory.capacity].std(axis=0).mean())


@pytest.mark.parametrize("index", ["cells", "auto"])
def test_cells_find_states_where_they_are_now(index: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In buffers that are too large to be read in full; the recall that is measured is the true one, nearly."""
    monkeypatch.setattr(recall, "SHARE_OF_TIME", 1.0)
    drifting = Drifting(4000, 16, k=11, index=index)
    found, counted = 0, 0
    for turn in range(60):
        before = drifting.states.copy()
        actions, slots = drifting.move(1500 if turn % 3 == 0 else 200, 0.2, apart=0.7)  # many, or too few for new cells
        some = slice(0, 40)
        here, apart = drifting.memory.nearest(drifting.states[actions[some], slots[some]], actions[some])
        assert here[:, 0].tolist() == slots[some].tolist()
        assert not apart[:, 0].any()
        there, apart = drifting.memory.nearest(before[actions[some], slots[some]], actions[some])
        to = drifting.states[actions[some, None], there]
        true = ((to.astype(np.float64) - before[actions[some], slots[some], None].astype(np.float64)) ** 2).sum(axis=2)
        np.testing.assert_allclose(apart, true)
        _, squared, _, truth = drifting.look_up(20)
        found += int(np.count_nonzero(squared <= truth[:, -1:]))
        counted += truth.size
    assert drifting.memory.active_index == "cells"
    assert found / counted > 0.97
    measured = drifting.memory.measured_recall
    assert measured is not None
    assert measured == pytest.approx(found / counted, abs=0.03)


# -- Single rules -----------------------------------------------------------------------------------------------------


def small_memory(index: str = "exact", **options: Any) -> EpisodicMemory:
    memory = EpisodicMemory(2, 2, capacity=4, k=2, index=index, **options)
    memory.write([[0, 0], [0, 1], [0, 2]], [0, 0, 1], [1.0, 2.0, 3.0], [10, 11, 12], [[1, 1], [1, 2], [1, 3]])
    memory.estimate([[9, 9]], [11])
    return memory


moving_index = pytest.mark.parametrize(
    "index", ["exact", "cells", "auto", "none", pytest.param("cuda", marks=pytest.mark.torch)]
)


@moving_index
def test_a_move_changes_states_and_values_only(index: str) -> None:
    memory = small_memory(index)
    before = memory.tensors()
    memory.move([0, 1, 0], [1, 0, 1], [[7, 7], [8, 8], [9, 9]], [-1.0, -2.0, -3.0])
    after = memory.tensors()
    for name in before.keys() - {"states", "values"}:
        if not name.startswith("index."):
            assert after[name].tolist() == before[name].tolist()
    moved = memory.at([0, 0, 1], [0, 1, 0])
    assert moved.states.tolist() == [[0, 0], [9, 9], [8, 8]]
    assert moved.values.tolist() == [1.0, -3.0, -2.0]
    assert moved.origins.tolist() == [[1, 1], [1, 2], [1, 3]]
    assert memory.estimate([[5, 5]], [11]).values[0, 0] == -3.0  # known by its name, wherever it is


@moving_index
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"slots": [0, 2]}, "no entry in slot 2 of action 0: its buffer has 2"),
        ({"slots": [-1, 1]}, "no entry in slot -1"),
        ({"actions": [0, 1]}, "no entry in slot 1 of action 1: its buffer has 1"),
        ({"actions": [0, 2]}, r"actions must lie in 0\.\.1, not 2"),
        ({"actions": [0.0, 0.0]}, "actions must be integers"),
        ({"slots": [0.0, 1.0]}, "slots must be integers"),
        ({"slots": [0]}, "slots must be 2 numbers in a row"),
        ({"states": [[1, 1]]}, "2 places need as many states, not 1"),
        ({"states": [[1, 1], [1, np.nan]]}, "states must be finite"),
        ({"states": [[1], [1]]}, r"shape \(n, 2\)"),
        ({"values": [0.0, 1e39]}, "values must be finite"),
        ({"values": [0.0]}, "values must be 2 numbers in a row"),
    ],
)
def test_moves_that_cannot_be_are_refused_and_change_nothing(index: str, change: dict[str, Any], message: str) -> None:
    memory = small_memory(index)
    before = memory.tensors()
    fits: dict[str, Any] = {"actions": [0, 0], "slots": [0, 1], "states": [[1, 1], [2, 2]], "values": [0.0, 1.0]}
    with pytest.raises(ValueError, match=message):
        memory.move(**{**fits, **change})
    after = memory.tensors()
    assert {name: tensor.tolist() for name, tensor in after.items()} == {n: t.tolist() for n, t in before.items()}


@moving_index
def test_no_places_and_no_states_are_fine(index: str) -> None:
    memory = small_memory(index)
    memory.move([], [], np.zeros((0, 2)), [])
    assert len(memory.at([], [])) == 0
    slots, squared = memory.nearest(np.zeros((0, 2)), [])
    assert slots.shape == squared.shape == (0, 2)


@every_index
def test_the_entry_that_least_recently_was_a_neighbour_goes_first(index: str) -> None:
    memory = EpisodicMemory(1, 1, capacity=3, k=1, index=index, eviction="used")
    memory.write([[0], [1], [2]], [0, 0, 0], [0, 1, 2])
    memory.nearest([[0.1]], [0], mark_used=True)
    memory.nearest([[1.1]], [0])  # leaves no trace
    memory.write([[3]], [0], [3])
    assert sorted(memory.entries().states[:, 0].tolist()) == [0, 2, 3]
    memory.nearest([[0.1]], [0], mark_used=True)
    memory.nearest([[2.1]], [0], mark_used=True)
    memory.write([[4], [5]], [0, 0], [4, 5])
    assert sorted(memory.entries().states[:, 0].tolist()) == [2, 4, 5]


@every_index
def test_without_exact_matches_neighbours_speak_for_known_states_too(index: str) -> None:
    memory = EpisodicMemory(1, 1, capacity=9, k=2, index=index, kernel="inverse", delta=0.5, exact_matches=False)
    memory.write([[0], [1]], [0, 0], [3.0, 6.0])
    estimates = memory.estimate([[0]])
    weights = np.array([1 / 0.5, 1 / 1.5])
    assert not estimates.exact.any()
    assert estimates.values[0, 0] == np.float32(weights @ [3.0, 6.0] / weights.sum())
    evidence = memory.evidence([[0]])[0]
    assert (evidence.source, evidence.value) == ("weighted_mean", estimates.values[0, 0])
    np.testing.assert_allclose(evidence.weights, weights / weights.sum())
    assert memory.entries().matched.tolist() == [0, 0]


def test_a_value_steps_towards_each_return_and_says_where_the_latest_came_from() -> None:
    memory = EpisodicMemory(1, 1, capacity=2, k=1, update="step", alpha=0.25)
    memory.write([[0]] * 3, [0] * 3, [8.0, 0.0, 10.0], origins=[[1, 4], [2, 8], [3, 12]])
    entries = memory.entries()
    assert entries.values.tolist() == [8.0 - 2.0 + 1.0]
    assert entries.origins.tolist() == [[3, 12]]


@every_index
def test_a_moved_memory_survives_all_that_is_done_by_hand(index: str, tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    memory = small_memory(index, update="step", alpha=0.5, delta=0.25, exact_matches=False, eviction="used")
    memory.move([0, 1], [1, 0], [[7, 7], [8, 8]], [5.0, 6.0])
    frame = memory.to_dataframe()
    assert np.stack(frame.state).tolist() == [[0, 0], [7, 7], [8, 8]]
    memory.save(tmp_path)
    again = EpisodicMemory.load(tmp_path)
    assert again.settings() == memory.settings()
    assert (again.update, again.alpha, again.delta, again.exact_matches) == ("step", 0.5, 0.25, False)
    assert again.nearest([[7, 6]], [0])[1].tolist() == memory.nearest([[7, 6]], [0])[1].tolist()
    again.move([0], [1], [[7, 7]], [1.0])
    assert memory.merge(again) == 0
    assert memory.entries().values.tolist() == [1.0, 3.0, 6.0]  # half of the way from 5 to 1
    assert memory.filter(lambda entries: entries.states[:, 0] > 0) == 1
    assert memory.nearest([[0, 0]], [0])[0].tolist() == [[0, -1]]
    assert memory.at([0], [0]).states.tolist() == [[7, 7]]
    memory.clear()
    with pytest.raises(ValueError, match="no entry in slot 0"):
        memory.move([0], [0], [[1, 1]], [1.0])


def test_memories_of_before_load_with_what_they_were_made_by() -> None:
    memory = small_memory(kernel="inverse")
    kept = memory.settings()
    for name in ("delta", "alpha", "exact_matches"):
        del kept[name]
    again = EpisodicMemory.restore(kept, memory.tensors())
    assert again.settings() == memory.settings()
    assert (again.delta, again.exact_matches) == (0.001, True)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[("delta", value) for value in (0.0, -1.0, 1e-40, np.inf, np.nan)],
        *[("alpha", value) for value in (0.0, 1.5, np.nan)],
        ("update", "steps"),
        ("exact_matches", "no"),
    ],
)
def test_settings_that_cannot_be_are_refused(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=name):
        EpisodicMemory(1, 1, **{name: value})


@pytest.mark.parametrize("name", ["delta", "alpha", "exact_matches"])
def test_they_are_fixed_when_a_memory_is_made(name: str) -> None:
    with pytest.raises(AttributeError, match=f"{name} is fixed"):
        setattr(small_memory(), name, 0.5)
