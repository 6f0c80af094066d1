"""Where entries come from, how often they were matched, and the entries behind every value."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mfec.memory import EpisodicMemory

INDEXES = ["exact", "cells", pytest.param("cuda", marks=pytest.mark.torch)]


def filled(index: str = "exact") -> EpisodicMemory:
    """A memory of 300 states in 12 dimensions, told of 20 episodes."""
    rng = np.random.default_rng(1)
    memory = EpisodicMemory(3, 12, capacity=90, k=5, index=index)
    states = rng.standard_normal((300, 12)).astype(np.float32)
    origins = np.stack([np.arange(300) // 15 + 1, 4 * (np.arange(300) % 15)], axis=1)
    memory.write(states, rng.integers(0, 3, 300), rng.standard_normal(300), origins=origins)
    return memory


# -- Origins and matches ----------------------------------------------------------------------------------------------


writes = st.lists(
    st.tuples(st.integers(0, 5), st.integers(0, 1), st.integers(-3, 3), st.integers(1, 9)), min_size=1, max_size=60
)


@given(writes, st.sampled_from(["max", "replace", "step"]), st.sampled_from([2, 6]))
@settings(max_examples=25)
def test_an_origin_stays_with_the_return_that_it_led_to(written, update, capacity):
    """Against a dictionary, with an order of updates, in which an entry is (value, origin)."""
    memory = EpisodicMemory(2, 1, capacity=capacity, k=1, update=update)
    known: list[dict[int, tuple[float, int]]] = [{}, {}]
    for state, action, value, episode in written:
        memory.write([[state]], [action], [value], origins=[[episode, 10 * episode]])
        before = known[action].pop(state, None)
        stays = before is not None and update == "max" and before[0] >= value
        if before is not None and update == "step":  # as the number that is stored, with the latest origin
            value = float(np.float32(before[0] + 0.1 * (value - before[0])))
        entry = before if stays else (value, episode)
        if before is None and len(known[action]) == capacity:
            known[action].pop(next(iter(known[action])))  # least recently updated
        known[action][state] = entry
    for action, own in enumerate(known):
        for state, (value, episode) in own.items():
            nearest = memory.neighbours([state], action)
            assert (nearest.values.tolist(), nearest.origins.tolist()) == ([value], [[episode, 10 * episode]])


def test_matches_are_counted_for_look_ups_that_learn_and_no_others():
    memory = EpisodicMemory(2, 1, capacity=2, k=1)
    memory.write([[0.0], [0.0], [1.0]], [0, 1, 0], [1.0, 2.0, 3.0])
    memory.estimate([[0.0], [0.0], [1.0], [0.5]])
    memory.estimate([[0.0]], mark_used=False)
    memory.evidence([[0.0]])
    memory.neighbours([0.0], 0)
    assert memory.neighbours([0.0], 0).matched.tolist() == [2]
    assert memory.neighbours([0.0], 1).matched.tolist() == [2]
    assert memory.neighbours([1.0], 0).matched.tolist() == [1]
    memory.write([[5.0]], [0], [1.0])  # in the place of the state 0
    assert memory.neighbours([5.0], 0).matched.tolist() == [0]


def test_what_was_not_told_is_not_known():
    memory = EpisodicMemory(1, 1, capacity=5, k=1)
    memory.write([[0.0]], [0], [1.0])
    assert memory.neighbours([0.0], 0).origins.tolist() == [[-1, -1]]
    assert memory.buffers.entries_of_episodes().tolist() == []
    with pytest.raises(ValueError, match="origins"):
        memory.write([[0.0]], [0], [1.0], origins=[1, 2])


def test_origins_and_matches_survive_a_checkpoint(tmp_path):
    memory = filled()
    memory.estimate(memory.tensors()["states"][:40])
    memory.save(tmp_path)
    again = EpisodicMemory.load(tmp_path)
    for name in ("origins", "matched"):
        assert np.array_equal(memory.tensors()[name], again.tensors()[name])
    assert again.tensors()["matched"].sum() >= 40


# -- Evidence ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("index", INDEXES)
def test_evidence_is_what_estimate_and_neighbours_say(index):
    memory = filled(index)
    rng = np.random.default_rng(2)
    known = memory.tensors()["states"][::40]
    before = memory.tensors()
    for state in np.concatenate([known, rng.standard_normal((20, 12)).astype(np.float32)]):
        estimates = memory.estimate(state[None], mark_used=False)
        evidence = memory.evidence(state[None])
        assert np.array([own.value for own in evidence], np.float32).tolist() == estimates.values[0].tolist()
        assert [own.exact for own in evidence] == estimates.exact[0].tolist()
        for action, own in enumerate(evidence):
            near = memory.neighbours(state, action)
            if own.exact:
                assert near.distances[0] == 0.0
                assert own.neighbours.entry_ids.tolist() == near.entry_ids[:1].tolist()
                assert own.neighbours.values.tolist() == [own.value]
                assert own.neighbours.distances.tolist() == [0.0]
            else:
                for name, array in vars(near).items():
                    assert np.array_equal(getattr(own.neighbours, name), array), name
                assert own.value == pytest.approx(near.values.astype(float).mean(), rel=1e-6)
    after = memory.tensors()
    assert all(np.array_equal(before[name], after[name]) for name in before)  # it has left no trace


@pytest.mark.parametrize(("few_neighbours", "sources", "values"), [
    ("infinity", ["infinity", "infinity", "mean"], [math.inf, math.inf, 7.0]),
    ("mean", ["infinity", "mean", "mean"], [math.inf, 3.0, 7.0]),
    ("zero", ["zero", "zero", "mean"], [0.0, 0.0, 7.0]),
])  # fmt: skip
def test_evidence_says_what_a_value_comes_from(few_neighbours, sources, values):
    """Of actions with no entry, with one, and with k of them."""
    memory = EpisodicMemory(3, 1, capacity=5, k=2, few_neighbours=few_neighbours)
    memory.write([[0.0], [1.0], [2.0]], [1, 2, 2], [3.0, 6.0, 8.0])
    evidence = memory.evidence([[0.5]])
    assert [own.source for own in evidence] == sources
    assert [own.value for own in evidence] == values == memory.estimate([[0.5]]).values[0].tolist()
    assert [len(own.neighbours.values) for own in evidence] == [0, 1, 2]
    assert [own.source for own in memory.evidence([[0.0]])] == [sources[0], "exact", sources[2]]


def test_a_mean_that_is_zero_is_a_mean():
    memory = EpisodicMemory(1, 1, capacity=5, k=2, few_neighbours="zero")
    memory.write([[0.0], [1.0]], [0, 0], [-1.0, 1.0])
    [evidence] = memory.evidence([[0.5]])
    assert (evidence.value, evidence.source) == (0.0, "mean")


def test_evidence_is_about_one_state():
    with pytest.raises(ValueError, match="one state, not 2"):
        filled().evidence(np.zeros((2, 12)))


# -- Weights ----------------------------------------------------------------------------------------------------------

KERNELS = {"mean": np.ones_like, "inverse": lambda distances: 1.0 / (distances**2 + 0.001)}
places = st.lists(st.floats(-100, 100, width=32), min_size=3, max_size=3)
entries = st.lists(st.tuples(places, st.integers(0, 1), st.floats(-1000, 1000, width=32)), min_size=1, max_size=30)


@pytest.mark.parametrize(("index", "kernel"), [
    ("exact", "inverse"), ("cells", "mean"), pytest.param("cuda", "inverse", marks=pytest.mark.torch),
])  # fmt: skip
@given(entries, places, st.integers(1, 6), st.sampled_from(["infinity", "mean", "zero"]))
@settings(max_examples=25)
def test_values_and_weights_are_those_of_a_full_sort_in_float64(index, kernel, written, query, k, few_neighbours):
    """Against plain numpy; a value is rounded to float32 once, of numbers that are no larger than the largest."""
    memory = EpisodicMemory(2, 3, capacity=40, k=k, index=index, kernel=kernel, few_neighbours=few_neighbours)
    states, actions, returns = (np.array(each) for each in zip(*written, strict=True))
    names = np.arange(len(written))  # equal states are neighbours here, not matches
    memory.write(states, actions, returns, names)
    estimated = memory.estimate([query], [-1]).values[0]
    for action, own in enumerate(memory.evidence([query], [-1])):
        mine = actions == action
        distances = np.sqrt(((states[mine] - query) ** 2).sum(axis=1))
        near = np.argsort(distances, kind="stable")[:k]
        assert own.value == estimated[action]
        assert own.weights.dtype == np.float64
        assert np.allclose(own.neighbours.distances, distances[near], rtol=1e-12, atol=0.0)
        if own.source in ("infinity", "zero"):
            assert own.weights.tolist() == [0.0] * len(near)
            continue
        assert own.source == {"mean": "mean", "inverse": "weighted_mean"}[kernel]
        weights = KERNELS[kernel](distances[near])
        assert np.allclose(own.weights, weights / weights.sum(), rtol=1e-9, atol=0.0)
        # Equally near ones may come in another order here, which the memory's own neighbours tell.
        value = np.average(own.neighbours.values.astype(np.float64), weights=weights)
        assert own.value == pytest.approx(value, rel=1e-6, abs=1e-4)
        assert own.weights.sum() == pytest.approx(1.0, abs=1e-12)
        assert own.value == pytest.approx(own.weights @ own.neighbours.values, rel=1e-6, abs=1e-4)


@pytest.mark.torch
@pytest.mark.parametrize("dim", [2, 64])
def test_every_exact_index_gives_the_same_values_bit_for_bit(dim):
    """Cells as well, where buffers are read in full: all measure the distances of what they found in float64."""
    rng = np.random.default_rng(dim)
    states, queries = (rng.normal(0, 300, (n, dim)).astype(np.float32) for n in (2000, 100))
    queries[::2] = states[:50] + rng.normal(0, 0.03, (50, dim)).astype(np.float32)  # where the constant counts
    actions, returns = rng.integers(0, 3, 2000), rng.normal(0, 1000, 2000)
    values = set()
    for index in ("exact", "cells", "cuda"):
        memory = EpisodicMemory(3, dim, capacity=1000, k=11, index=index, kernel="inverse")
        memory.write(states, actions, returns)
        values.add(memory.estimate(queries).values.tobytes())
    assert len(values) == 1


def test_a_near_neighbour_outweighs_many_far_ones_and_a_match_is_its_own_value():
    memory = EpisodicMemory(1, 1, capacity=9, k=4, kernel="inverse")
    memory.write([[0.0], [1.0], [1.0], [1.0]], [0] * 4, [8.0, 0.0, 0.0, 0.0], [1, 2, 3, 4])
    [near] = memory.evidence([[0.0]], [9])
    assert (near.source, near.exact) == ("weighted_mean", False)
    assert near.weights.tolist() == pytest.approx([1000 / (1000 + 3 / 1.001), *[(1 / 1.001) / (1000 + 3 / 1.001)] * 3])
    assert 7.9 < near.value < 8.0
    [match] = memory.evidence([[0.0]], [2])
    assert (match.value, match.source, match.weights.tolist()) == (0.0, "exact", [1.0])


# -- Samples ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("index", INDEXES)
def test_a_sample_is_of_entries_each_at_most_once(index):
    memory = filled(index)
    actions, drawn = memory.sample(100, np.random.default_rng(0))
    assert len(set(zip(actions.tolist(), drawn.entry_ids.tolist(), strict=True))) == 100
    for action, state, value, entry_id in zip(actions, drawn.states, drawn.values, drawn.entry_ids, strict=True):
        near = memory.neighbours(state, action)
        assert (near.entry_ids[0], near.values[0], near.distances[0]) == (entry_id, value, 0.0)
    actions, drawn = memory.sample(10_000, np.random.default_rng(0))
    assert len(actions) == len(memory)
    assert np.bincount(actions).tolist() == memory.sizes.tolist()


def test_a_sample_of_nothing_is_empty():
    actions, drawn = EpisodicMemory(2, 3, capacity=5).sample(10, np.random.default_rng(0))
    assert (len(actions), drawn.states.shape) == (0, (0, 3))


def test_entries_are_found_by_their_episode():
    memory = filled()
    tensors = memory.tensors()
    counts = memory.buffers.entries_of_episodes()
    assert counts.sum() == len(memory)
    for episode in range(len(counts) + 1):
        frames, keys = memory.buffers.seen_in(episode)
        own = tensors["origins"][:, 0] == episode
        assert sorted(frames.tolist()) == sorted(tensors["origins"][own, 1].tolist())
        assert sorted(keys.tolist()) == sorted(tensors["keys"][own].tolist())
        if episode < len(counts):
            assert counts[episode] == own.sum()
