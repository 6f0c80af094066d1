"""Files of tensors: what the library `safetensors` reads and writes, and no more in memory than there is."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from mfec.tensor_files import TYPES, read_tensors, write_tensors

TENSORS: dict[str, Any] = {
    **{name: np.arange(7).astype(kind) for name, kind in TYPES.items()},
    "scalar": np.array(3.5), "none": np.zeros((0, 5), np.float32), "turned": np.arange(12).reshape(3, 4).T,
    "é": np.ones(1),
}  # fmt: skip


def equal(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return one.keys() == other.keys() and all(
        (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes())
        for a, b in ((one[name], other[name]) for name in one)
    )


def test_the_library_reads_what_is_written_and_its_files_are_read(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours.safetensors", tmp_path / "theirs.safetensors"
    digest = write_tensors(ours, TENSORS)
    assert digest == hashlib.sha256(ours.read_bytes()).hexdigest()
    assert equal(load_file(ours), TENSORS)
    save_file({name: np.asarray(tensor, order="C") for name, tensor in TENSORS.items()}, theirs, metadata={"a": "b"})
    for file in (ours, theirs):
        with file.open("rb") as stream:
            data = file.read_bytes()
            read = read_tensors(stream, len(data), hashlib.sha256(data).hexdigest())
        assert equal(read, TENSORS)
        assert all(tensor.flags.aligned and tensor.flags.writeable for tensor in read.values())


def test_pieces_make_one_tensor(tmp_path: Path) -> None:
    pieces = [np.ones((2, 3), np.float32), np.zeros((0, 3), np.float32), np.full((1, 3), 7, np.float32)]
    write_tensors(tmp_path / "file", {"whole": pieces, "one": pieces[:1]})
    assert equal(load_file(tmp_path / "file"), {"whole": np.concatenate(pieces), "one": pieces[0]})


@pytest.mark.parametrize("kind", [object, complex, "U3", "datetime64[s]"])
def test_what_the_format_lacks_is_an_error_that_names_it(tmp_path: Path, kind: Any) -> None:
    with pytest.raises(TypeError, match="cannot hold 'odd'"):
        write_tensors(tmp_path / "file", {"odd": np.zeros(2, kind)})
