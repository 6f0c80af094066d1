"""What the episodic memory answers: values, and the entries that they come from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Estimates:
    """Values of all actions in a batch of states, and which of them are exact matches."""

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
    """The value of one action in one state (Eq. 2), and the entries that it comes from: a match, or neighbours."""

    value: float
    exact: bool
    neighbours: Neighbours
