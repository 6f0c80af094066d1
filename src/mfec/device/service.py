"""Many runs, one device: runs in processes of their own send their look-ups to the process that owns the device."""

from __future__ import annotations

from multiprocessing.connection import Connection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfec.config import DeviceName
from mfec.device.channel import DeviceError, Found


class PipeChannel:
    """A run's way to a device that another process owns; see `Channel`. It needs no torch."""

    def __init__(self, pipe: Connection[Any, Any], device: DeviceName) -> None:
        self._pipe = pipe
        self.device = device

    def open(self, n_actions: int, capacity: int, dim: int) -> None:
        """Make room for the action buffers of the run."""
        self._ask("open", n_actions, capacity, dim)

    def project_with(self, weights: NDArray[np.float32]) -> None:
        """From now on look-ups of bytes are projected by these weights."""
        self._ask("project_with", weights)

    def store(self, actions: NDArray[np.int64], slots: NDArray[np.int64], states: NDArray[np.float32]) -> None:
        """Put states into these slots."""
        self._ask("store", actions, slots, states)

    def look_up(self, seen: NDArray[Any], wanted: NDArray[np.bool_], k: int) -> Found:
        """The nearest entries in the wanted buffers."""
        return Found(*self._ask("look_up", seen, wanted, k))

    def rows(self, actions: NDArray[np.int64], slots: NDArray[np.int64]) -> NDArray[np.float32]:
        """States of these slots."""
        states: NDArray[np.float32] = self._ask("rows", actions, slots)
        return states

    def distances(self, state: NDArray[np.float32], action: int) -> NDArray[np.float64]:
        """Squared distances of all entries of one action, in slot order."""
        squared: NDArray[np.float64] = self._ask("distances", state, action)
        return squared

    def _ask(self, *message: Any) -> Any:
        try:
            self._pipe.send(message)
            answer = self._pipe.recv()
        except (EOFError, OSError):
            raise DeviceError("the process that owns the device has ended") from None
        if isinstance(answer, DeviceError):
            raise answer
        return answer


class Service:
    """Answers the channels of all runs, their look-ups of the moment in one search."""

    def __init__(self, device: str) -> None:
        from mfec.device import start_engine

        self._engine = start_engine(device)
        self._channels: dict[Connection[Any, Any], Any] = {}

    def answer(self, messages: dict[Connection[Any, Any], tuple[Any, ...]]) -> None:
        """Answer one message from each of these pipes."""
        from mfec.device.engine import Request
        from mfec.device.local import LocalChannel

        asking: dict[Connection[Any, Any], Request] = {}
        for pipe, (what, *arguments) in messages.items():
            channel = self._channels.setdefault(pipe, LocalChannel(self._engine))
            try:
                if what == "look_up":
                    asking[pipe] = Request(channel.run, *arguments)
                    continue
                answer = getattr(channel, what)(*arguments)
            except Exception as error:  # the run's own trouble, whatever it is
                answer = _for_the_run(error)
            _send(pipe, answer)
        if not asking:
            return
        try:
            found = self._engine.look_up(list(asking.values()))
        except Exception as error:
            for pipe in asking:
                _send(pipe, _for_the_run(error))
            return
        for pipe, each in zip(asking, found, strict=True):
            _send(pipe, (each.states, each.slots, each.squared, each.unsure))

    def forget(self, pipe: Connection[Any, Any]) -> None:
        """Give back what the device holds of this run."""
        self._channels.pop(pipe, None)


def _for_the_run(error: Exception) -> DeviceError:
    return error if isinstance(error, DeviceError) else DeviceError(f"the device failed: {error}")


def _send(pipe: Connection[Any, Any], answer: Any) -> None:
    try:
        pipe.send(answer)
    except OSError:
        return  # the run has ended; its pipe will say so
