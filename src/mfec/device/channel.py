"""The way from a run to the device that holds its states. Nothing here needs torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mfec.config import DeviceName
from mfec.errors import MfecError


class DeviceError(MfecError):
    """A device that is not there, is full, or has failed."""


@dataclass(frozen=True)
class Found:
    """What a look-up found; slots and distances go one past k, so that a tie at the end is seen."""

    states: NDArray[np.float32]  # (n, dim)
    slots: NDArray[np.int64]  # (n, n_actions, k + 1), -1 where there is none
    squared: NDArray[np.float64]  # (n, n_actions, k + 1), inf where there is none
    unsure: NDArray[np.bool_]  # (n, n_actions): more entries may be as near as these


class DeviceEncoder(Protocol):
    """An embedding that a device can take over; it travels between processes."""

    @property
    def digest(self) -> str:
        """Equal for equal encoders: those of several runs are one on the device."""

    @property
    def observation_shape(self) -> tuple[int, ...]: ...

    def on(self, device: str) -> Callable[[NDArray[np.uint8]], NDArray[np.float32]]:
        """From observations, uint8 (n, *observation_shape), to states, float32 (n, dim), by that device."""


class Channel(Protocol):
    """What a run asks of the device, in this process or in the one that owns the device."""

    device: DeviceName

    def open(self, n_actions: int, capacity: int, dim: int) -> None:
        """Make room for the action buffers of the run."""

    def project_with(self, weights: NDArray[np.float32]) -> None:
        """From now on look-ups of bytes are projected by these weights, float32 (observation size, dim)."""

    def encode_with(self, encoder: DeviceEncoder) -> None:
        """From now on look-ups of bytes are encoded by this."""

    def store(self, actions: NDArray[np.int64], slots: NDArray[np.int64], states: NDArray[np.float32]) -> None:
        """Put states, float32 (n, dim), into these slots; of two for the same slot the later one stays."""

    def look_up(self, seen: NDArray[Any], wanted: NDArray[np.bool_], k: int) -> Found:
        """The nearest entries in the wanted buffers, bool (n, n_actions).

        seen: observations, uint8 (n, size), to be projected on the device, or states, float32 (n, dim).
        """

    def rows(self, actions: NDArray[np.int64], slots: NDArray[np.int64]) -> NDArray[np.float32]:
        """States, float32 (n, dim), of these slots."""

    def distances(self, state: NDArray[np.float32], action: int) -> NDArray[np.float64]:
        """Squared distances of all entries of one action, in slot order."""
