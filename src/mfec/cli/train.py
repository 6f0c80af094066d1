"""`mfec train`: one run, or many."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, make_dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro
from tyro.conf import OmitArgPrefixes, Positional, arg

from mfec.algorithms import Algorithm, RunConfig, algorithm
from mfec.canonical_names import canonical_name
from mfec.cli.env_options import EnvOptions
from mfec.cli.many_runs import LauncherOptions, film, make_launcher, report
from mfec.cli.reading import read, value_of
from mfec.cli.resuming import as_begun, begun_with, how_to_go_on, named_directory, runs_below
from mfec.cli.stopping import STOPPED, STOPPED_AT_ONCE, say_how_to_resume, show_their_traceback
from mfec.cli.vae import draw_vae
from mfec.config import (
    CHECKPOINT_FRAMES,
    FRAMES_LIMIT_GB,
    EnvConfig,
    EvaluationConfig,
    Settings,
    folder_of,
)
from mfec.errors import MfecError
from mfec.recipes import RecipeName

if TYPE_CHECKING:
    from rich.console import Console

    from mfec.experiments.many_runs import Run
    from mfec.run_directory import RunDirectory


@dataclass(frozen=True)
class Train:
    """Train an agent; everything goes into a run directory. Defaults are the paper's for Atari; on the Labyrinth, k is
    50, gamma 0.99 and capacity 100,000 unless given. --recipe tuned has others."""

    envs: Annotated[Positional[tuple[str, ...]], arg(metavar="ENV [ENV ...]")]
    """Short name of an Atari game (qbert, ...) or a Labyrinth level (labyrinth_forage, ...), a Gymnasium id, or
    package.module:attribute, an environment class or a function that makes one; `mfec envs` lists them. Several train
    side by side, in OUT/ENV."""
    algorithm: Annotated[str, arg(metavar="NAME")] = RunConfig.algorithm
    """What learns: mfec; nec (Neural Episodic Control), which needs the extra `torch`; for comparison dqn,
    prioritised_dqn or a2c (synchronous A3C), which need the extra `baselines`; or one that another package brings. Each
    has settings of its own: --algorithm dqn --help shows them."""
    recipe: RecipeName = "paper"
    """Settings of mfec where none are given: the paper's, or those tuned on its five games (see docs/results.md)."""
    total_frames: int = 1_000_000
    """Frames to play in all (4 to an agent step on Atari and in the Labyrinth)."""
    seed: int = 0
    """Makes the run: environment, exploration, ties, projection."""
    seeds: Annotated[tuple[int, ...], arg(metavar="INT [INT ...]")] = ()
    """Several seeds side by side, in OUT/seed-N: a process each; with --device cuda they share the GPU."""
    jobs: int = field(default_factory=lambda: os.cpu_count() or 1)
    """Runs at a time, where there are several; those that share one search on a GPU all run at once."""
    where: Annotated[OmitArgPrefixes[LauncherOptions], arg(name="launcher")] = field(default_factory=LauncherOptions)
    out: Annotated[Path | None, arg(metavar="DIR")] = None
    """The run directory; runs/ENV unless given."""
    resume: bool = False
    """Go on from the last checkpoint in OUT; begin where there is none. With --out and no ENV, a run goes on with its
    own settings, or all runs in a directory; --total-frames makes them longer."""
    checkpoint_frames: int = CHECKPOINT_FRAMES
    """Frames between two checkpoints."""
    keep_frames: bool = False
    """Keep the frames of an episodic memory in OUT/history, so that `mfec inspect` need not play them again: on Atari
    130 to 310 bytes each. Actions and rewards are always kept."""
    frames_limit_gb: Annotated[float, arg(metavar="GB")] = FRAMES_LIMIT_GB
    """Gigabytes of kept frames; beyond them, those of episodes that the memory has the least of go."""
    video: bool = True
    """At the end, film a game into OUT/video.mp4, where the environment can be drawn."""
    ignore_memory_limit: bool = False
    """Start even if the memory could come to need more than there is of RAM, or of the GPU's, in this run."""
    agent: OmitArgPrefixes[Settings] = field(default_factory=Settings)
    environment: OmitArgPrefixes[EnvOptions] = field(default_factory=EnvOptions)
    evaluation: OmitArgPrefixes[EvaluationConfig] = field(default_factory=EvaluationConfig)

    def run_config(self, env: str, seed: int) -> RunConfig:
        """The settings of one of the runs that are asked for."""
        return RunConfig(
            env, self.total_frames, seed, self.agent, self.environment.settings, self.algorithm, self.evaluation
        )


def train_command(given: Sequence[str]) -> type[Train]:
    """`Train` with the settings of the algorithm that a command line names as its options."""
    out = named_directory(given)
    name = value_of(given, "--algorithm") or (begun_with(out) if out else None) or RunConfig.algorithm
    return train_command_of(algorithm(name))


