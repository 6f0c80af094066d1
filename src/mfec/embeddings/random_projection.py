"""The random projection phi(o) = A o of section 3 of the paper."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from mfec.compiling import njit
from mfec.device import Channel

# Entries of A are rounded to multiples of 2**-20. A sum of such numbers times bytes then fits the 53 bits of a float64
# without rounding, in whatever order it is taken: a state is the same for every batch size, thread count and device.
RESOLUTION = 2.0**20
LARGEST = 8.0  # a standard normal number beyond 8 comes once in 10**15


class RandomProjection:
    """States that are random sums of an observation's numbers, with weights from a standard Gaussian.

    Args:
        observation_size: how many numbers an observation has, for example 84 * 84.
        dim: numbers in a state; the paper has 64.
        seed: where the weights come from.
        one_hot: whether observations are whole numbers below `observation_size`, projected as one-hot vectors.

    >>> projection = RandomProjection(84 * 84, seed=0)
    >>> projection(np.zeros((3, 84, 84), np.uint8)).shape
    (3, 64)
    """

    name = "random_projection"
    has_neighbours = True

    def __init__(
        self,
        observation_size: int,
        dim: int = 64,
        *,
        seed: int | np.random.SeedSequence | None = None,
        one_hot: bool = False,
    ) -> None:
        weights = np.random.default_rng(seed).standard_normal((observation_size, dim))
        # Multiples of 2**-20 up to 8 fit a float32 without rounding, and half the bytes stay in the cache.
        self._weights = np.clip(np.round(weights * RESOLUTION) / RESOLUTION, -LARGEST, LARGEST).astype(np.float32)
        self.one_hot = one_hot
        self._batches: list[tuple[NDArray[np.uint8], NDArray[np.float64]]] = []

    @classmethod
    def make(
        cls, space: spaces.Box | spaces.Discrete[Any], *, dim: int, seed: np.random.SeedSequence, vae: str
    ) -> RandomProjection:
        """The projection of observations of that space to `dim` numbers."""
        if isinstance(space, spaces.Discrete):
            return cls(int(space.n), dim, seed=seed, one_hot=True)
        return cls(math.prod(space.shape), dim, seed=seed)

    @staticmethod
    def dim_for(space: spaces.Box | spaces.Discrete[Any], *, dim: int, vae: str) -> int:
        """The numbers in a state, as given."""
        return dim

    @property
    def dim(self) -> int:
        """Numbers in a state."""
        return int(self._weights.shape[1])

    @property
    def matrix(self) -> NDArray[np.float64]:
        """A, float64 (dim, observation_size)."""
        return self._weights.T.astype(np.float64)

    @property
    def weights(self) -> NDArray[np.float32]:
        """The transpose of A, float32 (observation_size, dim), multiples of 2**-20."""
        return self._weights

    def hand_over(self, device: Channel) -> bool:
        """Let a device project observations; False for a subclass, which may compute something else."""
        if type(self) is not RandomProjection or self.one_hot:
            return False
        device.project_with(self._weights)
        return True

    def __call__(self, observations: NDArray[Any]) -> NDArray[np.float32]:
        """States, float32 (n, dim), of a batch of observations (n, ...)."""
        if self.one_hot:
            _check_discrete(observations, len(self._weights))
            return np.asarray(self._weights[observations.reshape(-1)], np.float32)
        rows = np.ascontiguousarray(observations).reshape(len(observations), -1)
        if rows.shape[1] != len(self._weights):
            raise ValueError(f"an observation has {len(self._weights)} numbers here, not {rows.shape[1]}")
        if rows.dtype != np.uint8:
            states = np.zeros((len(rows), self.dim))
            _add_product(rows.astype(np.float64), self._weights, states)
            return states.astype(np.float32)
        # Consecutive frames differ in some hundred of 7056 pixels. Since the sums are exact, adding what changed to
        # the last state gives the bits of the full product at a tenth of its cost.
        last, sums = self._nearest_batch(rows)
        _add_changes(rows, last, self._weights, sums)
        return sums.astype(np.float32)

    def _nearest_batch(self, rows: NDArray[np.uint8]) -> tuple[NDArray[np.uint8], NDArray[np.float64]]:
        """The nearest of two earlier batches, and its sums: two, since two groups of environments take turns."""
        alike = [batch for batch in self._batches if batch[0].shape == rows.shape]
        if len(alike) < 2:
            self._batches = [*self._batches[-3:], (np.zeros_like(rows), np.zeros((len(rows), self.dim)))]
            return self._batches[-1]
        return alike[int(_nearer(rows, alike[0][0], alike[1][0]))]

    def tensors(self) -> dict[str, NDArray[Any]]:
        """What a checkpoint keeps."""
        return {"weights": self._weights, "one_hot": np.array([self.one_hot])}

    @classmethod
    def restore(cls, tensors: dict[str, NDArray[Any]]) -> RandomProjection:
        """The projection whose `tensors()` these are."""
        weights = tensors["weights"].astype(np.float32)
        projection = cls(*weights.shape, seed=0, one_hot=bool(tensors["one_hot"][0]))
        projection._weights = weights
        return projection


def _check_discrete(observations: NDArray[Any], n: int) -> None:
    """Raise if an observation lies outside 0..n-1; a negative index would silently pick another row."""
    if observations.size and not (observations.min() >= 0 and observations.max() < n):
        raise ValueError(f"observations must lie in 0..{n - 1}, not {observations.min()}..{observations.max()}")


@njit()
def _nearer(rows, first, second):
    """Which of two earlier batches is the nearer one, 0 or 1, in some pixels of its first row."""
    closer = 0
    for j in range(0, rows.shape[1] if len(rows) else 0, 16):
        closer += (rows[0, j] != second[0, j]) - (rows[0, j] != first[0, j])
    return 0 if closer >= 0 else 1


@njit()
def _add_changes(rows, last, weights, sums):
    for i in range(rows.shape[0]):
        for j in range(rows.shape[1]):
            if rows[i, j] != last[i, j]:
                change = float(rows[i, j]) - float(last[i, j])
                for d in range(sums.shape[1]):
                    sums[i, d] += change * np.float64(weights[j, d])
                last[i, j] = rows[i, j]


@njit()
def _add_product(rows, weights, sums):
    for i in range(rows.shape[0]):
        for j in range(rows.shape[1]):
            for d in range(sums.shape[1]):
                sums[i, d] += rows[i, j] * np.float64(weights[j, d])
