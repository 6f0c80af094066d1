"""`mfec plot`: learning curves."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from mfec.figures import ScoreName


@dataclass(frozen=True)
class Plot:
    """Draw learning curves: mean and standard error over seeds against frames; of fewer than three seeds, each one
    instead of the error. Each environment has a panel of its own."""

    directories: Annotated[Positional[tuple[Path, ...]], arg(metavar="DIR [DIR ...]")]
    """Run directories, or directories with runs below them; a seed must not be there twice with the same settings."""
    out: Annotated[Path, arg(metavar="FILE")] = Path("curve.png")
    """The picture: .png, .pdf or .svg."""
    score: ScoreName = "training"
    """Scores of the last 100 games of training, or of greedy play: those of evaluations.csv, which `mfec train
    --evaluate-every` writes."""


def run_plot(command: Plot) -> int:
    """Draw, and print where the picture is; returns the exit status."""
    from mfec.figures.learning_curves import draw_learning_curves
    from mfec.figures.pictures import check_kind
    from mfec.figures.scores import SCORES
    from mfec.run_directory import find_runs

    check_kind(command.out)
    found = find_runs(list(command.directories))
    score = SCORES[command.score]
    runs = [run for run in found if score.has(run)]
    for run in found if runs else ():
        if run not in runs:
            print(f"mfec: left out: {run.path} has no {score.point.partition(' ')[2]} yet", file=sys.stderr)
    print(draw_learning_curves(runs or found, command.out, score=command.score))
    return 0