@cache
def train_command_of(kind: Algorithm) -> type[Train]:
    """`Train` with the settings of an algorithm as its options."""
    taken = {
        own for options in (Train, EnvConfig, EvaluationConfig, LauncherOptions) for own in options.__annotations__
    }
    twice = taken & kind.settings.__dataclass_fields__.keys()
    if twice:
        raise ValueError(f"{kind.name} has settings that `mfec train` has already: {', '.join(sorted(twice))}")
    settings: Any = kind.settings
    agent = ("agent", Annotated[settings, tyro.conf.OmitArgPrefixes], field(default_factory=settings))
    envs = ("environment", OmitArgPrefixes[EnvOptions], field(default_factory=lambda: EnvOptions.of(kind.environment)))
    made = make_dataclass("Train", [agent, envs], bases=(Train,), frozen=True)
    made.__doc__ = Train.__doc__
    return made


def run_train(command: Train, given: Sequence[str]) -> int:
    """Train, and draw what came of it; `given` is the command line. Returns the exit status."""
    from rich.console import Console

    console = Console(file=sys.stdout)  # for good: Ray's own words are sent elsewhere
    command.where.check()
    if command.resume and not command.envs:
        return _go_on(command, given, console)
    if not command.envs:
        raise ValueError("name an environment to train on; `mfec envs` lists them")
    cls = train_command_of(algorithm(command.algorithm))
    if type(command) is not cls:  # it was read as one that goes on with another algorithm, which is refused below
        command = read(cls, given[1:], prog="mfec train")
    command = replace(command, envs=tuple(dict.fromkeys(map(canonical_name, command.envs))))
    out = command.out or Path("runs") / "-".join(map(folder_of, command.envs))
    commands = {env: _with_defaults(command, env, given) for env in command.envs}
    runs = _runs(commands, out)
    several = len(runs) > 1 or bool(command.seeds)
    return _train(command, runs, out, partial(how_to_go_on, commands, out, runs), console, several=several)


def _go_on(command: Train, given: Sequence[str], console: Console) -> int:
    """Go on with the run in a directory, or with all runs below it, with the settings that are there."""
    from mfec.experiments.many_runs import Run

    found = runs_below(command.out)
    commands = [as_begun(train_command_of, run, given[1:]) for run in found]
    configs = [own.run_config(own.envs[0], own.seed) for own in commands]
    out = Path(found[0].path if len(found) == 1 else command.out or "")
    runs = [
        Run(str(each.path.relative_to(out)) if len(found) > 1 else config.env, config, each.path)
        for each, config in zip(found, configs, strict=True)
    ]
    again = [argument for argument in given if argument != "--resume"]
    # What all runs have in common is how frames are kept: as in the one that keeps the most.
    command = max(commands, key=lambda own: (own.keep_frames, own.frames_limit_gb))
    return _train(command, runs, out, lambda: again, console, several=len(runs) > 1)


def _train(
    command: Train, runs: Sequence[Run], out: Path, again: Callable[[], list[str]], console: Console, *, several: bool
) -> int:
    if several or command.where.launcher == "ray":
        return _train_many(command, runs, out, again, console)
    return _train_one(command, runs[0], again, console)


def _with_defaults(command: Train, env: str, given: Sequence[str]) -> Train:
    """The command as it is for that environment: what was given, and the defaults there for the rest."""
    kind, cls = algorithm(command.algorithm), type(command)
    environment = EnvOptions.of(kind.environment)
    defaults = cls(command.envs, agent=kind.defaults(env, command.recipe), environment=environment)
    if defaults == cls(command.envs):
        return command
    # Read once more: `command` cannot tell a default from the same number given.
    return read(cls, given[1:], prog="mfec train", default=defaults)  # after the word `train`


def _runs(commands: dict[str, Train], out: Path) -> list[Run]:
    """Every run that the command asks for; senseless settings are refused here, once for all of them."""
    from mfec.experiments.many_runs import Run

    runs = []
    for env, command in commands.items():
        for seed in dict.fromkeys(command.seeds or (command.seed,)):
            names = ([env] if len(commands) > 1 else []) + ([f"seed {seed}"] if command.seeds else [])
            place = Path(*([folder_of(env)] if len(commands) > 1 else []), *([f"seed-{seed}"] if command.seeds else []))
            runs.append(Run(" ".join(names) or env, command.run_config(env, seed), out / place))
    return runs


