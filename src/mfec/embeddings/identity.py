"""The observation itself as the state, for environments whose observations are short vectors or numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


class Identity:
    """States that are the observations, flattened; a `Discrete` observation becomes a one-hot vector.

    Args:
        dim: numbers in a state: those of the observation, or the number of discrete observations.
        one_hot: whether observations are whole numbers below `dim`.

    >>> Identity(3, one_hot=True)(np.array([2])).tolist()
    [[0.0, 0.0, 1.0]]
    """

    name = "identity"

    def __init__(self, dim: int, *, one_hot: bool = False) -> None:
        self.dim = dim
        self.one_hot = one_hot

    def __call__(self, observations: NDArray[Any]) -> NDArray[np.float32]:
        """States, float32 (n, dim), of a batch of observations (n, ...)."""
        if self.one_hot:
            check_discrete(observations, self.dim)
            states = np.zeros((len(observations), self.dim), np.float32)
            states[np.arange(len(observations)), observations.reshape(-1)] = 1.0
            return states
        states = np.asarray(observations, np.float32).reshape(len(observations), -1)
        if states.shape[1] != self.dim:
            raise ValueError(f"an observation has {self.dim} numbers here, not {states.shape[1]}")
        return states

    def tensors(self) -> dict[str, NDArray[Any]]:
        """What a checkpoint keeps."""
        return {"shape": np.array([self.dim, int(self.one_hot)])}

    @classmethod
    def restore(cls, tensors: dict[str, NDArray[Any]]) -> Identity:
        """The embedding of which `tensors()` were kept."""
        dim, one_hot = tensors["shape"].tolist()
        return cls(dim, one_hot=bool(one_hot))


def check_discrete(observations: NDArray[Any], n: int) -> None:
    """Refuse whole-number observations outside 0..n-1; a negative one would silently mean another."""
    if observations.size and not (observations.min() >= 0 and observations.max() < n):
        raise ValueError(f"observations must lie in 0..{n - 1}, not {observations.min()}..{observations.max()}")
