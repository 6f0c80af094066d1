"""Look-ups of one run or of many in one call: embed observations, then search the buffers of each run.

The search is exact. A first pass measures all entries in float32 and keeps the smallest distance of every block of 32:
the k nearest entries lie in the k blocks with the smallest minima. A few more blocks are taken because float32 rounds,
and their entries are ranked by their distance in float64. So a response does not depend on the other requests.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from mfec.device.buffers import ActionBuffers
from mfec.device.channel import DeviceEncoder, Network, Response
from mfec.device.plain import search_plain, squared_distances
from mfec.device.plan import Plan

if TYPE_CHECKING:
    from mfec.device.launches import Launches

MOST_QUERIES = 32  # that share one pass over a buffer


Encoder = Callable[[NDArray[np.uint8]], NDArray[np.float32]]  # (n, size) to (n, dim)


@dataclass
class Run:
    """What the device keeps of one run: its action buffers, and its projection, encoder or network if it has one."""

    buffers: ActionBuffers
    weights: torch.Tensor | None = None  # float32 (observation size, dim), multiples of 2**-20
    encoder: Encoder | None = None
    network: Network | None = None  # that learns, in this process


@dataclass(frozen=True)
class Request:
    """A look-up of one run: observations or states, and the actions to search."""

    run: Run
    inputs: NDArray[Any]  # observations, uint8 (n, size), or states, float32 (n, dim)
    wanted: NDArray[np.bool_]  # (n, n_actions)
    k: int


class Engine:
    """Searches buffers on one device, by Triton kernels if they run there, else in plain torch."""

    def __init__(self, device: str) -> None:
        self.device = torch.device(device)
        # The interpreter runs the kernels without a GPU, for tests.
        interpreted = os.environ.get("TRITON_INTERPRET") == "1"
        self.triton = importlib.util.find_spec("triton") is not None and (self.device.type == "cuda" or interpreted)
        self._launches: Launches | None = None
        self._encoders: dict[str, Encoder] = {}  # by digest

    def add_run(self, n_actions: int, capacity: int, dim: int) -> Run:
        """Make room for the buffers of a run."""
        return Run(ActionBuffers(n_actions, capacity, dim, self.device, by_kernels=self.triton))

    def add_encoder(self, encoder: DeviceEncoder) -> Encoder:
        """Load an encoder; equal ones are loaded once."""
        if encoder.digest not in self._encoders:
            encode, shape = encoder.on(self.device.type), encoder.observation_shape
            self._encoders[encoder.digest] = lambda inputs: encode(inputs.reshape(-1, *shape))
        return self._encoders[encoder.digest]

    def look_up(self, requests: list[Request]) -> list[Response]:
        """The responses to all requests; requests of the same k and shape are one search."""
        requests = _encoded(requests)
        responses: dict[int, Response] = {}
        alike: dict[tuple[Any, ...], list[int]] = {}
        for i, request in enumerate(requests):
            kind = (
                request.k, request.run.buffers.dim, request.inputs.dtype, request.inputs.shape[1], request.run.network
            )  # fmt: skip
            alike.setdefault(kind, []).append(i)
        look_up = self._by_kernels if self.triton else self._by_plain_torch
        for members in alike.values():
            responses.update(zip(members, look_up([requests[i] for i in members]), strict=True))
        return [responses[i] for i in range(len(requests))]

    def distances(self, run: Run, state: NDArray[np.float32], action: int) -> NDArray[np.float64]:
        """Squared distances of all entries of one action from a state, in slot order."""
        query = torch.from_numpy(np.array(state)).to(self.device)
        return squared_distances(run.buffers.entries(action), query).cpu().numpy()

    def _by_kernels(self, requests: list[Request]) -> list[Response]:
        from mfec.device.launches import Launches

        k = requests[0].k
        buffers = [request.run.buffers for request in requests]
        plan = Plan(
            [request.wanted for request in requests],
            [own.sizes for own in buffers],
            [(own.table.data_ptr(), 8 * own.table.shape[1]) for own in buffers],
            MOST_QUERIES,
        )
        self._launches = self._launches or Launches(self.device)
        embed = None
        if requests[0].inputs.dtype == np.uint8:
            embed = requests[0].run.network or [_weights(request) for request in requests]
        inputs = [request.inputs for request in requests]
        states, found = self._launches.search(plan, inputs, embed, buffers, k)
        slots, squared, unsure = plan.spread(found, k)
        responses, row = [], 0
        for request, place in zip(requests, plan.places, strict=True):
            n, n_actions = request.wanted.shape
            own = (slice(row, row + n), slice(0, n_actions))
            responses.append(Response(states[place : place + n], slots[own], squared[own], unsure[own]))
            row += n
        return responses

    def _by_plain_torch(self, requests: list[Request]) -> list[Response]:
        found = []
        for request in requests:
            states = torch.from_numpy(np.ascontiguousarray(request.inputs)).to(self.device)
            if request.inputs.dtype == np.uint8 and request.run.network is not None:
                with torch.no_grad():
                    states = request.run.network(states)
            elif request.inputs.dtype == np.uint8:
                states = (states.double() @ _weights(request).double()).float()
            slots, squared, unsure = search_plain(request.run.buffers, states, request.wanted, request.k)
            found.append(Response(states.cpu().numpy(), slots, squared, unsure))
        return found


def _encoded(requests: list[Request]) -> list[Request]:
    """The requests with observations encoded, if their run has an encoder; one batch for each encoder."""
    by_encoder: dict[Encoder, list[int]] = {}
    for i, request in enumerate(requests):
        if request.run.encoder is not None and request.inputs.dtype == np.uint8:
            by_encoder.setdefault(request.run.encoder, []).append(i)
    requests = list(requests)
    for encode, members in by_encoder.items():
        states = encode(np.concatenate([requests[i].inputs for i in members]))
        row = 0
        for i in members:
            rows = len(requests[i].inputs)
            requests[i] = replace(requests[i], inputs=states[row : row + rows])
            row += rows
    return requests


def _weights(request: Request) -> torch.Tensor:
    weights = request.run.weights
    if weights is None or len(weights) != request.inputs.shape[1]:
        raise ValueError(f"there is no projection for observations of {request.inputs.shape[1]} numbers")
    return weights
