"""A folder that one process has to itself, such as the run directory that it trains in."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

from mfec.run_directory import RunDirectoryError

CLAIM = ".claim"
GLANCE_SECONDS = 0.1


@contextlib.contextmanager
def claimed(folder: Path, *, patience: float = 0.0) -> Iterator[None]:
    """Nobody else has claimed the folder meanwhile; an error if somebody has, and still has after `patience` seconds.

    The claim ends with the process, however that ends. A file system without locks grants every claim.
    """
    deadline = time.monotonic() + patience
    with (folder / CLAIM).open("a+") as file:
        while not _locked(file.fileno()):
            if time.monotonic() > deadline:
                file.seek(0)
                raise RunDirectoryError(f"{folder} is in use by {file.read().strip() or 'another process'}")
            time.sleep(GLANCE_SECONDS)
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()}\n")
        file.flush()
        yield


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # no locks here
        return True
    return True
