"""The figures of a report, as pictures and tables inside the page."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from mfec.figures.grids import Grid
from mfec.figures.report.html import Html, data_uri, element, together

PIXELS = 96 / 72  # in a point


@dataclass(frozen=True)
class Picture:
    """A figure as SVG, and the numbers in it as CSV."""

    svg: bytes
    csv: bytes


def drawn(draw: Callable[[Path], Path]) -> Picture:
    """What a function draws into a file, or writes where the ending is .csv."""
    from matplotlib import rc_context

    # A dollar in the name of an environment is one: it begins no formula.
    with TemporaryDirectory() as folder, rc_context({"text.parse_math": False}):
        svg, csv = (draw(Path(folder) / f"figure.{ending}").read_bytes() for ending in ("svg", "csv"))
        return Picture(svg, csv)


def figure(picture: Picture, *, name: str, alt: str, caption: Html | str) -> Html:
    """A figure with its caption and a link to its numbers; wider than the window, it scrolls in its box.

    The picture is an image and no part of the page: names of its parts do not meet those of other pictures.
    """
    wide, high = _size(picture.svg)
    source = data_uri("image/svg+xml", picture.svg)
    image = element("img", src=source, alt=alt, width=wide, height=high)
    download = numbers(picture.csv, f"{name}.csv")
    return element(
        "figure",
        scrolling(image, label=f"Picture: {name}", class_="picture"),
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
    classes = ["" if place < grid.names or name in texts else "number" for place, name in enumerate(grid.header)]
    heads = (element("th", name, scope="col", class_=own) for name, own in zip(grid.header, classes, strict=True))
    body = together(
        element("tbody", *(_row(grid.names, classes, rows, place) for place in range(len(rows))))
        for rows in grid.sections
    )
    whole = element("table", element("caption", grid.title), element("thead", element("tr", *heads)), body)
    note = element("p", grid.note, class_="note") if grid.note else Html()
    return together([scrolling(whole, label=f"Table: {grid.title}"), note])


def scrolling(content: Html, *, label: str, class_: str = "") -> Html:
    """A box that scrolls where its content is wider; one can come to it with the keyboard."""
    return element("div", content, class_=f"scrolling {class_}".strip(), role="region", aria_label=label, tabindex=0)


def _row(names: int, classes: list[str], rows: list[tuple[str, ...]], place: int) -> Html:
    row = rows[place]
    cells = []
    if names > 1 and place == 0:
        cells.append(element("th", row[0], scope="rowgroup", rowspan=len(rows)))
    cells.append(element("th", row[names - 1], scope="row"))
    cells += [element("td", cell, class_=own) for cell, own in zip(row[names:], classes[names:], strict=True)]
    return element("tr", *cells)


def _size(svg: bytes) -> tuple[int, int]:
    """Of a picture, in pixels."""
    found = re.search(rb'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg)
    if found is None:
        raise ValueError("the picture does not say its size")
    wide, high = (math.ceil(float(side) * PIXELS) for side in found.groups())
    return wide, high
