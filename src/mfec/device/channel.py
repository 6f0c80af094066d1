"""The interface between a run and the device that keeps its states. Nothing here needs torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mfec.config import DeviceName
from mfec.errors import MfecError

if TYPE_CHECKING:
    from mfec.device.buffers import ActionBuffers


Network = Callable[[Any], Any]  # a torch module: observations, uint8 (n, size), to states, float32 (n, dim)


class DeviceError(MfecError):
    """A device that is not there, is full, or has failed."""


@dataclass(frozen=True)
class Response:
    """The nearest entries: one more than k, so that a tie between the last two is noticed."""

    states: NDArray[np.float32]  # (n, dim)
    slots: NDArray[np.int64]  # (n, n_actions, k + 1), -1 where there is none
    squared: NDArray[np.float64]  # (n, n_actions, k + 1), inf where there is none
    unsure: NDArray[np.bool_]  # (n, n_actions): other entries may be as near as these


class DeviceEncoder(Protocol):
    """An embedding that can run on a device; it can be pickled."""

    @property
    def digest(self) -> str:
        """Equal for equal encoders, of which the device keeps only one."""

    @property
    def observation_shape(self) -> tuple[int, ...]: ...

    def on(self, device: str) -> Callable[[NDArray[np.uint8]], NDArray[np.float32]]:
        """The function from observations, uint8 (n, *observation_shape), to states, float32 (n, dim), on a device."""


class Channel(Protocol):
    """A run's way to a device, which this process or another one owns."""

    device: DeviceName

    @property
    def buffers(self) -> ActionBuffers | None:
        """The action buffers of the run; None where another process owns them."""

    def open(self, n_actions: int, capacity: int, dim: int) -> None:
        """Make room for the action buffers of the run."""

    def project_with(self, weights: NDArray[np.float32]) -> None:
        """Project observations by these weights, float32 (observation size, dim), from now on."""

    def encode_with(self, encoder: DeviceEncoder) -> None:
        """Encode observations by this encoder from now on."""

    def embed_by(self, network: Network) -> bool:
        """Embed observations by this network from now on, as it is when they come; False if it is out of reach."""

    def store(self, actions: NDArray[np.int64], slots: NDArray[np.int64], states: NDArray[np.float32]) -> None:
        """Put states, float32 (n, dim), into these slots; if two are for the same slot, the later one stays."""

    def shrink(self, sizes: NDArray[np.int64]) -> None:
        """Forget the states beyond these sizes, one for each action."""

    def look_up(self, inputs: NDArray[Any], wanted: NDArray[np.bool_], k: int) -> Response:
        """The nearest entries in the wanted buffers, bool (n, n_actions).

        inputs: observations, uint8 (n, size), which the device embeds, or states, float32 (n, dim).
        """

    def rows(self, actions: NDArray[np.int64], slots: NDArray[np.int64]) -> NDArray[np.float32]:
        """States, float32 (n, dim), of these slots."""

    def distances(self, state: NDArray[np.float32], action: int) -> NDArray[np.float64]:
        """Squared distances between a state and all entries of one action, in slot order."""
