"""Returns of an episode against their definition, and episodes that survive a checkpoint."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mfec.episode import Episode, episode_tensors, restore_episodes

rewards_of_an_episode = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=60)


def episode_of(rewards: list[float], **counts: int) -> Episode:
    episode = Episode(**counts)
    for i, reward in enumerate(rewards):
        episode.append(np.array([i, -i], np.float32), np.array([i, 2 * i], np.uint64), i % 3, reward)
    return episode


@given(rewards_of_an_episode, st.floats(0.01, 1.0))
def test_returns_are_discounted_sums_of_what_follows(rewards, gamma):
    """R_t = sum over tau >= 1 of gamma^(tau - 1) r_(t + tau), where r_(t + 1) follows the action of step t."""
    states, keys, actions, returns = episode_of(rewards).backwards(gamma)
    n = len(rewards)
    for t in range(n):
        expected = math.fsum(gamma ** (tau - 1) * rewards[t + tau - 1] for tau in range(1, n - t + 1))
        scale = math.fsum(abs(reward) for reward in rewards)
        at = n - 1 - t  # the last step comes first
        assert returns[at] == pytest.approx(expected, rel=1e-12, abs=1e-12 * scale)
        assert states[at].tolist() == [t, -t]
        assert keys[at].tolist() == [t, 2 * t]
        assert actions[at] == t % 3
    assert (len(states), len(keys), len(actions), len(returns)) == (n, n, n, n)


@given(st.lists(st.integers(-1000, 1000), min_size=1, max_size=60))
def test_undiscounted_returns_are_sums_of_scores(rewards):
    returns = episode_of([float(reward) for reward in rewards]).backwards(1.0)[3]
    assert returns.tolist() == [sum(rewards[t:]) for t in reversed(range(len(rewards)))]


def test_the_types_are_those_of_the_memory():
    states, keys, actions, returns = episode_of([1.0, 2.0]).backwards(0.5)
    assert (states.dtype, states.shape) == (np.float32, (2, 2))
    assert (keys.dtype, keys.shape) == (np.uint64, (2, 2))
    assert actions.dtype == np.int64
    assert returns.dtype == np.float64


@given(rewards_of_an_episode, rewards_of_an_episode)
def test_a_life_ends_the_episode_but_not_the_score(first, second):
    episode = episode_of(first)
    episode.forget_steps()
    for reward in second:
        episode.append(np.zeros(2, np.float32), np.zeros(2, np.uint64), 0, reward)
    assert episode.backwards(1.0)[3][-1] == pytest.approx(math.fsum(second), rel=1e-9, abs=1e-3)
    assert len(episode.backwards(1.0)[3]) == len(second)
    assert episode.score == pytest.approx(math.fsum(first + second), rel=1e-9, abs=1e-3)
    assert episode.steps == len(first) + len(second)


@given(rewards_of_an_episode, rewards_of_an_episode, st.integers(1, 4))
def test_the_first_step_can_be_taken_out(life_before, rewards, frame_skip):
    """It is the last one of `backwards` and `origins`; large rewards that are gone leave nothing behind."""
    episode = episode_of([*life_before, 1e300], number=3)
    episode.forget_steps()
    for i, reward in enumerate(rewards):
        episode.append(np.array([i], np.float32), np.array([i, 0], np.uint64), i % 3, reward)
    episode.places = list(range(10, 10 + len(rewards)))
    for i in range(len(rewards)):
        states, keys, actions, _ = episode.backwards(1.0)
        origin = tuple(episode.origins(frame_skip)[-1])
        state, key, action, place, own = episode.take_first(frame_skip)
        assert (state, key.tolist(), action) == (states[-1], keys[-1].tolist(), actions[-1])
        assert (place, own) == (10 + i, origin)
        assert episode.rewards == rewards[i + 1 :]
        assert episode.magnitude == pytest.approx(math.fsum(map(abs, rewards[i + 1 :])), rel=1e-12)
    assert not episode.places
    assert episode.steps == len(life_before) + 1 + len(rewards)


@given(st.lists(st.lists(st.floats(-1e6, 1e6), max_size=10), min_size=1, max_size=5), st.booleans())
def test_episodes_survive_a_checkpoint(envs, replayed):
    episodes = [episode_of(rewards, lives=i) for i, rewards in enumerate(envs)]
    for i, episode in enumerate(episodes):
        episode.places = [100 * i + step for step in range(episode.steps)] if replayed else []
    saved = {"episodes": [episode.summary() for episode in episodes]}
    restored = restore_episodes(saved, episode_tensors(episodes, dim=2))
    assert len(restored) == len(episodes)
    for ours, theirs in zip(restored, episodes, strict=True):
        assert (ours.score, ours.steps, ours.lives) == (theirs.score, theirs.steps, theirs.lives)
        assert (ours.actions, ours.rewards, ours.places) == (theirs.actions, theirs.rewards, theirs.places)
        for one, other in zip(ours.backwards(0.9), theirs.backwards(0.9), strict=True):
            assert np.array_equal(one, other)


def test_no_episodes_survive_a_checkpoint_as_none():
    assert restore_episodes(None, episode_tensors([], dim=4)) == []
