"""Entries looked at, filtered, cleared and merged: against the reference, and by hand."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mfec import MFEC
from mfec.memory import Entries, EpisodicMemory, entries, eviction
from mfec.memory.neighbours import cuda

from .reference import N_ACTIONS, Pair, Rule, early_change, every_index, operations, options  # noqa: F401

rules = st.builds(Rule, st.sampled_from(["value", "x", "id"]), st.integers(-1, 3).map(float))


@st.composite
def other_memories(draw: st.DrawFn) -> tuple[dict[str, Any], list[tuple[Any, ...]]]:
    return draw(options), draw(st.lists(operations(), max_size=8))


curations = st.one_of(
    st.tuples(st.just("filter"), rules, st.booleans()),
    st.tuples(st.just("clear")),
    st.tuples(st.just("merge"), other_memories()),
)


@every_index
@given(options, st.sampled_from([1, 4096]), st.lists(st.one_of(operations(), curations), min_size=1, max_size=30))
@settings(max_examples=40)
def test_any_sequence_with_filters_clears_and_merges_equals_the_reference(
    index: str, options: dict[str, Any], queue_length: int, sequence: list[tuple[Any, ...]]
) -> None:
    """What is written, estimated and evicted afterwards, too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(eviction, "QUEUE_LENGTH", queue_length)
        patch.setattr(entries, "AT_ONCE", 2)  # parts smaller than a memory
        patch.setattr(cuda, "AT_ONCE", 2)
        pair = Pair(N_ACTIONS, 2, index=index, **options)
        for name, *arguments in sequence:
            if name == "merge":
                settings, writes = arguments[0]
                other = Pair(N_ACTIONS, 2, index=index, **settings)
                for operation, *given in writes:
                    getattr(other, operation)(*given)
                arguments = [other]
            getattr(pair, name)(*arguments)
            pair.compare_neighbours((1.0, 2.0))
        pair.compare_entries()


