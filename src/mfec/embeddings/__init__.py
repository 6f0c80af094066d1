"""Embeddings phi: from an observation to a state, a float32 vector."""

from __future__ import annotations

import math
import pkgutil
from typing import Any, Protocol, Self

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from mfec.config import EMBEDDINGS, is_import_name, unknown_embedding
from mfec.embeddings.encoder import EmbeddingError, Encoder, as_embedding
from mfec.embeddings.fingerprint import fingerprint, mismatch
from mfec.embeddings.identity import Identity, Table
from mfec.embeddings.imported import import_embedding
from mfec.embeddings.random_projection import RandomProjection
from mfec.embeddings.vae import VAE, check_pictures

__all__ = [
    "VAE",
    "Embedding",
    "EmbeddingError",
    "Encoder",
    "Identity",
    "NamedEmbedding",
    "RandomProjection",
    "Table",
    "check_pictures",
    "embedding_kind",
    "fingerprint",
    "given_embedding",
    "make_embedding",
    "mismatch",
    "resolve_embedding",
    "restore_embedding",
]

Space = spaces.Box | spaces.Discrete[Any]


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


def resolve_embedding(name: str, space: Space, dim: int, vae: str = "") -> tuple[str, int]:
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
    named = _named(name)
    if isinstance(named, type) and hasattr(named, "dim_for"):
        return name, int(named.dim_for(space, dim=dim, vae=vae))
    return name, as_embedding(named, space, name=_short(name)).dim


def make_embedding(embedding: Any, space: Space, dim: int, seed: np.random.SeedSequence, vae: str = "") -> Embedding:
    """The embedding of a name, or that an object of the user's is, for observations of that space.

    dim: the numbers in a projection.
    """
    name = ""
    if isinstance(embedding, str):
        name, _ = resolve_embedding(embedding, space, dim, vae)
        embedding = _named(name)
    if isinstance(embedding, type) and hasattr(embedding, "make"):
        made: Embedding = embedding.make(space, dim=dim, seed=seed, vae=vae)
        return made
    return as_embedding(embedding, space, name=_short(name))


def embedding_kind(embedding: Embedding) -> str:
    """What a checkpoint calls the embedding: its name if it is one of ours, else its class.

    A subclass of one of ours counts as another, since it may compute something else.
    """
    kind = type(embedding)
    if embedding.name in EMBEDDINGS and _named(embedding.name) is kind:
        return embedding.name
    return embedding.source if isinstance(embedding, Encoder) else f"{kind.__module__}.{kind.__qualname__}"


def restore_embedding(kind: str, tensors: dict[str, NDArray[Any]]) -> Embedding:
    """The embedding of that kind whose `tensors()` these are."""
    if kind not in EMBEDDINGS:
        raise ValueError(f"it was saved with the embedding {kind}, which is not one of mfec's: give it to `load`")
    restored: Embedding = _named(kind).restore(tensors)
    return restored


def given_embedding(given: Any, tensors: dict[str, NDArray[Any]], space: Space) -> Embedding:
    """The embedding that a user gives with a checkpoint: an object, a name, or a class that takes these tensors."""
    name = given if isinstance(given, str) else ""
    given = _named(given) if name else given
    if isinstance(given, type) and hasattr(given, "restore"):
        restored: Embedding = given.restore(tensors)
        return restored
    return as_embedding(given, space, name=_short(name))


def _named(name: str) -> Any:
    """What a name stands for: a class of ours, or the object that it says where to find."""
    if is_import_name(name):
        return import_embedding(name)
    if name not in EMBEDDINGS:
        raise unknown_embedding(name)
    return pkgutil.resolve_name(EMBEDDINGS[name])


def _short(name: str) -> str:
    return name.rpartition(":")[2]
