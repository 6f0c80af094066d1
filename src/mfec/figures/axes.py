"""Axes that people read: frames as 10k, 0.5M or 10M, scores with their thousands, no offset beside either."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def label_frames(axes: Axes) -> None:
    """Write the numbers of an axis of frames in units that fit the longest."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    last = axes.get_xlim()[1]
    axes.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda frames, _: show_frames(frames, last)))


def label_scores(axes: Axes) -> None:
    """Write the numbers of an axis of scores whole."""
    from matplotlib.ticker import FuncFormatter

    axes.yaxis.set_major_formatter(FuncFormatter(lambda score, _: f"{score:,.10g}".replace("-", "\N{MINUS SIGN}")))


def show_frames(frames: float, last: float) -> str:
    """A number of frames on an axis that goes as far as `last`.

    >>> show_frames(500, 900), show_frames(10_000, 40_000), show_frames(500_000, 2e6), show_frames(1e7, 1e7)
    ('500', '10k', '0.5M', '10M')
    """
    unit, letter = (1e6, "M") if last >= 1e6 else (1e3, "k") if last >= 1e3 else (1.0, "")
    return f"{frames / unit:.10g}{letter if frames else ''}"
