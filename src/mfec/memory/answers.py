"""What the episodic memory answers: values, and the entries that they come from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Source = Literal["exact", "mean", "weighted_mean", "infinity", "zero"]


@dataclass(frozen=True)
class Estimates:
    """Values of all actions in a batch of states, and which of them are exact matches."""

    states: NDArray[np.float32]  # (n, dim)
    values: NDArray[np.float32]  # (n, n_actions)
    exact: NDArray[np.bool_]  # (n, n_actions)


@dataclass(frozen=True)
class Entries:
    """Some entries of one action's buffer, or of several."""

    states: NDArray[np.float32]  # (m, dim)
    values: NDArray[np.float32]  # (m,)
    entry_ids: NDArray[np.int64]  # (m,)
    origins: NDArray[np.int32]  # (m, 2): episode and frame of the experience that the value comes from, -1 if not told
    matched: NDArray[np.int32]  # (m,): how often look-ups of a learning agent found exactly this state


@dataclass(frozen=True)
class Neighbours(Entries):
    """The entries behind one estimate, nearest first."""

    distances: NDArray[np.float64]  # (m,), m <= k


@dataclass(frozen=True)
class Evidence:
    """The value of one action in one state (Eq. 2), what it comes from, and the entries that were found for it.

    Attributes:
        value: as `EpisodicMemory.estimate` says.
        source: `exact`, the value of a match; `mean`, that of the neighbours, or their `weighted_mean` under another
            kernel; or, where they are too few for a mean, what `few_neighbours` puts in its place: `infinity` or
            `zero`.
        neighbours: the match, or the neighbours, also where they are too few.
        weights: what each of them counts in the value, float64 (m,). They sum to 1, a match counts 1; where they are
            too few for a mean, none counts anything, and all weights are 0.
    """

    value: float
    source: Source
    neighbours: Neighbours
    weights: NDArray[np.float64]

    @property
    def exact(self) -> bool:
        """Whether the value is that of an exact match."""
        return self.source == "exact"
