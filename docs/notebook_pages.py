"""Notebooks as pages of the site: a parser for Sphinx that shows cells and what is stored of their outputs."""

from __future__ import annotations

import json
from typing import Any

from docutils import nodes
from myst_parser.parsers.sphinx_ import MystParser


class NotebookParser(MystParser):
    """Reads a notebook as a page in MyST's Markdown."""

    supported = ("ipynb",)

    def parse(self, inputstring: str, document: nodes.document) -> None:
        """Parse the Markdown that the notebook amounts to."""
        super().parse("\n\n".join(map(_cell, json.loads(inputstring)["cells"])), document)


def setup(app: Any) -> dict[str, bool]:
    """Called by Sphinx."""
    app.add_source_suffix(".ipynb", "ipynb")
    app.add_source_parser(NotebookParser)
    return {"parallel_read_safe": True}


def _cell(cell: dict[str, Any]) -> str:
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        return source
    return "\n\n".join([_fenced("python", source), *map(_output, cell["outputs"])])


def _output(output: dict[str, Any]) -> str:
    if output["output_type"] == "stream":
        return _fenced("text", "".join(output["text"]))
    data = {kind: "".join(content) for kind, content in output["data"].items()}
    if "text/html" in data:
        return _fenced("{raw} html", f'<div class="notebook-output">{data["text/html"]}</div>')
    if "image/png" in data:
        picture = data["image/png"].replace("\n", "")
        return _fenced("{raw} html", f'<img class="notebook-output" alt="" src="data:image/png;base64,{picture}">')
    return _fenced("text", data["text/plain"])


def _fenced(kind: str, text: str) -> str:
    return f"``````{kind}\n{text.rstrip()}\n``````"
