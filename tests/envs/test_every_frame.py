"""Atari games that show every frame: each the maximum of it and the one before, whatever other environments do."""

from __future__ import annotations

import numpy as np
import pytest

from mfec.envs import make_env
from mfec.envs.atari import AtariVector
from mfec.envs.environments import make_environments

N_ENVS = 3  # two of them in a group


@pytest.fixture(scope="module")
def two() -> tuple[AtariVector, AtariVector]:
    """Two equal environments, each for whatever a test plays: a reset on seeds begins afresh."""
    return AtariVector("qbert", N_ENVS, frame_skip=1), AtariVector("qbert", N_ENVS, frame_skip=1)


def begin(env: AtariVector) -> np.ndarray:
    return env.reset(seed=[5, 6, 7])[0]


def raw_frames(env: AtariVector, actions: np.ndarray) -> list[np.ndarray]:
    """What the native environments show by themselves, at first and for these actions."""
    frames = [begin(env)]
    for chosen in actions:
        parts = []
        for native, own in zip(env._natives, env.groups, strict=True):
            native.send(chosen[own])
            parts.append(native.recv()[0])
        frames.append(np.concatenate(parts).reshape(N_ENVS, 84, 84))
    return frames


def actions(steps: int, seed: int = 0) -> np.ndarray:
    return np.repeat(np.random.default_rng(seed).integers(6, size=(steps // 4, N_ENVS)), 4, axis=0)


def test_a_frame_is_the_maximum_of_it_and_the_one_before(two):
    chosen = actions(40)
    first, *frames = raw_frames(two[1], chosen)
    assert np.array_equal(first, begin(two[0]))
    shown = [two[0].step(own)[0] for own in chosen]
    for now, last, frame in zip(shown, [first, *frames[:-1]], frames, strict=True):
        assert np.array_equal(now, np.maximum(last, frame))
    # What moves is left behind by every frame: the maximum is not the frame itself.
    assert any((now != frame).any() for now, frame in zip(shown, frames, strict=True))


def test_environments_that_were_not_reset_keep_what_they_showed_and_go_on(two):
    disturbed, undisturbed = two
    chosen = actions(60)
    _, *frames = raw_frames(disturbed, chosen)
    begin(disturbed), begin(undisturbed)
    for moment, own in enumerate(chosen):
        before = disturbed.step(own)[0]
        undisturbed.step(own)
        if moment > 5 and not np.array_equal(before[1], frames[moment][1]):
            break  # it shows more than its last frame
    shown, _ = disturbed.reset(seed=[8, None, None], options={"reset_mask": np.array([True, False, False])})
    assert np.array_equal(shown[1:], before[1:])
    assert not np.array_equal(shown[0], before[0])
    fresh = AtariVector("qbert", 1, frame_skip=1)
    assert np.array_equal(shown[:1], fresh.reset(seed=[8])[0])
    assert moment < 50
    for own in chosen[moment + 1 :]:
        now = disturbed.step(own)[0]
        assert np.array_equal(now[1:], undisturbed.step(own)[0][1:])
        assert np.array_equal(now[:1], fresh.step(own[:1])[0])


def test_a_step_is_one_frame(two):
    assert two[0].frame_skip == make_environments(two[0], np.random.SeedSequence(0)).frame_skip == 1
    made = make_env("qbert", every_frame=True)
    assert isinstance(made, AtariVector)
    assert (made.frame_skip, made.num_envs) == (1, 1)
    assert AtariVector("qbert", 1).frame_skip == 4


def test_stacked_frames_are_refused():
    with pytest.raises(ValueError, match="frame_stack must be 1 where frame_skip is 1"):
        AtariVector("qbert", 2, frame_stack=4, frame_skip=1)
