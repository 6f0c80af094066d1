"""Checkpoints: a directory of safetensors files and one JSON manifest with their checksums. Loading runs nothing.

The data files of a new checkpoint get new names, and none is ever changed; one atomic rename of the manifest makes them
the checkpoint, and files that it does not name go. Killed at any moment, the directory holds the old checkpoint or the
new one, whole. A reader gets one of the two, even while it is replaced.

What is large and changes little may lie in several files, of which the next checkpoint keeps some (`Growing`).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import weakref
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from numpy.typing import NDArray

from mfec.errors import MfecError
from mfec.files import sync, whole_file, write_whole
from mfec.tensor_files import DamagedFile, Tensors, read_tensors, write_tensors

CHECKPOINT = "checkpoint"  # the folder of a run's in its directory
MANIFEST = "manifest.json"
FORMAT = "mfec checkpoint"
VERSION = 2
READABLE = (1, VERSION)  # version 1 has one file for each name


class CheckpointError(MfecError):
    """A checkpoint that cannot be written or read; the message says which file and what is wrong."""


@dataclass(frozen=True)
class File:
    """A data file, as the manifest names it."""

    file: str
    bytes: int
    sha256: str


@dataclass(frozen=True)
class Standing:
    """A checkpoint that stands: where, and the checksum of its manifest."""

    directory: str
    manifest: str


class Growing(Protocol):
    """Tensors in several files, of which the next checkpoint in the same directory keeps some."""

    def begin(self, standing: Standing | None) -> tuple[Sequence[File], Iterable[Tensors]]:
        """Files that are kept of the checkpoint that stands there, and the tensors of each new file."""

    def written(self, standing: Standing, added: Sequence[File]) -> None:
        """The new checkpoint stands, with these new files."""


def write_checkpoint(
    path: str | Path,
    *,
    kind: str,
    state: Mapping[str, Any],
    tensors: Mapping[str, Tensors],
    growing: Mapping[str, Growing] | None = None,
) -> None:
    """Replace the checkpoint in directory `path` atomically.

    kind: what it holds ("memory", "agent"); state: what JSON can hold; tensors: file name (without ending) to its
    tensors; growing: file name to what need not be written whole. If the disk is full or the write fails otherwise,
    the last good checkpoint stays and the error says so.
    """
    directory, growing = Path(path), growing or {}
    drafted: list[Path] = []

    def add(name: str, number: int, arrays: Tensors) -> File:
        file = directory / f"{name}-{number}.safetensors"
        drafted.append(file)
        with whole_file(file, durable=True) as draft:
            digest = write_tensors(draft, arrays)
        return File(file.name, file.stat().st_size, digest)

    try:
        directory.mkdir(parents=True, exist_ok=True)
        number = 1 + max((_generation(file) for file in directory.iterdir()), default=0)
        standing, files, added = _standing(directory), {}, {}
        for name, own in growing.items():
            kept, new = own.begin(standing)
            if not all(_is_there(directory, file) for file in kept):
                kept, new = own.begin(None)
            # By `map`, since no tensors of one file may be held while those of the next are made.
            added[name] = list(map(partial(add, name), count(number), new))
            files[name] = [*kept, *added[name]]
        for name, arrays in tensors.items():
            files[name] = [add(name, number, arrays)]
        listed = {name: [asdict(file) for file in own] for name, own in files.items()}
        entries = {name: own[0] if len(own) == 1 else own for name, own in listed.items()}
        body = {"format": FORMAT, "version": VERSION, "kind": kind, "files": entries, "state": state}
        body = json.loads(json.dumps(body))
        manifest = (json.dumps({**body, "sha256": _body_sha256(body)}, indent=1) + "\n").encode()
        write_whole(directory / MANIFEST, manifest, durable=True)
    except OSError as error:
        _remove(drafted)
        held = "the last good checkpoint is kept" if (directory / MANIFEST).exists() else "nothing is kept"
        raise CheckpointError(f"cannot save {directory}: {error}; {held}") from None
    for name, own in growing.items():
        own.written(_known(directory, manifest), added[name])
    with contextlib.suppress(OSError):
        sync(directory)
    current = {file.file for own in files.values() for file in own}
    _remove(
        file
        for file in list(directory.iterdir())
        if _generation(file) and _owner(file) in files and file.name not in current
    )


class Files(Sequence[dict[str, NDArray[Any]]]):
    """The tensors in several files, read one file at a time; they are open, so that they stay as they were named."""

    def __init__(self, directory: Path, files: Sequence[File], standing: Standing) -> None:
        self.standing, self.files = standing, tuple(files)
        with contextlib.ExitStack() as opened:
            self._streams = [opened.enter_context(_open(directory, file)) for file in files]
            weakref.finalize(self, opened.pop_all().close)

    def __len__(self) -> int:
        return len(self.files)

    def __getitem__(self, position: Any) -> Any:
        """The tensors in the file at this position, every byte checked."""
        return _read_file(self._streams[position], self.files[position])


def read_checkpoint(
    path: str | Path, *, kind: str, only: Collection[str] | None = None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """State and tensors of the checkpoint in directory `path`, every byte checked.

    Tensors come by the name of their file: a dictionary of arrays each, or `Files`, where there are several files.
    only: the names to read; by default all of them. If the checkpoint is replaced meanwhile, the new one is read.
    """
    directory = Path(path)
    while True:
        manifest = _read_manifest(directory)
        try:
            return _read(directory, manifest, kind, only)
        except CheckpointError:
            if _read_manifest(directory) == manifest:
                raise


def _read_manifest(directory: Path) -> bytes:
    manifest = directory / MANIFEST
    if not manifest.is_file():
        raise CheckpointError(f"{directory} holds no checkpoint: {MANIFEST} is missing")
    try:
        return manifest.read_bytes()
    except OSError as error:
        raise CheckpointError(f"{manifest} cannot be read: {error}") from None


def _read(
    directory: Path, text: bytes, kind: str, only: Collection[str] | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """State and tensors of the checkpoint whose manifest has this text."""
    manifest = directory / MANIFEST
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        raise CheckpointError(f"{manifest} is damaged: it is not valid JSON") from None
    if not isinstance(body, dict) or body.get("format") != FORMAT:
        raise CheckpointError(f"{manifest} is not the manifest of an {FORMAT}")
    if body.get("version") not in READABLE:
        reads = " and ".join(map(str, READABLE))
        raise CheckpointError(f"{manifest} has format version {body.get('version')!r}, this program reads {reads}")
    if body.pop("sha256", None) != _body_sha256(body):
        raise CheckpointError(f"{manifest} is damaged: its checksum does not match")
    if body.get("kind") != kind:
        raise CheckpointError(f"{directory} holds the checkpoint of a {body.get('kind')!r}, not of a {kind!r}")
    try:
        files = {
            name: [_named(entry) for entry in (own if isinstance(own, list) else [own])]
            for name, own in body["files"].items()
            if only is None or name in only
        }
        if not all(files.values()):
            raise ValueError
        state = dict(body["state"])
    except (KeyError, TypeError, ValueError, AttributeError):
        raise CheckpointError(f"{manifest} is not the manifest of an {FORMAT}: parts are missing") from None
    tensors: dict[str, Any] = {}
    for name, own in files.items():
        several = Files(directory, own, _known(directory, text))
        tensors[name] = several[0] if len(own) == 1 else several
    return state, tensors


def _named(entry: dict[str, Any]) -> File:
    return File(Path(str(entry["file"])).name, entry["bytes"], entry["sha256"])


def _open(directory: Path, entry: File) -> BinaryIO:
    file = directory / entry.file
    if not file.is_file():
        raise CheckpointError(f"{file} is missing")
    try:
        stream = file.open("rb")
    except OSError as error:
        raise CheckpointError(f"{file} cannot be read: {error}") from None
    if (size := os.fstat(stream.fileno()).st_size) != entry.bytes:
        stream.close()
        raise CheckpointError(f"{file} is damaged: {size} bytes instead of {entry.bytes}")
    return stream


def _read_file(stream: BinaryIO, entry: File) -> dict[str, NDArray[Any]]:
    try:
        return read_tensors(stream, entry.bytes, entry.sha256)
    except DamagedFile as error:
        raise CheckpointError(f"{stream.name} is damaged: {error}") from None
    except (OSError, ValueError, TypeError, AttributeError, KeyError, RecursionError) as error:
        raise CheckpointError(f"{stream.name} cannot be read: {error}") from None


def _standing(directory: Path) -> Standing | None:
    """The checkpoint that stands in a directory, if any."""
    with contextlib.suppress(OSError):
        return _known(directory, (directory / MANIFEST).read_bytes())
    return None


def _known(directory: Path, manifest: bytes) -> Standing:
    return Standing(os.path.realpath(directory), hashlib.sha256(manifest).hexdigest())


def _is_there(directory: Path, entry: File) -> bool:
    file = directory / entry.file
    return file.is_file() and file.stat().st_size == entry.bytes


def _remove(files: Iterable[Path]) -> None:
    for file in files:
        with contextlib.suppress(OSError):
            file.unlink()


def _owner(file: Path) -> str:
    """Name of the tensors that are in a data file."""
    return file.name.rpartition("-")[0]


def _generation(file: Path) -> int:
    """Number of the checkpoint that a data file belongs to, 0 for any other file."""
    match = re.fullmatch(r"[\w.]+-(\d+)\.safetensors", file.name)
    return int(match[1]) if match else 0


def _body_sha256(body: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
