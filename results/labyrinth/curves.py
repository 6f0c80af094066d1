"""Draw what agents learn in each level beside the expert and random play; `results/summarise.py` prints the scores.

python results/labyrinth/curves.py results/labyrinth docs/images/labyrinth/curves.png
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path
from typing import Any

from mfec.envs.labyrinth import LEVELS
from mfec.figures.learning_curves import draw_spread, learning_curves
from mfec.figures.pictures import new_figure, save_figure
from mfec.figures.scores import GAMES
from mfec.run_directory import RunDirectory, find_runs
from mfec.statistics import mean

NAMES = {"random_projection": "random projections", "vae": "VAE"}


def main() -> None:
    """One panel a level."""
    results, out = Path(sys.argv[1]), Path(sys.argv[2])
    bounds = read_bounds(results / "bounds.csv")
    runs: dict[str, dict[tuple[str, int], list[RunDirectory]]] = {level: {} for level in LEVELS}
    for run in find_runs([results]):
        config = run.read_config()
        runs[config.env].setdefault((config.agent.embedding, config.environment.n_envs), []).append(run)
    figure = new_figure(12.0, 4.2)
    named: dict[str, Any] = {}  # lines of the legend, which is one for all panels
    for panel, (level, settings) in enumerate(runs.items()):
        axes = figure.add_subplot(1, len(runs), panel + 1)
        for (embedding, n_envs), own in sorted(settings.items()):
            [curve] = learning_curves(own)
            colour = f"C{list(NAMES).index(embedding) + len(NAMES) * (n_envs > 1)}"
            (line,) = axes.plot(curve.frames / 1e6, curve.mean, color=colour)
            named[f"{NAMES[embedding]}, {n_envs} environment{'s' * (n_envs > 1)}"] = line
            draw_spread(axes, curve, colour)
        for player, style in (("expert", "--"), ("random", ":")):
            named[player] = axes.axhline(bounds[level, player], linestyle=style, color="0.4", linewidth=1.2)
        axes.set_title(level.removeprefix("labyrinth_").replace("_t_", " T-").replace("_", " "))
        axes.set_xlabel("millions of frames")
        axes.set_xlim(left=0.0)
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
        if panel == 0:
            axes.set_ylabel(f"score, mean of the last {GAMES} games")
    figure.legend(named.values(), named.keys(), loc="outside upper center", ncols=len(named), frameon=False)
    save_figure(figure, out)


def read_bounds(file: Path) -> dict[tuple[str, str], float]:
    """Mean scores by level and player."""
    found: dict[tuple[str, str], list[float]] = {}
    with file.open() as lines:
        for row in csv.DictReader(lines):
            found.setdefault((row["level"], row["player"]), []).append(float(row["score"]))
    return {key: mean(own) for key, own in found.items()}


if __name__ == "__main__":
    main()
