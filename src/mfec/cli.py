"""The command `mfec`: a thin layer over the library. Heavy imports wait until a command needs them."""

from __future__ import annotations

import json
import math
import os
import shlex
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro
from tyro.conf import OmitArgPrefixes, OmitSubcommandPrefixes, Positional, arg, subcommand

from mfec.config import CHECKPOINT_FRAMES, AgentConfig, DeviceName, EnvConfig, RunConfig, VAEConfig
from mfec.errors import MfecError

if TYPE_CHECKING:
    from rich.console import Console

    from mfec.experiments.vae import VAEJob
    from mfec.run_directory import RunDirectory

SHOWN_FRAMES = 2_000  # of which some are drawn beside what a VAE makes of them
STOPPED = 130  # what a shell expects of a program that Ctrl-C ended


@dataclass(frozen=True)
class Train:
    """Train an agent; everything goes into a run directory. Defaults are the paper's for Atari."""

    envs: Annotated[Positional[tuple[str, ...]], arg(metavar="ENV [ENV ...]")]
    """Short name of an Atari game (qbert, ms_pacman, ...) or a Gymnasium id; `mfec envs` lists them. Several train side
    by side, in OUT/ENV."""
    total_frames: int = 1_000_000
    """Frames to play in all (4 to an agent step on Atari)."""
    seed: int = 0
    """Makes the run: environment, exploration, ties, projection."""
    seeds: tuple[int, ...] = ()
    """Several seeds side by side, in OUT/seed-N: one process each, and one that owns the GPU with --device cuda."""
    jobs: int = field(default_factory=lambda: os.cpu_count() or 1)
    """Runs at a time, where there are several and no GPU."""
    out: Annotated[Path | None, arg(metavar="DIR")] = None
    """The run directory; None stands for runs/ENV."""
    resume: bool = False
    """Go on from the last checkpoint in OUT; begin where there is none."""
    checkpoint_frames: int = CHECKPOINT_FRAMES
    """Frames between two checkpoints."""
    video: bool = True
    """At the end, film a game into OUT/video.mp4, where the environment can be drawn."""
    ignore_memory_limit: bool = False
    """Start even if a full memory would not fit in RAM."""
    vae_frames: int = VAEConfig.frames
    """With --embedding vae and no --vae: frames of a random policy that the run's own VAE is trained on, its first."""
    vae_steps: int = VAEConfig.steps
    """With --embedding vae and no --vae: steps of that training."""
    agent: AgentConfig = field(default_factory=AgentConfig)
    environment: EnvConfig = field(default_factory=EnvConfig)


@dataclass(frozen=True)
class Evaluate:
    """Play whole games with the agent of a run; the memory does not change."""

    directory: Annotated[Positional[Path], arg(metavar="DIR")]
    """A run directory."""
    episodes: int = 10
    """Games to play."""
    seed: int = 0
    """Makes the games: starts and random actions."""
    epsilon: Annotated[float | None, arg(metavar="FLOAT")] = None
    """Chance of a random action; None stands for the run's own."""
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
    """Draw learning curves: mean and standard error over seeds against frames."""

    directories: Annotated[Positional[tuple[Path, ...]], arg(metavar="DIR [DIR ...]")]
    """Run directories, or directories with runs below them."""
    out: Path = Path("curve.png")
    """The picture: .png, .pdf or .svg."""


@dataclass(frozen=True)
class VaeTrain:
    """Train a VAE on frames of a random policy. Defaults are the recipe of the paper's appendix."""

    envs: Annotated[Positional[tuple[str, ...]], arg(metavar="ENV [ENV ...]")]
    """Environments that show pictures; several are trained side by side on a GPU, in OUT/ENV."""
    out: Annotated[Path | None, arg(metavar="DIR")] = None
    """Where the encoder goes; None stands for runs/vae/ENV."""
    data: Annotated[Path | None, arg(metavar="DIR")] = None
    """Where the frames lie, or will lie (7 GB for a million); None stands for OUT."""
    seed: int = 0
    """Makes the VAE: games, actions, first weights, minibatches."""
    resume: bool = False
    """Go on from where a training in OUT was stopped; begin where there is none."""
    device: DeviceName = AgentConfig.device
    """Where to train: cpu, or cuda for an NVIDIA GPU."""
    frame_stack: int = EnvConfig.frame_stack
    """Atari: frames in an observation."""
    sticky_actions: float = EnvConfig.sticky_actions
    """Atari: chance, in each frame, that the last action is repeated."""
    recipe: VAEConfig = field(default_factory=VAEConfig)


