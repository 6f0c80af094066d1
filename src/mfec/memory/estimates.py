"""What the episodic memory returns: estimates, and the entries that they come from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from mfec.memory.entries import Entries

Source = Literal["exact", "mean", "weighted_mean", "infinity", "zero"]


@dataclass(frozen=True)
class Estimates:
    """The values of all actions in a batch of states, and which of them are exact matches."""

    states: NDArray[np.float32]  # (n, dim)
    values: NDArray[np.float32]  # (n, n_actions)
    exact: NDArray[np.bool_]  # (n, n_actions)


@dataclass(frozen=True)
class Neighbours(Entries):
    """The entries behind one estimate, nearest first."""

    distances: NDArray[np.float64]  # (m,), m <= k


@dataclass(frozen=True)
class Evidence:
    """The estimate of one action in one state (Eq. 2), with the entries behind it.

    Attributes:
        value: the estimate, as `EpisodicMemory.estimate` returns it.
        source: `exact` for the value of an exact match; `mean` for the mean of the neighbours, `weighted_mean` under
            another kernel; `infinity` or `zero` if there are too few neighbours, as `few_neighbours` says.
        neighbours: the exact match, or the neighbours, even if there are too few.
        weights: the weight of each of them in the value, float64 (m,). They sum to 1; all are 0 if there are too few.
    """

    value: float
    source: Source
    neighbours: Neighbours
    weights: NDArray[np.float64]

    @property
    def exact(self) -> bool:
        """Whether the value is that of an exact match."""
        return self.source == "exact"
