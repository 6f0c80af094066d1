"""A map of the memory: its states along the two directions in which they differ most."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfec.memory import EpisodicMemory

MEASURED = 20_000  # memories that the directions are found with
DRAWN = 4_000  # memories on the map


class MemoryMap:
    """The two principal components of the states in a memory, in units of the first one's standard deviation."""

    def __init__(self, memory: EpisodicMemory) -> None:
        rng = np.random.default_rng(0)  # the same memory has the same map
        _, measured = memory.sample(MEASURED, rng)
        states = measured.states.astype(np.float64)
        self._centre = states.mean(axis=0) if len(states) else np.zeros(memory.dim)
        spread = states - self._centre
        variances, directions = np.linalg.eigh(spread.T @ spread / max(1, len(states)))
        first = directions[:, ::-1][:, :2].T  # eigh has the smallest first
        # A direction is as good as its opposite; this one does not depend on the machine.
        first = first * np.sign(first[np.arange(len(first)), np.abs(first).argmax(axis=1)])[:, None]
        self._directions = np.zeros((2, memory.dim))
        self._directions[: len(first)] = first
        self._scale = float(np.sqrt(max(variances[-1], 0.0))) or 1.0
        total = float(variances.sum())
        shares = np.maximum(variances[::-1][:2], 0.0) / total if total > 0.0 else np.zeros(2)
        self._shares = [*shares.tolist(), 0.0][:2]
        self._actions, self._drawn = memory.sample(DRAWN, rng)

    def places(self, states: NDArray[np.float32]) -> NDArray[np.float64]:
        """Where states, float32 (n, dim), are on the map, (n, 2)."""
        return np.round((states - self._centre) @ self._directions.T / self._scale, 3)

    def as_json(self) -> dict[str, Any]:
        """The memories that are drawn, and the share of the variance in both directions."""
        x, y = self.places(self._drawn.states).T
        return {
            "x": x.tolist(),
            "y": y.tolist(),
            "value": self._drawn.values.tolist(),
            "action": self._actions.tolist(),
            "share": [round(share, 4) for share in self._shares],
        }
