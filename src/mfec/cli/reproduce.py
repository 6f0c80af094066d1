"""`mfec reproduce`: the paper's experiments, whole or in part, as a grid of runs that can be stopped and goes on."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import OmitArgPrefixes, Positional, arg

from mfec.cli.many_runs import LauncherOptions, film, make_launcher, report
from mfec.cli.stopping import STOPPED, STOPPED_AT_ONCE, say_how_to_resume
from mfec.config import CHECKPOINT_FRAMES, FRAMES_LIMIT_GB, AgentConfig, DeviceName, EvaluationConfig
from mfec.experiments.grid import (
    FRAMES_A_STEP,
    Choices,
    ExperimentName,
    GridRun,
    asked,
    expand,
    grid_folder,
    read_experiment,
)
from mfec.recipes import RecipeName

if TYPE_CHECKING:
    from rich.console import Console

    from mfec.experiments.many_runs import Run, TrainingOptions


@dataclass(frozen=True)
class Reproduce:
    """Run one of the paper's experiments, or a part of it. Run again, it skips finished runs and goes on with the
    others."""

    experiment: Annotated[Positional[ExperimentName], arg(metavar="figure1|figure2|match_rates|nec")]
    """figure1: learning curves of all algorithms; figure2: the effect of k; match_rates: shares of exact matches;
    nec: Neural Episodic Control beside MFEC on the games."""
    out: Annotated[Path | None, arg(metavar="DIR")] = None
    """Where the runs go, in DIR/ENV/ALGORITHM/seed-N; runs/EXPERIMENT unless given."""
    games: Annotated[tuple[str, ...], arg(metavar="NAME [NAME ...]")] = ()
    """Some of the games, or all; without --levels no levels. Without both, everything."""
    levels: Annotated[tuple[str, ...], arg(metavar="NAME [NAME ...]")] = ()
    """Some of the Labyrinth's levels, or all; without --games no games."""
    algorithms: Annotated[tuple[str, ...], arg(metavar="NAME [NAME ...]")] = ()
    """Some of mfec, nec, dqn, prioritised_dqn and a2c; unless given, all that the experiment has."""
    embeddings: Annotated[tuple[str, ...], arg(metavar="NAME [NAME ...]")] = ()
    """Of mfec: random_projection, vae or both; unless given, all that the experiment has."""
    k: Annotated[tuple[int, ...], arg(metavar="K [K ...]")] = ()
    """Of figure2: numbers of neighbours; 1, 3, 11, 25 and 50 unless given."""
    seeds: Annotated[int | None, arg(metavar="N")] = None
    """How many seeds, 0 to N-1; unless given, the paper's 5, and 2 of nec."""
    total_frames: Annotated[int | None, arg(metavar="N")] = None
    """Frames of every run; unless given, 10 million in a game, 2 million of nec, and 40 million in a level."""
    scale: float = 1.0
    """For a first look: this share of the frames and, rounded up, of the seeds, unless --seeds says how many."""
    n_envs: Annotated[int | None, arg(metavar="N")] = None
    """Environments of every run; 1 unless given, and 16 of a2c."""
    recipe: RecipeName = "paper"
    """Settings of mfec: the paper's, or those tuned on its five games (see docs/results.md)."""
    device: DeviceName = AgentConfig.device
    """cpu, or cuda for an NVIDIA GPU, where all runs of mfec share it in fleets."""
    evaluation: OmitArgPrefixes[EvaluationConfig] = field(default_factory=EvaluationConfig)
    jobs: int = field(default_factory=lambda: os.cpu_count() or 1)
    """Runs at a time on this machine, as far as its memory goes."""
    checkpoint_frames: int = CHECKPOINT_FRAMES
    """Frames between two checkpoints of a run."""
    keep_frames: bool = False
    """Keep the frames of an episodic memory in each run's history, so that `mfec inspect` need not play them again."""
    frames_limit_gb: Annotated[float, arg(metavar="GB")] = FRAMES_LIMIT_GB
    """Gigabytes of kept frames in a run; beyond them, those of episodes that the memory has the least of go."""
    ignore_memory_limit: bool = False
    """Start runs even if they could come to need more memory than there is."""
    video: bool = True
    """In the end, film a game of each first seed into its video.mp4."""
    where: Annotated[OmitArgPrefixes[LauncherOptions], arg(name="launcher")] = field(default_factory=LauncherOptions)
    dry_run: bool = False
    """Print the runs and their commands, and do nothing."""


