"""A folder that one process has to itself: a run directory while it trains there, a VAE's, that of a grid.

The lock is the kernel's (flock), so it ends with the process, however that ends. On NFS it holds between machines too,
unless the folder is mounted with `nolock` or `local_lock`: then each machine knows only of its own. On a file system
without locks the file alone has to do. A process of this machine that has ended is no obstacle there either, but
whether one of another machine has ended cannot be seen, and two that begin in the same instant can miss each other.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import socket
import time
from collections.abc import Iterator
from pathlib import Path

from mfec.files import is_running
from mfec.run_directory import RunDirectoryError

LOCK = ".lock"  # names the process that has the folder
GLANCE_SECONDS = 0.1

_held: set[int] = set()  # descriptors of locked files


def _let_go() -> None:
    """A forked child can outlive this process, and must not keep its locks."""
    for descriptor in _held:
        os.close(descriptor)  # this unlocks nothing: the parent has it still
    _held.clear()


os.register_at_fork(after_in_child=_let_go)


class _InUse(Exception):
    """Another process has the folder."""


@contextlib.contextmanager
def locked(folder: Path, purpose: str = "begin a run", *, patience: float = 0.0) -> Iterator[None]:
    """No other process has locked the folder meanwhile; an error if one has, and still has after `patience` seconds.

    The folder is made if it is missing, and goes again if it stays empty. Who only reads what is in it needs no lock.
    """
    deadline = time.monotonic() + patience
    made: list[Path] = []
    while True:
        try:
            descriptor = _lock(folder, made)
            break
        except (_InUse, OSError) as error:
            if isinstance(error, OSError) or time.monotonic() >= deadline:
                raise RunDirectoryError(f"cannot {purpose} in {folder}: {error}") from None
        time.sleep(GLANCE_SECONDS)
    try:
        yield
    finally:
        if descriptor in _held:  # else this is a forked child
            _unlock(folder, descriptor, made)


def _lock(folder: Path, made: list[Path]) -> int:
    """The descriptor of the locked file; `made` takes the folders that had to be made, the deepest first."""
    while True:
        made += [each for each in (folder, *folder.parents) if not each.exists() and each not in made]
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            _refuse_another(folder / LOCK, descriptor)
            if _is_there(folder / LOCK, descriptor):
                name = f"process {os.getpid()} on {socket.gethostname()}\n".encode()
                os.write(descriptor, name)
                os.ftruncate(descriptor, len(name))
                _held.add(descriptor)
                return descriptor
        finally:
            if descriptor not in _held:
                os.close(descriptor)


def _unlock(folder: Path, descriptor: int, made: list[Path]) -> None:
    with contextlib.suppress(OSError):
        (folder / LOCK).unlink()
    _held.remove(descriptor)
    os.close(descriptor)
    for each in made:
        with contextlib.suppress(OSError):  # there is something in it
            each.rmdir()


def _refuse_another(file: Path, descriptor: int) -> None:
    """An error where another process has this file; else it is locked."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise _InUse(f"it is in use by {_read(file) or 'another process'}") from None
    except OSError:  # no locks here
        user = _read(file)
        if not _has_ended(user):
            raise _InUse(
                f"it is in use by {user}; this file system has no locks, so if that process has ended, remove {file}"
            ) from None


def _has_ended(user: str) -> bool:
    """Whether a process of this name has ended, as far as this machine knows."""
    named = re.fullmatch(r"process (\d+) on (.*)", user)
    return named is None or (named[2] == socket.gethostname() and not is_running(int(named[1])))


def _read(file: Path) -> str:
    try:
        return file.read_text(errors="replace").strip()
    except FileNotFoundError:  # it has just ended
        return ""


def _is_there(file: Path, descriptor: int) -> bool:
    """Whether this is still the file of that name: who had it before has removed it."""
    try:
        return os.path.samestat(file.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False
