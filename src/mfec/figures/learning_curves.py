"""Learning curves: score against frames, mean and standard error over seeds."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mfec.figures import ScoreName
from mfec.figures.axes import label_frames, label_scores
from mfec.figures.legends import legend_labels
from mfec.figures.lines import FigureError, curve_settings, place_of, refuse_repeated_seeds, seeds_of, title_of
from mfec.figures.pictures import check_kind, new_figure, save_figure
from mfec.figures.scores import SCORES, check_scored, displacement
from mfec.run_directory import RunDirectory
from mfec.statistics import FEWEST_SEEDS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PANEL, ALONE = (4.2, 3.0), (6.4, 3.8)
"""Inches: of one among several, and of one alone."""
MOST_COLUMNS = 3
LONG_LABEL = 70  # letters of a line in the legend
LETTER, HANDLE = 0.075, 0.6
"""Inches: of a letter in the legend, and of what stands beside its text."""


@dataclass(frozen=True)
class Curve:
    """One line of the figure: all seeds of one setting."""

    label: str
    frames: NDArray[np.float64]  # (points,)
    mean: NDArray[np.float64]  # (points,)
    standard_error: NDArray[np.float64]  # (points,), 0 for a single seed
    each: NDArray[np.float64]  # (seeds, points)

    @property
    def seeds(self) -> int:
        """How many there are."""
        return len(self.each)

    @property
    def marker(self) -> str:
        """That of a point alone, which has no line."""
        return "." if self.frames[0] == self.frames[-1] else ""


def learning_curves(runs: list[RunDirectory], *, score: ScoreName = "training") -> dict[str, list[Curve]]:
    """Curves of these runs for each environment, those that differ in nothing but the seed taken together; a seed that
    is there twice is an error.

    A run whose VAE was trained before it began is displaced by the frames of that training, as in the paper; one that
    trained its own has counted them.
    """
    panels: dict[str, dict[str, list[RunDirectory]]] = {}
    settings: dict[str, dict[str, Any]] = {}
    for run in runs:
        config = run.read_config()
        own = curve_settings(config, score=score)
        panels.setdefault(config.env, {}).setdefault(repr(own), []).append(run)
        settings[repr(own)] = own
    curves = {}
    for env in sorted(panels, key=place_of):
        groups = panels[env]
        for group in groups.values():
            refuse_repeated_seeds(group)
        labels = legend_labels([settings[key] for key in groups])
        curves[env] = [curve_of(label, own, score=score) for label, own in zip(labels, groups.values(), strict=True)]
    return curves


def draw_learning_curves(runs: list[RunDirectory], out: Path, *, score: ScoreName = "training") -> Path:
    """Draw the curves of these runs into a picture, a panel for each environment, with one legend above all of them.

    The ending of the picture's name says which kind it is (png, pdf, svg).
    """
    check_kind(out)
    panels = learning_curves(runs, score=score)
    columns = min(len(panels), MOST_COLUMNS) if len(panels) != 4 else 2
    rows = math.ceil(len(panels) / columns)
    wide, high = PANEL if columns > 1 else ALONE
    names = _names(panels)
    across = max(1, min(len(names), int(wide * columns / (max(map(len, names.values())) * LETTER + HANDLE))))
    lines = max(name.count("\n") + 1 for name in names.values()) * math.ceil(len(names) / across)
    figure = new_figure(wide * columns, high * rows + 0.2 * lines + 0.2)
    colours = {label: _colour(place, len(names)) for place, label in enumerate(names)}
    handles: dict[str, Any] = {}
    for place, (env, curves) in enumerate(panels.items()):
        axes = figure.add_subplot(rows, columns, place + 1)
        for curve in curves:
            colour = colours[curve.label]
            (line,) = axes.plot(curve.frames, curve.mean, color=colour, marker=curve.marker)
            draw_spread(axes, curve, colour)
            handles.setdefault(curve.label, line)
        axes.set_title(title_of(env), fontsize=10)
        axes.set_xlim(left=0.0)
        axes.grid(alpha=0.3)
        axes.tick_params(labelsize=8)
        axes.spines[["top", "right"]].set_visible(False)
        label_frames(axes)
        label_scores(axes)
        if place + columns >= len(panels):  # nothing stands below
            axes.set_xlabel("frames", fontsize=9)
        if place % columns == 0:
            axes.set_ylabel(SCORES[score].words(runs).label(high - 0.7), fontsize=9)
    figure.legend(
        [handles[label] for label in names], list(names.values()),
        loc="outside upper left", ncols=across, frameon=False, fontsize=9,
    )  # fmt: skip
    return save_figure(figure, out)


def _names(panels: dict[str, list[Curve]]) -> dict[str, str]:
    """What the legend says of each label, with the number of seeds."""
    seeds: dict[str, set[int]] = {}
    for curve in (curve for curves in panels.values() for curve in curves):
        seeds.setdefault(curve.label, set()).add(curve.seeds)
    names = {}
    for label, own in seeds.items():
        counted = seeds_of(own).replace(" ", "\N{NO-BREAK SPACE}")
        names[label] = "\n".join(textwrap.wrap(f"{label} ({counted})" if label else counted, LONG_LABEL))
    return names


def _colour(place: int, of: int) -> Any:
    """A colour of its own for each of so many labels, as far as there are any."""
    from matplotlib import colormaps

    return f"C{place}" if of <= 10 else colormaps["tab20"](place % 20)


def draw_spread(axes: Axes, curve: Curve, colour: Any) -> None:
    """What lies around a mean: its standard error as a band, or each seed as a thin line where they are too few."""
    if curve.seeds >= FEWEST_SEEDS:
        low, high = curve.mean - curve.standard_error, curve.mean + curve.standard_error
        axes.fill_between(curve.frames, low, high, color=colour, alpha=0.25, linewidth=0)
    elif curve.seeds > 1:
        axes.plot(curve.frames, curve.each.T, color=colour, alpha=0.5, linewidth=0.6)


def curve_of(
    label: str, runs: Sequence[RunDirectory], *, until: float = np.inf, score: ScoreName = "training"
) -> Curve:
    """The curve of these seeds: as far as every one of them has come, or until that many frames.

    It begins where all of them have a score, and is that point alone where it would end before.
    """
    for run in runs:
        check_scored(run, score)
    before = displacement(runs[0].read_config())
    frames, curves = SCORES[score].curve(runs, until - before)
    if not len(frames):
        raise FigureError(f"{', '.join(str(run.path) for run in runs)} have no evaluation after the same frames")
    error = np.zeros(len(frames))
    if len(runs) > 1:
        error = curves.std(axis=0, ddof=1) / np.sqrt(len(runs))
    if before:
        label = ", ".join(filter(None, [label, f"displaced by {before / 1e6:g}M frames"]))
    return Curve(label, frames + before, curves.mean(axis=0), error, curves)
