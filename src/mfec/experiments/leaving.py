"""Processes that have said what became of their runs, until they have exited.

A thread or an exit handler, of an environment for instance, can keep a process from exiting for ever. Its run is over
and saved; nobody else must wait for it.
"""

from __future__ import annotations

import time
from typing import Any

EXIT_SECONDS = 30.0  # that such a process is given
HANGS = f"its process did not exit within {EXIT_SECONDS:.0f} seconds after its end, and was killed"


class Leaving:
    """Such processes, of `multiprocessing`; each with whatever the caller wants to know when it is gone."""

    def __init__(self) -> None:
        self._until: list[tuple[float, Any, Any]] = []

    def __len__(self) -> int:
        return len(self._until)

    def add(self, process: Any, about: Any) -> None:
        """This process has nothing more to say."""
        self._until.append((time.monotonic() + EXIT_SECONDS, process, about))

    def gone(self) -> list[tuple[Any, int, bool]]:
        """Of those that have exited since the last time: what they are about, their exit status, and whether they had
        to be killed."""
        now, gone, left = time.monotonic(), [], []
        for until, process, about in self._until:
            hangs = process.is_alive() and now >= until
            if hangs:
                process.kill()
                process.join()
            if process.is_alive():
                left.append((until, process, about))
            else:
                gone.append((about, process.exitcode, hangs))
        self._until = left
        return gone

    def processes(self) -> list[Any]:
        """Those that have not exited yet."""
        return [process for _, process, _ in self._until]

    def about(self) -> list[Any]:
        """What these are about."""
        return [about for _, _, about in self._until]
