"""Memories as tables of pandas and Arrow."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas
import pyarrow
import pytest
from pyarrow import parquet

from mfec.memory import EpisodicMemory, entries

INDEXES = ["exact", "cells", "none", pytest.param("cuda", marks=pytest.mark.torch)]


def filled(index: str = "exact") -> EpisodicMemory:
    rng = np.random.default_rng(0)
    memory = EpisodicMemory(3, 5, capacity=30, k=4, index=index)
    origins = rng.integers(0, 50, (100, 2))
    memory.write(rng.standard_normal((100, 5)), rng.integers(0, 3, 100), rng.standard_normal(100), origins=origins)
    memory.estimate(memory.entries(1).states)
    return memory


@pytest.mark.parametrize("index", INDEXES)
def test_a_data_frame_has_all_of_every_entry(index: str) -> None:
    memory = filled(index)
    frame = memory.to_dataframe()
    assert len(frame) == len(memory) == 90
    for row, entry in zip(frame.itertuples(), memory, strict=True):
        assert row.state.tolist() == entry.state.tolist()
        assert bytes.fromhex(row.key) == entry.key.tobytes()
        for name in ("action", "value", "episode", "frame", "matched", "entry_id", "tick"):
            assert getattr(row, name) == getattr(entry, name)
    assert np.stack(frame.state).tobytes() == memory.entries().states.tobytes()
    assert frame.matched.groupby(frame.action).sum().tolist() == [0, 30, 0]
    assert memory.to_dataframe(2).action.tolist() == [2] * 30


@pytest.mark.parametrize("index", INDEXES)
@pytest.mark.parametrize("at_once", [7, 65_536])
def test_a_parquet_file_is_the_data_frame(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, index: str, at_once: int
) -> None:
    monkeypatch.setattr(entries, "AT_ONCE", at_once)
    memory = filled(index)
    path = tmp_path / "new folder" / "memory.parquet"
    memory.to_parquet(path)
    pandas.testing.assert_frame_equal(pandas.read_parquet(path), memory.to_dataframe())
    assert parquet.ParquetFile(path).num_row_groups == -(-90 // at_once)
    assert parquet.read_schema(path).field("state").type == pyarrow.list_(pyarrow.float32(), 5)
    memory.clear()
    memory.to_parquet(path)  # in place of the old one
    pandas.testing.assert_frame_equal(pandas.read_parquet(path), memory.to_dataframe())
    assert len(memory.to_dataframe()) == 0


def test_without_pandas_and_pyarrow_everything_else_works_and_the_extra_is_named() -> None:
    code = """
import sys
sys.modules["pandas"] = sys.modules["pyarrow"] = None
from mfec import EpisodicMemory
memory = EpisodicMemory(1, 1, capacity=5, k=1)
memory.write([[0.0], [1.0]], [0, 0], [1.0, 2.0])
assert memory.filter(lambda entries: entries.values > 1.5) == 1
for export in (memory.to_dataframe, lambda: memory.to_parquet("memory.parquet")):
    try:
        export()
    except ImportError as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "a DataFrame needs the extra `export`: pip install 'mfec[export]'",
        "a Parquet file needs the extra `export`: pip install 'mfec[export]'",
    ]
