"""VAE beside random projection: `python results/vae/compare.py results/vae/control`.

Scores are means of the last 100 games that had ended by then. A run with a VAE has a million frames of random play
behind it, those of its encoder, so its rows have two numbers of frames: of learning, and in all.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from mfec.config import VAEConfig
from mfec.figures.lines import refuse_repeated_seeds
from mfec.figures.scores import trailing_mean
from mfec.run_directory import RunDirectory, find_runs
from mfec.statistics import mean, standard_error

LEARNING = 1_000_000


def main() -> None:
    runs: dict[str, dict[str, list[RunDirectory]]] = {}
    for run in find_runs([Path(argument) for argument in sys.argv[1:]]):
        config = run.read_config()
        runs.setdefault(config.env, {}).setdefault(config.agent.embedding, []).append(run)
    table = Table(title="mean of the last 100 games, seeds, mean and standard error")
    for column in ("game", "embedding", "frames of learning", "frames in all", "scores", "mean", "exact, chosen"):
        table.add_column(column, justify="left" if column in ("game", "embedding") else "right")
    for game, own in runs.items():
        for embedding, before in (("random_projection", 0), ("vae", VAEConfig.frames)):
            refuse_repeated_seeds(own.get(embedding, []))
            for learning in (LEARNING // 2, LEARNING, 2 * LEARNING):
                scores, exact = [], []
                for run in own.get(embedding, []):
                    progress = run.progress()
                    if progress["frames"][-1] < learning:
                        continue
                    scores.append(float(trailing_mean(run, np.array([float(learning)]))[0]))
                    until = int(np.searchsorted(progress["frames"], learning, side="right"))
                    exact.append(mean(progress["exact_match_rate_chosen"][max(0, until - 20) : until]))
                if scores:
                    told = f"{mean(scores):.0f} ± {standard_error(scores):.0f}" if len(scores) > 1 else ""
                    each = "  ".join(f"{score:.0f}" for score in scores)
                    frames = f"{learning:,}", f"{learning + before:,}"
                    table.add_row(game, embedding, *frames, each, told, f"{mean(exact):.2f}")
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
