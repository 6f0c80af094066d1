"""What a figure draws, as a picture or as the numbers in it: a table with one observation a row."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mfec.figures.lines import FigureError
from mfec.figures.pictures import KINDS, save_figure
from mfec.files import check_writable, whole_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Row = dict[str, str | int | float]


def check_ending(out: Path, *more: str) -> None:
    """Refuse a file name that is neither that of a picture nor of a table, and a place where no file can be written.

    more: endings of tables besides .csv.
    """
    if out.suffix.lower() not in (*KINDS, ".csv", *more):
        tables = " or ".join((".csv", *more))
        raise FigureError(f"cannot write {out}: a picture ends in {', '.join(KINDS)}, its numbers in {tables}")
    check_writable(out)


def save(out: Path, rows: Sequence[Row], draw: Callable[[], Figure]) -> Path:
    """Write the numbers where the ending is .csv, else the picture."""
    check_ending(out)
    if out.suffix.lower() != ".csv":
        return save_figure(draw(), out)
    with whole_file(out) as draft, draft.open("w", newline="") as file:
        table = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        table.writeheader()
        table.writerows({name: _cell(value) for name, value in row.items()} for row in rows)
    return out


def _cell(value: str | int | float) -> str:
    """Numbers to ten digits, and nothing where there is none."""
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:.10g}"
    return str(value)
