"""Launches of the GPU kernels, recorded as CUDA graphs.

Launched one by one, the copies and kernels of a look-up cost half a millisecond of Python, more than most searches
take. So sizes are rounded up to powers of two, and the launches for each such shape are recorded once. A look-up then
fills a buffer, replays the recording, waits, and reads a buffer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import DTypeLike, NDArray

from mfec.device.buffers import ActionBuffers
from mfec.device.channel import Network
from mfec.device.kernels import SearchShape, search, write_rows
from mfec.device.layout import PAGE, WAITING
from mfec.device.plan import UNUSED, Plan

SCRATCH_BYTES = 2**28  # for the first pass; a search that needs more is made in several parts
FEWEST = 8  # jobs and pairs that a shape is rounded up to
FEWEST_PAGES = 16


class Launches:
    """All searches on one device, each recorded when its shape comes the second time."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._recordings: dict[tuple[SearchShape, Network | None], _Recording] = {}
        self._pool = torch.cuda.graph_pool_handle() if device.type == "cuda" else None

    def search(
        self,
        plan: Plan,
        inputs: list[NDArray[Any]],
        embed: Network | list[torch.Tensor] | None,
        buffers: list[ActionBuffers],
        k: int,
    ) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
        """The states of the plan's chunks and the results of its pairs, as `kernels.search` fills them.

        embed: how observations become states: a network, or a projection for each request; None where states are given.
        buffers: of each request; what waits to be written there is written first.
        """
        shape = SearchShape(
            chunks=_round_up(plan.chunks),
            width=plan.width,
            jobs=_round_up(len(plan.jobs), FEWEST),
            pairs=_round_up(len(plan.pairs), FEWEST) if len(plan.pairs) else 0,
            pages=_round_up(-(-plan.largest // PAGE), FEWEST_PAGES),
            k=k,
            dim=buffers[0].dim,
            size=0 if embed is None else inputs[0].shape[1],
        )
        if shape.scratch_bytes <= SCRATCH_BYTES:
            whole = slice(0, len(plan.jobs)), slice(0, len(plan.pairs))
            return self._go(shape, plan, inputs, embed, buffers, *whole)
        # Too much memory at once: search some of the jobs at a time, a power of two of them.
        at_once = shape.jobs
        while at_once > 1 and replace(shape, jobs=at_once).scratch_bytes > SCRATCH_BYTES:
            at_once //= 2
        found = np.empty((len(plan.pairs), 2 * k + 3))
        for first in range(0, len(plan.jobs), at_once):
            jobs = slice(first, min(first + at_once, len(plan.jobs)))
            pairs = slice(*np.searchsorted(plan.pairs[:, 0], [jobs.start, jobs.stop]).tolist())
            part = replace(shape, jobs=at_once, pairs=_round_up(pairs.stop - pairs.start, FEWEST))
            states, found[pairs] = self._go(part, plan, inputs, embed, buffers, jobs, pairs)
        return states, found

    def _go(
        self,
        shape: SearchShape,
        plan: Plan,
        inputs: list[NDArray[Any]],
        embed: Network | list[torch.Tensor] | None,
        buffers: list[ActionBuffers],
        jobs: slice,
        pairs: slice,
    ) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
        network = embed if callable(embed) else None
        if (shape, network) not in self._recordings:
            self._recordings[shape, network] = _Recording(shape, network, self._device)
        recording = self._recordings[shape, network]
        recording.fill_in(plan.jobs[jobs], plan.pairs[pairs], jobs.start * plan.width, jobs.start)
        recording.write_first(buffers)
        for i, (rows, place) in enumerate(zip(inputs, plan.places, strict=True)):
            if len(rows) == 0:
                continue
            end = place + -(-len(rows) // plan.width) * plan.width
            recording.inputs[place : place + len(rows)] = rows
            recording.inputs[place + len(rows) : end] = rows[0]  # padding must not move the middle of the queries
            if isinstance(embed, list):
                recording.addresses[place:end] = embed[i].data_ptr()
        recording.play(self._pool)
        return recording.states.copy(), recording.found[: pairs.stop - pairs.start]


class _Recording:
    """The buffers of one shape on host and device, and the recorded launches."""

    def __init__(self, shape: SearchShape, network: Network | None, device: torch.device) -> None:
        self._shape, self._network = shape, network
        rows = shape.chunks * shape.width
        width, kind = (shape.size, np.uint8) if shape.size else (shape.dim, np.float32)
        numbers = 4 * shape.jobs + 4 * shape.pairs + (rows if shape.size else 0)
        results = shape.pairs * (2 * shape.k + 3)
        # Eight-byte numbers come first and bytes last, so that every array is aligned.
        first, second = 8 * (numbers + WAITING), 8 * (numbers + WAITING) + 4 * WAITING * shape.dim
        self._up = HostAndDevice(second + rows * width * np.dtype(kind).itemsize, np.uint8, device)
        self._down = HostAndDevice(8 * results + 4 * rows * shape.dim, np.uint8, device)
        host, on_device = self._up.host, self._up.on_device
        self._numbers, self._numbers_on_device = (
            host[: 8 * numbers].view(np.int64),
            on_device[: 8 * numbers].view(torch.int64),
        )
        self._jobs = self._numbers[: 4 * shape.jobs].reshape(-1, 4)
        self._pairs = self._numbers[4 * shape.jobs : 4 * (shape.jobs + shape.pairs)].reshape(-1, 4)
        self.addresses = self._numbers[4 * (shape.jobs + shape.pairs) :]
        self._waiting = (
            host[8 * numbers : first].view(np.int64),
            host[first:second].view(np.float32).reshape(WAITING, -1),
        )
        rows_on_device = on_device[first:second].view(torch.float32).view(WAITING, -1)
        self._waiting_on_device = on_device[8 * numbers : first].view(torch.int64), rows_on_device
        self.inputs = host[second:].view(kind).reshape(rows, width)
        inputs_on_device = on_device[second:] if shape.size else on_device[second:].view(torch.float32)
        self._inputs_on_device = inputs_on_device.view(rows, width)
        host, on_device = self._down.host, self._down.on_device
        self.found = host[: 8 * results].view(np.float64).reshape(-1, 2 * shape.k + 3)
        self.states = host[8 * results :].view(np.float32).reshape(rows, shape.dim)
        self._found_on_device = on_device[: 8 * results].view(torch.float64)
        self._states_on_device = on_device[8 * results :].view(torch.float32).view(rows, shape.dim)
        self._recorded = Recorded(self._launch, device)
        self.inputs[:] = 0

    def fill_in(self, jobs: NDArray[np.int64], pairs: NDArray[np.int64], first_minimum: int, first_job: int) -> None:
        """Write jobs and pairs, numbered from the first of them; the rest is marked unused."""
        self._jobs[: len(jobs)] = jobs
        self._jobs[len(jobs) :] = 0
        self._pairs[: len(pairs)] = pairs
        self._pairs[len(pairs) :, 0] = UNUSED
        if first_job:
            self._pairs[: len(pairs), :2] -= first_job, first_minimum
        self.addresses[:] = 0

    def write_first(self, buffers: list[ActionBuffers]) -> None:
        """Take along what waits to be written."""
        addresses, rows = self._waiting
        n = 0
        for own in buffers:
            n += own.take_waiting(addresses[n:], rows[n:])
        addresses[n:] = 0

    def play(self, pool: Any) -> None:
        """Copy to the device, search, copy back, and wait."""
        self._recorded.start(pool)
        self._recorded.wait()

    def _launch(self) -> None:
        self._up.send()
        write_rows(*self._waiting_on_device)
        search(
            self._shape, self._inputs_on_device, self._numbers_on_device, self._states_on_device,
            self._found_on_device, self._network,
        )  # fmt: skip
        self._down.fetch()


class Recorded:
    """Launches that are recorded when they are started the second time, on a GPU; on the CPU they are made each time.

    The first time kernels are compiled and libraries choose theirs, which cannot be recorded.
    """

    def __init__(self, launch: Callable[[], None], device: torch.device) -> None:
        self._launch, self._device = launch, device
        self._graph: torch.cuda.CUDAGraph | None = None
        self._started = False

    def start(self, pool: Any = None) -> None:
        """Make the launches, without waiting for what they do."""
        if self._graph is None and self._started and self._device.type == "cuda":
            self._graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self._graph, pool=pool):
                self._launch()
        if self._graph is None:
            self._launch()
        else:
            self._graph.replay()
        self._started = True

    def wait(self) -> None:
        """Wait for all that was started on the device."""
        if self._device.type == "cuda":
            torch.cuda.current_stream(self._device).synchronize()


class HostAndDevice:
    """An array on the device and its like on the host, pinned so that copies run at full speed."""

    def __init__(self, shape: int | tuple[int, ...], dtype: DTypeLike, device: torch.device) -> None:
        kind = torch.from_numpy(np.zeros(0, dtype)).dtype
        self._host = torch.zeros(shape, dtype=kind, pin_memory=device.type == "cuda")
        self.host: NDArray[Any] = self._host.numpy()
        self.on_device = torch.zeros(shape, dtype=kind, device=device)

    def send(self) -> None:
        """Copy to the device, when what was launched before is done."""
        self.on_device.copy_(self._host, non_blocking=True)

    def fetch(self) -> None:
        """Copy back, likewise."""
        self._host.copy_(self.on_device, non_blocking=True)


def _round_up(number: int, fewest: int = 1) -> int:
    """The next power of two, and at least `fewest`."""
    return max(fewest, 1 << max(0, number - 1).bit_length())
