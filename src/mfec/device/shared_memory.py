"""Look-ups between two processes through shared memory.

A pipe costs some 100 microseconds a look-up in copies and wake-ups, as much as the search itself. Here both processes
poll a number in shared memory, and yield their core between two polls.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.shared_memory import SharedMemory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfec.device.channel import Response

IDLE, REQUESTED, RESPONDED, FAILED = range(4)
EAGER_POLLS = 4096  # some milliseconds, after which the waiting process sleeps between two polls


@dataclass(frozen=True)
class LookUpShape:
    """The largest look-up that fits: up to `rows` observations or states."""

    rows: int
    row_bytes: int
    n_actions: int
    dim: int
    k: int

    def parts(self) -> list[tuple[tuple[int, ...], type]]:
        """Shapes and types of the arrays in shared memory: header, request, response."""
        pairs = (self.rows, self.n_actions)
        return [
            ((3,), np.int64),  # status; rows; whether they are observations
            ((self.rows, max(self.row_bytes, 4 * self.dim)), np.uint8),
            (pairs, np.bool_),
            ((self.rows, self.dim), np.float32),
            ((*pairs, self.k + 1), np.int64),
            ((*pairs, self.k + 1), np.float64),
            (pairs, np.bool_),
        ]


class SharedLookUp:
    """A piece of shared memory that carries one look-up at a time."""

    def __init__(self, shape: LookUpShape, name: str | None = None) -> None:
        """Create a new piece, or attach to the one of that name."""
        self.shape = shape
        sizes = [-(-int(np.prod(size)) * np.dtype(kind).itemsize // 64) * 64 for size, kind in shape.parts()]
        self.memory = SharedMemory(name, create=name is None, size=sum(sizes))
        arrays: list[NDArray[Any]] = []
        begin = 0
        for (size, kind), room in zip(shape.parts(), sizes, strict=True):
            arrays.append(np.ndarray(size, kind, self.memory.buf, begin))
            begin += room
        self._header, self._inputs, self._wanted, *self._response = arrays
        self._fence = threading.Lock()  # acquiring it orders reads and writes on every processor
        if name is None:
            self._header[:] = 0

    @property
    def status(self) -> int:
        """IDLE, REQUESTED, RESPONDED or FAILED."""
        return int(self._header[0])

    def request(self, inputs: NDArray[Any], wanted: NDArray[np.bool_]) -> None:
        """Write a request."""
        n = len(inputs)
        flat = np.ascontiguousarray(inputs).view(np.uint8).reshape(n, -1)
        self._inputs.reshape(-1)[: flat.size] = flat.reshape(-1)
        self._wanted[:n] = wanted
        self._header[1:] = n, inputs.dtype == np.uint8
        self._set_status(REQUESTED)

    def read_request(self) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """The inputs and the wanted actions of the request."""
        with self._fence:
            n, observations = self._header[1:].tolist()
        inputs = self._inputs.reshape(-1)
        if observations:
            return inputs[: n * self.shape.row_bytes].reshape(n, -1), self._wanted[:n]
        return inputs[: n * 4 * self.shape.dim].view(np.float32).reshape(n, -1), self._wanted[:n]

    def respond(self, found: Response) -> None:
        """Write the response."""
        n = len(found.states)
        for place, part in zip(self._response, (found.states, found.slots, found.squared, found.unsure), strict=True):
            place[:n] = part
        self._set_status(RESPONDED)

    def fail(self) -> None:
        """Report that there is no response; the error follows through the pipe."""
        self._set_status(FAILED)

    def wait(self, check: Callable[[], None]) -> Response | None:
        """Wait for the response, None if the look-up failed; `check` is called now and then, and may raise."""
        turns = 0
        while self._header[0] == REQUESTED:
            turns += 1
            if turns < EAGER_POLLS:
                yield_core()
                continue
            time.sleep(1e-4)
            if turns % 1024 == 0:
                check()
        with self._fence:
            responded = self._header[0] == RESPONDED
            self._header[0] = IDLE
        n = int(self._header[1])
        return Response(*(part[:n].copy() for part in self._response)) if responded else None

    def close(self) -> None:
        """Detach from the shared memory."""
        del self._header, self._inputs, self._wanted, self._response
        self.memory.close()

    def _set_status(self, status: int) -> None:
        with self._fence:
            self._header[0] = status


def yield_core() -> None:
    """Let another thread or process have this core, if one is waiting for it."""
    if hasattr(os, "sched_yield"):
        os.sched_yield()
    else:
        time.sleep(0)
