"""Files of tensors in the safetensors format, written and read in one pass each, with their checksum.

A file is the length of its header (8 bytes), the header (JSON: type, shape and place of each tensor), and the numbers.
The library `safetensors` copies all of a file before it writes or hands it out; a memory of 3 GB would need 6.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

AT_ONCE = 2**20  # bytes that are written, or read, and then summed up while they are in the cache
TYPES = {
    "BOOL": np.bool_, "U8": np.uint8, "I8": np.int8, "U16": np.uint16, "I16": np.int16, "F16": np.float16,
    "U32": np.uint32, "I32": np.int32, "F32": np.float32, "U64": np.uint64, "I64": np.int64, "F64": np.float64,
}  # fmt: skip
NAMES = {np.dtype(kind): name for name, kind in TYPES.items()}

Tensor = NDArray[Any] | Sequence[NDArray[Any]]
Tensors = Mapping[str, Tensor]
"""Tensors by their names; one may be given in pieces, which follow each other along its first axis."""


class DamagedFile(ValueError):
    """A file that is not what was written."""


def write_tensors(file: Path, tensors: Tensors) -> str:
    """Write a file; returns its SHA-256. No tensor is copied, unless it is a view that has gaps."""
    pieces = {name: [np.asarray(tensor)] if hasattr(tensor, "shape") else tensor for name, tensor in tensors.items()}
    # The widest numbers come first, so that all of them lie where a processor expects them.
    names = sorted(pieces, key=lambda name: (-pieces[name][0].dtype.itemsize, name))
    header, end = {}, 0
    for name in names:
        first, begin = pieces[name][0], end
        if first.dtype not in NAMES:
            raise TypeError(f"a file of tensors cannot hold {name!r}: its type is {first.dtype}")
        end += sum(piece.nbytes for piece in pieces[name])
        shape = [sum(map(len, pieces[name])), *first.shape[1:]] if first.ndim else []
        header[name] = {"dtype": NAMES[first.dtype], "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    digest = hashlib.sha256()
    with file.open("wb") as stream:
        for piece in (
            np.array([len(text)], "<u8"),
            np.frombuffer(text, np.uint8),
            *(p for n in names for p in pieces[n]),
        ):
            data = np.ascontiguousarray(piece, piece.dtype.newbyteorder("<")).reshape(-1).view(np.uint8)
            for begin in range(0, len(data), AT_ONCE):
                some = data[begin : begin + AT_ONCE].data
                stream.write(some)
                digest.update(some)
    return digest.hexdigest()


def read_tensors(stream: BinaryIO, size: int, sha256: str) -> dict[str, NDArray[Any]]:
    """The tensors of a file of that size and checksum: views of one array that has all of it."""
    data, digest = np.empty(size, np.uint8), hashlib.sha256()
    stream.seek(0)
    for begin in range(0, size, AT_ONCE):
        some = data[begin : begin + AT_ONCE].data
        if stream.readinto(some) != len(some):  # type: ignore[attr-defined]
            raise DamagedFile("it ends too early")
        digest.update(some)
    if digest.hexdigest() != sha256:
        raise DamagedFile("its checksum does not match")
    begin = 8 + int.from_bytes(data[:8].tobytes(), "little")
    if begin > size:
        raise ValueError("its header lies outside of it")
    header = json.loads(data[8:begin].tobytes())
    header.pop("__metadata__", None)
    return {name: _view(data[begin:], **about) for name, about in header.items()}


def _view(data: NDArray[np.uint8], *, dtype: str, shape: list[int], data_offsets: list[int]) -> NDArray[Any]:
    begin, end = data_offsets
    if not 0 <= begin <= end <= len(data):
        raise ValueError("a tensor lies outside of the file")
    return data[begin:end].view(np.dtype(TYPES[dtype]).newbyteorder("<")).reshape(shape)
