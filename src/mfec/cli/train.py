"""`mfec train`: one run, or many."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, make_dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro
from tyro.conf import OmitArgPrefixes, Positional, arg

from mfec.algorithms import Algorithm, RunConfig, algorithm
from mfec.canonical_names import canonical_name
from mfec.cli.many_runs import LauncherOptions, film, make_launcher, report
from mfec.cli.stopping import STOPPED, STOPPED_AT_ONCE, say_how_to_resume, show_their_traceback
from mfec.cli.vae import draw_vae
from mfec.command_line import Options, as_arguments, differing, options_of, options_of_training
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
class EnvOptions(EnvConfig):
    """Settings of the environments, as options."""

    wrappers: Annotated[tuple[str, ...], arg(name="wrapper", metavar="MODULE:WRAPPER [...]")] = ()
    """Wrappers around each environment, the first one innermost: package.module:Wrapper, or a function that takes an
    environment and returns one."""

    @property
    def settings(self) -> EnvConfig:
        """Without the options' own names."""
        return EnvConfig(**vars(self))


@dataclass(frozen=True)
class Train:
    """Train an agent; everything goes into a run directory. Defaults are the paper's for Atari; on the Labyrinth, k is
    50, gamma 0.99 and capacity 100,000 unless given. --recipe tuned has others."""

    envs: Annotated[Positional[tuple[str, ...]], arg(metavar="ENV [ENV ...]")]
    """Short name of an Atari game (qbert, ...) or a Labyrinth level (labyrinth_forage, ...), a Gymnasium id, or
    package.module:attribute, an environment class or a function that makes one; `mfec envs` lists them. Several train
    side by side, in OUT/ENV."""
    algorithm: str = RunConfig.algorithm
    """What learns: mfec, or for comparison dqn, prioritised_dqn or a2c (synchronous A3C), which need the extra
    `baselines`, or one that another package brings. Each has settings of its own: --algorithm dqn --help shows them."""
    recipe: RecipeName = "paper"
    """Settings of mfec where none are given: the paper's, or those tuned on its five games (see docs/results.md)."""
    total_frames: int = 1_000_000
    """Frames to play in all (4 to an agent step on Atari and in the Labyrinth)."""
    seed: int = 0
    """Makes the run: environment, exploration, ties, projection."""
    seeds: tuple[int, ...] = ()
    """Several seeds side by side, in OUT/seed-N: a process each; with --device cuda they share the GPU."""
    jobs: int = field(default_factory=lambda: os.cpu_count() or 1)
    """Runs at a time, where there are several and no GPU."""
    where: OmitArgPrefixes[LauncherOptions] = field(default_factory=LauncherOptions)
    out: Annotated[Path | None, arg(metavar="DIR")] = None
    """The run directory; None stands for runs/ENV."""
    resume: bool = False
    """Go on from the last checkpoint in OUT; begin where there is none."""
    checkpoint_frames: int = CHECKPOINT_FRAMES
    """Frames between two checkpoints."""
    keep_frames: bool = False
    """Keep the frames of MFEC's episodes in OUT/history, so that `mfec inspect` need not play them again: on Atari 130
    to 310 bytes each. Actions and rewards are always kept."""
    frames_limit_gb: Annotated[float, arg(metavar="GB")] = FRAMES_LIMIT_GB
    """Gigabytes of kept frames; beyond them, those of episodes that the memory has the least of go."""
    video: bool = True
    """At the end, film a game into OUT/video.mp4, where the environment can be drawn."""
    ignore_memory_limit: bool = False
    """Start even if the memory could come to need more than there is of RAM, or of the GPU's, in this run."""
    agent: OmitArgPrefixes[Settings] = field(default_factory=Settings)
    environment: OmitArgPrefixes[EnvOptions] = field(default_factory=EnvOptions)
    evaluation: OmitArgPrefixes[EvaluationConfig] = field(default_factory=EvaluationConfig)


def train_command(given: Sequence[str]) -> type[Train]:
    """`Train` with the settings of the algorithm that a command line names as its options."""
    name = RunConfig.algorithm
    for option, value in zip(given, [*given[1:], ""], strict=True):
        if option.split("=")[0] == "--algorithm":
            name = option.partition("=")[2] or value
    return _train_command(algorithm(name))


@cache
def _train_command(kind: Algorithm) -> type[Train]:
    taken = {
        own for options in (Train, EnvConfig, EvaluationConfig, LauncherOptions) for own in options.__annotations__
    }
    twice = taken & kind.settings.__dataclass_fields__.keys()
    if twice:
        raise ValueError(f"{kind.name} has settings that `mfec train` has already: {', '.join(sorted(twice))}")
    settings: Any = kind.settings
    agent = ("agent", Annotated[settings, tyro.conf.OmitArgPrefixes], field(default_factory=settings))
    envs = ("environment", OmitArgPrefixes[EnvOptions], field(default_factory=lambda: _as_options(kind.environment)))
    made = make_dataclass("Train", [agent, envs], bases=(Train,), frozen=True)
    made.__doc__ = Train.__doc__
    return made


def _as_options(environment: EnvConfig) -> EnvOptions:
    return EnvOptions(**vars(environment))


