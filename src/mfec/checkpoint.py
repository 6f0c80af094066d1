"""Checkpoints: a directory of safetensors files and one JSON manifest with their checksums. Loading runs nothing.

The data files of a new checkpoint get new names; then one atomic rename of the manifest makes them the checkpoint,
and the old files go. Killed at any moment, the directory holds the old checkpoint or the new one, whole. A reader
gets one of the two, even while it is replaced.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from mfec.errors import MfecError
from mfec.files import sync, whole_file, write_whole

CHECKPOINT = "checkpoint"  # the folder of a run's in its directory
MANIFEST = "manifest.json"
FORMAT = "mfec checkpoint"
VERSION = 1

Tensors = Mapping[str, NDArray[Any]]


class CheckpointError(MfecError):
    """A checkpoint that cannot be written or read; the message says which file and what is wrong."""


def write_checkpoint(path: str | Path, *, kind: str, state: Mapping[str, Any], tensors: Mapping[str, Tensors]) -> None:
    """Replace the checkpoint in directory `path` atomically.

    kind: what it holds ("memory", "agent"); state: what JSON can hold; tensors: file name (without ending) to its
    tensors. If the disk is full or the write fails otherwise, the last good checkpoint stays and the error says so.
    """
    directory = Path(path)
    written: list[Path] = []
    try:
        directory.mkdir(parents=True, exist_ok=True)
        generation = 1 + max((_generation(file) for file in directory.iterdir()), default=0)
        files = {}
        for name, arrays in tensors.items():
            file = directory / f"{name}-{generation}.safetensors"
            written.append(file)
            with whole_file(file, durable=True) as draft:
                save_file({key: np.asarray(array, order="C") for key, array in arrays.items()}, draft)
            files[name] = {"file": file.name, "bytes": file.stat().st_size, "sha256": _sha256(file)}
        body = {"format": FORMAT, "version": VERSION, "kind": kind, "files": files, "state": state}
        body = json.loads(json.dumps(body))
        manifest = json.dumps({**body, "sha256": _body_sha256(body)}, indent=1) + "\n"
        write_whole(directory / MANIFEST, manifest, durable=True)
    except (OSError, SafetensorError) as error:
        _remove(written)
        kept = "the last good checkpoint is kept" if (directory / MANIFEST).exists() else "nothing is kept"
        raise CheckpointError(f"cannot save {directory}: {error}; {kept}") from None
    with contextlib.suppress(OSError):
        sync(directory)
    current = {entry["file"] for entry in files.values()}
    _remove(
        file
        for file in list(directory.iterdir())
        if _generation(file) and _owner(file) in tensors and file.name not in current
    )


def read_checkpoint(
    path: str | Path, *, kind: str, only: Collection[str] | None = None
) -> tuple[dict[str, Any], dict[str, dict[str, NDArray[Any]]]]:
    """State and tensors of the checkpoint in directory `path`, every byte checked.

    only: the tensors to read, by their file's name; by default all of them. If the checkpoint is replaced meanwhile,
    the new one is read.
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
) -> tuple[dict[str, Any], dict[str, dict[str, NDArray[Any]]]]:
    """State and tensors of the checkpoint whose manifest has this text."""
    manifest = directory / MANIFEST
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        raise CheckpointError(f"{manifest} is damaged: it is not valid JSON") from None
    if not isinstance(body, dict) or body.get("format") != FORMAT:
        raise CheckpointError(f"{manifest} is not the manifest of an {FORMAT}")
    if body.get("version") != VERSION:
        raise CheckpointError(f"{manifest} has format version {body.get('version')!r}, this program reads {VERSION}")
    if body.pop("sha256", None) != _body_sha256(body):
        raise CheckpointError(f"{manifest} is damaged: its checksum does not match")
    if body.get("kind") != kind:
        raise CheckpointError(f"{directory} holds the checkpoint of a {body.get('kind')!r}, not of a {kind!r}")
    tensors = {}
    try:
        entries = {
            name: {"file": str(entry["file"]), "bytes": entry["bytes"], "sha256": entry["sha256"]}
            for name, entry in body["files"].items()
            if only is None or name in only
        }
        state = dict(body["state"])
    except (KeyError, TypeError, ValueError, AttributeError):
        raise CheckpointError(f"{manifest} is not the manifest of an {FORMAT}: parts are missing") from None
    for name, entry in entries.items():
        file = directory / Path(entry["file"]).name
        try:
            if not file.is_file():
                raise CheckpointError(f"{file} is missing")
            if (size := file.stat().st_size) != entry["bytes"]:
                raise CheckpointError(f"{file} is damaged: {size} bytes instead of {entry['bytes']}")
            if _sha256(file) != entry["sha256"]:
                raise CheckpointError(f"{file} is damaged: its checksum does not match")
            tensors[name] = load_file(file)
        except (SafetensorError, OSError, ValueError, TypeError, AttributeError, KeyError) as error:
            raise CheckpointError(f"{file} cannot be read: {error}") from None
    return state, tensors


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


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
