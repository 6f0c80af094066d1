"""`mfec evaluate`: whole games with the agents of runs."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional, arg

from mfec.config import AgentConfig, DeviceName, Starts

if TYPE_CHECKING:
    from mfec.evaluation import Evaluation
    from mfec.run_directory import RunDirectory


@dataclass(frozen=True)
class Evaluate:
    """Play whole games with the agent of a run, or those of several; the memory does not change."""

    directories: Annotated[Positional[tuple[Path, ...]], arg(metavar="DIR [DIR ...]")]
    """Run directories, or directories with runs below them; of several runs that differ in the seed alone, also the
    mean and its standard error over seeds."""
    episodes: Annotated[int | None, arg(metavar="N")] = None
    """Games to play with each agent; 10 unless given, or the thirty of --starts."""
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
    """Film the first game of an agent, of one run, into this .mp4 file."""
    device: DeviceName = AgentConfig.device
    """Where to search the memory: cpu or cuda, whatever the run was trained on."""


def run_evaluate(command: Evaluate) -> int:
    """Play, and print the scores; returns the exit status."""
    from rich.console import Console

    from mfec.cli.evaluations import print_evaluations
    from mfec.run_directory import RunDirectory, find_runs

    if command.video is not None:
        from mfec.evaluation.video import check_video

        check_video(command.video)
    given = [RunDirectory(path) for path in command.directories]
    runs = given if given and all(run.exists for run in given) else find_runs(list(command.directories))
    if len(runs) > 1:
        return _evaluate_several(command, runs)
    evaluations = _play(command, runs[0], random=command.random)
    if command.json:
        print(json.dumps([evaluation.as_json() for evaluation in evaluations], indent=1))
        return 0
    console = Console()
    print_evaluations(console, evaluations)
    if command.video:
        console.print(f"video: {command.video}", highlight=False, markup=False, soft_wrap=True)
    return 0


def _play(command: Evaluate, run: RunDirectory, *, random: bool) -> list[Evaluation]:
    from mfec.experiments.evaluate import evaluate_run

    return evaluate_run(
        run,
        episodes=10 if command.episodes is None and command.starts == "sampled" else command.episodes,
        seed=command.seed,
        starts=command.starts,
        epsilon=command.epsilon,
        random=random,
        video=command.video,
        device=command.device,
    )


def _evaluate_several(command: Evaluate, runs: Sequence[RunDirectory]) -> int:
    """Play with the agents of all runs that have one, and print one table."""
    from rich.console import Console

    from mfec.cli.evaluations import Group, by_settings, print_groups

    if command.video is not None:
        raise ValueError(f"a video is of one run, and these are {len(runs)}: name one, such as {runs[0].path}")
    for run in runs:
        if not run.has_checkpoint:
            print(f"mfec: left out: {run.path} has no checkpoint yet", file=sys.stderr)
    groups = []
    for same in by_settings([run for run in runs if run.has_checkpoint]):
        played = []
        for place, run in enumerate(same):
            with Console(stderr=True).status(f"playing: {run.path}"):
                played.append(_play(command, run, random=command.random and not place))
        groups.append(Group(same, [each[-1] for each in played], played[0][0] if command.random else None))
    if not groups:
        raise ValueError("none of these runs has a checkpoint yet: nothing to evaluate")
    if command.json:
        print(json.dumps([each.as_json() for each in groups], indent=1))
    else:
        print_groups(Console(), groups)
    return 0