def run_reproduce(command: Reproduce, given: Sequence[str]) -> int:
    """Train what is asked for, and film it; `given` is the command line. Returns the exit status."""
    command.where.check()
    experiment = read_experiment(command.experiment)
    choices = _choices(command)
    grid = expand(experiment, choices)
    out = command.out or Path("runs") / experiment.name
    options = _options(command)
    if command.dry_run:
        _print_commands(grid, out, options)
        return 0
    from rich.console import Console

    from mfec.experiments.many_runs import Run, train_runs

    console = Console(file=sys.stdout)  # for good: Ray's own words are sent elsewhere
    _say_remarks(grid, console)
    runs = [Run(run.name, run.config, out / run.place) for run in grid]
    launcher = make_launcher(command.where, folder=out, device=command.device, jobs=command.jobs, options=options)
    with grid_folder(out, asked(experiment, choices, grid)):
        train_runs(runs, launcher, console=console)
    status = report(runs, given)
    if status in (STOPPED, STOPPED_AT_ONCE) or not command.video:
        return status
    try:
        _film_first_seeds(runs, command.device, console)
    except KeyboardInterrupt:
        return say_how_to_resume(given, option=None)
    return status


def _choices(command: Reproduce) -> Choices:
    return Choices(
        games=command.games,
        levels=command.levels,
        algorithms=command.algorithms,
        embeddings=command.embeddings,
        k=command.k,
        seeds=command.seeds,
        total_frames=command.total_frames,
        scale=command.scale,
        n_envs=command.n_envs,
        recipe=command.recipe,
        device=command.device,
        evaluation=command.evaluation,
    )


def _options(command: Reproduce) -> TrainingOptions:
    from mfec.experiments.many_runs import PATIENCE_SECONDS, TrainingOptions

    return TrainingOptions(
        resume=True,
        checkpoint_frames=command.checkpoint_frames,
        keep_frames=command.keep_frames,
        frames_limit_gb=command.frames_limit_gb,
        ignore_memory_limit=command.ignore_memory_limit,
        patience=PATIENCE_SECONDS,
    )


def _print_commands(runs: Sequence[GridRun], out: Path, options: TrainingOptions) -> None:
    from mfec.command_line import arguments_of, as_arguments, options_of_training

    for run in runs:
        # All games and levels of the paper show pictures, but only an agent with a memory keeps them.
        keeps = run.config.kind.looks_up
        own = options_of_training(
            checkpoint_frames=options.checkpoint_frames,
            keep_frames=options.keep_frames and keeps,
            frames_limit_gb=options.frames_limit_gb if keeps else FRAMES_LIMIT_GB,
            ignore_memory_limit=options.ignore_memory_limit,
        )
        arguments = [*arguments_of(run.config), *as_arguments(own), "--resume", "--out", str(out / run.place)]
        print(shlex.join(["mfec", *arguments]))
    frames = sum(run.config.total_frames for run in runs)
    print(f"# {len(runs)} runs, {frames:,} frames", flush=True)


def _say_remarks(runs: Sequence[GridRun], console: Console) -> None:
    """What the algorithms have to say of these runs, once for all of one length."""
    from mfec.envs import make_env

    said: dict[str, None] = {}
    for config in {(run.config.algorithm, run.config.total_frames): run.config for run in runs}.values():
        env = make_env(config.env, config.kind.environment_of_agent(config, n_envs=1))
        used = config.kind.resolve(config, env)
        said |= dict.fromkeys(config.kind.remarks(config, used, FRAMES_A_STEP))
    for sentence in said:
        console.print(sentence, highlight=False, soft_wrap=not console.is_terminal)


def _film_first_seeds(runs: Sequence[Run], device: DeviceName, console: Console) -> None:
    """A video of the first seed of every cell of the grid."""
    from mfec.run_directory import RunDirectory

    first: dict[Path, Run] = {}
    for run in runs:
        first.setdefault(run.out.parent, run)
    for run in first.values():
        if run.state == "finished":
            film(RunDirectory(run.out), run.config.seed, console, device=device, name=run.name)
