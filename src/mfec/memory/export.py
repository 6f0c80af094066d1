"""Entries as tables of other tools: a pandas DataFrame, or a Parquet file that is written part by part."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mfec.files import whole_file
from mfec.memory.entries import Entries

if TYPE_CHECKING:
    import pandas


def to_dataframe(entries: Entries) -> pandas.DataFrame:
    """Entries as a DataFrame, one row each."""
    try:
        import pandas
    except ImportError:
        raise ImportError("a DataFrame needs the extra `export`: pip install 'mfec[export]'") from None
    kinds = {"key": "str", "state": "object"}  # pandas cannot tell them where there is no entry
    columns = _columns(entries)
    return pandas.DataFrame({name: pandas.Series(column, dtype=kinds.get(name)) for name, column in columns.items()})


def to_parquet(parts: Iterable[Entries], dim: int, path: str | Path) -> None:
    """Write entries to a Parquet file, one row group for each part."""
    try:
        import pyarrow
        from pyarrow.parquet import ParquetWriter
    except ImportError:
        raise ImportError("a Parquet file needs the extra `export`: pip install 'mfec[export]'") from None
    schema = pyarrow.schema(
        {
            "action": pyarrow.int64(),
            "value": pyarrow.float32(),
            "episode": pyarrow.int32(),
            "frame": pyarrow.int32(),
            "matched": pyarrow.int32(),
            "entry_id": pyarrow.int64(),
            "tick": pyarrow.int64(),
            "key": pyarrow.string(),
            "state": pyarrow.list_(pyarrow.float32(), dim),
        }
    )
    with whole_file(path) as draft, ParquetWriter(draft, schema) as writer:
        for part in parts:
            states = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(part.states.reshape(-1)), dim)
            writer.write_table(pyarrow.table({**_columns(part), "state": states}, schema=schema))


def _columns(entries: Entries) -> dict[str, Any]:
    """The columns of both kinds of table."""
    digits = entries.keys.tobytes().hex()
    return {
        "action": entries.actions,
        "value": entries.values,
        "episode": entries.origins[:, 0],
        "frame": entries.origins[:, 1],
        "matched": entries.matched,
        "entry_id": entries.entry_ids,
        "tick": entries.ticks,
        "key": [digits[begin : begin + 32] for begin in range(0, len(digits), 32)],
        "state": list(entries.states),  # a column however many numbers there are; np.stack makes an array of it again
    }
