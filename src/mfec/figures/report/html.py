"""HTML in which every text is escaped, unless it was made here."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from html import escape

EMPTY = {"img", "link", "meta", "source"}  # elements without an end


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


def element(name: str, /, *children: str, **attributes: str | int | bool) -> Html:
    """An element. Children that are not HTML and all attributes are escaped.

    Attributes are written as Python has them (`class_`, `aria_label`); one that is True has no value, one that is False
    or an empty text is left out.

    >>> element("p", "1 < 2, ", element("a", "so", href="?a&b", aria_label="why"), class_="note", hidden=False)
    '<p class="note">1 &lt; 2, <a href="?a&amp;b" aria-label="why">so</a></p>'
    """
    opening = [name]
    for key, value in attributes.items():
        written = key.rstrip("_").replace("_", "-")
        if value is True:
            opening.append(written)
        elif value is not False and value != "":
            opening.append(f'{written}="{escape(str(value))}"')
    start = f"<{' '.join(opening)}>"
    return Html(start if name in EMPTY else f"{start}{together(children)}</{name}>")


def together(parts: Iterable[str], between: str = "") -> Html:
    """Parts one after the other, each escaped unless it is HTML."""
    return Html(_html(between).join(map(_html, parts)))


def data_uri(kind: str, content: bytes) -> str:
    """A file inside the page."""
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


def _html(text: str) -> str:
    return text if isinstance(text, Html) else escape(text)
