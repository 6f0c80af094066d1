"""Says, once on the terminal, that code is being compiled for this machine: it would look as if nothing happened."""

from __future__ import annotations

import sys
from functools import cache
from typing import Any

from numba.core import event

SAID = "mfec: compiling for this machine; this takes some seconds, the first time only"


class _Announcement(event.Listener):
    """Numba tells of every compilation that its cache on disk could not spare."""

    def __init__(self) -> None:
        self._said = False

    def on_start(self, event: Any) -> None:
        """A compilation begins."""
        if not self._said:
            self._said = True
            print(SAID, file=sys.stderr, flush=True)

    def on_end(self, event: Any) -> None:
        """It is over."""


@cache
def announce_compiling() -> None:
    """From now on, say so when something is compiled for the first time."""
    event.register("numba:compile", _Announcement())  # type: ignore[no-untyped-call]