def run_train(command: Train, given: Sequence[str]) -> int:
    """Train, and draw what came of it; `given` is the command line. Returns the exit status."""
    from rich.console import Console

    console = Console(file=sys.stdout)  # for good: Ray's own words are sent elsewhere
    if not command.envs:
        raise ValueError("name an environment to train on; `mfec envs` lists them")
    command.where.check()
    command = replace(command, envs=tuple(dict.fromkeys(map(canonical_name, command.envs))))
    out = command.out or Path("runs") / "-".join(map(folder_of, command.envs))
    commands = {env: _with_defaults(command, env, given) for env in command.envs}
    runs, again = _runs(commands, out), _again(commands, out)
    if len(runs) > 1 or command.seeds or command.where.launcher == "ray":
        return _train_many(command, runs, out, again, console)
    return _train_one(command, runs[0].config, out, again, console)


def _with_defaults(command: Train, env: str, given: Sequence[str]) -> Train:
    """The command as it is for that environment: what was given, and the defaults there for the rest."""
    kind, cls = algorithm(command.algorithm), type(command)
    environment = _as_options(kind.environment)
    defaults = cls(command.envs, agent=kind.defaults(env, command.recipe), environment=environment)
    if defaults == cls(command.envs):
        return command
    # Read once more: `command` cannot tell a default from the same number given.
    return tyro.cli(cls, args=given[1:], default=defaults)  # after the word `train`


def _runs(commands: dict[str, Train], out: Path) -> list[Run]:
    """Every run that the command asks for; senseless settings are refused here, once for all of them."""
    from mfec.experiments.many_runs import Run

    runs = []
    for env, command in commands.items():
        for seed in dict.fromkeys(command.seeds or (command.seed,)):
            names = ([env] if len(commands) > 1 else []) + ([f"seed {seed}"] if command.seeds else [])
            place = Path(*([folder_of(env)] if len(commands) > 1 else []), *([f"seed-{seed}"] if command.seeds else []))
            runs.append(Run(" ".join(names) or env, _run_config(command, env, seed), out / place))
    return runs


def _run_config(command: Train, env: str, seed: int) -> RunConfig:
    total, kind = command.total_frames, command.algorithm
    return RunConfig(env, total, seed, command.agent, command.environment.settings, kind, command.evaluation)


def _train_one(command: Train, config: RunConfig, out: Path, again: list[str], console: Console) -> int:
    from mfec.callbacks import Stopped
    from mfec.envs.crashes import EnvironmentCrash
    from mfec.experiments.train import train
    from mfec.run_directory import RunDirectory

    try:
        directory = train(
            config,
            out,
            resume=command.resume,
            checkpoint_frames=command.checkpoint_frames,
            keep_frames=command.keep_frames,
            frames_limit_gb=command.frames_limit_gb,
            ignore_memory_limit=command.ignore_memory_limit,
            console=console,
        )
    except (Stopped, KeyboardInterrupt) as stopped:
        return say_how_to_resume(again, saved=isinstance(stopped, Stopped))
    except EnvironmentCrash as crash:
        if os.environ.get("MFEC_TRACEBACK") or not RunDirectory(out).has_checkpoint:
            raise
        show_their_traceback(crash)
        print(f"mfec: {crash}", file=sys.stderr)
        say_how_to_resume(again, why="what was learned before is saved; once the environment is mended, go on with")
        return 1
    _draw_curve([directory], directory.curve, console)
    _draw_own_vae(config, directory, console)
    if command.video:
        film(directory, command.seed, console)
    return 0


def _train_many(command: Train, runs: Sequence[Run], out: Path, again: list[str], console: Console) -> int:
    from mfec.experiments.many_runs import TrainingOptions, train_runs
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
        device=command.agent.device,
        jobs=len(runs) if fleet and command.where.launcher == "local" else command.jobs,
        options=options,
    )
    _look_before(runs, keep_frames=command.keep_frames, console=console)
    train_runs(runs, launcher, console=console)
    status = report(runs, again, option="--resume")
    if status in (STOPPED, STOPPED_AT_ONCE):
        return status
    finished = [(run, RunDirectory(run.out)) for run in runs if run.state == "finished"]
    try:
        for run, directory in finished:
            _draw_curve([directory], directory.curve, console)
            _draw_own_vae(run.config, directory, console)
            if command.video:
                film(directory, run.config.seed, console, device=command.agent.device, name=run.name)
    except KeyboardInterrupt:
        return say_how_to_resume(again)
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
            console.print(sentence, highlight=False, soft_wrap=True)
    for run in {run.config.env: run for run in runs}.values() if keep_frames else ():
        picture_to_keep(run.config)


def _again(commands: dict[str, Train], out: Path) -> list[str]:
    """The arguments that go on with what was stopped, but for `--resume`; `commands`: for each environment."""
    command = next(iter(commands.values()))
    seeds = ["--seeds", *map(str, command.seeds)] if command.seeds else ["--seed", str(command.seed)]
    where = as_arguments(differing(command.where, LauncherOptions()))
    return ["train", *commands, *_settings(commands), *seeds, *where, "--out", str(out)]


def _settings(commands: dict[str, Train]) -> list[str]:
    """The options that say what differs from the defaults of these runs, as a command line."""
    options: Options = {}
    for env, command in commands.items():  # what differs from the defaults of one was given, and is the same in all
        defaults = algorithm(command.algorithm).defaults(env)
        options |= options_of(replace(_run_config(command, env, command.seed), agent=defaults))
        options |= differing(command.agent, defaults)  # as given: with {env} in an encoder's name
    options |= options_of_training(
        checkpoint_frames=command.checkpoint_frames,
        keep_frames=command.keep_frames,
        frames_limit_gb=command.frames_limit_gb,
        ignore_memory_limit=command.ignore_memory_limit,
    )
    if not command.video:
        options["no-video"] = None
    return as_arguments(options)


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
