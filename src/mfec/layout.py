"""Texts and tables that fit a terminal, however narrow it is: nothing is cut in the middle of a number."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text


def lines_of(parts: Sequence[str], width: int, *, indent: str = "") -> list[str]:
    """Parts side by side in lines of that width, broken between parts; a part that is too wide, between words.

    >>> lines_of(["1,000/20,000 frames", "150/s", "left 2:06"], 28)
    ['1,000/20,000 frames  150/s', 'left 2:06']
    """
    lines: list[str] = []
    for part in parts:
        if lines and len(lines[-1]) + 2 + len(part) <= width:
            lines[-1] += f"  {part}"
        else:
            room = max(width - len(indent), 1)
            pieces = textwrap.wrap(part, room, break_long_words=False, break_on_hyphens=False)
            lines += [indent + piece for piece in pieces]
    return lines


@dataclass(frozen=True)
class TextTable:
    """A table: so many columns of names, then numbers; its sections have a rule between them."""

    header: Sequence[str]
    sections: Sequence[Sequence[Sequence[str]]]
    names: int
    title: str = ""
    caption: str = ""

    def fitted(self, width: int, *, framed: bool = True) -> Table | Text:
        """The table for a terminal of that width; no number is cut.

        Where it is wider, its names and its header have several lines; where that is not enough, its frame goes; and
        where that is not enough, rows stand below each other, with the header beside every number.
        """
        table = self._table([None] * len(self.header), framed)
        if _width(table) <= width:
            return table
        for frame in (framed, False):
            widths = self._least_widths()
            spare = width - _width(self._table(widths, frame))
            if spare >= 0:
                for place in range(self.names):  # fewer lines where there is room
                    wider = min(spare, max(map(len, self._column(place))) - widths[place])
                    widths[place], spare = widths[place] + wider, spare - wider
                return self._table(widths, frame)
        return self._listed(width)

    def _column(self, place: int) -> list[str]:
        return [self.header[place], *(row[place] for section in self.sections for row in section)]

    def _least_widths(self) -> list[int]:
        """Names and the header can be broken between words, numbers cannot."""
        widths = []
        for place, name in enumerate(self.header):
            cells = self._column(place)
            words = cells if place < self.names else [name]
            whole = [] if place < self.names else cells[1:]
            widths.append(max(map(len, [*(word for text in words for word in text.split()), *whole, ""])))
        return widths

    def _table(self, widths: Sequence[int | None], framed: bool) -> Table:
        style: dict[str, Any] = {} if framed else {"box": SIMPLE_HEAD, "padding": (0, 1, 0, 0)}
        table = Table(title=self.title or None, caption=self.caption or None, **style)
        table.title_justify = table.caption_justify = "left"
        for place, (name, width) in enumerate(zip(self.header, widths, strict=True)):
            left = place < self.names or not name  # a column without a name has words
            table.add_column(name, justify="left" if left else "right", width=width)
        for section in self.sections:
            for place, row in enumerate(section):
                table.add_row(*map(Text, row), end_section=place == len(section) - 1)
        return table

    def _listed(self, width: int) -> Text:
        lines = textwrap.wrap(self.title, width)
        for row in (row for section in self.sections for row in section):
            lines += lines_of([cell for cell in row[: self.names] if cell], width)
            numbers = zip(self.header[self.names :], row[self.names :], strict=True)
            lines += lines_of([f"{name} {cell}".strip() for name, cell in numbers if cell], width, indent="  ")
        return Text("\n".join([*lines, *textwrap.wrap(self.caption, width)]))


def _width(table: Table) -> int:
    return Console(width=100_000).measure(table).maximum
