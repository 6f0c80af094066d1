"""A table for notebooks, which show what `_repr_html_` returns."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from html import escape

# It has no colour but a grey line, so that it is readable on a light and on a dark page. Styles are said once, and not
# in every cell: 18 actions with 50 neighbours each are 8,100 cells. A page that drops them still shows a table.
STYLE = """\
<style>
div.mfec-table > div { max-height: 36em; overflow: auto; }
div.mfec-table > p { margin: 0.3em 0; }
div.mfec-table table { border-collapse: collapse; width: auto; margin: 0; font-variant-numeric: tabular-nums; }
div.mfec-table tr > * { padding: 0.15em 0.7em; border: 0; text-align: right; white-space: nowrap; }
div.mfec-table tr > .words { text-align: left; }
div.mfec-table tr.first > * { border-top: 1px solid rgba(128, 128, 128, 0.6); }
div.mfec-table tr > .strong { font-weight: bold; }
</style>"""


def html_table(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    title: str = "",
    note: str = "",
    words: Collection[int] = (),
    strong: Mapping[int, Collection[int]] | None = None,
) -> str:
    """A table in HTML, with every text escaped. A row with something in its first cell begins below a line.

    words: columns that begin at the left; strong: for some rows, by number, the columns in bold.

    >>> html_table(["action"], [["<up>"]]).splitlines()[-1]
    '<tr class="first"><td>&lt;up&gt;</td></tr></tbody></table></div></div>'
    """

    lines = [f"<table><thead><tr>{_cells(header, 'th', words)}</tr></thead><tbody>"]
    for number, row in enumerate(rows):
        kind = ' class="first"' if row[0] else ""
        lines.append(f"<tr{kind}>{_cells(row, 'td', words, (strong or {}).get(number, ()))}</tr>")
    above = f"<p><b>{escape(title)}</b></p>" if title else ""
    below = f"<p>{escape(note)}</p>" if note else ""
    table = "\n".join(lines)
    return f'{STYLE}\n<div class="mfec-table">{above}<div>{table}</tbody></table></div>{below}</div>'


def _cells(texts: Sequence[str], tag: str, words: Collection[int], strong: Collection[int] = ()) -> str:
    cells = []
    for column, text in enumerate(texts):
        kinds = " ".join(kind for kind, own in (("words", words), ("strong", strong)) if column in own)
        cells.append(f'<{tag} class="{kinds}">{escape(text)}</{tag}>' if kinds else f"<{tag}>{escape(text)}</{tag}>")
    return "".join(cells)