@dataclass(frozen=True)
class VaeShow:
    """Show what a VAE makes of frames that it was not trained on: their costs, and a picture of some of them."""

    env: Annotated[Positional[str], arg(metavar="ENV")]
    """Environment whose frames are shown."""
    vae: Annotated[str | None, arg(metavar="DIR|NAME")] = None
    """A directory that `mfec vae train` wrote, or the name of an encoder that ships; None stands for ENV."""
    out: Path = Path("reconstructions.png")
    """The picture: .png, .pdf or .svg."""
    frames: int = 10_000
    """Frames of a random policy to take the costs over."""
    seed: int = 0
    """Makes the games, others than those of any training."""
    device: DeviceName = AgentConfig.device
    """Where to compute: cpu or cuda."""
    json: bool = False
    """Print JSON."""


@dataclass(frozen=True)
class Vae:
    """Train variational autoencoders, and look at what they see."""

    action: Annotated[VaeTrain, subcommand("train")] | Annotated[VaeShow, subcommand("show")]


@dataclass(frozen=True)
class Envs:
    """List the environments that can be named."""


@dataclass(frozen=True)
class Command:
    """One of the commands, under a name that can be shown where its options are refused."""

    command: (
        Annotated[Train, subcommand("train")]
        | Annotated[Evaluate, subcommand("evaluate")]
        | Annotated[Plot, subcommand("plot")]
        | Annotated[Vae, subcommand("vae")]
        | Annotated[Envs, subcommand("envs")]
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit status."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        command = tyro.cli(
            Command,
            prog="mfec",
            description="Model-free episodic control: train, evaluate, plot.",
            args=given,
            config=(OmitArgPrefixes, OmitSubcommandPrefixes),
        ).command
        match command:
            case Train():
                return _train(command)
            case Evaluate():
                return _evaluate(command)
            case Plot():
                return _plot(command)
            case Vae(VaeTrain() as action):
                return _train_vaes(action)
            case Vae(VaeShow() as action):
                return _show_vae(action)
            case Envs():
                return _envs()
    except KeyboardInterrupt:
        return STOPPED
    except (MfecError, ImportError, MemoryError, OSError, TypeError, ValueError) as error:
        if os.environ.get("MFEC_TRACEBACK"):
            raise
        print(f"mfec: {error}", file=sys.stderr)
        return 1


def _train(command: Train) -> int:
    from rich.console import Console

    from mfec.experiments.stopping import Stopped
    from mfec.experiments.train import train

    console = Console()
    if not command.envs:
        raise ValueError("name an environment to train on; `mfec envs` lists them")
    runs = _runs(command)
    out = command.out or Path("runs") / "-".join(_folder(env) for env in dict.fromkeys(command.envs))
    if len(runs) > 1 or command.seeds:
        together = _train_fleet if command.agent.resolved_index() == "cuda" else _train_processes
        failed, stopped = together(command, runs, out, console)
        if failed:
            print(f"mfec: these runs failed: {', '.join(failed)}", file=sys.stderr)
            return 1
        if stopped:
            return _say_how_to_resume(command, out)
        _draw_curve(out, out / "curve.png", console)
        return 0
    config = _run_config(command, command.envs[0], command.seed)
    try:
        directory = train(
            config,
            out,
            resume=command.resume,
            checkpoint_frames=command.checkpoint_frames,
            ignore_memory_limit=command.ignore_memory_limit,
            console=console,
        )
    except Stopped:
        return _say_how_to_resume(command, out)
    _draw_curve(out, directory.curve, console)
    if command.video:
        _film(directory, command.seed, console)
    return 0


def _runs(command: Train) -> dict[str, tuple[str, int, Path]]:
    """Environment, seed and place below OUT of every run, by its name."""
    envs, seeds = dict.fromkeys(command.envs), dict.fromkeys(command.seeds or (command.seed,))
    runs = {}
    for env in envs:
        for seed in seeds:
            names = ([env] if len(envs) > 1 else []) + ([f"seed {seed}"] if command.seeds else [])
            place = Path(*([_folder(env)] if len(envs) > 1 else []), *([f"seed-{seed}"] if command.seeds else []))
            runs[" ".join(names)] = (env, seed, place)
    return runs


