"""Figures as files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mfec.files import check_writable, whole_file
from mfec.run_directory import RunDirectoryError
from mfec.statistics import FEWEST_SEEDS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

KINDS = (".png", ".pdf", ".svg")
NARROW = (
    3.4  # inches across of a figure for phones, which have 330 pixels for it: letters stay as large as they are drawn
)


def new_figure(width: float, height: float) -> Figure:
    """An empty figure of that size in inches, without a window."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def draw_error(axes: Axes, x: float, middle: float, error: float, seeds: int, *, colour: str) -> None:
    """A bar of the standard error of a mean over seeds; of two seeds, which lie just as far off it, both as points."""
    if not error > 0.0:  # NaN, of a single seed, or nothing to be seen
        return
    if seeds >= FEWEST_SEEDS:
        axes.errorbar(x, middle, yerr=error, color=colour, capsize=2.0, linewidth=0.9)
    else:
        axes.plot([x, x], [middle - error, middle + error], ".", color=colour, markersize=3.5, alpha=0.8)


def check_kind(out: Path) -> None:
    """Refuse a file name that says nothing of a picture, and a place where none can be written."""
    if out.suffix.lower() not in KINDS:
        raise RunDirectoryError(f"cannot draw {out}: a picture ends in {', '.join(KINDS)}")
    check_writable(out)


def save_figure(figure: Figure, out: Path) -> Path:
    """Write a figure; the ending of the name says which kind of picture (png, pdf, svg)."""
    check_kind(out)
    with whole_file(out) as draft:
        figure.savefig(draft, dpi=150)
    return out
