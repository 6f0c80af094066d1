"""Embeddings phi: from an observation to a state, a float32 vector."""

from __future__ import annotations

import math
from typing import Any, Protocol, Self, get_args

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from mfec.config import EmbeddingName, VAEConfig
from mfec.embeddings.identity import Identity
from mfec.embeddings.random_projection import RandomProjection
from mfec.embeddings.vae import VAE, Architecture

__all__ = [
    "EMBEDDINGS",
    "VAE",
    "Embedding",
    "Identity",
    "RandomProjection",
    "check_pictures",
    "make_embedding",
    "resolve_embedding",
    "restore_embedding",
]

EMBEDDINGS = get_args(EmbeddingName)


class Embedding(Protocol):
    """What the agent asks of an embedding."""

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

    `auto` takes the encoder `vae` where one is named, else it projects observations of more than `dim` numbers and
    takes the others as they are.
    """
    size = _size(space)
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
        name = "random_projection" if size > dim and isinstance(space, spaces.Box) else "identity"
    if name not in EMBEDDINGS:
        raise ValueError(f"unknown embedding {name!r}; there are: {', '.join(EMBEDDINGS)}")
    return name, size if name == "identity" else dim


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
    one_hot = isinstance(space, spaces.Discrete)
    if name == "identity":
        return Identity(dim, one_hot=one_hot)
    return RandomProjection(_size(space), dim, seed=seed, one_hot=one_hot)


def check_pictures(space: spaces.Box | spaces.Discrete[Any]) -> None:
    """Refuse observations that no VAE can be trained on."""
    if space.dtype != np.uint8 or isinstance(space, spaces.Discrete):
        raise ValueError(f"a VAE is trained on pictures of bytes, and these observations are {space}")
    Architecture(space.shape)  # says which sizes they may have


def _size(space: spaces.Box | spaces.Discrete[Any]) -> int:
    return int(space.n) if isinstance(space, spaces.Discrete) else math.prod(space.shape)


def restore_embedding(name: str, tensors: dict[str, NDArray[Any]]) -> Embedding:
    """The embedding of that name of which `tensors()` were kept."""
    kinds: dict[str, type[Embedding]] = {"random_projection": RandomProjection, "vae": VAE, "identity": Identity}
    if name not in kinds:
        raise ValueError(f"unknown embedding {name!r}; there are: {', '.join(kinds)}")
    return kinds[name].restore(tensors)
