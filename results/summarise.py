"""Print, for every setting below some directories, the scores and exact-match shares of its runs.

python results/summarise.py results/choices results/qbert
"""

from __future__ import annotations

import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

from mfec.figures.lines import refuse_repeated_seeds
from mfec.figures.match_rates import COLUMNS, LAST_FRAMES, match_rate
from mfec.run_directory import RunDirectory, find_runs
from mfec.statistics import mean, standard_error

GAMES = 100


def main() -> None:
    """One row a directory of seeds."""
    groups: dict[Path, list[RunDirectory]] = {}
    for run in find_runs([Path(argument) for argument in sys.argv[1:]]):
        groups.setdefault(run.path.parent, []).append(run)
    table = Table(title=f"mean of the last {GAMES} games; exact matches over the last {LAST_FRAMES:,} frames")
    for column in ("runs", "frames", "of each seed", "mean", "standard error", "exact, chosen", "exact, all"):
        table.add_column(column, justify="left" if column == "runs" else "right")
    for directory, runs in groups.items():
        refuse_repeated_seeds(runs)
        scores = [mean(run.episodes()["return"][-GAMES:]) for run in runs]
        chosen, every = ([match_rate(run, column) for run in runs] for column in COLUMNS.values())
        frames = min(run.progress()["frames"][-1] for run in runs)
        each = "  ".join(f"{score:.0f}" for score in scores)
        numbers = f"{mean(scores):.0f}", f"{standard_error(scores):.0f}", f"{mean(chosen):.2f}", f"{mean(every):.2f}"
        table.add_row(str(directory), f"{frames:,.0f}", each, *numbers)
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
