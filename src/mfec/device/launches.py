"""Launches of the kernels: buffers that stay where they are, and one recording of everything that is launched.

Launched one by one, the copies and kernels of a look-up cost half a millisecond of Python, more than most searches
take. So numbers are rounded up to powers of two, the launches of each such shape are recorded once as a CUDA graph, and
a look-up is: fill a buffer, replay, wait, read a buffer.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from mfec.device.kernels import SearchShape, search
from mfec.device.layout import PAGE
from mfec.device.plan import NOBODY, Plan

SCRATCH_BYTES = 2**28  # for the first pass; what needs more is searched in several goes
FEWEST = 8  # jobs and pairs that a shape is rounded up to
FEWEST_PAGES = 16


class Launches:
    """All searches on one device, each recorded when its shape comes the second time."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._recordings: dict[SearchShape, _Recording] = {}
        self._pool = torch.cuda.graph_pool_handle() if device.type == "cuda" else None

    def search(
        self, plan: Plan, seen: list[NDArray[np.uint8]], weights: list[torch.Tensor], dim: int, k: int
    ) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
        """States by place in the plan's chunks, and the answers to its pairs, as `kernels.search` fills them."""
        shape = SearchShape(
            chunks=_round_up(plan.chunks),
            width=plan.width,
            jobs=_round_up(len(plan.jobs), FEWEST),
            pairs=_round_up(len(plan.pairs), FEWEST) if len(plan.pairs) else 0,
            pages=_round_up(-(-plan.largest // PAGE), FEWEST_PAGES),
            k=k,
            dim=dim,
            size=seen[0].shape[1] if weights else 0,
        )
        if shape.scratch_bytes <= SCRATCH_BYTES:
            return self._go(shape, plan, seen, weights, slice(0, len(plan.jobs)), slice(0, len(plan.pairs)))
        # Too many at once: the same with some of the jobs at a time, which need a whole power of two of them too.
        at_once = shape.jobs
        while at_once > 1 and replace(shape, jobs=at_once).scratch_bytes > SCRATCH_BYTES:
            at_once //= 2
        found = np.empty((len(plan.pairs), 2 * k + 3))
        for first in range(0, len(plan.jobs), at_once):
            jobs = slice(first, min(first + at_once, len(plan.jobs)))
            pairs = slice(*np.searchsorted(plan.pairs[:, 0], [jobs.start, jobs.stop]).tolist())
            part = replace(shape, jobs=at_once, pairs=_round_up(pairs.stop - pairs.start, FEWEST))
            states, found[pairs] = self._go(part, plan, seen, weights, jobs, pairs)
        return states, found

    def _go(
        self,
        shape: SearchShape,
        plan: Plan,
        seen: list[NDArray[np.uint8]],
        weights: list[torch.Tensor],
        jobs: slice,
        pairs: slice,
    ) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
        if shape not in self._recordings:
            self._recordings[shape] = _Recording(shape, self._device)
        recording = self._recordings[shape]
        recording.fill_in(plan.jobs[jobs], plan.pairs[pairs], jobs.start * plan.width, jobs.start)
        for i, (rows, place) in enumerate(zip(seen, plan.places, strict=True)):
            if len(rows) == 0:
                continue
            end = place + -(-len(rows) // plan.width) * plan.width
            recording.seen[place : place + len(rows)] = rows
            recording.seen[place + len(rows) : end] = rows[0]  # any other would move the middle of the chunk's queries
            if weights:
                recording.addresses[place:end] = weights[i].data_ptr()
        recording.play(self._pool)
        return recording.states.copy(), recording.found[: pairs.stop - pairs.start]


class _Recording:
    """The buffers of one shape on both sides, and the recorded launches between them."""

    def __init__(self, shape: SearchShape, device: torch.device) -> None:
        self._shape, self._device = shape, device
        rows = shape.chunks * shape.width
        width, kind = (shape.size, np.uint8) if shape.size else (shape.dim, np.float32)
        numbers = 4 * shape.jobs + 4 * shape.pairs + (rows if shape.size else 0)
        answers = shape.pairs * (2 * shape.k + 3)
        # Eight-byte numbers first, so that everything lies where its type wants to.
        self._up = _Both(8 * numbers + rows * width * np.dtype(kind).itemsize, device)
        self._down = _Both(8 * answers + 4 * rows * shape.dim, device)
        host, there = self._up.host.numpy(), self._up.there
        self._numbers, self._numbers_there = host[: 8 * numbers].view(np.int64), there[: 8 * numbers].view(torch.int64)
        self._jobs = self._numbers[: 4 * shape.jobs].reshape(-1, 4)
        self._pairs = self._numbers[4 * shape.jobs : 4 * (shape.jobs + shape.pairs)].reshape(-1, 4)
        self.addresses = self._numbers[4 * (shape.jobs + shape.pairs) :]
        self.seen = host[8 * numbers :].view(kind).reshape(rows, width)
        seen_there = there[8 * numbers :] if shape.size else there[8 * numbers :].view(torch.float32)
        self._seen_there = seen_there.view(rows, width)
        host, there = self._down.host.numpy(), self._down.there
        self.found = host[: 8 * answers].view(np.float64).reshape(-1, 2 * shape.k + 3)
        self.states = host[8 * answers :].view(np.float32).reshape(rows, shape.dim)
        self._found_there = there[: 8 * answers].view(torch.float64)
        self._states_there = there[8 * answers :].view(torch.float32).view(rows, shape.dim)
        self._graph: torch.cuda.CUDAGraph | None = None
        self._played = False
        self.seen[:] = 0

    def fill_in(self, jobs: NDArray[np.int64], pairs: NDArray[np.int64], first_minimum: int, first_job: int) -> None:
        """Lay down jobs and pairs, numbered from the first of them; the rest is nobody's."""
        self._jobs[: len(jobs)] = jobs
        self._jobs[len(jobs) :] = 0
        self._pairs[: len(pairs)] = pairs
        self._pairs[len(pairs) :, 0] = NOBODY
        if first_job:
            self._pairs[: len(pairs), :2] -= first_job, first_minimum
        self.addresses[:] = 0

    def play(self, pool: Any) -> None:
        """Send, launch, fetch, and wait."""
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
        self._up.there.copy_(self._up.host, non_blocking=True)
        search(self._shape, self._seen_there, self._numbers_there, self._states_there, self._found_there)
        self._down.host.copy_(self._down.there, non_blocking=True)


class _Both:
    """Bytes on the device, and as many on the host, pinned so that a copy runs at full speed."""

    def __init__(self, size: int, device: torch.device) -> None:
        on_gpu = device.type == "cuda"
        self.host = torch.zeros(size, dtype=torch.uint8, pin_memory=on_gpu)
        self.there = torch.zeros(size, dtype=torch.uint8, device=device) if on_gpu else torch.zeros_like(self.host)


def _round_up(number: int, fewest: int = 1) -> int:
    """The next power of two, and at least `fewest`."""
    return max(fewest, 1 << max(0, number - 1).bit_length())
