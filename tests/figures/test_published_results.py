"""`docs/results.md` says what the committed runs say, and its figures show it."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from mfec.figures.figure1 import figure1
from mfec.figures.table import table
from mfec.run_directory import RunDirectory, find_runs

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def command() -> list[str]:
    """The command that draws the page's first figure."""
    found = re.search(r"^    mfec figure figure1 (.*?)--out \S+figure1\.png$", TEXT, re.MULTILINE | re.DOTALL)
    assert found
    return shlex.split(found[1].replace("\\\n", " "))


@pytest.fixture(scope="module")
def runs(command) -> list[RunDirectory]:
    return find_runs([ROOT / argument for argument in command if argument.startswith("results/")])


def test_every_mean_and_standard_error_is_that_of_the_runs(runs):
    known = [(entry.value, entry.standard_error) for entry in table(runs) if entry.quantity in ("score", "final_score")]
    said = re.findall(r"(-?[\d,]*\d(?:\.\d)?) ± ([\d,]*\d(?:\.\d)?)", " ".join(TEXT.split()))
    assert len(said) > 25
    for numbers in said:
        near = 0.501 if "." not in numbers[0] else 0.0501  # as they were rounded
        value, error = (float(number.replace(",", "")) for number in numbers)
        assert any(abs(value - ours) <= near and abs(error - theirs) <= near for ours, theirs in known), numbers


def test_the_figure_shows_what_the_text_says_of_the_maze(command, runs):
    assert "--total-frames" not in command  # every curve to its end
    [panel] = [panel for panel in figure1(runs) if panel.title == "Double T-Maze"]
    curves = {line.embedding: curve for line, curve in zip(panel.lines, panel.curves, strict=True)}
    for embedding, millions, score in (("vae", 4.0, 24.6), ("vae", 5.5, 23.5), ("random_projection", 10.0, 13.5)):
        curve = curves[embedding]
        assert curve.frames[-1] > (millions - 0.05) * 1e6
        assert np.interp(millions * 1e6, curve.frames, curve.mean) == pytest.approx(score, abs=0.3)
