"""The observation itself as the state, for environments whose observations are short vectors or numbers."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray


class Identity:
    """States that are the observations, flattened. Near numbers of a `Discrete` space are near states.

    Args:
        dim: numbers in an observation.

    >>> Identity(4)(np.array([[[1, 2], [3, 4]]])).tolist()
    [[1.0, 2.0, 3.0, 4.0]]
    """

    name = "identity"
    has_neighbours = True

    def __init__(self, dim: int) -> None:
        self.dim = dim

    @classmethod
    def make(
        cls, space: spaces.Box | spaces.Discrete[Any], *, dim: int, seed: np.random.SeedSequence, vae: str
    ) -> Self:
        """The embedding for observations of that space."""
        return cls(cls.dim_for(space, dim=dim, vae=vae))

    @staticmethod
    def dim_for(space: spaces.Box | spaces.Discrete[Any], *, dim: int, vae: str) -> int:
        """The numbers in an observation."""
        return math.prod(space.shape or ())

    def __call__(self, observations: NDArray[Any]) -> NDArray[np.float32]:
        """States, float32 (n, dim), of a batch of observations (n, ...)."""
        states = np.asarray(observations, np.float32).reshape(len(observations), -1)
        if states.shape[1] != self.dim:
            raise ValueError(f"an observation has {self.dim} numbers here, not {states.shape[1]}")
        return states

    def tensors(self) -> dict[str, NDArray[Any]]:
        """What a checkpoint keeps."""
        return {"dim": np.array([self.dim])}

    @classmethod
    def restore(cls, tensors: dict[str, NDArray[Any]]) -> Self:
        """The embedding whose `tensors()` these are."""
        return cls(int(tensors["dim"][0]))


class Table(Identity):
    """`Discrete` observations as they are: each is a state of its own, and none is near another.

    The memory is then a table of the best return of every state and action. New states have no neighbours, since a
    number is a name here: 7 is no more like 8 than like 300.

    >>> Table()(np.array([7])).tolist()
    [[7.0]]
    """

    name = "table"
    has_neighbours = False

    def __init__(self, dim: int = 1) -> None:
        super().__init__(dim)

    @staticmethod
    def dim_for(space: spaces.Box | spaces.Discrete[Any], *, dim: int, vae: str) -> int:
        """One number; an error if observations are not `Discrete`."""
        if not isinstance(space, spaces.Discrete):
            raise ValueError(f"the embedding 'table' is for Discrete observations, and these are {space}")
        return 1
