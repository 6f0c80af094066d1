"""How many look-ups find their state in the buffers: shares of exact matches beside the paper's."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mfec.figures.lines import FigureError, label_of, seeds_of, sort_runs, title_of
from mfec.figures.literature import published_match_rates
from mfec.figures.pictures import NARROW, draw_error, new_figure
from mfec.figures.tidy import check_ending, save
from mfec.run_directory import RunDirectory
from mfec.statistics import mean, standard_error

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LAST_FRAMES = 200_000  # over which shares are averaged
COLUMNS = {"chosen": "exact_match_rate_chosen", "all": "exact_match_rate"}
"""Look-ups of the actions taken, and of all actions; the paper does not say which it counts."""
NAMES = {"chosen": "of the actions taken", "all": "of all actions", "paper": "the paper"}
COLOURS = {"chosen": "#0a66ad", "all": "#8fc1e3", "paper": "#d9d9d9"}
WIDTH = 0.28  # of a bar, where environments are 1 apart
ACROSS = 3  # environments beside each other in a narrow figure


@dataclass(frozen=True)
class Share:
    """Exact matches among the look-ups of one kind in one environment."""

    environment: str
    embedding: str
    lookups: str  # chosen, all
    mean: float
    standard_error: float  # NaN for a single seed
    seeds: int
    published: str  # empty where the paper has none; "<0.001" is an upper bound


def match_rates(runs: Sequence[RunDirectory]) -> list[Share]:
    """Shares of all runs that match states, by environment and embedding, over their last 200,000 frames."""
    lines = sort_runs([run for run in runs if run.read_config().kind.matches])
    if not lines:
        raise FigureError("there is no run among these whose memory matches states; others have nothing to match")
    published = published_match_rates()
    return [
        Share(
            line.env,
            line.embedding,
            lookups,
            mean(shares := [match_rate(run, column) for run in line.runs]),
            standard_error(shares),
            len(shares),
            published.get(line.env, ""),
        )
        for line in lines
        for lookups, column in COLUMNS.items()
    ]


def draw_match_rates(runs: Sequence[RunDirectory], out: Path, *, narrow: bool = False) -> Path:
    """Draw the shares as bars into a picture, or write them where the ending is .csv; `narrow` is for phones."""
    check_ending(out)
    shares = match_rates(runs)
    return save(out, [asdict(share) for share in shares], lambda: _draw(shares, narrow=narrow))


def match_rate(run: RunDirectory, column: str) -> float:
    """The share in that column of a run's progress, over its last 200,000 frames.

    A row counts by the frames that it is about: rows lie closer at the beginning of a run.
    """
    table, config = run.progress(), run.read_config()
    since = table["frames"][-1] - LAST_FRAMES if table["frames"] else 0.0
    begins = [float(config.first_frame), *table["frames"]]
    rows = zip(begins, table["frames"], table.get(column, []), strict=False)
    own = [(end - begin, share) for begin, end, share in rows if end > since and not math.isnan(share)]
    if not own:
        raise FigureError(f"{run.progress_file} says nothing of exact matches yet")
    return math.fsum(frames * share for frames, share in own) / math.fsum(frames for frames, _ in own)


def _draw(shares: list[Share], *, narrow: bool) -> Figure:
    """One row of bars an embedding, with the same environments below each other; where it is `narrow`, several rows."""
    envs = list(dict.fromkeys(share.environment for share in shares))
    across = min(len(envs), ACROSS) if narrow else len(envs)
    rows = [
        (embedding, envs[first : first + across])
        for embedding in dict.fromkeys(share.embedding for share in shares)
        for first in range(0, len(envs), across)
    ]
    legend = len(NAMES) if narrow else 1  # lines
    wide = NARROW if narrow else max(4.6, 0.9 + 1.08 * across)
    figure = new_figure(wide, 0.4 + 0.2 * legend + 1.9 * len(rows))
    panels = figure.subplots(len(rows), 1, squeeze=False, sharey=True)[:, 0]
    for axes, (embedding, places) in zip(panels, rows, strict=True):
        own = [share for share in shares if share.embedding == embedding]
        _draw_row(axes, [share for share in own if share.environment in places], places)
        axes.set_title(f"{label_of('mfec', embedding)} ({seeds_of({share.seeds for share in own})})", fontsize=10)
        axes.set_xlim(-0.6, across - 0.4)
        if narrow or axes is panels[-1]:
            names = [title_of(env).replace(" and ", "\nand ") for env in places]
            axes.set_xticks(range(len(places)), names, fontsize=8)
        else:
            axes.set_xticks([])
    panels[0].set_ylim(0.0, 1.12 * max(_height(share) for share in shares))
    figure.supylabel("exact matches, %", fontsize=9)
    handles = [panels[0].bar(0, 0, color=COLOURS[name], hatch=_hatch(name), edgecolor="white") for name in NAMES]
    columns = math.ceil(len(NAMES) / legend)
    figure.legend(handles, NAMES.values(), loc="outside upper center", ncols=columns, frameon=False, fontsize=9)
    return figure


def _draw_row(axes: Axes, shares: list[Share], places: list[str]) -> None:
    """The bars of one embedding in these environments."""
    for share in shares:
        x = places.index(share.environment) + (list(COLUMNS).index(share.lookups) - 1) * WIDTH
        _draw_bar(axes, x, share.lookups, share.mean, share.standard_error, share.seeds)
    for env, published in {share.environment: share.published for share in shares}.items():
        _draw_published(axes, places.index(env) + WIDTH, published)
    axes.tick_params(axis="x", length=0)
    axes.tick_params(axis="y", labelsize=8)
    axes.grid(axis="y", alpha=0.3, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def _height(share: Share) -> float:
    """What the bars of a share need, in percent, and something to be seen where all is 0."""
    error = 0.0 if math.isnan(share.standard_error) else share.standard_error
    return max(1.0, 100.0 * (share.mean + error), 100.0 * float(share.published.removeprefix("<") or 0.0))


def _draw_bar(
    axes: Axes, x: float, name: str, share: float, error: float = math.nan, seeds: int = 0, said: str = ""
) -> None:
    percent = 100.0 * share
    axes.bar(x, percent, WIDTH * 0.94, color=COLOURS[name], hatch=_hatch(name), edgecolor="white", linewidth=0.5)
    draw_error(axes, x, percent, 100.0 * error, seeds, colour="0.25")
    top = percent if math.isnan(error) else percent + 100.0 * error
    axes.annotate(
        said or _percent(percent),
        (x, top),
        (0.0, 2.0),
        textcoords="offset points",
        ha="center",
        va="bottom",
        fontsize=7,
    )


def _draw_published(axes: Axes, x: float, published: str) -> None:
    if published:
        share = float(published.removeprefix("<"))
        _draw_bar(axes, x, "paper", share, said="<" * published.startswith("<") + _percent(100.0 * share))


def _hatch(name: str) -> str:
    return "////" if name == "paper" else ""


def _percent(percent: float) -> str:
    return f"{percent:.0f}" if percent >= 10.0 else f"{percent:.2g}"
