"""The figures of a report, as pictures and tables inside the page."""

from __future__ import annotations

import math
import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Protocol

from mfec.figures.grids import Grid
from mfec.figures.report.html import Html, data_uri, element, together

PIXELS = 96 / 72  # in a point
PHONE = "screen and (max-width: 48rem)"  # below that, letters of a wide figure would be smaller than 6 points
FEW_COLUMNS = 3  # of a table that is no list on a phone


@dataclass(frozen=True)
class Picture:
    """A figure as SVG, for wide windows and for phones, and the numbers in it as CSV."""

    svg: bytes
    narrow: bytes
    csv: bytes


class Drawing(Protocol):
    """A function that draws into a file, narrow or not, or writes numbers where the ending is .csv."""

    def __call__(self, out: Path, *, narrow: bool = False) -> Path:
        """Draw, and give the file."""


def drawn(draw: Drawing) -> Picture:
    """What a function draws."""
    from matplotlib import rc_context

    # A dollar in the name of an environment is one: it begins no formula.
    with TemporaryDirectory() as folder, rc_context({"text.parse_math": False}):
        svg, csv = (draw(Path(folder) / f"figure.{ending}").read_bytes() for ending in ("svg", "csv"))
        return Picture(svg, draw(Path(folder) / "narrow.svg", narrow=True).read_bytes(), csv)


def figure(picture: Picture, *, name: str, alt: str, caption: Html | str) -> Html:
    """A figure with its caption and a link to its numbers; a narrow window has a drawing of its own.

    The picture is an image and no part of the page: names of its parts do not meet those of other pictures.
    """
    wide, high = _size(picture.svg)
    image = element("img", src=data_uri("image/svg+xml", picture.svg), alt=alt, width=wide, height=high)
    wide, high = _size(picture.narrow)
    phone = element("source", media=PHONE, srcset=data_uri("image/svg+xml", picture.narrow), width=wide, height=high)
    download = numbers(picture.csv, f"{name}.csv")
    return element(
        "figure",
        element("picture", phone, image),
        element("figcaption", caption, " ", download),
    )


def numbers(csv: bytes, name: str) -> Html:
    """A link that saves a table."""
    link = element("a", name, href=data_uri("text/csv;charset=utf-8", csv), download=name)
    return element("span", "Numbers: ", link, f" ({max(1, round(len(csv) / 1000)):,} kB).", class_="numbers")


def table(grid: Grid, *, texts: Collection[str] = ()) -> Html:
    """A grid as a table: names head their rows, and the first of two heads all rows of a section.

    All columns but those of names and of `texts` are numbers.
    """
    kinds = ["text" if name in texts else "number" for name in grid.header]
    classes = ["" if place < grid.names else kind for place, kind in enumerate(kinds)]
    heads = (element("th", name, scope="col", class_=own) for name, own in zip(grid.header, classes, strict=True))
    body = together(
        element("tbody", *(_row(grid, classes, rows, place) for place in range(len(rows)))) for rows in grid.sections
    )
    many = len(grid.header) > FEW_COLUMNS
    head = element("thead", element("tr", *heads))
    whole = element("table", element("caption", grid.title), head, body, class_="list" if many else "")
    note = element("p", grid.note, class_="note") if grid.note else Html()
    return together([scrolling(whole, label=f"Table: {grid.title}"), note])


def scrolling(content: Html, *, label: str, class_: str = "") -> Html:
    """A box that scrolls where its content is wider; one can come to it with the keyboard."""
    return element("div", content, class_=f"scrolling {class_}".strip(), role="region", aria_label=label, tabindex=0)


def _row(grid: Grid, classes: list[str], rows: list[tuple[str, ...]], place: int) -> Html:
    row, names = rows[place], grid.names
    cells = []
    if names > 1 and place == 0:
        cells.append(element("th", row[0], scope="rowgroup", rowspan=len(rows)))
    named = grid.header[0] if names == 1 else ""  # an environment's rows say what they are
    cells.append(element("th", row[names - 1], scope="row", data_name=named))
    own = zip(row[names:], classes[names:], grid.header[names:], strict=True)
    cells += [element("td", cell, class_=kind, data_name=name) for cell, kind, name in own]
    return element("tr", *cells)


def _size(svg: bytes) -> tuple[int, int]:
    """Of a picture, in pixels."""
    found = re.search(rb'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg)
    if found is None:
        raise ValueError("the picture does not say its size")
    wide, high = (math.ceil(float(side) * PIXELS) for side in found.groups())
    return wide, high
