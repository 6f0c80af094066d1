"""Frames are packed small and come back bit for bit."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from mfec.envs import make_env
from mfec.history.frame_codec import frames_in_chunk, pack_frames, picture_shape, pictures_of, unpack_frames


@given(arrays.arrays(np.uint8, st.tuples(st.integers(1, 6), st.integers(1, 5), st.integers(1, 5))))
def test_frames_come_back(frames):
    assert np.array_equal(unpack_frames(pack_frames(frames), frames.shape[1:]), frames)


def test_each_frame_is_its_difference_from_the_one_before():
    """What the page unpacks by itself."""
    frames = np.random.default_rng(0).integers(0, 256, (4, 30, 20), np.uint8)
    frames[1:, 2:] = frames[0, 2:]  # but for two rows of them
    plain = zlib.decompress(pack_frames(frames))
    expected = [frames[0], *(frames[i] ^ frames[i - 1] for i in range(1, 4))]
    assert plain == b"\0" + np.array(expected).tobytes()


def test_each_row_is_its_difference_from_the_one_above_where_everything_moves():
    frames = np.random.default_rng(0).integers(0, 256, (4, 30, 20), np.uint8)
    plain = zlib.decompress(pack_frames(frames))
    expected = [[frame[0], *(frame[i] - frame[i - 1] for i in range(1, 30))] for frame in frames]
    assert plain == b"\1" + np.array(expected, np.uint8).tobytes()
    assert np.array_equal(unpack_frames(pack_frames(frames), (30, 20)), frames)


def test_frames_that_are_not_contiguous():
    frames = np.random.default_rng(0).integers(0, 256, (4, 6, 6), np.uint8)[:, ::2, 1:]
    assert np.array_equal(unpack_frames(pack_frames(frames), (3, 5)), frames)


@pytest.mark.parametrize("packed", [b"", b"nonsense", zlib.compress(b""), zlib.compress(b"12345")])
def test_what_is_not_packed_is_an_error(packed):
    with pytest.raises(ValueError):
        unpack_frames(packed, (2, 3))


@pytest.mark.parametrize("game", ["qbert", "ms_pacman", "space_invaders", "frostbite", "river_raid"])
def test_atari_takes_less_than_400_bytes_a_frame(game):
    env = make_env(game)
    rng = np.random.default_rng(0)
    observation, _ = env.reset(seed=0)
    frames = []
    for _ in range(320):
        frames.append(observation)
        observation, _, terminated, _, _ = env.step(rng.integers(env.action_space.n))  # type: ignore[attr-defined]
        if terminated:
            observation, _ = env.reset()
    packed = [pack_frames(np.array(frames[i : i + 32])) for i in range(0, 320, 32)]
    assert sum(map(len, packed)) / 320 < 400


@pytest.mark.parametrize(
    ("space", "shape"),
    [
        (spaces.Box(0, 255, (84, 84), np.uint8), (84, 84)),
        (spaces.Box(0, 255, (4, 84, 84), np.uint8), (84, 84)),
        (spaces.Box(0, 255, (60, 80, 3), np.uint8), (60, 80, 3)),
        (spaces.Box(0, 255, (60, 80, 1), np.uint8), (60, 80)),
        (spaces.Box(0, 255, (128,), np.uint8), None),
        (spaces.Box(0, 255, (4, 4), np.uint8), None),
        (spaces.Box(0, 1, (84, 84), np.float32), None),
        (spaces.Discrete(5), None),
    ],
)
def test_which_observations_are_pictures(space, shape):
    assert picture_shape(space) == shape
    if shape is not None:
        seen = np.random.default_rng(0).integers(0, 256, (3, *space.shape), np.uint8)
        newest = seen[:, -1] if len(space.shape) == 3 and space.shape[0] == 4 else seen.reshape(3, *shape)
        assert np.array_equal(pictures_of(seen, shape), newest)


def test_large_frames_are_packed_by_fewer():
    assert frames_in_chunk((84, 84)) == 32
    assert frames_in_chunk((240, 320, 3)) == 2
    assert frames_in_chunk((2000, 2000, 3)) == 1
