"""The progress bar in a notebook: one output that is replaced. (On a terminal: `experiments/test_display.py`.)"""

from __future__ import annotations

from typing import Any

import pytest

nbformat: Any = pytest.importorskip("nbformat")
nbclient: Any = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")

CELLS = (
    "import logging, mfec, mfec.terminal\nmfec.terminal.LIVE_SECONDS = 0.0",
    "agent = mfec.MFEC('FrozenLake-v1', capacity=100, seed=0).learn(300, progress_bar=True)",
    "mfec.train('FrozenLake-v1', OUT, total_frames=200, capacity=100)",
    "agent",
)


@pytest.mark.slow(reason="starts a kernel")
def test_in_a_notebook_it_is_one_output_that_is_replaced_and_an_agent_is_a_table(tmp_path):
    cells = [nbformat.v4.new_code_cell(source.replace("OUT", repr(str(tmp_path / "run")))) for source in CELLS]
    notebook = nbformat.v4.new_notebook(cells=cells)
    nbclient.NotebookClient(notebook, timeout=None, kernel_name="python3").execute(cwd=str(tmp_path))
    _, learned, trained, agent = ([own for own in cell.outputs if "data" in own] for cell in notebook.cells)
    [bar] = learned
    assert "300/300 frames" in bar["data"]["text/plain"]
    assert "300/300 frames" in bar["data"]["text/html"]
    assert "━" in bar["data"]["text/html"]
    said = ["".join(own["data"].get("text/plain", "")) for own in trained]
    assert said[0].startswith("memory: 4 x 100 entries can grow to ")
    assert sum("200/200 frames" in own for own in said) == 1
    assert agent[0]["data"]["text/html"].startswith("<table><caption>MFEC</caption>")