def _train_processes(
    command: Train, runs: dict[str, tuple[str, int, Path]], out: Path, console: Console
) -> tuple[list[str], list[str]]:
    """Names of the runs that failed, and of those that were stopped."""
    from mfec.experiments.processes import Child, train_processes

    for number in (signal.SIGINT, signal.SIGTERM):  # either tells the runs' processes to stop
        signal.signal(number, signal.default_int_handler)
    children = [Child(name, env, seed, out / place) for name, (env, seed, place) in runs.items()]
    status = train_processes(children, _settings(command), resume=command.resume, jobs=command.jobs, console=console)
    stopped = [name for name in runs if status.get(name, STOPPED) in (STOPPED, -signal.SIGINT, -signal.SIGTERM)]
    return [name for name, code in status.items() if code != 0 and name not in stopped], stopped


def _train_fleet(
    command: Train, runs: dict[str, tuple[str, int, Path]], out: Path, console: Console
) -> tuple[list[str], list[str]]:
    """Names of the runs that failed, and of those that were stopped."""
    from mfec.experiments.fleet import Member, train_fleet

    members = [Member(name, _run_config(command, env, seed), out / place) for name, (env, seed, place) in runs.items()]
    train_fleet(
        members,
        resume=command.resume,
        checkpoint_frames=command.checkpoint_frames,
        ignore_memory_limit=command.ignore_memory_limit,
        console=console,
    )
    by_outcome = {outcome: [m.name for m in members if m.outcome == outcome] for outcome in ("failed", "stopped")}
    return by_outcome["failed"], by_outcome["stopped"]


def _folder(env: str) -> str:
    return env.replace("/", "-").replace(":", "-")


def _say_how_to_resume(command: Train, out: Path) -> int:
    again = ["mfec", "train", *command.envs, *_settings(command)]
    again += ["--seeds", *map(str, command.seeds)] if command.seeds else ["--seed", str(command.seed)]
    print(f"stopped, and saved; go on with\n  {shlex.join([*again, '--out', str(out), '--resume'])}")
    return STOPPED


def _settings(command: Train) -> list[str]:
    """The options that say what differs from the defaults, as a command line."""
    options = ["--total-frames", str(command.total_frames)]
    if command.checkpoint_frames != Train.checkpoint_frames:
        options += ["--checkpoint-frames", str(command.checkpoint_frames)]
    if not command.video:
        options += ["--no-video"]
    for name in ("vae_frames", "vae_steps"):
        if getattr(command, name) != getattr(Train, name):
            options += [f"--{name.replace('_', '-')}", str(getattr(command, name))]
    if command.ignore_memory_limit:
        options += ["--ignore-memory-limit"]
    for given, default in ((command.agent, AgentConfig()), (command.environment, EnvConfig())):
        for name, value in vars(given).items():
            if value != getattr(default, name):
                options += [f"--{name.replace('_', '-')}", str(value)]
    return options


def _run_config(command: Train, env: str, seed: int) -> RunConfig:
    agent = replace(command.agent, vae=command.agent.vae.replace("{env}", _folder(env)))
    if agent.vae and agent.embedding == "auto":
        agent = replace(agent, embedding="vae")
    vae = VAEConfig(frames=command.vae_frames, steps=command.vae_steps)
    return RunConfig(env, command.total_frames, seed, agent, command.environment, vae)


def _train_vaes(command: VaeTrain) -> int:
    from rich.console import Console

    from mfec.experiments.stopping import Stopped
    from mfec.experiments.vae import VAEJob, train_vaes

    console = Console()
    envs = list(dict.fromkeys(command.envs))
    environment = EnvConfig(frame_stack=command.frame_stack, sticky_actions=command.sticky_actions)
    out = command.out or Path("runs", "vae", *([_folder(envs[0])] if len(envs) == 1 else []))
    jobs = [
        VAEJob(
            env,
            out / _folder(env) if len(envs) > 1 else out,
            command.recipe,
            environment,
            command.seed,
            command.data and (command.data / _folder(env) if len(envs) > 1 else command.data),
        )
        for env in envs
    ]
    try:
        train_vaes(jobs, device=command.device, resume=command.resume, console=console)
    except Stopped:
        given = [argument for argument in sys.argv[1:] if argument != "--resume"]
        print(f"stopped, and saved; go on with\n  {shlex.join(['mfec', *given, '--resume'])}")
        return STOPPED
    for job in jobs:
        _draw_vae(job, console)
    return 0


