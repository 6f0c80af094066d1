"""The document of the inspector: one HTML text with its style, its script and, exported, its data inside."""

from __future__ import annotations

import base64
import hashlib
from html import escape
from importlib import resources
from string import Template

from mfec import __version__

# One after the other they are one script: each uses only what those before it define.
SCRIPTS = (
    "words.js",
    "source.js",
    "frames.js",
    "thumbnails.js",
    "numbers.js",
    "timeline.js",
    "transport.js",
    "cards.js",
    "decision.js",
    "map.js",
    "comparison.js",
    "keys.js",
    "address.js",
    "inspector.js",
    "start.js",
)


def page_document(*, title: str, recorded: bytes | None = None) -> tuple[str, str]:
    """The page, and the Content-Security-Policy that it is to be shown under.

    recorded: zlib-compressed JSON of all responses that the page will ask for. Such a page needs no server, is
    closed to the network and carries its policy itself; one without asks the server that it came from.
    """
    style, script = _read("page.css"), _script()
    policy = _policy(style, script, connect="'self'" if recorded is None else "'none'")
    meta = f'<meta http-equiv="Content-Security-Policy" content="{escape(policy)}">'
    data = "" if recorded is None else base64.b64encode(recorded).decode()
    html = Template(_read("page.html")).substitute(
        title=escape(title),
        version=escape(__version__),
        policy="" if recorded is None else meta,
        style=style,
        script=script,
        recorded="" if recorded is None else f'<script type="application/json" id="recorded">{data}</script>',
    )
    # Browsers take this directive from a header only, and complain of it elsewhere.
    return html, policy if recorded is not None else f"{policy}; frame-ancestors 'none'"


def _script() -> str:
    return '(() => {\n"use strict";\n' + "\n".join(map(_read, SCRIPTS)) + "})();\n"


def _policy(style: str, script: str, *, connect: str) -> str:
    """Nothing but this style, this script, pictures inside the page, and requests where they are due."""
    return (
        f"default-src 'none'; script-src {_source(script)}; style-src {_source(style)}; connect-src {connect}; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )


def _source(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _read(name: str) -> str:
    return (resources.files("mfec.inspector") / "page" / name).read_text(encoding="utf-8")
