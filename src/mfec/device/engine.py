"""Look-ups of one run or of many, merged: project observations, search every run's own buffers, one trip to the device.

The answer is exact. A first pass measures all entries in float32 and keeps the smallest distance of every 32; the k
nearest entries lie in the k blocks with the smallest of these. A few blocks more are taken for what float32 rounds, and
their entries are ranked by their distance in float64. So an answer does not depend on what else is looked up with it.
"""

from __future__ import annotations

import importlib.util
import os
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from mfec.device.buffers import ActionBuffers
from mfec.device.channel import Found
from mfec.device.plain import search_plain, squared_distances
from mfec.device.plan import Plan

MOST_QUERIES = 32  # that share one pass over a buffer


@dataclass
class Run:
    """What the device holds of one run: its action buffers, and its projection where it has one."""

    buffers: ActionBuffers
    weights: torch.Tensor | None = None  # float32 (observation size, dim), multiples of 2**-20


@dataclass(frozen=True)
class Request:
    """Look-ups of one run: what was seen, and which actions are to be searched."""

    run: Run
    seen: NDArray[Any]  # observations, uint8 (n, size), to be projected, or states, float32 (n, dim)
    wanted: NDArray[np.bool_]  # (n, n_actions)
    k: int


class Engine:
    """Searches buffers on one device, with Triton's kernels where they run and plain torch elsewhere."""

    def __init__(self, device: str) -> None:
        self.device = torch.device(device)
        # The interpreter, which the tests use, runs the kernels without a GPU.
        interpreted = os.environ.get("TRITON_INTERPRET") == "1"
        self.triton = importlib.util.find_spec("triton") is not None and (self.device.type == "cuda" or interpreted)
        self._up = _Staging(self.device)
        self._down = _Staging(self.device)

    def add_run(self, n_actions: int, capacity: int, dim: int) -> Run:
        """Room for the buffers of a run."""
        return Run(ActionBuffers(n_actions, capacity, dim, self.device))

    def look_up(self, requests: list[Request]) -> list[Found]:
        """What all requests find, in one go for those of the same k and shape."""
        answers: dict[int, Found] = {}
        alike: dict[tuple[Any, ...], list[int]] = {}
        for i, request in enumerate(requests):
            kind = (request.k, request.run.buffers.dim, request.seen.dtype, request.seen.shape[1])
            alike.setdefault(kind, []).append(i)
        look_up = self._by_kernels if self.triton else self._by_plain_torch
        for members in alike.values():
            answers.update(zip(members, look_up([requests[i] for i in members]), strict=True))
        return [answers[i] for i in range(len(requests))]

    def distances(self, run: Run, state: NDArray[np.float32], action: int) -> NDArray[np.float64]:
        """Squared distances of all entries of one action from a state, in slot order."""
        asked = torch.from_numpy(np.array(state)).to(self.device)
        return squared_distances(run.buffers.entries(action), asked).cpu().numpy()

    def _by_kernels(self, requests: list[Request]) -> list[Found]:
        from mfec.device import kernels

        k, dim = requests[0].k, requests[0].run.buffers.dim
        buffers = [request.run.buffers for request in requests]
        plan = Plan(
            [request.wanted for request in requests],
            [own.sizes for own in buffers],
            [(own.table.data_ptr(), 8 * own.table.shape[1]) for own in buffers],
            MOST_QUERIES,
        )
        seen = np.concatenate([request.seen for request in requests]) if len(requests) > 1 else requests[0].seen
        projected = seen.dtype == np.uint8
        numbers = [plan.jobs.reshape(-1), plan.pairs.reshape(-1), plan.rows]
        if projected:  # each row has its own run's matrix
            addresses = [_weights(request).data_ptr() for request in requests]
            numbers.append(np.repeat(addresses, [len(request.seen) for request in requests]))
        seen_there, numbers_there = self._up.send(seen, np.concatenate(numbers))
        jobs, pairs, rows = (
            numbers_there[: plan.jobs.size],
            numbers_there[plan.jobs.size :],
            numbers_there[plan.jobs.size + plan.pairs.size :],
        )
        # States, then the answers, in one piece of memory that comes back in one go.
        size = 8 * len(plan.pairs) * (2 * k + 3)
        answer = torch.empty(size + 4 * len(seen) * dim, dtype=torch.uint8, device=self.device)
        states = answer[size:].view(torch.float32).view(len(seen), dim)
        if projected:
            kernels.launch_project(seen_there, rows[len(plan.rows) :], states)
        else:
            states.copy_(seen_there)
        if len(plan.pairs):
            queries = states if plan.width == 1 else states[rows[: len(plan.rows)]]
            queries = queries.view(-1, plan.width, dim).transpose(1, 2).contiguous()
            kernels.search(queries, jobs, pairs, answer[:size].view(torch.float64), k, plan)
        back = self._down.fetch(answer)
        host_states = back[size:].view(np.float32).reshape(len(seen), dim).copy()
        slots, squared, unsure = plan.spread(back[:size].view(np.float64).reshape(-1, 2 * k + 3), k)
        answers, row = [], 0
        for request in requests:
            n, n_actions = request.wanted.shape
            own = (slice(row, row + n), slice(0, n_actions))
            answers.append(Found(host_states[row : row + n], slots[own], squared[own], unsure[own]))
            row += n
        return answers

    def _by_plain_torch(self, requests: list[Request]) -> list[Found]:
        found = []
        for request in requests:
            states = torch.from_numpy(request.seen).to(self.device)
            if request.seen.dtype == np.uint8:
                states = (states.double() @ _weights(request).double()).float()
            slots, squared, unsure = search_plain(request.run.buffers, states, request.wanted, request.k)
            found.append(Found(states.cpu().numpy(), slots, squared, unsure))
        return found


def _weights(request: Request) -> torch.Tensor:
    weights = request.run.weights
    if weights is None or len(weights) != request.seen.shape[1]:
        raise ValueError(f"there is no projection for observations of {request.seen.shape[1]} numbers")
    return weights


class _Staging:
    """A piece of host memory that is pinned, so that copies to and from a GPU run at full speed."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._pinned = torch.empty(0, dtype=torch.uint8)

    def send(self, seen: NDArray[Any], numbers: NDArray[np.int64]) -> tuple[torch.Tensor, torch.Tensor]:
        """Both arrays on the device, by one copy."""
        room = self._room(numbers.nbytes + seen.nbytes)
        host = room.numpy()
        host[: numbers.nbytes] = numbers.view(np.uint8)
        host[numbers.nbytes :] = np.ascontiguousarray(seen).reshape(-1).view(np.uint8)
        there = room.to(self._device, non_blocking=True)
        there_seen = there[numbers.nbytes :]
        if seen.dtype != np.uint8:
            there_seen = there_seen.view(torch.float32)
        return there_seen.view(seen.shape), there[: numbers.nbytes].view(torch.int64)

    def fetch(self, tensor: torch.Tensor) -> NDArray[np.uint8]:
        """The tensor's bytes on the host, valid until the next call."""
        if self._device.type == "cpu":
            return tensor.numpy()
        room = self._room(len(tensor))
        room.copy_(tensor, non_blocking=True)
        torch.cuda.current_stream(self._device).synchronize()
        return room.numpy()

    def _room(self, size: int) -> torch.Tensor:
        if len(self._pinned) < size:
            self._pinned = torch.empty(2 * size, dtype=torch.uint8, pin_memory=self._device.type == "cuda")
        return self._pinned[:size]
