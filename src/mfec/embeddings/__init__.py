"""Embeddings phi: from an observation to a state, a float32 vector."""

from __future__ import annotations

import math
from typing import Any, Protocol, Self, get_args

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from mfec.config import EmbeddingName, VAEConfig
from mfec.embeddings.identity import Identity, Table
from mfec.embeddings.random_projection import RandomProjection
from mfec.embeddings.vae import VAE, Architecture

__all__ = [
    "EMBEDDINGS",
    "VAE",
    "Embedding",
    "Identity",
    "RandomProjection",
    "Table",
    "check_pictures",
    "embedding_kind",
    "make_embedding",
    "resolve_embedding",
    "restore_embedding",
]

EMBEDDINGS = get_args(EmbeddingName)


class Embedding(Protocol):
    """What the agent asks of an embedding.

    Beside that an embedding may have: `has_neighbours`, False where no state is near another, so that the memory knows
    exact matches alone; `check_fits(dtype, shape)`, which raises where observations are not those it is for; and
    `hand_over(device)`, which lets a device make the states, and returns whether it does.
    """

    @property
    def name(self) -> str: ...

    @property
    def dim(self) -> int: ...

    def __call__(self, observations: NDArray[Any]) -> NDArray[np.float32]:
        """States, float32 (n, dim), of a batch of observations (n, ...)."""

    def tensors(self) -> dict[str, NDArray[Any]]:
        """What a checkpoint keeps."""

    @classmethod
    def restore(cls, tensors: dict[str, NDArray[Any]]) -> Self:
        """The embedding of which `tensors()` were kept."""


def resolve_embedding(
    name: EmbeddingName, space: spaces.Box | spaces.Discrete[Any], dim: int, vae: str = ""
) -> tuple[EmbeddingName, int]:
    """The embedding that `auto` stands for, and the numbers in its states; `dim` is the size of a projection.

    `auto` takes the encoder `vae` where one is named, keeps `Discrete` observations in a table, projects other
    observations of more than `dim` numbers, and takes the rest as they are.
    """
    size = math.prod(space.shape or ())  # 1 where an observation is a number
    if vae and name == "auto":
        name = "vae"
    if name == "vae":
        if not vae:
            check_pictures(space)
            return name, 2 * VAEConfig.latents
        encoder = VAE.load(vae)
        encoder.check_fits(space.dtype, space.shape)
        return name, encoder.dim
    if name == "auto":
        name = "table" if isinstance(space, spaces.Discrete) else "random_projection" if size > dim else "identity"
    if name not in EMBEDDINGS:
        raise ValueError(f"unknown embedding {name!r}; there are: {', '.join(EMBEDDINGS)}")
    if name == "table" and not isinstance(space, spaces.Discrete):
        raise ValueError(f"the embedding 'table' is for Discrete observations, and these are {space}")
    return name, dim if name == "random_projection" else size


def make_embedding(
    name: EmbeddingName,
    space: spaces.Box | spaces.Discrete[Any],
    dim: int,
    seed: np.random.SeedSequence,
    vae: str = "",
) -> Embedding:
    """The embedding of that name for observations of that space; `dim` is the size of a projection."""
    name, dim = resolve_embedding(name, space, dim, vae)
    if name == "vae":
        if not vae:
            raise ValueError(
                "the embedding 'vae' needs an encoder: vae='qbert' names one that ships, vae='DIR' one that "
                "`mfec vae train` wrote"
            )
        return VAE.load(vae)
    if name != "random_projection":
        return Table(dim) if name == "table" else Identity(dim)
    one_hot = isinstance(space, spaces.Discrete)
    size = int(space.n) if isinstance(space, spaces.Discrete) else math.prod(space.shape)
    return RandomProjection(size, dim, seed=seed, one_hot=one_hot)


def check_pictures(space: spaces.Box | spaces.Discrete[Any]) -> None:
    """Refuse observations that no VAE can be trained on."""
    if space.dtype != np.uint8 or isinstance(space, spaces.Discrete):
        raise ValueError(f"a VAE is trained on pictures of bytes, and these observations are {space}")
    Architecture(space.shape)  # says which sizes they may have


_KINDS: dict[str, type[Embedding]] = {
    "random_projection": RandomProjection,
    "vae": VAE,
    "identity": Identity,
    "table": Table,
}


def embedding_kind(embedding: Embedding) -> str:
    """What a checkpoint calls the embedding: the name of one of ours, or the class of any other.

    A subclass of one of ours is another: it may compute something else.
    """
    kind = type(embedding)
    return embedding.name if _KINDS.get(embedding.name) is kind else f"{kind.__module__}.{kind.__qualname__}"


def restore_embedding(kind: str, tensors: dict[str, NDArray[Any]]) -> Embedding:
    """The embedding of that kind of which `tensors()` were kept."""
    if kind not in _KINDS:
        raise ValueError(f"it was saved with the embedding {kind}, which is not one of mfec's: give it to `load`")
    return _KINDS[kind].restore(tensors)
