"""Files that appear whole or not at all: each is written as a draft beside its place, and then renamed."""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

from mfec.errors import MfecError

_numbers = itertools.count(1)  # tell the drafts of this process apart


class WriteError(MfecError, OSError):
    """A file that cannot be written; the message says which and why."""


@contextlib.contextmanager
def whole_file(path: str | Path, *, durable: bool = False) -> Iterator[Path]:
    """A draft to write, with the ending of `path`. It becomes the file when the block ends; an error removes it.

    Missing folders are made. A draft that a killed process left is removed by the next file written there.
    durable: wait until the file is on the disk, so that even a power failure leaves the old one or the new one.

    >>> with whole_file("report.html") as draft:  # doctest: +SKIP
    ...     draft.write_text("<!doctype html>")
    """
    target = Path(os.path.realpath(path))  # through a link, as any program would write
    with _said_of(path):
        target.parent.mkdir(parents=True, exist_ok=True)
        _remove_leftovers(target.parent)
        draft = _new_draft(target)
    try:
        with _said_of(path):
            mode = stat.S_IMODE(draft.stat().st_mode)
            yield draft
            if stat.S_IMODE(draft.stat().st_mode) != mode:  # safetensors leaves its files to their owner alone
                draft.chmod(mode)
            if durable:
                sync(draft)
            os.replace(draft, target)
    finally:
        with contextlib.suppress(OSError):  # most often there is none any more
            draft.unlink()


def write_whole(path: str | Path, content: str | bytes, *, durable: bool = False) -> None:
    """Write a file whole or not at all; text as UTF-8, with its line ends unchanged."""
    with whole_file(path, durable=durable) as draft:
        draft.write_bytes(content.encode() if isinstance(content, str) else content)


def check_writable(path: str | Path) -> None:
    """Raise if a file cannot be written, before long work is done for it; nothing is left on the disk."""
    target = Path(os.path.realpath(path))
    with _said_of(path):
        if target.exists() and not target.is_file():
            what = "a directory" if target.is_dir() else "no plain file"
            raise WriteError(f"cannot write {path}: it is {what}")
        there = target.parent
        while not there.exists():
            there = there.parent
        if not there.is_dir():
            raise WriteError(f"cannot write {path}: {there} is no directory")
        _new_draft(there / target.name).unlink()


def sync(path: Path) -> None:
    """Flush a file, or the names in a directory, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _said_of(path: str | Path) -> Iterator[None]:
    """Turn errors into ones that name the file to write, not its draft."""
    try:
        yield
    except WriteError:
        raise
    except FileExistsError as error:  # where a folder should be
        raise WriteError(f"cannot write {path}: {error.filename} is no directory") from error
    except OSError as error:
        raise WriteError(f"cannot write {path}: {error.strerror or error}") from error


def _new_draft(target: Path) -> Path:
    """An empty file beside the target, with the mode that a new file has here."""
    draft = target.with_name(f"{_drafts_here()}{os.getpid()}-{next(_numbers)}-{target.name[-50:]}")
    draft.unlink(missing_ok=True)  # left by an earlier process of the same number
    draft.open("xb").close()
    return draft


def _remove_leftovers(directory: Path) -> None:
    """Remove drafts of ended processes of this machine; whether those of other machines ended is unknown here."""
    for file in directory.glob(f"{_drafts_here()}*"):
        process = file.name.removeprefix(_drafts_here()).partition("-")[0]
        if process.isdecimal() and not is_running(int(process)):
            with contextlib.suppress(OSError):
                file.unlink()


def _drafts_here() -> str:
    return f".draft-{socket.gethostname()}-"


def is_running(process: int) -> bool:
    """Whether this machine has a process of that number."""
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # it belongs to another user
        return True
    return True
