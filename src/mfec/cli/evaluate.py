"""`mfec evaluate` and `mfec plot`: what came of runs, in numbers and pictures."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional, arg

from mfec.config import AgentConfig, DeviceName, Starts
from mfec.figures import ScoreName

if TYPE_CHECKING:
    from mfec.evaluation import Evaluation


@dataclass(frozen=True)
class Evaluate:
    """Play whole games with the agent of a run; the memory does not change."""

    directory: Annotated[Positional[Path], arg(metavar="DIR")]
    """A run directory."""
    episodes: Annotated[int | None, arg(metavar="N")] = None
    """Games to play; 10 unless given, or the thirty of --starts."""
    starts: Starts = "sampled"
    """Where games begin: sampled from the seed; or, in an Atari game, at all of its thirty starts, once each, or at
    thirty unseen ones that no training has (30 to 59 no-ops). At these, epsilon is 0 unless given, and the result is no
    sample but the policy's exact score."""
    seed: int = 0
    """Makes the games: starts and random actions."""
    epsilon: Annotated[float | None, arg(metavar="FLOAT")] = None
    """Chance of a random action; the run's own unless given. With 0, equal values go to the first action."""
    random: bool = False
    """Play as many games with a random policy for comparison."""
    json: bool = False
    """Print JSON."""
    video: Annotated[Path | None, arg(metavar="FILE.mp4")] = None
    """Film the agent's first game into this .mp4 file."""
    device: DeviceName = AgentConfig.device
    """Where to search the memory: cpu or cuda, whatever the run was trained on."""


@dataclass(frozen=True)
class Plot:
    """Draw learning curves: mean and standard error over seeds against frames; of fewer than three seeds, each one
    instead of the error."""

    directories: Annotated[Positional[tuple[Path, ...]], arg(metavar="DIR [DIR ...]")]
    """Run directories, or directories with runs below them; a seed must not be there twice with the same settings."""
    out: Path = Path("curve.png")
    """The picture: .png, .pdf or .svg."""
    score: ScoreName = "training"
    """Scores of the last 100 games of training, or of greedy play: those of evaluations.csv, which `mfec train
    --evaluate-every` writes."""


def run_evaluate(command: Evaluate) -> int:
    """Play, and print the scores; returns the exit status."""
    from rich.console import Console
    from rich.table import Table

    from mfec.experiments.evaluate import evaluate_run
    from mfec.run_directory import RunDirectory

    evaluations = evaluate_run(
        RunDirectory(command.directory),
        episodes=10 if command.episodes is None and command.starts == "sampled" else command.episodes,
        seed=command.seed,
        starts=command.starts,
        epsilon=command.epsilon,
        random=command.random,
        video=command.video,
        device=command.device,
    )
    if command.json:
        print(json.dumps([evaluation.as_json() for evaluation in evaluations], indent=1))
        return 0
    console = Console()
    agent = evaluations[-1]
    table = Table(title=f"whole games, unclipped scores; {_games(agent)}")
    for column in ("policy", "epsilon", "mean", "standard error", "lowest", "highest", "frames a game"):
        table.add_column(column, justify="left" if column == "policy" else "right")
    for each in evaluations:
        row = [each.mean, each.standard_error, min(each.scores), max(each.scores), each.mean_length_frames]
        shown = ("-" if math.isnan(number) else f"{number:,.1f}" for number in row)
        table.add_row(each.policy, f"{each.epsilon:g}", *shown)
    console.print(table)
    if command.video:
        console.print(f"video: {command.video}", highlight=False, markup=False, soft_wrap=True)
    return 0


def _games(evaluation: Evaluation) -> str:
    """How many games were played, and what their mean is."""
    if evaluation.starts == "sampled":
        return f"games: {len(evaluation.scores)}"
    which = "all thirty starts" if evaluation.starts == "all" else "thirty starts that training never has"
    return f"{which}, once each" + (": the exact score of the agent's policy" if evaluation.exact else "")


def run_plot(command: Plot) -> int:
    """Draw, and print where the picture is; returns the exit status."""
    from mfec.figures.learning_curves import draw_learning_curves
    from mfec.run_directory import find_runs

    print(draw_learning_curves(find_runs(list(command.directories)), command.out, score=command.score))
    return 0
