"""Being asked to stop: by Ctrl-C, by SIGTERM, or by the process that trains several runs.

One request can arrive as several signals: `timeout` and batch systems send theirs to a process and again to its group,
a terminal sends Ctrl-C to all processes, and a process with several runs passes on what it hears. None of these is a
second request, which would stop a run at once, without saving.
"""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

# How a process with several runs passes a request on; Windows has no such signal.
ASK_TO_STOP = getattr(signal, "SIGUSR1", signal.SIGTERM)
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, ASK_TO_STOP)
ONE_REQUEST_SECONDS = 1.0  # signals this close together are one request


@contextlib.contextmanager
def stop_signals() -> Iterator[list[int]]:
    """A list that fills when the process is asked to stop; asked by the same signal again, it stops at once."""
    asked: list[int] = []
    heard: dict[int, float] = {}

    def ask(number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if now - heard.setdefault(number, now) > ONE_REQUEST_SECONDS:
            raise KeyboardInterrupt
        asked.append(number)

    with handled(ask):
        yield asked


@contextlib.contextmanager
def passing_on(pass_on: Callable[[], None]) -> Iterator[None]:
    """Calls `pass_on` once for each request to stop."""
    heard = float("-inf")

    def ask(number: int, frame: FrameType | None) -> None:
        nonlocal heard
        now = time.monotonic()
        if now - heard > ONE_REQUEST_SECONDS:
            heard = now
            pass_on()

    with handled(ask):
        yield


@contextlib.contextmanager
def handled(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Calls `handler` for each of the signals; in a thread other than the main one, which hears of none, nothing."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handler) for number in STOP_SIGNALS}
    try:
        yield
    finally:
        for number, own in before.items():
            signal.signal(number, own)


def start_unheard(process: Any) -> Any:
    """Start a process that hears of a stop when it unblocks these signals, and not in the middle of an import."""
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    try:
        process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    return process


def hear_at_once() -> None:
    """In such a process: until it trains, there is nothing to save, and a signal ends it."""
    for number in STOP_SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
