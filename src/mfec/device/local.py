"""A channel to a device in the same process."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from mfec.config import DeviceName
from mfec.device.buffers import ActionBuffers
from mfec.device.channel import DeviceEncoder, DeviceError, Network, Response
from mfec.device.engine import Engine, Request, Run


class LocalChannel:
    """A channel to an engine in this process."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.device: DeviceName = "cuda" if engine.device.type == "cuda" else "cpu"
        self._run: Run | None = None

    @property
    def run(self) -> Run:
        """What the device keeps of the run."""
        if self._run is None:
            raise DeviceError("no buffers were opened on this channel")
        return self._run

    @property
    def buffers(self) -> ActionBuffers:
        """The action buffers of the run."""
        return self.run.buffers

    def open(self, n_actions: int, capacity: int, dim: int) -> None:
        """Make room for the action buffers of the run."""
        self._run = self._engine.add_run(n_actions, capacity, dim)

    def project_with(self, weights: NDArray[np.float32]) -> None:
        """Project observations by these weights from now on."""
        self.run.weights = torch.from_numpy(np.array(weights)).to(self._engine.device)

    def encode_with(self, encoder: DeviceEncoder) -> None:
        """Encode observations by this encoder from now on."""
        self.run.encoder = self._engine.add_encoder(encoder)

    def embed_by(self, network: Network) -> bool:
        """Embed observations by this network from now on, as it is when they come; True."""
        self.run.network = network
        return True

    def store(self, actions: NDArray[np.int64], slots: NDArray[np.int64], states: NDArray[np.float32]) -> None:
        """Put states into these slots."""
        try:
            self.run.buffers.store(actions, slots, states)
        except torch.OutOfMemoryError:
            taken = self.run.buffers.nbytes
            raise DeviceError(
                f"the device has no room for more entries: this run holds {taken / 1e9:.2f} GB of it; "
                "a smaller --capacity bounds that"
            ) from None

    def shrink(self, sizes: NDArray[np.int64]) -> None:
        """Forget the states beyond these sizes."""
        self.run.buffers.shrink(sizes)

    def look_up(self, inputs: NDArray[Any], wanted: NDArray[np.bool_], k: int) -> Response:
        """The nearest entries in the wanted buffers."""
        return self._engine.look_up([Request(self.run, inputs, wanted, k)])[0]

    def rows(self, actions: NDArray[np.int64], slots: NDArray[np.int64]) -> NDArray[np.float32]:
        """States of these slots."""
        return self.run.buffers.rows(actions, slots)

    def distances(self, state: NDArray[np.float32], action: int) -> NDArray[np.float64]:
        """Squared distances of all entries of one action, in slot order."""
        return self._engine.distances(self.run, state, action)