def filled(index: str = "exact", seed: int = 0, n: int = 400, capacity: int = 90) -> EpisodicMemory:
    """A memory of 20 episodes of one embedding, each state with an identity, and with matches."""
    rng = np.random.default_rng(seed)
    memory = EpisodicMemory(3, 5, capacity=capacity, k=4, index=index)
    names = rng.integers(0, 1000, n)
    origins = np.stack([np.arange(n) // 20, 4 * (np.arange(n) % 20)], axis=1)
    memory.write(states_of(names), rng.integers(0, 3, n), rng.standard_normal(n), names, origins)
    memory.estimate(states_of(names[-50:]), names[-50:])
    return memory


def states_of(names: Any) -> Any:
    return np.stack([np.random.default_rng(name).standard_normal(5) for name in np.asarray(names).tolist()])


def as_tuples(all_of: Entries) -> list[tuple[Any, ...]]:
    return [(*entry._replace(state=tuple(entry.state), key=tuple(entry.key)),) for entry in all_of]


# -- Looking ----------------------------------------------------------------------------------------------------------


@every_index
@pytest.mark.parametrize("at_once", [7, 65_536])
def test_iterating_yields_all_that_is_stored(index: str, at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entries, "AT_ONCE", at_once)
    memory = filled(index)
    tensors, number = memory.tensors(), -1
    for number, entry in enumerate(memory):
        assert entry.state.tolist() == tensors["states"][number].tolist()
        assert entry.key.tolist() == tensors["keys"][number].tolist()
        assert (entry.value, entry.entry_id) == (tensors["values"][number], tensors["entry_ids"][number])
        assert [entry.episode, entry.frame] == tensors["origins"][number].tolist()
        assert (entry.matched, entry.tick) == (tensors["matched"][number], tensors["ticks"][number])
        assert memory.estimate([entry.state], entry.key[None], mark_used=False).values[0, entry.action] == entry.value
    assert number + 1 == len(memory) == 270
    assert max(entry.matched for entry in memory) > 0
    assert as_tuples(memory.entries()) == [row for action in range(3) for row in as_tuples(memory.entries(action))]


def test_entries_can_be_chosen_and_are_copies() -> None:
    memory = filled()
    everything = memory.entries()
    best = everything[np.argsort(-everything.values)[:5]]
    assert len(best) == 5
    assert all(ours >= theirs for ours, theirs in pairwise(best.values.tolist()))
    assert best[0].value == best[-5].value == max(entry.value for entry in memory)
    with pytest.raises(IndexError):
        best[5]
    assert as_tuples(everything[everything.actions == 2]) == as_tuples(memory.entries(2))
    everything.values[:] = everything.states[:] = everything.matched[:] = 0
    assert memory.entries().values.any()
    assert memory.entries().states.any()


def test_an_empty_memory_has_no_entries() -> None:
    memory = EpisodicMemory(3, 5, capacity=10)
    assert (list(memory), len(memory.entries()), len(memory.entries(1))) == ([], 0, 0)
    assert memory.filter(lambda entries: entries.values > 0) == 0
    memory.clear()
    with pytest.raises(ValueError, match=r"action must lie in 0\.\.2, not 3"):
        memory.entries(3)


def test_a_memory_that_changes_while_it_is_read_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entries, "AT_ONCE", 10)
    memory = filled()
    reading = iter(memory)
    next(reading)
    memory.filter(memory.entries().values > 0)
    with pytest.raises(RuntimeError, match="written or filtered while its entries were read"):
        list(reading)


# -- Filtering and clearing -------------------------------------------------------------------------------------------


@every_index
def test_what_is_kept_stays_as_it_was(index: str) -> None:
    memory = filled(index)
    expected = [row for row in as_tuples(memory.entries()) if row[4] % 8 == 0]
    assert 0 < len(expected) < 270
    assert memory.filter(lambda entries: entries.origins[:, 1] % 8 == 0) == 270 - len(expected)
    assert as_tuples(memory.entries()) == expected
    before = memory.tensors()
    assert memory.filter(np.ones(len(memory), np.bool_)) == 0
    assert {name: array.tobytes() for name, array in memory.tensors().items()} == {
        name: array.tobytes() for name, array in before.items()
    }


@pytest.mark.parametrize(("keep", "message"), [
    (np.ones(3, np.bool_), r"the mask must have a bool for each of 270 entries, not bool of shape \(3,\)"),
    (np.ones(270), "the mask must have a bool for each of 270 entries, not float64"),
    (lambda entries: True, r"what the function returns must have a bool for each of 270 entries, not bool of shape"),
    (lambda entries: entries.values, "what the function returns must have a bool .* not float32"),
])  # fmt: skip
def test_what_says_nothing_of_each_entry_is_refused(keep: Any, message: str) -> None:
    memory = filled()
    with pytest.raises(ValueError, match=message):
        memory.filter(keep)
    assert len(memory) == 270


def test_a_full_buffer_that_was_filtered_still_gives_up_its_oldest_entries_first() -> None:
    """Those that were queued to go next have moved."""
    pair = Pair(
        1, 2, index="exact", capacity=8, k=2, eviction="updated", update="max", few_neighbours="mean", kernel="mean"
    )
    for number in [*range(8), *reversed(range(8)), 8]:  # 7 is the oldest and goes for 8, then it is the turn of 6
        pair.write([(9.0 if number == 5 else 0.0, float(number))], [0], [float(number)], None)
    pair.filter(Rule("x", 9.0), by_mask=False)
    for number in range(9, 14):
        pair.write([(0.0, float(number))], [0], [float(number)], None)
        pair.compare_entries()


def test_many_cells_are_made_anew_of_what_is_kept() -> None:
    """Enough entries that a look-up reads some cells only; they are found where they lie, new ones too."""
    rng = np.random.default_rng(0)
    rooms = rng.normal(0, 10, (60, 8))
    exact, cells = (EpisodicMemory(2, 8, capacity=9000, k=5, index=index) for index in ("exact", "cells"))
    for memory in (exact, cells):
        rng = np.random.default_rng(1)
        states = rooms[rng.integers(0, 60, 16_000)] + rng.standard_normal((16_000, 8))
        memory.write(states, rng.integers(0, 2, 16_000), rng.standard_normal(16_000))
        memory.filter(lambda entries: entries.values > 0.5)
        more = rooms[rng.integers(0, 60, 1500)] + rng.standard_normal((1500, 8))
        memory.write(more, rng.integers(0, 2, 1500), rng.standard_normal(1500))
    some = cells.entries()[::5]
    found = [cells.neighbours(entry.state, entry.action).entry_ids[0] == entry.entry_id for entry in some]
    assert np.mean(found) > 0.98  # as in a memory that was never filtered
    queries = rooms[rng.integers(0, 60, 100)] + rng.standard_normal((100, 8))
    same = exact.estimate(queries).values == cells.estimate(queries).values
    assert 5500 < len(cells) < 7500
    assert same.mean() > 0.8


@pytest.mark.parametrize("index", ["exact", "auto", "none"])
def test_an_agent_goes_on_learning_and_saving(tmp_path: Path, index: str) -> None:
    env = gymnasium.make("CartPole-v1")
    agent = MFEC(env, k=3, capacity=500, seed=0, index=index).learn(1500)
    entries_before = len(agent.memory)
    assert agent.memory.filter(lambda entries: entries.origins[:, 0] % 2 == 0) > 0
    agent.learn(2000)
    agent.memory.clear()
    assert len(agent.memory) == 0
    assert np.isinf(agent.explain(env.observation_space.sample()).values).all()
    agent.learn(3000)
    assert 0 < len(agent.memory) <= entries_before + 3000
    agent.save(tmp_path)
    other = MFEC.load(tmp_path, gymnasium.make("CartPole-v1"))
    ours, theirs = agent.learn(3500), other.learn(3500)
    assert as_tuples(ours.memory.entries()) == as_tuples(theirs.memory.entries())


# -- Merging ----------------------------------------------------------------------------------------------------------


@every_index
def test_the_higher_value_stays_with_its_origin_and_matches_are_counted_together(index: str) -> None:
    ours, theirs = filled(index, seed=0, capacity=900), filled(index, seed=1, capacity=900)
    before = {(entry.action, tuple(entry.key)): entry for entry in ours}
    other = {(entry.action, tuple(entry.key)): entry for entry in theirs}
    assert len(before.keys() & other.keys()) > 10
    assert ours.merge(theirs, keep_origins=True) == len(other.keys() - before.keys())
    after = {(entry.action, tuple(entry.key)): entry for entry in ours}
    assert after.keys() == before.keys() | other.keys()
    for name, entry in after.items():
        known = [memory[name] for memory in (before, other) if name in memory]
        best = max(known, key=lambda own: own.value)
        assert (entry.value, entry.episode, entry.frame) == (best.value, best.episode, best.frame)
        assert entry.matched == sum(own.matched for own in known)
    assert [row[:6] for row in as_tuples(theirs.entries())] == [
        row[:6] for row in as_tuples(filled(index, seed=1, capacity=900).entries())
    ]


def test_where_a_value_comes_from_is_unknown_unless_asked_for() -> None:
    """Episode 3 of another agent is not episode 3 of this one."""
    ours, theirs = filled(seed=0, capacity=900), filled(seed=1, capacity=900)
    kept = {(entry.action, tuple(entry.key)): entry for entry in ours}
    ours.merge(theirs)
    for entry in ours:
        own = kept.get((entry.action, tuple(entry.key)))
        mine = own is not None and own.value == entry.value
        assert (entry.episode, entry.frame) == ((own.episode, own.frame) if mine else (-1, -1))


def test_a_full_buffer_gives_up_what_was_here_before_first() -> None:
    ours, theirs = EpisodicMemory(1, 1, capacity=3, k=1), EpisodicMemory(1, 1, capacity=9, k=1)
    ours.write([[1.0], [2.0], [3.0]], [0, 0, 0], [1.0, 2.0, 3.0])
    theirs.write([[4.0], [5.0]], [0, 0], [4.0, 5.0])
    assert ours.merge(theirs) == 2
    assert sorted(entry.value for entry in ours) == [3.0, 4.0, 5.0]
    theirs.write([[6.0], [7.0], [4.0]], [0, 0, 0], [6.0, 7.0, 0.0])  # 4 is updated, so 5 is the oldest
    assert ours.merge(theirs) == 3  # 4 was forgotten for 7, and is added again
    assert sorted(entry.value for entry in ours) == [4.0, 6.0, 7.0]


def test_what_cannot_be_merged_is_refused() -> None:
    ours = filled()
    agent = MFEC("FrozenLake-v1", k=1, capacity=10, seed=0)
    for other, error, message in (
        (ours, ValueError, "cannot be merged with itself"),
        (agent, TypeError, "merge takes an EpisodicMemory, such as agent.memory, not MFEC"),
        (EpisodicMemory(2, 5), ValueError, "has 3 actions and states of 5 numbers, the other 2 and 5"),
        (EpisodicMemory(3, 6), ValueError, "has 3 actions and states of 5 numbers, the other 3 and 6"),
    ):
        with pytest.raises(error, match=message):
            ours.merge(other)
    assert len(ours) == 270


def test_agents_of_one_embedding_can_share_what_they_know_and_others_cannot() -> None:
    first, second = (MFEC("qbert", k=3, capacity=3000, dim=8, seed=seed).learn(1500) for seed in (0, 1))
    with pytest.raises(ValueError, match="both memories know have other states in the one than in the other"):
        first.memory.merge(second.memory)
    third = MFEC("qbert", k=3, capacity=3000, embedding=first.embedding, seed=1).learn(1500)
    entries_before = len(first.memory)
    assert first.memory.merge(third.memory) == len(first.memory) - entries_before > 0
    first.learn(2000)
