"""Prioritised replay: chances in proportion to priorities, weights by the published formula."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import chisquare

from mfec.algorithms.baselines.replay import PrioritisedReplay

from .episodes import Episodes, Stored, replay_of


def filled(steps: int, *, capacity: int = 40, n_envs: int = 1, alpha: float = 0.6) -> PrioritisedReplay:
    """A buffer after some steps of random episodes."""
    episodes = Episodes(0, n_envs=n_envs, depth=4)
    replay = replay_of(episodes, capacity * n_envs, PrioritisedReplay, alpha=alpha)
    Stored(replay, episodes).play(steps)
    assert isinstance(replay, PrioritisedReplay)
    return replay


def items_of(steps: int, *, capacity: int = 40, n_envs: int = 1) -> np.ndarray:
    """What can be drawn after some steps, as `update` calls it."""
    first = 0 if steps < capacity else steps - capacity + 4
    rows = np.arange(first, steps) % capacity
    return (rows[:, None] * n_envs + np.arange(n_envs)).reshape(-1)


def counts_of(items: np.ndarray, possible: np.ndarray) -> np.ndarray:
    assert set(items.tolist()) <= set(possible.tolist())
    return np.bincount(items, minlength=possible.max() + 1)[possible]


CASES = [(30, 1), (40, 1), (137, 3)]  # steps and environments; 40 rows are full


@pytest.mark.parametrize(("steps", "n_envs"), CASES)
def test_with_alpha_0_everything_is_drawn_with_the_same_chance_and_counts_the_same(steps, n_envs):
    replay, possible = filled(steps, n_envs=n_envs, alpha=0.0), items_of(steps, n_envs=n_envs)
    replay.update(possible, np.linspace(0.0, 5.0, len(possible)))  # errors make no difference
    batches = [replay.draw(32, 0.4) for _ in range(1000)]
    counts = counts_of(np.concatenate([batch.items for batch in batches]), possible)
    assert chisquare(counts).pvalue > 0.001
    # One from each of 32 equal shares of the sum: less chance than in independent draws, and no item left out.
    assert counts.min() > 0
    assert all((batch.weights == 1.0).all() for batch in batches)


@pytest.mark.parametrize(("steps", "n_envs"), CASES)
def test_chances_are_in_proportion_to_priorities(steps, n_envs):
    replay, possible = filled(steps, n_envs=n_envs, alpha=0.6), items_of(steps, n_envs=n_envs)
    errors = np.random.default_rng(1).normal(size=len(possible)) * 2.0
    replay.update(possible, errors)
    items = np.concatenate([replay.draw(32, 0.4).items for _ in range(1500)])
    priorities = (np.abs(errors) + 1e-6) ** 0.6
    expected = len(items) * priorities / priorities.sum()
    assert chisquare(counts_of(items, possible), expected).pvalue > 0.001
    uniform = np.full(len(possible), len(items) / len(possible))
    assert chisquare(counts_of(items, possible), uniform).pvalue < 1e-9, "the test could not fail"


@pytest.mark.parametrize("beta", [0.0, 0.4, 1.0])
@pytest.mark.parametrize(("steps", "n_envs"), [(30, 1), (137, 3)])
def test_weights_are_those_of_the_paper(steps, n_envs, beta):
    """(N P(i))^-beta, over the largest of the batch (section 3.4)."""
    replay, possible = filled(steps, n_envs=n_envs), items_of(steps, n_envs=n_envs)
    errors = np.random.default_rng(1).exponential(size=len(possible))
    replay.update(possible, errors)
    priorities = dict(zip(possible.tolist(), ((errors + 1e-6) ** 0.6).tolist(), strict=True))
    _, weights, items = replay.draw(32, beta)
    chances = np.array([priorities[item] for item in items.tolist()]) / sum(priorities.values())
    expected = (len(possible) * chances) ** -beta
    assert weights.shape == (32, 1)
    assert weights.dtype == torch.float32
    assert np.allclose(weights.numpy()[:, 0], expected / expected.max(), rtol=1e-6)
    assert weights.max() == 1.0


def test_the_batch_is_of_the_items_that_are_named():
    episodes = Episodes(0, n_envs=3, depth=4)
    replay = replay_of(episodes, 60, PrioritisedReplay, alpha=0.6)
    buffer = Stored(replay, episodes).play(90)
    assert isinstance(replay, PrioritisedReplay)
    batch, _, items = replay.draw(50, 0.4)
    for stack, action, item in zip(
        batch.observations.numpy(), batch.actions[:, 0].tolist(), items.tolist(), strict=True
    ):
        true = buffer.at(*divmod(item, 3))
        assert stack.tolist() == true.observation.tolist()
        assert action == true.action


def test_what_is_new_has_the_highest_priority_that_there_was():
    episodes = Episodes(0, n_envs=2, depth=4)
    replay = replay_of(episodes, 80, PrioritisedReplay, alpha=0.5)
    assert isinstance(replay, PrioritisedReplay)
    buffer = Stored(replay, episodes).play(3)
    assert replay._tree.priorities[:8].tolist() == [1.0] * 6 + [0.0] * 2
    replay.update(np.array([0, 1, 2]), np.array([-9.0, 0.25, 0.0]))  # an error counts by its size
    buffer.play(1)
    replay.update(np.array([0]), np.array([0.25]))  # the highest that there was, even if it is gone
    buffer.play(1)
    errors = np.array([0.25, 0.25, 0.0, 1.0, 1.0, 1.0, 9.0, 9.0, 9.0, 9.0])
    assert np.allclose(replay._tree.priorities[:10], np.sqrt(errors + 1e-6), atol=1e-6)
    assert replay._tree.priorities[2] > 0.0, "without an error it can still come back"


def test_an_update_changes_what_is_drawn():
    replay = filled(30)
    replay.update(items_of(30), np.full(30, 1e-9))
    replay.update(np.array([17]), np.array([1e6]))
    assert (replay.draw(1000, 0.4).items == 17).mean() > 0.95
    replay.update(np.array([17]), np.array([0.0]))
    assert (replay.draw(1000, 0.4).items == 17).mean() < 0.1


def test_one_is_drawn_from_each_of_equal_shares():
    """With as many draws as items of equal priority, each comes once (appendix B.2.1)."""
    replay = filled(32, alpha=0.0)
    assert replay.draw(32, 0.4).items.tolist() == list(range(32))


def test_bytes_are_those_of_the_tree_too():
    replay = filled(30)
    assert replay.nbytes == super(PrioritisedReplay, replay).nbytes + 2 * 64 * 8
