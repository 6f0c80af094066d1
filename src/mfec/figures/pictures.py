"""Figures as files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mfec.files import check_writable, whole_file
from mfec.run_directory import RunDirectoryError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KINDS = (".png", ".pdf", ".svg")


def new_figure(width: float, height: float) -> Figure:
    """An empty figure of that size in inches, without a window."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


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
