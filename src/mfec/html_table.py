"""A table for notebooks, which show what `_repr_html_` returns."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from html import escape

# No colour of its own but a grey line, so that it is readable on a notebook's light and dark background. What a
# notebook says of every table (widths, stripes) is said again where it would get in the way.
_BOX = "max-height: 36em; overflow: auto"
_TABLE = "border-collapse: collapse; width: auto; margin: 0; font-variant-numeric: tabular-nums"
_CELL = "padding: 0.15em 0.7em; border: 0; white-space: nowrap; background: transparent"
_LINE = "; border-top: 1px solid rgba(128, 128, 128, 0.5)"


def html_table(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    title: str = "",
    note: str = "",
    left: Collection[int] = (),
    strong: Collection[int] = (),
) -> str:
    """A table in HTML, with every text escaped. A row with something in its first cell begins below a line.

    left: columns of words, which begin at the left; strong: rows in bold.

    >>> html_table(["action"], [["<up>"]])
    '<div ...&lt;up&gt;...</div>'
    """

    def line(cells: Sequence[str], tag: str, style: str) -> str:
        texts = (
            f'<{tag} style="{_CELL}; text-align: {"left" if column in left else "right"}{style}">{escape(cell)}</{tag}>'
            for column, cell in enumerate(cells)
        )
        return f'<tr style="background: transparent">{"".join(texts)}</tr>'

    body = [
        line(row, "td", ("; font-weight: bold" if number in strong else "") + (_LINE if row[0] else ""))
        for number, row in enumerate(rows)
    ]
    table = f'<table style="{_TABLE}"><thead>{line(header, "th", "")}</thead><tbody>{"".join(body)}</tbody></table>'
    above = f"<div><strong>{escape(title)}</strong></div>" if title else ""
    below = f'<div style="opacity: 0.75">{escape(note)}</div>' if note else ""
    return f'<div>{above}<div style="{_BOX}">{table}</div>{below}</div>'
