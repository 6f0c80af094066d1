"""Figure 2 of the paper: the effect of k, the number of neighbours, on the final score."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mfec.figures import ScoreName
from mfec.figures.lines import TITLES, FigureError, Line, kind_of, label_of, seeds_of, settings_of, sort_runs, title_of
from mfec.figures.pictures import NARROW, draw_error, new_figure
from mfec.figures.scores import SCORES, scores_at
from mfec.figures.tidy import check_ending, save
from mfec.run_directory import RunDirectory
from mfec.statistics import mean, standard_error

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLOURS = ("#0a66ad", "#e8820c", "#0b8a5f", "#c2417c", "#7a5cb8", "#3fa9d6", "#8a6d1f", "#555555")
MARKERS = "osD^v"
CLOSE = 1.15  # labels of the axis of k need at least this ratio between them


@dataclass(frozen=True)
class Point:
    """The score with one k in one environment."""

    environment: str
    embedding: str
    k: int
    frames: int
    mean: float
    standard_error: float  # NaN for a single seed
    seeds: int


def figure2(
    runs: Sequence[RunDirectory],
    *,
    embedding: str = "vae",
    at_frames: int | None = None,
    score: ScoreName = "training",
) -> list[Point]:
    """Scores by environment and k, of the runs of MFEC with that embedding.

    They are taken after `at_frames`, or after as many frames as all of an environment's runs have come to; of
    evaluations, the last that all of them have.
    """
    lines = _lines(runs, embedding, score)
    points = []
    for env in dict.fromkeys(line.env for line in lines):
        own = [line for line in lines if line.env == env]
        frames = at_frames
        if frames is None:
            frames = SCORES[score].reached([run for line in own for run in line.runs])
        for line in own:
            scores = [scores_at(run, [frames], score=score)[0] for run in line.runs]
            missing = [run for run, found in zip(line.runs, scores, strict=True) if math.isnan(found)]
            if missing:
                raise FigureError(SCORES[score].missing(missing[0], frames))
            k = settings_of(line.config)["k"]
            points.append(Point(env, embedding, k, frames, mean(scores), standard_error(scores), len(scores)))
    return points


def draw_figure2(
    runs: Sequence[RunDirectory],
    out: Path,
    *,
    embedding: str = "vae",
    at_frames: int | None = None,
    score: ScoreName = "training",
    narrow: bool = False,
) -> Path:
    """Draw the figure into a picture, or write its numbers where the ending is .csv; `narrow` is for phones."""
    check_ending(out)
    points = figure2(runs, embedding=embedding, at_frames=at_frames, score=score)
    drawn = [run for line in _lines(runs, embedding, score) for run in line.runs]
    label = SCORES[score].words(drawn).label(2.3)
    return save(out, [asdict(point) for point in points], lambda: _draw(points, label, narrow=narrow))


def _lines(runs: Sequence[RunDirectory], embedding: str, score: ScoreName) -> list[Line]:
    """Those with neighbours and that embedding; only they need to be of one kind."""
    configs = [(run, run.read_config()) for run in runs]
    ours = [(run, config.kind.variant(config)) for run, config in configs if "k" in settings_of(config)]
    found = sort_runs([run for run, own in ours if own == embedding], apart=["k"], score=score)
    if not found:
        others = sorted({own for _, own in ours})
        there = f"there are runs with {', '.join(others)} (--embedding)" if others else "no run has neighbours"
        raise FigureError(f"no run has the embedding {embedding}; {there}")
    return found


def _draw(points: list[Point], label: str, *, narrow: bool) -> Figure:
    kinds: dict[str, dict[str, list[Point]]] = {}
    for point in points:
        kinds.setdefault(kind_of(point.environment), {}).setdefault(point.environment, []).append(point)
    lines = [len(own) for own in kinds.values()]
    high = 2.9 * len(kinds) + 0.2 * sum(lines)  # the legend is below where there is no room beside
    figure = new_figure(NARROW, high) if narrow else new_figure(0.4 + 4.0 * len(kinds), 2.8)
    for panel, (kind, own) in enumerate(kinds.items()):
        axes = figure.add_subplot(*((len(kinds), 1) if narrow else (1, len(kinds))), panel + 1)
        frames = {line[0].frames for line in own.values()}
        axes.set_title(f"{kind}, {_millions(min(frames))} frames" if len(frames) == 1 else kind, fontsize=10)
        for place, (env, line) in enumerate(own.items()):
            _draw_line(axes, place, line, title_of(env) + (f", {_millions(line[0].frames)}" if len(frames) > 1 else ""))
        if panel == 0 or narrow:
            axes.set_ylabel(label, fontsize=9)
        axes.set_xlabel("k, number of neighbours", fontsize=9)
        shown = [point for line in own.values() for point in line]
        _scale(axes, shown)
        axes.grid(alpha=0.3, linewidth=0.6)
        axes.tick_params(labelsize=8)
        axes.spines[["top", "right"]].set_visible(False)
        title = f"{label_of('mfec', points[0].embedding)}, {seeds_of({point.seeds for point in shown})}"
        axes.legend(
            frameon=False, fontsize=8, title=title, title_fontsize=8, alignment="left",
            loc="upper left", bbox_to_anchor=(0.0, -0.24) if narrow else (1.0, 1.0),
        )  # fmt: skip
    return figure


def _draw_line(axes: Axes, place: int, line: list[Point], label: str) -> None:
    known, env = list(TITLES), line[0].environment
    colour = known.index(env) if env in known else len(known) + place
    axes.plot(
        [point.k for point in line],
        [point.mean for point in line],
        color=COLOURS[colour % len(COLOURS)], marker=MARKERS[place % len(MARKERS)], label=label,
        markersize=4.5, linewidth=1.4,
    )  # fmt: skip
    for point in line:
        error, own = point.standard_error, COLOURS[colour % len(COLOURS)]
        draw_error(axes, point.k, point.mean, error, point.seeds, colour=own)


def _scale(axes: Axes, points: list[Point]) -> None:
    """A logarithmic axis of k with the values drawn, and one of scores where games differ in their magnitude."""
    from matplotlib.ticker import FixedLocator, LogLocator, NullLocator, StrMethodFormatter

    axes.set_xscale("log")
    shown: list[int] = []
    for k in sorted({point.k for point in points}):
        if not shown or k >= CLOSE * shown[-1]:
            shown.append(k)
    axes.xaxis.set_major_locator(FixedLocator(shown))
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:.0f}"))
    axes.xaxis.set_minor_locator(NullLocator())
    lowest, highest = min(point.mean for point in points), max(point.mean for point in points)
    if lowest > 0.0 and highest > 8.0 * lowest:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axes.yaxis.set_minor_locator(NullLocator())


def _millions(frames: int) -> str:
    """A number of frames in few letters.

    >>> _millions(10_000_000), _millions(3_250_000), _millions(40_000)
    ('10M', '3.25M', '40k')
    """
    return f"{frames / 1e6:.3g}M" if frames >= 1_000_000 else f"{frames / 1e3:.3g}k"
