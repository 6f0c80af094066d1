"""Print scores and exact matches beside the published ones, run by run; `mfec figure table` has means over seeds.

python results/beside_published.py results/gpu/games
"""

from __future__ import annotations

import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

from mfec.figures.literature import published_match_rates, published_scores
from mfec.figures.match_rates import COLUMNS, LAST_FRAMES, match_rate
from mfec.run_directory import RunDirectory, find_runs
from mfec.statistics import mean

GAMES = 100  # whole games that a score is the mean of
AT = (1, 2, 4, 10)  # million frames


def main() -> None:
    """One row a run."""
    table = Table(title=f"mean of {GAMES} games; exact matches over the last {LAST_FRAMES:,} frames")
    columns = ["run", "game", "envs", "frames", *(f"at {at}M" for at in AT), "at the end"]
    columns += ["MFEC at 10M", "DQN at 10M", "exact, chosen", "exact, all", "paper"]
    for column in columns:
        table.add_column(column, justify="left" if column in ("run", "game") else "right")
    for run in find_runs([Path(argument) for argument in sys.argv[1:]]):
        config, progress = run.read_config(), run.progress()
        published = published_scores().get(config.env, {})
        table.add_row(
            str(run.path),
            config.env,
            str(config.environment.n_envs),
            f"{progress['frames'][-1] / 1e6:.2f}M",
            *(score_at(run, at * 1_000_000) for at in AT),
            f"{mean(run.episodes()['return'][-GAMES:]):,.0f}",
            *(str(published.get(name, "-")) for name in ("mfec", "dqn")),
            *(f"{match_rate(run, column):.2f}" for column in COLUMNS.values()),
            published_match_rates().get(config.env, "-"),
        )
    Console(width=180).print(table)


def score_at(run: RunDirectory, frames: int) -> str:
    """The mean of the last games before a number of frames, where the run has come so far."""
    games = run.episodes()
    before = [score for at, score in zip(games["frames"], games["return"], strict=True) if at <= frames]
    return f"{mean(before[-GAMES:]):,.0f}" if run.progress()["frames"][-1] >= frames else "-"


if __name__ == "__main__":
    main()
