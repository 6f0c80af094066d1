"""The observation itself as the state."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces

from mfec.embeddings import Identity, RandomProjection, make_embedding, restore_embedding


@pytest.mark.parametrize("dtype", [np.uint8, np.int64, np.float32, np.float64])
def test_states_are_the_observations_flattened(dtype: type) -> None:
    observations = np.arange(24).reshape(2, 3, 4).astype(dtype)
    states = Identity(12)(observations)
    assert states.dtype == np.float32
    assert states.tolist() == [list(range(12)), list(range(12, 24))]


@pytest.mark.parametrize("shape", [(3,), (3, 1)])
def test_discrete_observations_become_one_hot(shape: tuple[int, ...]) -> None:
    states = Identity(4, one_hot=True)(np.array([3, 0, 3]).reshape(shape))
    assert states.dtype == np.float32
    assert states.tolist() == [[0, 0, 0, 1], [1, 0, 0, 0], [0, 0, 0, 1]]


def test_another_size_is_refused() -> None:
    with pytest.raises(ValueError, match="an observation has 12 numbers here, not 6"):
        Identity(12)(np.zeros((4, 2, 3)))


@pytest.mark.parametrize("number", [-1, 4])
def test_discrete_observations_out_of_range_are_refused(number: int) -> None:
    with pytest.raises((ValueError, IndexError)):
        Identity(4, one_hot=True)(np.array([0, number]))


@pytest.mark.parametrize("one_hot", [False, True])
def test_it_comes_back_from_its_tensors(one_hot: bool) -> None:
    restored = restore_embedding("identity", Identity(7, one_hot=one_hot).tensors())
    assert isinstance(restored, Identity)
    assert (restored.dim, restored.one_hot) == (7, one_hot)
    assert restored.name == "identity"


# -- Which embedding a space gets -------------------------------------------------------------------------------------

SEED = np.random.SeedSequence(0)


@pytest.mark.parametrize(("space", "kind", "dim"), [
    (spaces.Box(0, 255, (84, 84), np.uint8), RandomProjection, 64),
    (spaces.Box(-1, 1, (65,)), RandomProjection, 64),
    (spaces.Box(-1, 1, (8, 8)), Identity, 64),
    (spaces.Box(-1, 1, (4,)), Identity, 4),
    (spaces.Discrete(500), Identity, 500),
])  # fmt: skip
def test_auto_projects_what_is_larger_than_a_state(space: spaces.Space, kind: type, dim: int) -> None:
    embedding = make_embedding("auto", space, 64, SEED)  # type: ignore[arg-type]
    assert type(embedding) is kind
    assert embedding.dim == dim
    assert embedding(np.stack([space.sample() for _ in range(3)])).shape == (3, dim)


def test_an_embedding_can_be_asked_for_by_name() -> None:
    assert make_embedding("random_projection", spaces.Box(-1, 1, (4,)), 64, SEED).dim == 64
    assert make_embedding("identity", spaces.Box(0, 255, (84, 84), np.uint8), 64, SEED).dim == 84 * 84
    assert make_embedding("random_projection", spaces.Discrete(500), 64, SEED)(np.array([499])).shape == (1, 64)


def test_unknown_names_are_refused_with_what_there_is() -> None:
    with pytest.raises(ValueError, match=r"unknown embedding 'pca'.*auto, random_projection, vae, identity"):
        make_embedding("pca", spaces.Discrete(3), 64, SEED)
    with pytest.raises(ValueError, match=r"unknown embedding 'pca'.*random_projection, vae, identity"):
        restore_embedding("pca", {})
