"""The observation itself as the state."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces

from mfec.embeddings import Identity, RandomProjection, Table, embedding_kind, make_embedding, restore_embedding


@pytest.mark.parametrize("dtype", [np.uint8, np.int64, np.float32, np.float64])
def test_states_are_the_observations_flattened(dtype: type) -> None:
    observations = np.arange(24).reshape(2, 3, 4).astype(dtype)
    states = Identity(12)(observations)
    assert states.dtype == np.float32
    assert states.tolist() == [list(range(12)), list(range(12, 24))]


@pytest.mark.parametrize("shape", [(3,), (3, 1)])
@pytest.mark.parametrize("embedding", [Identity(1), Table()])
def test_discrete_observations_are_one_number(embedding: Identity, shape: tuple[int, ...]) -> None:
    states = embedding(np.array([3, 0, 19_999]).reshape(shape))
    assert states.dtype == np.float32
    assert states.tolist() == [[3], [0], [19_999]]


def test_another_size_is_refused() -> None:
    with pytest.raises(ValueError, match="an observation has 12 numbers here, not 6"):
        Identity(12)(np.zeros((4, 2, 3)))


@pytest.mark.parametrize("embedding", [Identity(7), Table()])
def test_it_comes_back_from_its_tensors(embedding: Identity) -> None:
    restored = restore_embedding(embedding_kind(embedding), embedding.tensors())
    assert type(restored) is type(embedding)
    assert restored.dim == embedding.dim


# -- Which embedding a space gets -------------------------------------------------------------------------------------

SEED = np.random.SeedSequence(0)


@pytest.mark.parametrize(("space", "kind", "dim"), [
    (spaces.Box(0, 255, (84, 84), np.uint8), RandomProjection, 64),
    (spaces.Box(-1, 1, (65,)), RandomProjection, 64),
    (spaces.Box(-1, 1, (8, 8)), Identity, 64),
    (spaces.Box(-1, 1, (4,)), Identity, 4),
    (spaces.Discrete(500), Table, 1),
    (spaces.Discrete(20_000, start=-5), Table, 1),
])  # fmt: skip
def test_auto_projects_what_is_larger_than_a_state(space: spaces.Space, kind: type, dim: int) -> None:
    embedding = make_embedding("auto", space, 64, SEED)
    assert type(embedding) is kind
    assert embedding.dim == dim
    assert embedding(np.stack([space.sample() for _ in range(3)])).shape == (3, dim)


def test_an_embedding_can_be_asked_for_by_name() -> None:
    assert make_embedding("random_projection", spaces.Box(-1, 1, (4,)), 64, SEED).dim == 64
    assert make_embedding("identity", spaces.Box(0, 255, (84, 84), np.uint8), 64, SEED).dim == 84 * 84
    assert make_embedding("random_projection", spaces.Discrete(500), 64, SEED)(np.array([499])).shape == (1, 64)
    assert type(make_embedding("identity", spaces.Discrete(500), 64, SEED)) is Identity
    with pytest.raises(ValueError, match="'table' is for Discrete observations"):
        make_embedding("table", spaces.Box(-1, 1, (4,)), 64, SEED)


def test_unknown_names_are_refused_with_what_there_is() -> None:
    with pytest.raises(ValueError, match=r"unknown embedding 'pca'.*auto, random_projection, vae, identity"):
        make_embedding("pca", spaces.Discrete(3), 64, SEED)
    with pytest.raises(ValueError, match=r"saved with the embedding mine\.Own, which is not one of mfec's"):
        restore_embedding("mine.Own", {})


class Halved(RandomProjection):
    """Called by its parent's name, and computes something else."""

    def __call__(self, observations):
        return super().__call__(observations) / 2


def test_a_subclass_is_not_taken_for_its_parent() -> None:
    assert embedding_kind(RandomProjection(4, 3, seed=0)) == "random_projection"
    assert embedding_kind(Halved(4, 3, seed=0)).endswith(".Halved")
