"""What an environment says of itself, through wrappers and vectors."""

from __future__ import annotations

import warnings
from functools import partial

import ale_py
import gymnasium
import pytest
from ale_py.vector_env import AtariVectorEnv
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv, VectorWrapper
from gymnasium.wrappers import AtariPreprocessing, MaxAndSkipObservation, TimeLimit

from mfec import MFEC
from mfec.envs import make_atari, make_env
from mfec.envs.introspection import facts_of

gymnasium.register_envs(ale_py)


def preprocessed() -> gymnasium.Env:
    return AtariPreprocessing(gymnasium.make("ALE/Pong-v5", frameskip=1), frame_skip=3)


@pytest.mark.parametrize(("make", "frames", "published"), [
    (partial(gymnasium.make, "CartPole-v1"), 1, False),
    (partial(make_atari, "qbert"), 4, True),
    (partial(make_env, "labyrinth_forage"), 4, True),
    (lambda: TimeLimit(preprocessed(), 100), 3, True),
    (lambda: MaxAndSkipObservation(gymnasium.make("CartPole-v1"), skip=2), 2, False),
    (lambda: MaxAndSkipObservation(gymnasium.make("ALE/Pong-v5"), skip=2), 8, True),
])  # fmt: skip
def test_frames_are_those_that_an_action_is_repeated_for(make, frames, published):
    """By the environment and by all wrappers, alone, side by side, or in other processes."""
    alone = facts_of(make())
    assert (alone.frame_skip, alone.published) == (frames, published)
    assert facts_of(VectorWrapper(SyncVectorEnv([make]))) == alone


def test_environments_in_other_processes_count_the_frames_that_they_count_in_this_one():
    name = "labyrinth_forage"
    vector = AsyncVectorEnv([partial(make_env, name)])
    try:
        assert facts_of(vector) == facts_of(SyncVectorEnv([partial(make_env, name)] * 2))
        agent = MFEC(vector, capacity=100, seed=0).learn(48)
        assert agent.frames == 48
    finally:
        vector.close()


def test_what_is_assumed_is_said():
    with pytest.warns(UserWarning, match=r"AtariVectorEnv does not say how many frames a step has, and 4 is assumed"):
        assert facts_of(AtariVectorEnv("pong", 1)).frame_skip == 4
    with pytest.warns(UserWarning, match="2 to 4 frames at random; 3 frames a step are counted"):
        assert facts_of(gymnasium.make("ALE/Pong-v5", frameskip=(2, 5))).frame_skip == 3
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert facts_of(gymnasium.make_vec("CartPole-v1", 2)).frame_skip == 1
