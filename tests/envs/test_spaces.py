"""How a checkpoint describes spaces, and which observations are of theirs."""

from __future__ import annotations

import json

import numpy as np
import pytest
from gymnasium import spaces

from mfec.envs.spaces import describe_spaces, fits, in_space, misfit, spaces_from

PLAYABLE = [
    spaces.Box(0, 255, (84, 84), np.uint8),
    spaces.Box(0, 255, (20, 30, 3), np.uint8),
    spaces.Box(-np.inf, np.inf, (4,), np.float32),
    spaces.Box(-1.0, 1.0, (2, 3), np.float64),
    spaces.Box(-5, 5, (3,), np.int16),
    spaces.Box(0, 1, (3,), np.bool_),
    spaces.Box(0.0, 1.0, (), np.float32),
    spaces.Discrete(16),
    spaces.Discrete(3, start=-1),
    spaces.Discrete(9, dtype=np.int32),
]
ACTIONS = [spaces.Discrete(2), spaces.Discrete(4, start=1)]


@pytest.mark.parametrize("actions", ACTIONS, ids=str)
@pytest.mark.parametrize("observations", PLAYABLE, ids=str)
def test_playable_spaces_survive_a_checkpoint(observations, actions):
    described = describe_spaces(observations, actions)
    restored, restored_actions = spaces_from(json.loads(json.dumps(described)))
    assert restored_actions == actions
    assert describe_spaces(restored, restored_actions) == described
    assert (type(restored), restored.shape, restored.dtype) == (
        type(observations),
        observations.shape,
        observations.dtype,
    )
    observations.seed(0)
    assert all(restored.contains(observations.sample()) for _ in range(20))


COMPOSED = [
    spaces.Dict({"b": spaces.Discrete(3, start=1), "a": spaces.Box(0, 255, (2, 2), np.uint8)}),
    spaces.Tuple([spaces.MultiDiscrete([2, 3], start=[1, -1]), spaces.Dict({"in": spaces.MultiBinary([2, 2])})]),
    spaces.Text(5, min_length=0, charset="xyz"),
]


@pytest.mark.parametrize("observations", COMPOSED, ids=lambda space: type(space).__name__)
def test_composed_spaces_survive_a_checkpoint(observations):
    actions = spaces.MultiDiscrete([2, 3], start=[0, 5])
    described = json.loads(json.dumps(describe_spaces(observations, actions)))
    restored, restored_actions = spaces_from(described)
    assert restored_actions == actions
    assert describe_spaces(restored, actions) == described
    assert spaces.flatten_space(restored).shape == spaces.flatten_space(observations).shape
    observations.seed(0)
    for _ in range(5):
        sample = observations.sample()
        assert (spaces.flatten(restored, sample) == spaces.flatten(observations, sample)).all()


def test_different_spaces_have_different_descriptions():
    described = [json.dumps(describe_spaces(space, actions)) for space in PLAYABLE + COMPOSED for actions in ACTIONS]
    assert len(set(described)) == len(described)


# -- Observations that are of their space, and others -----------------------------------------------------------------

VECTOR, PICTURE = spaces.Box(-1, 1, (2,), np.float32), spaces.Box(0, 255, (2,), np.uint8)


@pytest.mark.parametrize(("given", "space"), [
    (np.array([[0.1, 0.2]], np.float64), VECTOR),
    ([[0, 1]], VECTOR),
    (np.array([[0, 255]], np.int64), PICTURE),
    (np.array([[3.0, 4.0]], np.float32), PICTURE),
    (np.array([[True, False]]), PICTURE),
    (np.array([2, 0], np.int32), spaces.Discrete(3)),
    ([-1, 1], spaces.Discrete(3, start=-1)),
])  # fmt: skip
def test_observations_become_the_spaces_numbers_where_they_stay_themselves(given, space):
    taken = in_space(given, space)
    assert fits(taken, space)
    assert np.array_equal(taken, np.asarray(given).astype(space.dtype))
    assert not np.shares_memory(taken, given)


@pytest.mark.parametrize(("given", "space", "named"), [
    (np.array([[0.5, 0.2]]), PICTURE, "an observation of float64, where the space has uint8"),
    (np.array([[np.nan, 0.2]]), PICTURE, "of float64"),
    (np.array([[0, 256]]), PICTURE, "of int64"),
    (np.array([[-1, 3]]), PICTURE, "of int64"),
    (np.array([[np.inf, 0.2]]), VECTOR, "not finite"),
    (np.array([[1e39, 0.2]]), VECTOR, "not finite"),
    ([3], spaces.Discrete(3), "not in Discrete"),
    ([-1], spaces.Discrete(3), "not in Discrete"),
    ([1.5], spaces.Discrete(3), "of float64"),
])  # fmt: skip
def test_what_would_become_something_else_does_not_fit(given, space, named):
    taken = in_space(given, space)
    assert not fits(taken, space)
    assert named in misfit(taken, space)
