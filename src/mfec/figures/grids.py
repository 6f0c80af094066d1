"""Tables of text: in a terminal, as Markdown, as a picture."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mfec.figures.pictures import new_figure
from mfec.layout import TextTable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from rich.table import Table
    from rich.text import Text

FONT = 8.5  # points
SMALL = 7.5
LINE, PAD, GAP, SPACE, MARGIN = 0.165, 0.03, 0.22, 0.3, 0.12
"""Inches: height of a row, room at a rule, between columns, between tables, around everything."""


@dataclass(frozen=True)
class Grid:
    """One table: names of the first columns are on the left, the rest are numbers, set to the right.

    Sections are rows that belong together, with a rule between any two of them.
    """

    title: str
    header: tuple[str, ...]
    sections: list[list[tuple[str, ...]]]
    names: int  # columns with names
    note: str = ""

    @property
    def rows(self) -> list[tuple[str, ...]]:
        """All rows, without sections."""
        return [row for section in self.sections for row in section]


def to_markdown(grids: list[Grid]) -> str:
    """Tables with their titles above and notes below them."""
    parts = []
    for grid in grids:
        rule = ["---" if column < grid.names else "---:" for column in range(len(grid.header))]
        lines = [" | ".join(("", *row, "")).strip() for row in (grid.header, rule, *grid.rows)]
        parts += [grid.title, "\n".join(lines), *([grid.note] if grid.note else [])]
    return "\n\n".join(parts).replace("*", "\\*") + "\n"


def to_terminal(grid: Grid, width: int) -> Table | Text:
    """The table for a terminal of that width."""
    table = TextTable(grid.header, grid.sections, grid.names, title=grid.title, caption=grid.note)
    return table.fitted(width, framed=False)


def to_picture(grids: list[Grid]) -> Figure:
    """The tables below each other, with rules above and below each, and lighter ones between sections."""
    widths = [_column_widths(grid) for grid in grids]
    wide = max(
        max(sum(own) + GAP * (len(own) - 1), _width(grid.title, "bold"))
        for grid, own in zip(grids, widths, strict=True)
    )
    notes = [textwrap.wrap(grid.note, int(wide * 72 / (0.52 * SMALL))) for grid in grids]
    heights = [_height(grid, len(own)) for grid, own in zip(grids, notes, strict=True)]
    high = sum(heights) + SPACE * (len(grids) - 1)
    figure = new_figure(wide + 2 * MARGIN, high + 2 * MARGIN)
    figure.set_layout_engine("none")  # everything has its place
    axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
    axes.set_xlim(-MARGIN, wide + MARGIN)
    axes.set_ylim(high + MARGIN, -MARGIN)
    axes.set_axis_off()
    top = 0.0
    for grid, own, note, height in zip(grids, widths, notes, heights, strict=True):
        _draw(axes, grid, own, note, top)
        top += height + SPACE
    return figure


def _draw(axes: Axes, grid: Grid, widths: list[float], note: list[str], top: float) -> None:
    """One table whose title begins at `top`, inches down the picture."""
    across = sum(widths) + GAP * (len(widths) - 1)
    axes.text(0.0, top + LINE / 2, grid.title, fontsize=FONT, fontweight="bold", va="center")
    y = top + LINE
    for place, rows in enumerate([[grid.header], *grid.sections]):
        axes.plot([0.0, across], [y, y], color="black" if place < 2 else "0.75", linewidth=0.9 if place < 2 else 0.6)
        y += PAD
        for row in rows:
            _draw_row(axes, row, widths, grid.names, y + LINE / 2)
            y += LINE
        y += PAD
    axes.plot([0.0, across], [y, y], color="black", linewidth=0.9)
    for number, line in enumerate(note):
        axes.text(0.0, y + (number + 0.6) * LINE, line, fontsize=SMALL, color="0.3", va="center")


def _height(grid: Grid, notes: int) -> float:
    return LINE * (2 + len(grid.rows) + notes) + 2 * PAD * (1 + len(grid.sections))


def _draw_row(axes: Axes, row: Sequence[str], widths: list[float], names: int, y: float) -> None:
    x = 0.0
    for place, (cell, width) in enumerate(zip(row, widths, strict=True)):
        left = place < names
        axes.text(x if left else x + width, y, cell, fontsize=FONT, ha="left" if left else "right", va="center")
        x += width + GAP


def _column_widths(grid: Grid) -> list[float]:
    return [max(_width(row[place]) for row in (grid.header, *grid.rows)) for place in range(len(grid.header))]


def _width(text: str, weight: str = "normal") -> float:
    """Of a text in a picture, in inches."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    font = FontProperties(size=FONT, weight=weight)
    return float(text_to_path.get_text_width_height_descent(text, font, ismath=False)[0]) / 72
