"""The notebooks of the documentation run from top to bottom, and what they show is stored."""

from __future__ import annotations

import runpy
from pathlib import Path

import nbformat
import pytest

DOCS = Path(__file__).parents[1] / "docs"
NOTEBOOKS = sorted((DOCS / "notebooks").glob("*.ipynb"))


def shown(notebook: nbformat.NotebookNode) -> list[list[set[str]]]:
    """For each cell, the kinds of its outputs; numbers may differ in their last digits from machine to machine.

    What goes to stderr does not count: the first time that kernels are compiled, it says so there.
    """
    told = [[own for own in cell.get("outputs", ()) if own.get("name") != "stderr"] for cell in notebook.cells]
    return [[set(own.get("data", {own.get("name")})) for own in outputs] for outputs in told]


@pytest.mark.slow("starts a kernel, which trains an agent")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_is_stored_with_what_it_shows(tmp_path: Path, path: Path) -> None:
    executed = runpy.run_path(str(DOCS / "execute_notebooks.py"))["executed"]
    stored = nbformat.read(path, as_version=4)
    again = executed(path, tmp_path)  # raises what a cell raises
    assert shown(again) == shown(stored), f"store it anew: python docs/execute_notebooks.py {path}"
    counts = [cell.execution_count for cell in stored.cells if cell.cell_type == "code"]
    assert counts == list(range(1, len(counts) + 1))


def test_there_are_first_steps() -> None:
    assert {"first_steps", "memory_by_hand"} <= {path.stem for path in NOTEBOOKS}
