"""The random projection: standard Gaussian, exact, and the same bits however observations arrive."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from mfec.device import open_channel
from mfec.embeddings import RandomProjection, restore_embedding
from mfec.memory.identities import array_keys

SIZE = 84 * 84


def game_frames(seed: int, n: int) -> NDArray[np.uint8]:
    """Frames that differ in some pixels from one to the next, as those of a game do, with a cut now and then."""
    rng = np.random.default_rng(seed)
    frames = np.empty((n, 84, 84), np.uint8)
    frame = rng.integers(0, 256, (84, 84), np.uint8)
    for i in range(n):
        if i % 7 == 6:
            frame = rng.integers(0, 256, (84, 84), np.uint8)
        row, column = rng.integers(0, 76, 2)
        frame[row : row + 8, column : column + 8] = rng.integers(0, 256)
        frames[i] = frame
    return frames


def in_fractions(projection: RandomProjection, observation: NDArray[Any]) -> list[float]:
    """A o in exact arithmetic, rounded once to float32."""
    matrix = [[Fraction(weight) for weight in row] for row in projection.matrix.tolist()]
    numbers = [Fraction(number) for number in observation.reshape(-1).tolist()]
    return [to_float32(sum(w * x for w, x in zip(row, numbers, strict=True))) for row in matrix]


def to_float32(number: Fraction | int) -> float:
    """The nearest float32, ties to even, without rounding to a float64 on the way."""
    number = Fraction(number)
    if number == 0:
        return 0.0
    exponent = math.frexp(float(number))[1]
    ulp = Fraction(2) ** (exponent - 24)
    return float(round(number / ulp) * ulp)


# -- The same bits ----------------------------------------------------------------------------------------------------


def test_a_batch_of_16_has_the_bits_of_batches_of_1() -> None:
    frames = game_frames(0, 16)
    together = RandomProjection(SIZE, seed=3)(frames)
    single = RandomProjection(SIZE, seed=3)
    one_by_one = np.concatenate([single(frame[None]) for frame in frames])
    fresh = np.concatenate([RandomProjection(SIZE, seed=3)(frame[None]) for frame in frames[:3]])
    assert together.dtype == np.float32
    assert together.tobytes() == one_by_one.tobytes()
    assert together[:3].tobytes() == fresh.tobytes()
    assert array_keys(together).tolist() == array_keys(one_by_one).tolist()


def test_frames_in_any_order_have_the_same_bits() -> None:
    """Adding changes to the last state never drifts: hundreds of steps later the bits are those of a fresh object."""
    frames = game_frames(1, 20)
    fresh = RandomProjection(SIZE, seed=4)(frames)
    used = RandomProjection(SIZE, seed=4)
    rng = np.random.default_rng(0)
    for i in rng.integers(0, 20, 300):
        assert used(frames[i : i + 1]).tobytes() == fresh[i].tobytes()
    for _ in range(20):
        rows = rng.integers(0, 20, rng.integers(1, 5))
        assert used(frames[rows]).tobytes() == fresh[rows].tobytes()


def test_nothing_is_left_of_frames_gone_by() -> None:
    """Rounding anywhere in the sums would show beside a state of nearly nothing."""
    projection = RandomProjection(SIZE, seed=4)
    dark, one_pixel = np.zeros((2, 1, 84, 84), np.uint8)
    one_pixel[0, 40, 40] = 1
    for frame in game_frames(1, 40):
        projection(frame[None])
        assert projection(dark).tolist() == [[0.0] * 64]
        projection(frame[None])
        assert projection(one_pixel).tolist() == [projection.matrix[:, 40 * 84 + 40].tolist()]


def test_weights_are_whole_multiples_of_two_to_the_minus_20() -> None:
    """Then sums of 7056 of them times bytes stay below 2**53 steps: exact in any order, on any device."""
    steps = RandomProjection(SIZE, seed=4).matrix * 2.0**20
    assert (steps == np.round(steps)).all()
    assert np.abs(steps).max() * 255 * SIZE < 2.0**53


@given(
    st.lists(
        st.lists(st.lists(st.integers(0, 255), min_size=5, max_size=5), min_size=1, max_size=3), min_size=1, max_size=8
    )
)
@settings(max_examples=60)
def test_any_bytes_are_projected_exactly(batches: list[list[list[int]]]) -> None:
    projection = RandomProjection(5, 3, seed=5)
    for batch in batches:
        observations = np.array(batch, np.uint8)
        states = projection(observations)
        assert states.tolist() == [in_fractions(projection, row) for row in observations]


def test_a_whole_frame_is_projected_exactly() -> None:
    projection = RandomProjection(SIZE, 3, seed=6)
    for frame in (game_frames(2, 1)[0], np.full((84, 84), 255, np.uint8)):
        assert projection(frame[None]).tolist() == [in_fractions(projection, frame)]


@pytest.mark.torch
@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_device_makes_the_same_bits(device: str) -> None:
    import torch

    if device == "cuda" and not torch.cuda.is_available():
        pytest.skip("there is no GPU")
    projection = RandomProjection(SIZE, seed=7)
    frames = np.concatenate([game_frames(3, 8), np.zeros((1, 84, 84), np.uint8), np.full((1, 84, 84), 255, np.uint8)])
    channel = open_channel(device)
    channel.open(2, 10, 64)
    channel.project_with(projection.weights)
    for observations in (frames, frames[:1], frames[3:7]):
        found = channel.look_up(observations.reshape(-1, SIZE), np.ones((len(observations), 2), np.bool_), 1)
        assert found.states.dtype == np.float32
        assert found.states.tobytes() == projection(observations).tobytes()


def test_states_returned_before_do_not_change() -> None:
    projection = RandomProjection(SIZE, seed=7)
    frames = game_frames(3, 2)
    first = projection(frames[:1])
    kept = first.copy()
    projection(frames[1:])
    assert first.tobytes() == kept.tobytes()


def test_observations_are_left_alone_and_not_kept() -> None:
    projection = RandomProjection(6, 2, seed=8)
    observations = np.array([[1, 2, 3, 4, 5, 6]], np.uint8)
    before = projection(observations)
    observations[:] = 9  # environments may hand out the same array again and again
    after = projection(observations)
    assert observations.tolist() == [[9] * 6]
    assert after.tolist() == [in_fractions(projection, observations[0])]
    assert before.tolist() == [in_fractions(projection, np.arange(1, 7))]


def test_layout_does_not_matter() -> None:
    frames = game_frames(4, 6)
    states = RandomProjection(SIZE, seed=9)(frames)
    for same in (frames[:, None], frames.reshape(6, -1), np.asfortranarray(frames), np.repeat(frames, 2, axis=0)[::2]):
        assert RandomProjection(SIZE, seed=9)(same).tobytes() == states.tobytes()


# -- Observations that are not bytes ----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.int16])
def test_bytes_in_other_types_have_the_same_states(dtype: type) -> None:
    frames = game_frames(5, 3)
    projection = RandomProjection(SIZE, seed=10)
    assert projection(frames.astype(dtype)).tobytes() == projection(frames).tobytes()


def test_float_observations_do_not_depend_on_the_batch() -> None:
    observations = np.random.default_rng(1).standard_normal((16, 300))
    projection = RandomProjection(300, seed=11)
    together = projection(observations)
    one_by_one = np.concatenate([projection(row[None]) for row in observations])
    assert together.tobytes() == one_by_one.tobytes()
    np.testing.assert_allclose(together, observations @ projection.matrix.T, rtol=1e-4, atol=1e-5)


def test_float_observations_are_projected_to_the_nearest_float32() -> None:
    """Eighths with few digits: their sums are exact in float64 too."""
    observations = np.random.default_rng(2).integers(-80, 80, (4, 7)) / 8
    projection = RandomProjection(7, 5, seed=12)
    assert projection(observations).tolist() == [in_fractions(projection, row) for row in observations]


def test_discrete_observations_are_projected_as_one_hot_vectors() -> None:
    projection = RandomProjection(9, 4, seed=13, one_hot=True)
    dense = RandomProjection(9, 4, seed=13)
    numbers = np.array([8, 0, 3, 8])
    assert projection(numbers).tobytes() == dense(np.eye(9)[numbers]).tobytes()
    assert projection(numbers[:, None]).tobytes() == projection(numbers).tobytes()


@pytest.mark.parametrize("number", [-1, 9])
def test_discrete_observations_out_of_range_are_refused(number: int) -> None:
    with pytest.raises((ValueError, IndexError)):
        RandomProjection(9, 4, seed=13, one_hot=True)(np.array([0, number]))


@pytest.mark.parametrize("dtype", [np.uint8, np.float64])
def test_another_size_is_refused(dtype: type) -> None:
    with pytest.raises(ValueError, match="an observation has 7056 numbers here, not 7055"):
        RandomProjection(SIZE, 2, seed=0)(np.zeros((2, 7055), dtype))


# -- Gaussian weights -------------------------------------------------------------------------------------------------


def test_weights_are_standard_gaussian() -> None:
    """Moments and the Kolmogorov-Smirnov distance, each within five standard errors under a fixed seed."""
    weights = np.sort(RandomProjection(SIZE, 64, seed=14).matrix.reshape(-1))
    n = len(weights)
    assert n == 64 * SIZE
    for power, moment, variance in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)):
        assert abs((weights**power).mean() - moment) < 5 * math.sqrt(variance / n)
    below = np.array([0.5 * (1 + math.erf(weight / math.sqrt(2))) for weight in weights.tolist()])
    steps = np.arange(n + 1) / n
    distance = max((steps[1:] - below).max(), (below - steps[:-1]).max())
    assert distance < 1.95 / math.sqrt(n)  # exceeded once in a thousand seeds


def test_weights_are_independent() -> None:
    matrix = RandomProjection(SIZE, 64, seed=15).matrix
    correlations = (matrix @ matrix.T) / SIZE - np.eye(64)
    assert np.abs(correlations).max() < 6 / math.sqrt(SIZE / 2)
    assert len(np.unique(matrix)) > 0.8 * matrix.size


def test_distances_are_kept() -> None:
    """What a random projection is for: distances grow by the square root of dim, within some tens of percent."""
    frames = game_frames(6, 8).astype(np.float64).reshape(8, -1)
    states = RandomProjection(SIZE, 64, seed=16)(frames).astype(np.float64)
    for i in range(8):
        for j in range(i):
            ratio = np.linalg.norm(states[i] - states[j]) / np.linalg.norm(frames[i] - frames[j])
            assert 0.6 < ratio / 8 < 1.4


def test_the_seed_makes_the_weights() -> None:
    same = [RandomProjection(50, 8, seed=seed).matrix for seed in (1, 1, 2)]
    assert same[0].tobytes() == same[1].tobytes()
    assert same[0].tobytes() != same[2].tobytes()
    spawned = [RandomProjection(50, 8, seed=np.random.SeedSequence(5).spawn(2)[i]).matrix for i in (0, 0, 1)]
    assert spawned[0].tobytes() == spawned[1].tobytes()
    assert spawned[0].tobytes() != spawned[2].tobytes()


# -- Kept and brought back --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("one_hot", [False, True])
def test_it_comes_back_from_its_tensors_bit_for_bit(one_hot: bool) -> None:
    projection = RandomProjection(SIZE, 64, seed=17, one_hot=one_hot)
    observations = np.array([5, 7055]) if one_hot else game_frames(7, 4)
    states = projection(observations)
    restored = restore_embedding("random_projection", projection.tensors())
    assert isinstance(restored, RandomProjection)
    assert (restored.name, restored.dim, restored.one_hot) == ("random_projection", 64, one_hot)
    assert restored.matrix.tobytes() == projection.matrix.tobytes()
    assert restored(observations).tobytes() == states.tobytes()
    assert restored(observations[::-1]).tobytes() == projection(observations[::-1]).tobytes()
    for name, tensor in projection.tensors().items():
        assert restored.tensors()[name].tobytes() == tensor.tobytes()
