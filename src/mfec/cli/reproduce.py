"""`mfec reproduce`: the paper's experiments, whole or in part, as a grid of runs that can be stopped and goes on."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from tyro.conf import OmitArgPrefixes, Positional, arg

from mfec.cli.stopping import say_how_to_resume
from mfec.config import CHECKPOINT_FRAMES, FRAMES_LIMIT_GB, AgentConfig, DeviceName, EvaluationConfig
from mfec.errors import MfecError
from mfec.experiments.grid import (
    FRAMES_A_STEP,
    Choices,
    ExperimentName,
    GridRun,
    asked,
    expand,
    read_experiment,
)
from mfec.recipes import RecipeName, dqn_defaults

if TYPE_CHECKING:
    from rich.console import Console

    from mfec.experiments.launchers import HowToTrain, Job, Launcher

LauncherName = Literal["local", "ray"]


@dataclass(frozen=True)
class Reproduce:
    """Run one of the paper's experiments, or a part of it. Run again, it skips finished runs and goes on with the
    others."""

    experiment: Annotated[Positional[ExperimentName], arg(metavar="figure1|figure2|match_rates")]
    """figure1: learning curves of all algorithms; figure2: the effect of k; match_rates: shares of exact matches."""
    out: Annotated[Path | None, arg(metavar="DIR")] = None
    """Where the runs go, in DIR/ENV/ALGORITHM/seed-N; None stands for runs/EXPERIMENT."""
    games: Annotated[tuple[str, ...], arg(metavar="NAME [NAME ...]")] = ()
    """Some of the games, or all; without --levels no levels. Neither option stands for everything."""
    levels: Annotated[tuple[str, ...], arg(metavar="NAME [NAME ...]")] = ()
    """Some of the Labyrinth's levels, or all; without --games no games."""
    algorithms: Annotated[tuple[str, ...], arg(metavar="NAME [NAME ...]")] = ()
    """Some of mfec, dqn, prioritised_dqn and a2c; none stands for all that the experiment has."""
    embeddings: Annotated[tuple[str, ...], arg(metavar="NAME [NAME ...]")] = ()
    """Of mfec: random_projection, vae or both; none stands for all that the experiment has."""
    k: Annotated[tuple[int, ...], arg(metavar="K [K ...]")] = ()
    """Of figure2: numbers of neighbours; none stands for 1, 3, 11, 25 and 50."""
    seeds: Annotated[int | None, arg(metavar="N")] = None
    """How many seeds, 0 to N-1; None stands for the paper's 5."""
    total_frames: Annotated[int | None, arg(metavar="N")] = None
    """Frames of every run; None stands for 10 million in a game and 40 million in a level."""
    scale: float = 1.0
    """For a first look: this share of the frames and, rounded up, of the seeds, unless --seeds says how many."""
    n_envs: Annotated[int | None, arg(metavar="N")] = None
    """Environments of every run; None stands for 1, and 16 of a2c."""
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
    """Keep the frames of MFEC's episodes in each run's history, so that `mfec inspect` need not play them again."""
    frames_limit_gb: Annotated[float, arg(metavar="GB")] = FRAMES_LIMIT_GB
    """Gigabytes of kept frames in a run; beyond them, those of episodes that the memory has the least of go."""
    ignore_memory_limit: bool = False
    """Start runs even if they could come to need more memory than there is."""
    video: bool = True
    """In the end, film a game of each first seed into its video.mp4."""
    launcher: LauncherName = "local"
    """Where the runs run: local for processes of this machine, ray for tasks of a Ray cluster (extra `ray`)."""
    ray_address: Annotated[str | None, arg(metavar="auto|HOST:PORT")] = None
    """With --launcher ray: the cluster; None starts a Ray of its own on this machine."""
    cpus_per_run: float = 1.0
    """With --launcher ray: CPUs that a run is given."""
    gpus_per_run: Annotated[float | None, arg(metavar="FLOAT")] = None
    """With --launcher ray: GPUs, or the share of one, that a run is given; None stands for 0, and 1 on cuda."""
    dry_run: bool = False
    """Print the runs and their commands, and do nothing."""


