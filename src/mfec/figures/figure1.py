"""Figure 1 of the paper: what every algorithm learns in every environment, mean and standard error over seeds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mfec.algorithms import names as algorithm_names
from mfec.figures import ScoreName
from mfec.figures.axes import label_frames, label_scores
from mfec.figures.learning_curves import Curve, curve_of, draw_spread
from mfec.figures.lines import FigureError, Line, seeds_of, sort_runs
from mfec.figures.pictures import NARROW, new_figure
from mfec.figures.scores import SCORES
from mfec.figures.tidy import Row, check_ending, save
from mfec.run_directory import RunDirectory

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANEL, ALONE = (2.75, 2.1), (4.6, 3.2)  # inches of one among others, and of a single one
ENTRY = 3.0  # inches of an entry in the legend
STROKES: dict[tuple[str, str], tuple[str, Any]] = {
    ("mfec", "random_projection"): ("#0a66ad", "solid"),
    ("mfec", "vae"): ("#e8820c", (0, (6, 1.5))),
    ("mfec", "identity"): ("#5a4fa3", (0, (3, 1))),
    ("nec", ""): ("#c0392b", (0, (4, 0.8))),
    ("dqn", ""): ("#7ccb63", (0, (6, 1.5, 1.5, 1.5))),
    ("prioritised_dqn", ""): ("#e377b5", (0, (1.5, 1))),
    ("a2c", ""): ("#0b5d3b", (0, (8, 1.5, 1.5, 1.5, 1.5, 1.5))),
}
"""Colours of the paper's caption for those that it has; dashes tell apart what some eyes and printers do not."""
OTHERS = ["#7f4a1e", "#16a2b8", "#444444", "#b59a00"]  # of other packages' algorithms, in turn


@dataclass(frozen=True)
class Panel:
    """One environment: its lines, and a curve for each."""

    title: str
    lines: list[Line]
    curves: list[Curve]


def figure1(
    runs: Sequence[RunDirectory], *, total_frames: int | None = None, score: ScoreName = "training"
) -> list[Panel]:
    """What is drawn, environment by environment; a curve that begins after the last frame is left out."""
    if total_frames is not None and total_frames < 1:
        raise ValueError(f"total_frames must be at least 1, not {total_frames}")
    until = math.inf if total_frames is None else total_frames
    panels: dict[str, Panel] = {}
    for line in sort_runs(runs, score=score):
        curve = curve_of(line.label, line.runs, until=until, score=score)
        if curve.frames[0] <= until:
            panel = panels.setdefault(line.env, Panel(line.title, [], []))
            panel.lines.append(line)
            panel.curves.append(curve)
    if not panels:
        what = SCORES[score].point
        raise FigureError(f"no run has {what} in the first {total_frames:,} frames; take more total_frames")
    return list(panels.values())


def draw_figure1(
    runs: Sequence[RunDirectory],
    out: Path,
    *,
    total_frames: int | None = None,
    score: ScoreName = "training",
    narrow: bool = False,
) -> Path:
    """Draw the figure into a picture, or write its numbers where the ending is .csv; `narrow` is for phones."""
    check_ending(out)
    panels = figure1(runs, total_frames=total_frames, score=score)
    return save(out, _rows(panels), lambda: picture(panels, total_frames=total_frames, score=score, narrow=narrow))


def picture(
    panels: list[Panel], *, total_frames: int | None = None, score: ScoreName = "training", narrow: bool = False
) -> Figure:
    """The panels with one legend above all of them; one panel below the other where it is `narrow`."""
    columns = 1 if narrow else _columns(len(panels))
    rows = math.ceil(len(panels) / columns)
    names = _names(panels)
    wide, high = (NARROW, PANEL[1]) if narrow else PANEL if columns > 1 else ALONE
    deep = math.ceil(len(names) / max(1, int(wide * columns / ENTRY)))  # entries of the legend below each other
    figure = new_figure(wide * columns, high * rows + 0.22 * deep + 0.2)
    handles: dict[str, Any] = {}
    for place, panel in enumerate(panels):
        axes = figure.add_subplot(rows, columns, place + 1)
        for line, curve in zip(panel.lines, panel.curves, strict=True):
            handles.setdefault(curve.label, _draw_curve(axes, line, curve))
        axes.set_title(panel.title, fontsize=10)
        axes.set_xlim(0.0, None if total_frames is None else total_frames)
        label_frames(axes)
        label_scores(axes)
        axes.grid(alpha=0.3, linewidth=0.6)
        axes.tick_params(labelsize=8)
        axes.spines[["top", "right"]].set_visible(False)
    figure.supxlabel("frames", fontsize=9)
    words = SCORES[score].words([run for panel in panels for line in panel.lines for run in line.runs])
    figure.supylabel(words.label(high * rows), fontsize=9)
    figure.legend(
        [handles[label] for label in names], list(names.values()),
        loc="outside upper center", ncols=math.ceil(len(names) / deep), frameon=False, fontsize=9, handlelength=3.2,
    )  # fmt: skip
    return figure


def _rows(panels: list[Panel]) -> list[Row]:
    return [
        {
            "environment": line.env,
            "algorithm": line.algorithm,
            "embedding": line.embedding,
            "frames": frames,
            "mean": mean,
            "standard_error": error if curve.seeds > 1 else math.nan,
            "seeds": curve.seeds,
        }
        for panel in panels
        for line, curve in zip(panel.lines, panel.curves, strict=True)
        for frames, mean, error in zip(
            curve.frames.tolist(), curve.mean.tolist(), curve.standard_error.tolist(), strict=True
        )
    ]


def _columns(panels: int) -> int:
    """Three or four in a row: the paper's five games and three levels make two full rows."""
    if panels <= 3:
        return panels
    return 2 if panels == 4 else 3 if panels in (5, 6, 9) else 4


def _names(panels: list[Panel]) -> dict[str, str]:
    """What the legend says of each label, in the order of algorithms, with the number of seeds."""
    seeds: dict[str, set[int]] = {}
    order: dict[str, int] = {}
    for panel in panels:
        for line, curve in zip(panel.lines, panel.curves, strict=True):
            seeds.setdefault(curve.label, set()).add(curve.seeds)
            order[curve.label] = [*STROKES, own := (line.algorithm, line.embedding)].index(own)
    return {label: f"{label}, {seeds_of(seeds[label])}" for label in sorted(seeds, key=lambda label: order[label])}


def _stroke(line: Line) -> tuple[str, Any]:
    own = (line.algorithm, line.embedding)
    known = {name for name, _ in STROKES}
    others = [name for name in algorithm_names() if name not in known]
    place = others.index(line.algorithm) if line.algorithm in others else 0
    return STROKES.get(own, (OTHERS[place % len(OTHERS)], "solid"))


def _draw_curve(axes: Axes, line: Line, curve: Curve) -> Any:
    colour, dashes = _stroke(line)
    (drawn,) = axes.plot(curve.frames, curve.mean, color=colour, linestyle=dashes, linewidth=1.6, marker=curve.marker)
    draw_spread(axes, curve, colour)
    return drawn
