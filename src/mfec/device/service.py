"""Many runs, one device: runs in processes of their own send their look-ups to the process that owns the device."""

from __future__ import annotations

import os
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfec.config import DeviceName
from mfec.device.channel import DeviceEncoder, DeviceError, Found
from mfec.device.desk import ASKED, Desk, DeskShape

OWNER_ENDED = "the process that owns the device has ended"


class PipeChannel:
    """A run's way to a device that another process owns; see `Channel`. It needs no torch."""

    def __init__(self, pipe: Connection[Any, Any], device: DeviceName) -> None:
        self._pipe = pipe
        self.device = device
        self._owner = os.getppid()
        self._desk: Desk | None = None
        self._dim = 0

    def open(self, n_actions: int, capacity: int, dim: int) -> None:
        """Make room for the action buffers of the run."""
        self._dim = dim
        self._ask("open", n_actions, capacity, dim)

    def project_with(self, weights: NDArray[np.float32]) -> None:
        """From now on look-ups of bytes are projected by these weights."""
        self._ask("project_with", weights)

    def encode_with(self, encoder: DeviceEncoder) -> None:
        """From now on look-ups of bytes are encoded by this."""
        self._ask("encode_with", encoder)

    def store(self, actions: NDArray[np.int64], slots: NDArray[np.int64], states: NDArray[np.float32]) -> None:
        """Put states into these slots."""
        self._ask("store", actions, slots, states)

    def look_up(self, seen: NDArray[Any], wanted: NDArray[np.bool_], k: int) -> Found:
        """The nearest entries in the wanted buffers."""
        desk = self._desk_for(seen, wanted, k)
        desk.ask(seen, wanted)
        found = desk.wait(self._check_owner)
        if found is None:
            self._receive()  # raises the reason
            raise DeviceError("the device failed")
        return found

    def rows(self, actions: NDArray[np.int64], slots: NDArray[np.int64]) -> NDArray[np.float32]:
        """States of these slots."""
        states: NDArray[np.float32] = self._ask("rows", actions, slots)
        return states

    def distances(self, state: NDArray[np.float32], action: int) -> NDArray[np.float64]:
        """Squared distances of all entries of one action, in slot order."""
        squared: NDArray[np.float64] = self._ask("distances", state, action)
        return squared

    def _desk_for(self, seen: NDArray[Any], wanted: NDArray[np.bool_], k: int) -> Desk:
        """A desk with room for this look-up."""
        (n, n_actions), numbers = wanted.shape, seen.shape[1]
        if self._dim == 0:
            raise DeviceError("no buffers were opened on this channel")
        row_bytes = numbers if seen.dtype == np.uint8 else 0
        old = self._desk.shape if self._desk else DeskShape(0, 4 * self._dim, n_actions, self._dim, k)
        fits = n <= old.rows and k == old.k and (not row_bytes or row_bytes == old.row_bytes)
        if self._desk and fits:
            return self._desk
        if self._desk:
            self._desk.close()
        shape = DeskShape(max(n, old.rows), row_bytes or old.row_bytes, n_actions, self._dim, k)
        self._desk = Desk(shape)
        self._ask("share", shape, self._desk.memory.name)
        self._desk.memory.unlink()  # both sides have it: it goes with the last of them, however that one ends
        return self._desk

    def _check_owner(self) -> None:
        if os.getppid() != self._owner:
            raise DeviceError(OWNER_ENDED)

    def _ask(self, *message: Any) -> Any:
        try:
            self._pipe.send(message)
        except OSError:
            raise DeviceError(OWNER_ENDED) from None
        return self._receive()

    def _receive(self) -> Any:
        try:
            answer = self._pipe.recv()
        except (EOFError, OSError):
            raise DeviceError(OWNER_ENDED) from None
        if isinstance(answer, DeviceError):
            raise answer
        return answer


class Service:
    """Answers the channels of all runs, their look-ups of the moment in one search."""

    def __init__(self, device: str) -> None:
        from mfec.device import start_engine

        self._engine = start_engine(device)
        if device == "cpu":
            import torch

            torch.set_num_threads(1)  # the runs have the other cores
        self._channels: dict[Connection[Any, Any], Any] = {}
        self._desks: dict[Connection[Any, Any], Desk] = {}

    def look_up(self) -> int:
        """Answer all questions that lie on desks now; returns how many there were."""
        asking = [(pipe, desk) for pipe, desk in self._desks.items() if desk.state == ASKED]
        if asking:
            self._search(asking)
        return len(asking)

    def _search(self, asking: list[tuple[Connection[Any, Any], Desk]]) -> None:
        from mfec.device.engine import Request

        try:
            found = self._engine.look_up(
                [Request(self._channels[pipe].run, *desk.question(), desk.shape.k) for pipe, desk in asking]
            )
        except Exception as error:
            if len(asking) > 1:  # each alone: the trouble is that of one of them
                for one in asking:
                    self._search([one])
                return
            ((pipe, desk),) = asking
            _send(pipe, _for_the_run(error))
            desk.fail()
            return
        for (_, desk), each in zip(asking, found, strict=True):
            desk.answer(each)

    def answer(self, pipe: Connection[Any, Any], what: str, *arguments: Any) -> None:
        """Answer one message from a pipe."""
        from mfec.device.local import LocalChannel

        channel = self._channels.setdefault(pipe, LocalChannel(self._engine))
        answer: Any
        try:
            if what == "share":
                shape, name = arguments
                self._desks[pipe] = Desk(shape, name)
                answer = None
            else:
                answer = getattr(channel, what)(*arguments)
        except Exception as error:  # the run's own trouble, whatever it is
            answer = _for_the_run(error)
        _send(pipe, answer)

    def forget(self, pipe: Connection[Any, Any]) -> None:
        """Give back what the device holds of this run."""
        self._channels.pop(pipe, None)
        desk = self._desks.pop(pipe, None)
        if desk is not None:
            desk.close()


def _for_the_run(error: Exception) -> DeviceError:
    return error if isinstance(error, DeviceError) else DeviceError(f"the device failed: {error}")


def _send(pipe: Connection[Any, Any], answer: Any) -> None:
    try:
        pipe.send(answer)
    except OSError:
        return  # the run has ended; its pipe will say so
