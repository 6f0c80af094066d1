"""A process of a grid: it hears of a stop from its parent alone, says everything into a file, and outlives nobody."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator
from multiprocessing import connection
from pathlib import Path
from typing import Any

from mfec.experiments.processes import one_thread
from mfec.experiments.stopping import ASK_TO_STOP, hear_at_once, start_unheard

SAVE_SECONDS = 60.0  # that a process is given to save


def start_child(target: Callable[..., None], *arguments: Any) -> Any:
    """Start a process of one thread for each of its parts that would take more."""
    process = multiprocessing.get_context("spawn").Process(target=target, args=arguments)
    with _environment(one_thread(os.environ)):  # before the process imports anything
        return start_unheard(process)


def end_children(*processes: Any) -> None:
    """Let processes that were started save and stop, where an error came; there are none otherwise."""
    for process in processes:
        if process.is_alive():
            os.kill(process.pid, ASK_TO_STOP)
    for process in processes:
        process.join(SAVE_SECONDS)
        process.kill()
        process.join()


def be_child(log: Path) -> None:
    """What such a process does first."""
    os.setpgid(0, 0)  # a terminal's Ctrl-C, which all processes hear, and the parent's word would be two requests
    hear_at_once()
    _end_with_parent()
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a") as file:
        for descriptor in (1, 2):  # also what is not said by Python
            os.dup2(file.fileno(), descriptor)


def _end_with_parent() -> None:
    """Where the parent has died without a word, save and stop: nobody would know of this process any more."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def wait() -> None:
        connection.wait([parent.sentinel])
        os.kill(os.getpid(), ASK_TO_STOP)

    threading.Thread(target=wait, daemon=True).start()


@contextlib.contextmanager
def _environment(values: dict[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(values)
    try:
        yield
    finally:
        for name in values.keys() - before.keys():
            del os.environ[name]
        os.environ.update(before)
