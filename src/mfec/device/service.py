"""Many runs, one device: runs in processes of their own send requests to the process that owns the device."""

from __future__ import annotations

import os
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfec.config import DeviceName
from mfec.device.channel import DeviceEncoder, DeviceError, Network, Response
from mfec.device.shared_memory import REQUESTED, LookUpShape, SharedLookUp

OWNER_ENDED = "the process that owns the device has ended"


class PipeChannel:
    """A channel to a device that another process owns. It needs no torch."""

    buffers = None  # out of reach

    def __init__(self, pipe: Connection[Any, Any], device: DeviceName) -> None:
        self._pipe = pipe
        self.device = device
        self._owner = os.getppid()
        self._shared: SharedLookUp | None = None
        self._dim = 0

    def open(self, n_actions: int, capacity: int, dim: int) -> None:
        """Make room for the action buffers of the run."""
        self._dim = dim
        self._request("open", n_actions, capacity, dim)

    def project_with(self, weights: NDArray[np.float32]) -> None:
        """Project observations by these weights from now on."""
        self._request("project_with", weights)

    def encode_with(self, encoder: DeviceEncoder) -> None:
        """Encode observations by this encoder from now on."""
        self._request("encode_with", encoder)

    def embed_by(self, network: Network) -> bool:
        """False: the device is another process's, where a network that learns here would stay as it was."""
        return False

    def store(self, actions: NDArray[np.int64], slots: NDArray[np.int64], states: NDArray[np.float32]) -> None:
        """Put states into these slots."""
        self._request("store", actions, slots, states)

    def shrink(self, sizes: NDArray[np.int64]) -> None:
        """Forget the states beyond these sizes."""
        self._request("shrink", sizes)

    def look_up(self, inputs: NDArray[Any], wanted: NDArray[np.bool_], k: int) -> Response:
        """The nearest entries in the wanted buffers."""
        shared = self._shared_for(inputs, wanted, k)
        shared.request(inputs, wanted)
        found = shared.wait(self._check_owner)
        if found is None:
            self._receive()  # raises the reason
            raise DeviceError("the device failed")
        return found

    def rows(self, actions: NDArray[np.int64], slots: NDArray[np.int64]) -> NDArray[np.float32]:
        """States of these slots."""
        states: NDArray[np.float32] = self._request("rows", actions, slots)
        return states

    def distances(self, state: NDArray[np.float32], action: int) -> NDArray[np.float64]:
        """Squared distances of all entries of one action, in slot order."""
        squared: NDArray[np.float64] = self._request("distances", state, action)
        return squared

    def _shared_for(self, inputs: NDArray[Any], wanted: NDArray[np.bool_], k: int) -> SharedLookUp:
        """Shared memory with room for this look-up."""
        (n, n_actions), numbers = wanted.shape, inputs.shape[1]
        if self._dim == 0:
            raise DeviceError("no buffers were opened on this channel")
        row_bytes = numbers if inputs.dtype == np.uint8 else 0
        old = self._shared.shape if self._shared else LookUpShape(0, 4 * self._dim, n_actions, self._dim, k)
        fits = n <= old.rows and k == old.k and (not row_bytes or row_bytes == old.row_bytes)
        if self._shared and fits:
            return self._shared
        if self._shared:
            self._shared.close()
        shape = LookUpShape(max(n, old.rows), row_bytes or old.row_bytes, n_actions, self._dim, k)
        self._shared = SharedLookUp(shape)
        self._request("share", shape, self._shared.memory.name)
        self._shared.memory.unlink()  # both processes are attached: the system frees it when the last of them ends
        return self._shared

    def _check_owner(self) -> None:
        if os.getppid() != self._owner:
            raise DeviceError(OWNER_ENDED)

    def _request(self, *message: Any) -> Any:
        try:
            self._pipe.send(message)
        except OSError:
            raise DeviceError(OWNER_ENDED) from None
        return self._receive()

    def _receive(self) -> Any:
        try:
            response = self._pipe.recv()
        except (EOFError, OSError):
            raise DeviceError(OWNER_ENDED) from None
        if isinstance(response, DeviceError):
            raise response
        return response


class Service:
    """Responds to the channels of all runs; look-ups that wait at the same time are one search."""

    def __init__(self, device: str) -> None:
        from mfec.device import start_engine

        self._engine = start_engine(device)
        if device == "cpu":
            import torch

            torch.set_num_threads(1)  # the runs have the other cores
        self._channels: dict[Connection[Any, Any], Any] = {}
        self._shared: dict[Connection[Any, Any], SharedLookUp] = {}

    def look_up(self) -> int:
        """Respond to all look-ups that wait now; returns their number."""
        pending = [(pipe, shared) for pipe, shared in self._shared.items() if shared.status == REQUESTED]
        if pending:
            self._search(pending)
        return len(pending)

    def _search(self, pending: list[tuple[Connection[Any, Any], SharedLookUp]]) -> None:
        from mfec.device.engine import Request

        try:
            found = self._engine.look_up(
                [Request(self._channels[pipe].run, *shared.read_request(), shared.shape.k) for pipe, shared in pending]
            )
        except Exception as error:
            if len(pending) > 1:  # search one by one: the error belongs to one of them
                for one in pending:
                    self._search([one])
                return
            ((pipe, shared),) = pending
            _send(pipe, _for_the_run(error))
            shared.fail()
            return
        for (_, shared), each in zip(pending, found, strict=True):
            shared.respond(each)

    def respond(self, pipe: Connection[Any, Any], what: str, *arguments: Any) -> None:
        """Respond to a request that came through a pipe."""
        from mfec.device.local import LocalChannel

        channel = self._channels.setdefault(pipe, LocalChannel(self._engine))
        response: Any
        try:
            if what == "share":
                shape, name = arguments
                self._shared[pipe] = SharedLookUp(shape, name)
                response = None
            else:
                response = getattr(channel, what)(*arguments)
        except Exception as error:  # whatever it is, it is the run's
            response = _for_the_run(error)
        _send(pipe, response)

    def forget(self, pipe: Connection[Any, Any]) -> None:
        """Free what the device keeps of this run."""
        self._channels.pop(pipe, None)
        shared = self._shared.pop(pipe, None)
        if shared is not None:
            shared.close()


def _for_the_run(error: Exception) -> DeviceError:
    return error if isinstance(error, DeviceError) else DeviceError(f"the device failed: {error}")


def _send(pipe: Connection[Any, Any], response: Any) -> None:
    try:
        pipe.send(response)
    except OSError:
        return  # the run has ended; reading its pipe reports that
