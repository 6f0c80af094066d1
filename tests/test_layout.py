"""Tables that fit: whatever the width of the terminal, every number is there, and in one piece."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from mfec.layout import TextTable, lines_of

NUMBERS = [["1,234,567.8", "98.7%", "-1,000.1", "12 (100%)"], ["0.5", "1%", "-", "1,000,000 (7%)"]]
NAMES = [["ms_pacman", "random projections"], ["q", "a VAE of its own"]]
TABLE = TextTable(
    ("run", "embedding", "mean of 100 games", "exact", "lowest", "frames"),
    [[[*names, *numbers] for names, numbers in zip(NAMES, NUMBERS, strict=True)], [["mean", "", "7.25", "", "", ""]]],
    names=2,
    title="a title of some words",
    caption="and a note below it, which is longer",
)


def printed(table: TextTable, width: int, *, framed: bool = True) -> list[str]:
    said = io.StringIO()
    console = Console(file=said, width=width)
    console.print(table.fitted(width, framed=framed))
    return [line.rstrip() for line in said.getvalue().splitlines()]


@pytest.mark.parametrize("framed", [True, False])
@pytest.mark.parametrize("width", [200, 120, 100, 80, 70, 60, 50, 40, 30])
def test_no_number_is_cut_and_no_line_is_too_wide(width, framed):
    lines = printed(TABLE, width, framed=framed)
    assert max(map(len, lines)) <= width
    text = "\n".join(lines)
    for number in [cell for row in NUMBERS for cell in row if cell != "-"] + ["7.25"]:
        assert re.search(rf"(?<![\d.,]){re.escape(number)}(?![\d.,])", text), number
    assert "…" not in text
    words = {word for cell in TABLE.header[2:] for word in cell.split()} | {
        "ms_pacman",
        "random",
        "projections",
        "note",
    }
    assert words <= set(re.findall(r"\w+", text))


def test_what_fits_is_a_table_with_a_row_for_each():
    rows = [line for line in printed(TABLE, 200) if line.startswith("│")]
    assert [line.split("│")[1].strip() for line in rows] == ["ms_pacman", "q", "mean"]
    assert any(line.startswith("├") for line in printed(TABLE, 200))  # a rule between sections


def test_a_table_without_rows_is_its_header():
    assert "exact" in "".join(printed(TextTable(("run", "exact"), [[]], names=1), 40))


@pytest.mark.parametrize("width", [80, 60, 40, 20])
def test_parts_of_a_line_are_broken_between_them(width):
    parts = ["123,456/10,000,000 frames", "1,234/s", "mean of last 100 games 12,345.6", "left 123:45"]
    lines = lines_of(parts, width)
    assert max(map(len, lines)) <= max(width, len("123,456/10,000,000"))
    assert " ".join(lines).split() == " ".join(parts).split()
    if width >= 40:
        assert all(any(part in line for line in lines) for part in parts)
