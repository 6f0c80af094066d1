"""Embeddings phi: from an observation to a state, a float32 vector."""

from __future__ import annotations

import math
import pkgutil
from typing import Any, Protocol, Self

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from mfec.config import EMBEDDINGS, EmbeddingName
from mfec.embeddings.identity import Identity, Table
from mfec.embeddings.random_projection import RandomProjection
from mfec.embeddings.vae import VAE, check_pictures

__all__ = [
    "VAE",
    "Embedding",
    "Identity",
    "NamedEmbedding",
    "RandomProjection",
    "Table",
    "check_pictures",
    "embedding_kind",
    "make_embedding",
    "resolve_embedding",
    "restore_embedding",
]


class Embedding(Protocol):
    """The interface of an embedding.

    An embedding may also have: `has_neighbours`, False if no state is near another, so that the memory has only exact
    matches; `check_fits(dtype, shape)`, which raises if the embedding does not take such observations; and
    `hand_over(device)`, which lets a device embed observations and returns whether it does.
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
        """The embedding whose `tensors()` these are."""


class NamedEmbedding(Embedding, Protocol):
    """An embedding that `embedding` can name."""

    @classmethod
    def make(
        cls, space: spaces.Box | spaces.Discrete[Any], *, dim: int, seed: np.random.SeedSequence, vae: str
    ) -> Self:
        """The embedding for observations of that space; it ignores the arguments that it does not need."""

    @staticmethod
    def dim_for(space: spaces.Box | spaces.Discrete[Any], *, dim: int, vae: str) -> int:
        """The numbers in its states; an error if the observations do not fit."""


def resolve_embedding(
    name: EmbeddingName, space: spaces.Box | spaces.Discrete[Any], dim: int, vae: str = ""
) -> tuple[EmbeddingName, int]:
    """The name of the embedding, which `auto` leaves open, and the numbers in its states.

    dim: the numbers in a projection. `auto` is the encoder `vae` if one is named, else a table for `Discrete`
    observations, a random projection for those of more than `dim` numbers, and the identity for all others.
    """
    if name == "auto" and vae:
        name = "vae"
    elif name == "auto" and isinstance(space, spaces.Discrete):
        name = "table"
    elif name == "auto":
        name = "random_projection" if math.prod(space.shape or ()) > dim else "identity"
    if name not in EMBEDDINGS:
        raise ValueError(f"unknown embedding {name!r}; there are: {', '.join(['auto', *EMBEDDINGS])}")
    return name, _class_of(name).dim_for(space, dim=dim, vae=vae)


def make_embedding(
    name: EmbeddingName,
    space: spaces.Box | spaces.Discrete[Any],
    dim: int,
    seed: np.random.SeedSequence,
    vae: str = "",
) -> Embedding:
    """The embedding of that name for observations of that space; `dim` is the numbers in a projection."""
    name, _ = resolve_embedding(name, space, dim, vae)
    return _class_of(name).make(space, dim=dim, seed=seed, vae=vae)


def embedding_kind(embedding: Embedding) -> str:
    """What a checkpoint calls the embedding: its name if it is one of ours, else its class.

    A subclass of one of ours counts as another, since it may compute something else.
    """
    kind = type(embedding)
    ours = embedding.name in EMBEDDINGS and _class_of(embedding.name) is kind
    return embedding.name if ours else f"{kind.__module__}.{kind.__qualname__}"


def restore_embedding(kind: str, tensors: dict[str, NDArray[Any]]) -> Embedding:
    """The embedding of that kind whose `tensors()` these are."""
    if kind not in EMBEDDINGS:
        raise ValueError(f"it was saved with the embedding {kind}, which is not one of mfec's: give it to `load`")
    return _class_of(kind).restore(tensors)


def _class_of(name: str) -> type[NamedEmbedding]:
    found: type[NamedEmbedding] = pkgutil.resolve_name(EMBEDDINGS[name])
    return found