def _train_one(command: Train, run: Run, again: Callable[[], list[str]], console: Console) -> int:
    from mfec.callbacks import Stopped
    from mfec.envs.crashes import EnvironmentCrash
    from mfec.experiments.train import train
    from mfec.run_directory import RunDirectory

    try:
        directory = train(
            run.config,
            run.out,
            resume=command.resume,
            checkpoint_frames=command.checkpoint_frames,
            keep_frames=command.keep_frames,
            frames_limit_gb=command.frames_limit_gb,
            ignore_memory_limit=command.ignore_memory_limit,
            console=console,
        )
    except (Stopped, KeyboardInterrupt) as stopped:
        return say_how_to_resume(again(), saved=isinstance(stopped, Stopped))
    except EnvironmentCrash as crash:
        if os.environ.get("MFEC_TRACEBACK") or not RunDirectory(run.out).has_checkpoint:
            raise
        show_their_traceback(crash)
        print(f"mfec: {crash}", file=sys.stderr)
        say_how_to_resume(again(), why="what was learned before is saved; once the environment is mended, go on with")
        return 1
    _draw_curve([directory], directory.curve, console)
    _draw_own_vae(run.config, directory, console)
    if command.video:
        film(directory, run.config.seed, console)
    return 0


def _train_many(
    command: Train, runs: Sequence[Run], out: Path, again: Callable[[], list[str]], console: Console
) -> int:
    from mfec.experiments.many_runs import TrainingOptions, is_finished, train_runs
    from mfec.run_directory import RunDirectory, find_runs

    options = TrainingOptions(
        resume=command.resume,
        checkpoint_frames=command.checkpoint_frames,
        keep_frames=command.keep_frames,
        frames_limit_gb=command.frames_limit_gb,
        ignore_memory_limit=command.ignore_memory_limit,
    )
    fleet = all(run.shares_device for run in runs)
    launcher = make_launcher(
        command.where,
        folder=out,
        device="cuda" if any(run.config.agent.device == "cuda" for run in runs) else "cpu",
        jobs=len(runs) if fleet and command.where.launcher == "local" else command.jobs,
        options=options,
    )
    _look_before(runs, keep_frames=command.keep_frames, console=console)
    if command.resume:
        for run in filter(is_finished, runs):
            said = f"{run.out} has all of its {run.config.total_frames:,} frames"
            console.print(said, highlight=False, markup=False, soft_wrap=True)
    train_runs(runs, launcher, console=console)
    status = report(runs, again(), option="--resume")
    if status in (STOPPED, STOPPED_AT_ONCE):
        return status
    finished = [(run, RunDirectory(run.out)) for run in runs if run.state == "finished"]
    try:
        for run, directory in finished:
            _draw_curve([directory], directory.curve, console)
            _draw_own_vae(run.config, directory, console)
            if command.video:
                film(directory, run.config.seed, console, device=run.config.agent.device, name=run.name)
    except KeyboardInterrupt:
        return say_how_to_resume(again())
    if finished and finished[0][0].out != out:
        _draw_curve(find_runs([out]), out / "curve.png", console)  # with seeds that were trained before
    return status


def _look_before(runs: Sequence[Run], *, keep_frames: bool, console: Console) -> None:
    """Say what there is to say of the settings, before anything begins and once for all runs that have them.

    It is an error where an environment cannot be made, an encoder is not there or of other pictures, or frames are to
    be kept that are not there.
    """
    from numpy.random import SeedSequence

    from mfec.envs.environments import make_environments
    from mfec.experiments.train import picture_to_keep, resolve
    from mfec.run_directory import RunDirectory

    # A checkpoint holds its encoder, so what a run that goes on can do without is no error.
    kinds = {(run.config.env, run.config.agent, RunDirectory(run.out).has_checkpoint): run for run in runs}
    for run in kinds.values():
        directory = RunDirectory(run.out)
        env, used = resolve(run.config, directory)
        frame_skip = make_environments(env, SeedSequence(0)).frame_skip
        for sentence in run.config.kind.remarks(run.config, used, frame_skip, begun=directory.exists):
            console.print(sentence, highlight=False, soft_wrap=not console.is_terminal)
    for run in {run.config.env: run for run in runs}.values() if keep_frames else ():
        picture_to_keep(run.config)


def _draw_curve(runs: Sequence[RunDirectory], out: Path, console: Console) -> None:
    from mfec.figures.learning_curves import draw_learning_curves

    finished = [run for run in runs if run.episodes()["frames"]]
    if not finished:
        return
    try:
        said = f"learning curve: {draw_learning_curves(finished, out)}"
    except MfecError as error:  # the runs are done all the same
        said = f"no learning curve: {error}"
    console.print(said, highlight=False, markup=False, soft_wrap=True)


def _draw_own_vae(config: RunConfig, directory: RunDirectory, console: Console) -> None:
    """Draw the VAE that the run has trained, if it did; the run itself can do without its files."""
    if config.own_vae:
        from mfec.experiments.vae_directory import VAEDirectory, vae_of_run

        if VAEDirectory(directory.vae).finished:
            draw_vae(vae_of_run(config, directory), console)
