"""Look-ups through memory that two processes share: no copies through a pipe, nobody to wake.

A pipe costs some 100 microseconds a look-up in copies and wake-ups, as much as the search itself. The two sides watch a
number instead and give their core to whoever else wants it meanwhile.
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

from mfec.device.channel import Found

IDLE, ASKED, ANSWERED, FAILED = range(4)
PATIENCE = 4096  # glances, some milliseconds, after which the asking side rests between two of them


@dataclass(frozen=True)
class DeskShape:
    """Room for look-ups of up to `rows` observations or states."""

    rows: int
    row_bytes: int
    n_actions: int
    dim: int
    k: int

    def parts(self) -> list[tuple[tuple[int, ...], type]]:
        """Shapes and types of what lies on the desk: header, question, answer."""
        pairs = (self.rows, self.n_actions)
        return [
            ((3,), np.int64),  # whose turn it is; rows; whether they are observations
            ((self.rows, max(self.row_bytes, 4 * self.dim)), np.uint8),
            (pairs, np.bool_),
            ((self.rows, self.dim), np.float32),
            ((*pairs, self.k + 1), np.int64),
            ((*pairs, self.k + 1), np.float64),
            (pairs, np.bool_),
        ]


class Desk:
    """A piece of shared memory with one look-up on it at a time."""

    def __init__(self, shape: DeskShape, name: str | None = None) -> None:
        """Lay out a new one, or find the one of that name."""
        self.shape = shape
        sizes = [-(-int(np.prod(size)) * np.dtype(kind).itemsize // 64) * 64 for size, kind in shape.parts()]
        self.memory = SharedMemory(name, create=name is None, size=sum(sizes))
        arrays: list[NDArray[Any]] = []
        begin = 0
        for (size, kind), room in zip(shape.parts(), sizes, strict=True):
            arrays.append(np.ndarray(size, kind, self.memory.buf, begin))
            begin += room
        self._header, self._seen, self._wanted, *self._answer = arrays
        self._fence = threading.Lock()  # taking it orders reads and writes on every processor
        if name is None:
            self._header[:] = 0

    @property
    def state(self) -> int:
        """Whose turn it is."""
        return int(self._header[0])

    def ask(self, seen: NDArray[Any], wanted: NDArray[np.bool_]) -> None:
        """Lay down a question."""
        n = len(seen)
        flat = np.ascontiguousarray(seen).view(np.uint8).reshape(n, -1)
        self._seen.reshape(-1)[: flat.size] = flat.reshape(-1)
        self._wanted[:n] = wanted
        self._header[1:] = n, seen.dtype == np.uint8
        self._pass_on(ASKED)

    def question(self) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """The question: what was seen, and the wanted actions."""
        with self._fence:
            n, observations = self._header[1:].tolist()
        seen = self._seen.reshape(-1)
        if observations:
            return seen[: n * self.shape.row_bytes].reshape(n, -1), self._wanted[:n]
        return seen[: n * 4 * self.shape.dim].view(np.float32).reshape(n, -1), self._wanted[:n]

    def answer(self, found: Found) -> None:
        """Lay down what was found."""
        n = len(found.states)
        for place, part in zip(self._answer, (found.states, found.slots, found.squared, found.unsure), strict=True):
            place[:n] = part
        self._pass_on(ANSWERED)

    def fail(self) -> None:
        """Say that there is no answer; the reason comes by another way."""
        self._pass_on(FAILED)

    def wait(self, check: Callable[[], None]) -> Found | None:
        """Wait for the answer, None if there is none; `check` is called now and then, and may raise."""
        turns = 0
        while self._header[0] == ASKED:
            turns += 1
            if turns < PATIENCE:
                give_way()
                continue
            time.sleep(1e-4)
            if turns % 1024 == 0:
                check()
        with self._fence:
            answered = self._header[0] == ANSWERED
            self._header[0] = IDLE
        n = int(self._header[1])
        return Found(*(part[:n].copy() for part in self._answer)) if answered else None

    def close(self) -> None:
        """Let go of the memory."""
        del self._header, self._seen, self._wanted, self._answer
        self.memory.close()

    def _pass_on(self, state: int) -> None:
        with self._fence:
            self._header[0] = state


def give_way() -> None:
    """Let another thread or process have this core, if one is waiting for it."""
    if hasattr(os, "sched_yield"):
        os.sched_yield()
    else:
        time.sleep(0)