def run_reproduce(command: Reproduce, given: Sequence[str]) -> int:
    """Train what is asked for, and film it; `given` is the command line. Returns the exit status."""
    experiment = read_experiment(command.experiment)
    choices = _choices(command)
    runs = expand(experiment, choices)
    out = command.out or Path("runs") / experiment.name
    if command.dry_run:
        _print_commands(runs, out, _how(command))
        return 0
    from rich.console import Console

    from mfec.experiments.train_grid import train_grid

    console = Console(file=sys.stdout)  # for good: Ray's own words are sent elsewhere
    _say_schedules(runs, console)
    launcher = _launcher(command, out)
    jobs = train_grid(runs, out, launcher, asked=asked(experiment, choices, runs), console=console)
    failed = [job for job in jobs if job.state == "failed"]
    _report(failed)
    if any(job.state.startswith("stopped") for job in jobs):
        saved = all(job.state != "stopped at once" for job in jobs)
        return say_how_to_resume(given, saved=saved, option=None)
    if command.video:
        try:
            _film_first_seeds(jobs, command.device, console)
        except KeyboardInterrupt:
            return say_how_to_resume(given, option=None)
    return 1 if failed else 0


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


def _how(command: Reproduce) -> HowToTrain:
    from mfec.experiments.launchers import HowToTrain

    return HowToTrain(
        command.checkpoint_frames, command.ignore_memory_limit, command.keep_frames, command.frames_limit_gb
    )


def _launcher(command: Reproduce, out: Path) -> Launcher:
    from mfec.experiments.launchers import OWN

    how = _how(command)
    if command.launcher == "ray":
        from mfec.experiments.launchers.ray import RayLauncher

        gpus = command.gpus_per_run
        return RayLauncher(
            out=out,
            how=how,
            address=command.ray_address,
            cpus_per_run=command.cpus_per_run,
            gpus_per_run=float(command.device == "cuda") if gpus is None else gpus,
            jobs=command.jobs,
        )
    if command.ray_address is not None or command.gpus_per_run is not None or command.cpus_per_run != 1.0:
        raise ValueError("--ray-address, --cpus-per-run and --gpus-per-run are for --launcher ray")
    from mfec.experiments.launchers.local import LocalGPULauncher, LocalLauncher

    if command.device == "cuda":
        from mfec.experiments.vae import refuse_missing_device

        refuse_missing_device(command.device)
        return LocalGPULauncher(jobs=command.jobs, how=how, log=out / OWN / "fleets.txt")
    return LocalLauncher(jobs=command.jobs, how=how)


def _print_commands(runs: Sequence[GridRun], out: Path, how: HowToTrain) -> None:
    from mfec.command_line import arguments_of, as_arguments, options_of_training

    without_frames = replace(how, keep_frames=False, frames_limit_gb=FRAMES_LIMIT_GB)
    for run in runs:
        # All games and levels of the paper show pictures, but only MFEC keeps them.
        own = how if run.config.algorithm == "mfec" else without_frames
        options = as_arguments(options_of_training(**vars(own)))
        print(shlex.join(["mfec", *arguments_of(run.config), *options, "--resume", "--out", str(out / run.place)]))
    frames = sum(run.config.total_frames for run in runs)
    print(f"# {len(runs)} runs, {frames:,} frames", flush=True)


def _say_schedules(runs: Sequence[GridRun], console: Console) -> None:
    """What there is to say of DQN's schedule in these runs, once for all that have the same."""
    from mfec.experiments.schedule import about_schedule

    shrunk = [run.config for run in runs if run.config.algorithm in ("dqn", "prioritised_dqn")]
    said = (about_schedule(dqn_defaults(own.algorithm), own.dqn, own.total_frames / FRAMES_A_STEP) for own in shrunk)
    for sentence in dict.fromkeys(sentence for sentences in said for sentence in sentences):
        console.print(sentence, highlight=False, soft_wrap=True)


def _report(failed: Sequence[Job]) -> None:
    for job in failed:
        where = f"; {job.log}" if job.log.exists() else ""
        print(f"mfec: {job.run.name} failed: {job.reason}{where}", file=sys.stderr)


def _film_first_seeds(jobs: Sequence[Job], device: DeviceName, console: Console) -> None:
    """A video of the first seed of every cell of the grid, unless there is one that is newer than the checkpoint."""
    first: dict[Path, Job] = {}
    for job in jobs:
        first.setdefault(job.run.cell, job)
    for job in first.values():
        if job.state == "finished":
            _film(job, device, console)


def _film(job: Job, device: DeviceName, console: Console) -> None:
    from mfec.experiments.evaluate import evaluate_run
    from mfec.run_directory import RunDirectory

    directory = RunDirectory(job.out)
    if directory.video.exists() and directory.video.stat().st_mtime > directory.checkpoint.stat().st_mtime:
        return
    try:
        evaluate_run(directory, episodes=1, seed=job.run.config.seed, video=directory.video, device=device)
        said = f"video: {directory.video}"
    except (MfecError, ImportError, MemoryError, OSError, TypeError, ValueError) as error:
        said = f"no video of {job.run.name}: {error}"
    console.print(said, highlight=False, markup=False, soft_wrap=True)
