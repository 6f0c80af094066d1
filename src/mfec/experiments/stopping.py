"""Being asked to stop: by Ctrl-C, or by SIGTERM."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType


class Stopped(Exception):
    """The run was asked to stop; its checkpoint holds everything."""


@contextlib.contextmanager
def stop_signals() -> Iterator[list[int]]:
    """A list that fills when the process is asked to stop; the same signal again stops it at once.

    `--seeds` sends SIGTERM on a Ctrl-C that the terminal has sent to all processes: that is not a second one.
    """
    asked: list[int] = []

    def ask(number: int, frame: FrameType | None) -> None:
        if number in asked:
            raise KeyboardInterrupt
        asked.append(number)

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
