"""Print, for every setting below some directories, the scores and exact-match shares of its seeds.

python results/summarise.py results/choices results/qbert
python results/summarise.py results/vae/control --at 500000 1000000 2000000
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from mfec.figures.lines import refuse_repeated_seeds
from mfec.figures.match_rates import COLUMNS, LAST_FRAMES, match_rate
from mfec.figures.scores import GAMES, trailing_mean
from mfec.run_directory import RunDirectory, find_runs
from mfec.statistics import mean, standard_error


def main() -> None:
    """One row for all seeds of one environment in one directory."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directories", nargs="+", type=Path)
    parser.add_argument("--at", nargs="*", type=int, default=[], help="frames of learning to show scores after")
    options = parser.parse_args()
    groups: dict[tuple[Path, str], list[RunDirectory]] = {}
    for run in find_runs(options.directories):
        groups.setdefault((run.path.parent, run.read_config().env), []).append(run)
    table = Table(title=f"mean of the last {GAMES} games; exact matches over the last {LAST_FRAMES:,} frames")
    marks = [f"after {frames:,}" for frames in options.at]
    for column in ("runs", "frames", *marks, "each seed at the end", "mean", "exact, chosen", "exact, all"):
        table.add_column(column, justify="left" if column == "runs" else "right", overflow="fold")
    for (directory, _), runs in groups.items():
        refuse_repeated_seeds(runs)
        scores = [mean(run.episodes()["return"][-GAMES:]) for run in runs]
        chosen, every = ([match_rate(run, column) for run in runs] for column in COLUMNS.values())
        frames = min(run.progress()["frames"][-1] for run in runs)
        table.add_row(
            str(directory if len(runs) > 1 else runs[0].path),
            f"{frames:,.0f}",
            *(in_short(scores_after(runs, mark)) for mark in options.at),
            "  ".join(map(number, scores)),
            in_short(scores),
            f"{mean(chosen):.3g}",
            f"{mean(every):.3g}",
        )
    Console(width=180).print(table)


def scores_after(runs: list[RunDirectory], frames: int) -> list[float]:
    """The scores after so many frames of the seeds that have come so far."""
    there = [run for run in runs if run.progress()["frames"][-1] >= frames]
    return [float(trailing_mean(run, np.array([float(frames)]))[0]) for run in there]


def in_short(scores: list[float]) -> str:
    """Mean, standard error and number of seeds."""
    if not scores:
        return ""
    spread = f" ± {number(standard_error(scores))}" if len(scores) > 1 else ""
    return f"{number(mean(scores))}{spread} ({len(scores)})"


def number(score: float) -> str:
    """A score of the Labyrinth has a digit after the point."""
    return f"{score:.0f}" if abs(score) >= 100.0 else f"{score:.1f}"


if __name__ == "__main__":
    main()
