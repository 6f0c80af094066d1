"""Waiting for what must happen, however busy the machine is: no test says how fast something is."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE = 900.0  # seconds after which a test gives up: only what hangs for good takes as long


def deadline() -> float:
    """When a test that begins to wait now gives up, by `time.monotonic`."""
    return time.monotonic() + PATIENCE


def wait_until(
    condition: Callable[[], object], what: str, *, between: Callable[[], object] = lambda: time.sleep(0.002)
) -> None:
    """Wait until a condition holds; `between` passes the time from one look to the next."""
    until = deadline()
    while not condition():
        if time.monotonic() > until:
            raise TimeoutError(f"waited {PATIENCE:.0f} seconds in vain for {what}")
        between()
