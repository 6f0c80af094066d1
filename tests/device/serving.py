"""A process that owns a device, as a thread, and the answers of its channels as bytes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from typing import Any

import numpy as np

from mfec.device import Response
from mfec.device.service import PipeChannel, Service
from mfec.device.shared_memory import REQUESTED

from ..waiting import PATIENCE, wait_until


class Owner(threading.Thread):
    """Serves pipes in a thread, as the process of a fleet does."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.service = Service("cpu")
        self.merged: list[int] = []  # how many look-ups each search had
        self.look_ups = threading.Event()  # cleared, they wait for more to come
        self.look_ups.set()
        self._pipes: list[Connection] = []
        self._ended = threading.Event()
        self.start()

    def connect(self) -> PipeChannel:
        ours, theirs = Pipe()
        self._pipes.append(ours)
        return PipeChannel(theirs, "cpu")

    def run(self) -> None:
        while not self._ended.is_set():
            if self.look_ups.is_set():
                number = self.service.look_up()
                self.merged += [number] if number else []
            for pipe in wait(self._pipes, timeout=0.001):
                assert isinstance(pipe, Connection)
                try:
                    what, *arguments = pipe.recv()
                except EOFError:
                    self.forget(pipe)
                else:
                    self.service.respond(pipe, what, *arguments)

    def asked(self) -> int:
        """How many look-ups wait for an answer."""
        return sum(shared.status == REQUESTED for shared in list(self.service._shared.values()))

    def forget(self, pipe: Connection) -> None:
        self._pipes.remove(pipe)
        self.service.forget(pipe)
        pipe.close()

    def end(self) -> None:
        self._ended.set()
        self.join()
        for pipe in [*self._pipes]:
            self.forget(pipe)


def at_once(owner: Owner, *calls: Callable[[], Any]) -> list[Any]:
    """What the calls return or raise, with their look-ups in one search."""
    results: list[Any] = [None] * len(calls)

    def make(number: int) -> None:
        try:
            results[number] = calls[number]()
        except Exception as error:
            results[number] = error

    threads = [threading.Thread(target=make, args=(number,), daemon=True) for number in range(len(calls))]
    owner.look_ups.clear()
    for thread in threads:
        thread.start()
    wait_until(lambda: owner.asked() + sum(not thread.is_alive() for thread in threads) == len(calls), "all look-ups")
    owner.look_ups.set()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive(), "a look-up was not answered"
    return results


def parts(answer: Response | np.ndarray) -> list[bytes]:
    if isinstance(answer, Response):
        return [each.tobytes() for each in (answer.states, answer.slots, answer.squared, answer.unsure)]
    return [answer.tobytes()]
