"""The networks that make keys of observations."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

try:
    import torch
except ImportError:
    raise ImportError("Neural Episodic Control needs the extra `torch`: pip install 'mfec[torch]'") from None
from torch import nn

from mfec.device import Channel
from mfec.envs.spaces import n_planes
from mfec.errors import MfecError


class Diverged(MfecError):
    """Learning that has come to numbers that float32 does not hold."""

    def __init__(self, what: str) -> None:
        super().__init__(
            f"the network has diverged ({what} are no finite numbers): it needs smaller rewards or smaller step sizes"
        )


class KeyNetwork(nn.Module):
    """From observation to key: DQN's convolutions (Mnih et al., 2015) for pictures, two small layers for numbers.

    The layer of 512 units that DQN has before its values is followed by one more, of `dim` numbers: the key.

    Args:
        space: of the observations. Pictures are bytes, one (height, width) or a stack of them (n, height, width); a
            `Discrete` observation is a one-hot vector, anything else a vector of numbers as they are.
        dim: numbers in a key.
    """

    def __init__(self, space: spaces.Box | spaces.Discrete[Any], dim: int) -> None:
        super().__init__()
        self._shape = space.shape or ()
        self._n, self._start = (int(space.n), int(space.start)) if isinstance(space, spaces.Discrete) else (0, 0)
        self._planes = n_planes(space)
        size = self._n or int(np.prod(self._shape))
        if self._planes:
            height, width = self._shape[-2:]
            trunk = [
                nn.Conv2d(self._planes, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(),
                nn.Conv2d(64, 64, 3, 1), nn.ReLU(), nn.Flatten(),
            ]  # fmt: skip
            with torch.no_grad():
                flat = nn.Sequential(*trunk)(torch.zeros(1, self._planes, height, width)).shape[1]
            self.layers = nn.Sequential(*trunk, nn.Linear(flat, 512), nn.ReLU(), nn.Linear(512, dim))
        else:
            self.layers = nn.Sequential(
                nn.Linear(size, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, dim)
            )
        # Torch's own weights are so small that all pictures of a game have one key: the nearest of 3,500 states of
        # Q*bert lies at a squared distance of 2e-7, far below delta, and all neighbours weigh the same. With these it
        # lies at 4e-3, that of Ms. Pac-Man at 5e-2.
        for layer in self.layers:
            if isinstance(layer, (nn.Linear, nn.Conv2d)):
                nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
                if layer.bias is not None:
                    nn.init.zeros_(layer.bias)

    def forward(self, observations: torch.Tensor) -> torch.Tensor:
        """Keys, float32 (n, dim), of observations (n, ...)."""
        if self._n:
            inputs = nn.functional.one_hot(observations.long() - self._start, self._n).float()
        elif observations.dtype == torch.uint8:
            inputs = observations.float() / 255.0
        else:
            inputs = observations.float()
        if self._planes:
            inputs = inputs.reshape(-1, self._planes, *self._shape[-2:])
        else:
            inputs = inputs.reshape(len(inputs), -1)
        keys: torch.Tensor = self.layers(inputs)
        return keys


class NetworkEmbedding:
    """A network as an agent's embedding: it makes states, the keys, while it is being learned."""

    name = "network"

    def __init__(self, network: KeyNetwork, dim: int, device: str) -> None:
        self.network, self.dim, self.device = network.to(device), dim, device

    def __call__(self, observations: NDArray[Any]) -> NDArray[np.float32]:
        """Keys, float32 (n, dim), of observations (n, ...)."""
        with torch.no_grad():
            return self.keys(observations).cpu().numpy()

    def hand_over(self, device: Channel) -> bool:
        """Let a device make keys of observations, if it can have the network itself."""
        return device.embed_by(self.network)

    def keys(self, observations: NDArray[Any]) -> torch.Tensor:
        """Keys that gradients can flow through."""
        shown = torch.from_numpy(np.ascontiguousarray(observations)).to(self.device)
        keys: torch.Tensor = self.network(shown)
        if not keys.isfinite().all():
            raise Diverged("keys")
        return keys
