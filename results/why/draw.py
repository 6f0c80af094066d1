"""Draw what `measure.py` found: `python results/why/draw.py results/why/neighbours.csv docs/images/why.png`."""

from __future__ import annotations

import csv
import sys
from collections import defaultdict
from pathlib import Path

from mfec.figures.lines import title_of
from mfec.figures.pictures import draw_error, new_figure, save_figure
from mfec.statistics import mean, standard_error

PANELS = {
    "unexplained": "variance of values among neighbours,\nas a share of that among all entries",
    "undecided": "share of choices that lead by less\nthan their standard error",
    "greedy": "score of greedy play",
}


def main() -> None:
    """One panel a measure, one line a game: mean over seeds, against the discount."""
    rows: dict[str, dict[float, list[dict[str, str]]]] = defaultdict(lambda: defaultdict(list))
    with Path(sys.argv[1]).open() as file:
        for row in csv.DictReader(file):
            rows[row["env"]][float(row["gamma"])].append(row)
    figure = new_figure(12.0, 4.0)
    for number, (name, label) in enumerate(PANELS.items()):
        axes = figure.add_subplot(1, len(PANELS), number + 1)
        for line, (env, gammas) in enumerate(sorted(rows.items())):
            scores = {gamma: [float(row[name]) for row in gammas[gamma]] for gamma in sorted(gammas)}
            places = list(range(len(scores)))
            axes.plot(places, [mean(own) for own in scores.values()], marker="o", color=f"C{line}", label=title_of(env))
            for place, own in zip(places, scores.values(), strict=True):
                draw_error(axes, place, mean(own), standard_error(own), len(own), colour=f"C{line}")
            axes.set_xticks(places, [f"{gamma:g}" for gamma in scores])
        axes.set_xlabel("discount")
        axes.set_ylabel(label)
        axes.set_ylim(bottom=0.0)
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper center", ncols=len(rows), frameon=False)
    save_figure(figure, Path(sys.argv[2]))


if __name__ == "__main__":
    main()
