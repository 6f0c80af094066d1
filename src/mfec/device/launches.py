"""Launches of the GPU kernels, recorded as CUDA graphs.

Launched one by one, the copies and kernels of a look-up cost half a millisecond of Python, more than most searches
take. So sizes are rounded up to powers of two, and the launches for each such shape are recorded once. A look-up then
fills a buffer, replays the recording, waits, and reads a buffer.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from mfec.device.kernels import SearchShape, search
from mfec.device.layout import PAGE
from mfec.device.plan import UNUSED, Plan

SCRATCH_BYTES = 2**28  # for the first pass; a search that needs more is made in several parts
FEWEST = 8  # jobs and pairs that a shape is rounded up to
FEWEST_PAGES = 16


class Launches:
    """All searches on one device, each recorded when its shape comes the second time."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._recordings: dict[SearchShape, _Recording] = {}
        self._pool = torch.cuda.graph_pool_handle() if device.type == "cuda" else None

    def search(
        self, plan: Plan, inputs: list[NDArray[np.uint8]], weights: list[torch.Tensor], dim: int, k: int
    ) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
        """The states of the plan's chunks and the results of its pairs, as `kernels.search` fills them."""
        shape = SearchShape(
            chunks=_round_up(plan.chunks),
            width=plan.width,
            jobs=_round_up(len(plan.jobs), FEWEST),
            pairs=_round_up(len(plan.pairs), FEWEST) if len(plan.pairs) else 0,
            pages=_round_up(-(-plan.largest // PAGE), FEWEST_PAGES),
            k=k,
            dim=dim,
            size=inputs[0].shape[1] if weights else 0,
        )
        if shape.scratch_bytes <= SCRATCH_BYTES:
            return self._go(shape, plan, inputs, weights, slice(0, len(plan.jobs)), slice(0, len(plan.pairs)))
        # Too much memory at once: search some of the jobs at a time, a power of two of them.
        at_once = shape.jobs
        while at_once > 1 and replace(shape, jobs=at_once).scratch_bytes > SCRATCH_BYTES:
            at_once //= 2
        found = np.empty((len(plan.pairs), 2 * k + 3))
        for first in range(0, len(plan.jobs), at_once):
            jobs = slice(first, min(first + at_once, len(plan.jobs)))
            pairs = slice(*np.searchsorted(plan.pairs[:, 0], [jobs.start, jobs.stop]).tolist())
            part = replace(shape, jobs=at_once, pairs=_round_up(pairs.stop - pairs.start, FEWEST))
            states, found[pairs] = self._go(part, plan, inputs, weights, jobs, pairs)
        return states, found

    def _go(
        self,
        shape: SearchShape,
        plan: Plan,
        inputs: list[NDArray[np.uint8]],
        weights: list[torch.Tensor],
        jobs: slice,
        pairs: slice,
    ) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
        if shape not in self._recordings:
            self._recordings[shape] = _Recording(shape, self._device)
        recording = self._recordings[shape]
        recording.fill_in(plan.jobs[jobs], plan.pairs[pairs], jobs.start * plan.width, jobs.start)
        for i, (rows, place) in enumerate(zip(inputs, plan.places, strict=True)):
            if len(rows) == 0:
                continue
            end = place + -(-len(rows) // plan.width) * plan.width
            recording.inputs[place : place + len(rows)] = rows
            recording.inputs[place + len(rows) : end] = rows[0]  # padding must not move the middle of the queries
            if weights:
                recording.addresses[place:end] = weights[i].data_ptr()
        recording.play(self._pool)
        return recording.states.copy(), recording.found[: pairs.stop - pairs.start]


class _Recording:
    """The buffers of one shape on host and device, and the recorded launches."""

    def __init__(self, shape: SearchShape, device: torch.device) -> None:
        self._shape, self._device = shape, device
        rows = shape.chunks * shape.width
        width, kind = (shape.size, np.uint8) if shape.size else (shape.dim, np.float32)
        numbers = 4 * shape.jobs + 4 * shape.pairs + (rows if shape.size else 0)
        results = shape.pairs * (2 * shape.k + 3)
        # Eight-byte numbers come first, so that every array is aligned.
        self._up = _HostAndDevice(8 * numbers + rows * width * np.dtype(kind).itemsize, device)
        self._down = _HostAndDevice(8 * results + 4 * rows * shape.dim, device)
        host, on_device = self._up.host.numpy(), self._up.on_device
        self._numbers, self._numbers_on_device = (
            host[: 8 * numbers].view(np.int64),
            on_device[: 8 * numbers].view(torch.int64),
        )
        self._jobs = self._numbers[: 4 * shape.jobs].reshape(-1, 4)
        self._pairs = self._numbers[4 * shape.jobs : 4 * (shape.jobs + shape.pairs)].reshape(-1, 4)
        self.addresses = self._numbers[4 * (shape.jobs + shape.pairs) :]
        self.inputs = host[8 * numbers :].view(kind).reshape(rows, width)
        inputs_on_device = on_device[8 * numbers :] if shape.size else on_device[8 * numbers :].view(torch.float32)
        self._inputs_on_device = inputs_on_device.view(rows, width)
        host, on_device = self._down.host.numpy(), self._down.on_device
        self.found = host[: 8 * results].view(np.float64).reshape(-1, 2 * shape.k + 3)
        self.states = host[8 * results :].view(np.float32).reshape(rows, shape.dim)
        self._found_on_device = on_device[: 8 * results].view(torch.float64)
        self._states_on_device = on_device[8 * results :].view(torch.float32).view(rows, shape.dim)
        self._graph: torch.cuda.CUDAGraph | None = None
        self._played = False
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

    def play(self, pool: Any) -> None:
        """Copy to the device, search, copy back, and wait."""
        if self._device.type == "cpu":
            self._launch()
            return
        if self._graph is not None:
            self._graph.replay()
        elif not self._played:  # kernels are compiled on first use, which cannot be recorded
            self._launch()
        else:
            self._graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self._graph, pool=pool):
                self._launch()
            self._graph.replay()
        self._played = True
        torch.cuda.current_stream(self._device).synchronize()

    def _launch(self) -> None:
        self._up.on_device.copy_(self._up.host, non_blocking=True)
        search(
            self._shape, self._inputs_on_device, self._numbers_on_device, self._states_on_device, self._found_on_device
        )
        self._down.host.copy_(self._down.on_device, non_blocking=True)


class _HostAndDevice:
    """Bytes on the device and as many on the host, pinned so that copies run at full speed."""

    def __init__(self, size: int, device: torch.device) -> None:
        on_gpu = device.type == "cuda"
        self.host = torch.zeros(size, dtype=torch.uint8, pin_memory=on_gpu)
        self.on_device = torch.zeros(size, dtype=torch.uint8, device=device) if on_gpu else torch.zeros_like(self.host)


def _round_up(number: int, fewest: int = 1) -> int:
    """The next power of two, and at least `fewest`."""
    return max(fewest, 1 << max(0, number - 1).bit_length())