def _draw_vae(job: VAEJob, console: Console) -> None:
    """The pictures of a VAE that was trained, and what it costs to send frames that it was not trained on."""
    from mfec.embeddings import VAE
    from mfec.experiments.frames import held_out_frames
    from mfec.experiments.vae import VAEDirectory
    from mfec.figures.vae import draw_costs, draw_reconstructions

    directory = VAEDirectory(job.out)
    frames = held_out_frames(job.env, job.environment, SHOWN_FRAMES, job.seed)
    pictures = [
        draw_costs(directory.costs(), directory.loss_picture),
        draw_reconstructions(VAE.load(job.out), frames, directory.reconstructions),
    ]
    for picture in pictures:
        console.print(f"picture: {picture}", highlight=False, markup=False, soft_wrap=True)


def _show_vae(command: VaeShow) -> int:
    from mfec.embeddings import VAE
    from mfec.experiments.frames import held_out_frames
    from mfec.figures.vae import draw_reconstructions

    if command.frames < 1:
        raise ValueError(f"frames must be at least 1, not {command.frames}")
    vae = VAE.load(command.vae or command.env, device=command.device)
    environment = EnvConfig()
    shape = vae.observation_shape
    if len(shape) == 3 and not vae.architecture.colours_last:
        environment = EnvConfig(frame_stack=shape[0])
    frames = held_out_frames(command.env, environment, command.frames, command.seed)
    vae.check_fits(frames.dtype, frames.shape[1:])
    correction, communication = vae.costs(frames)
    picture = draw_reconstructions(vae, frames, command.out)
    if command.json:
        print(json.dumps({"frames": len(frames), "correction": correction, "communication": communication}))
        return 0
    print(f"held-out frames: {len(frames):,} of {command.env}, a random policy")
    print(f"correction cost: {correction:,.1f} nats, communication cost: {communication:,.1f} nats a frame")
    print(f"picture: {picture}")
    return 0


def _draw_curve(runs: Path, out: Path, console: Console) -> None:
    from mfec.figures.learning_curves import draw_learning_curves
    from mfec.run_directory import find_runs

    finished = [run for run in find_runs([runs]) if run.episodes()["frames"]]
    if finished:
        drawn = draw_learning_curves(finished, out)
        console.print(f"learning curve: {drawn}", highlight=False, markup=False, soft_wrap=True)


def _film(directory: RunDirectory, seed: int, console: Console) -> None:
    from mfec.experiments.evaluate import evaluate_run

    try:
        evaluate_run(directory, episodes=1, seed=seed, video=directory.video)
        said = f"video: {directory.video}"
    except (ImportError, TypeError, ValueError) as error:
        said = f"no video: {error}"
    console.print(said, highlight=False, markup=False, soft_wrap=True)


def _evaluate(command: Evaluate) -> int:
    from rich.console import Console
    from rich.table import Table

    from mfec.experiments.evaluate import evaluate_run
    from mfec.run_directory import RunDirectory

    evaluations = evaluate_run(
        RunDirectory(command.directory),
        episodes=command.episodes,
        seed=command.seed,
        epsilon=command.epsilon,
        random=command.random,
        video=command.video,
        device=command.device,
    )
    if command.json:
        print(json.dumps([evaluation.as_json() for evaluation in evaluations], indent=1))
        return 0
    console = Console()
    table = Table(title=f"whole games, unclipped scores; games: {command.episodes}")
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


def _plot(command: Plot) -> int:
    from mfec.figures.learning_curves import draw_learning_curves
    from mfec.run_directory import find_runs

    print(draw_learning_curves(find_runs(list(command.directories)), command.out))
    return 0


def _envs() -> int:
    from mfec.envs import env_names

    for source, names in env_names().items():
        print(f"{source}:")
        for name in names:
            print(f"  {name}")
    return 0
