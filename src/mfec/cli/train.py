"""`mfec train`: one run, or several side by side in processes or on a GPU."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro
from tyro.conf import OmitArgPrefixes, Positional, arg

from mfec.canonical_names import canonical_name
from mfec.cli.stopping import STOPPED, STOPPED_AT_ONCE, say_how_to_resume
from mfec.cli.vae import draw_vae
from mfec.command_line import Options, as_arguments, options_of, options_of_training
from mfec.config import (
    CHECKPOINT_FRAMES,
    FRAMES_LIMIT_GB,
    A2CConfig,
    AgentConfig,
    AlgorithmName,
    DQNConfig,
    EnvConfig,
    EvaluationConfig,
    RunConfig,
    VAEConfig,
    folder_of,
)
from mfec.errors import MfecError
from mfec.experiments.stopping import STOP_SIGNALS, Stopped
from mfec.recipes import RecipeName, agent_defaults, dqn_defaults, environment_defaults

if TYPE_CHECKING:
    from rich.console import Console

    from mfec.run_directory import RunDirectory

Runs = dict[str, tuple[RunConfig, Path]]  # settings and directory, by name


@dataclass(frozen=True)
class Train:
    """Train an agent; everything goes into a run directory. Defaults are the paper's for Atari; on the Labyrinth, k is
    50, gamma 0.99 and capacity 100,000 unless given. --recipe tuned has others."""

    envs: Annotated[Positional[tuple[str, ...]], arg(metavar="ENV [ENV ...]")]
    """Short name of an Atari game (qbert, ...) or a Labyrinth level (labyrinth_forage, ...), or a Gymnasium id; `mfec
    envs` lists them. Several train side by side, in OUT/ENV."""
    algorithm: AlgorithmName = "mfec"
    """What learns: mfec, or for comparison dqn, prioritised_dqn or a2c (synchronous A3C), which need the extra
    `baselines` and have settings of their own (--dqn.*, --a2c.*)."""
    recipe: RecipeName = "paper"
    """Settings of mfec where none are given: the paper's, or those tuned on its five games (see docs/results.md)."""
    total_frames: int = 1_000_000
    """Frames to play in all (4 to an agent step on Atari and in the Labyrinth)."""
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
    keep_frames: bool = False
    """Keep the frames of MFEC's episodes in OUT/history, so that `mfec inspect` need not play them again: on Atari 130
    to 310 bytes each. Actions and rewards are always kept."""
    frames_limit_gb: Annotated[float, arg(metavar="GB")] = FRAMES_LIMIT_GB
    """Gigabytes of kept frames; beyond them, those of episodes that the memory has the least of go."""
    video: bool = True
    """At the end, film a game into OUT/video.mp4, where the environment can be drawn."""
    ignore_memory_limit: bool = False
    """Start even if the memory could come to need more than there is of RAM, or of the GPU's, in this run."""
    vae_frames: int = VAEConfig.frames
    """With --embedding vae and no --vae: frames of a random policy that the run's own VAE is trained on, its first."""
    vae_steps: int = VAEConfig.steps
    """With --embedding vae and no --vae: steps of that training."""
    agent: OmitArgPrefixes[AgentConfig] = field(default_factory=AgentConfig)
    environment: OmitArgPrefixes[EnvConfig] = field(default_factory=EnvConfig)
    evaluation: OmitArgPrefixes[EvaluationConfig] = field(default_factory=EvaluationConfig)
    dqn: DQNConfig = field(default_factory=DQNConfig)
    a2c: A2CConfig = field(default_factory=A2CConfig)


def run_train(command: Train, given: Sequence[str]) -> int:
    """Train, and draw what came of it; `given` is the command line. Returns the exit status."""
    from rich.console import Console

    console = Console()
    if not command.envs:
        raise ValueError("name an environment to train on; `mfec envs` lists them")
    command = replace(command, envs=tuple(dict.fromkeys(map(canonical_name, command.envs))))
    out = command.out or Path("runs") / "-".join(map(folder_of, command.envs))
    runs = _runs({env: _with_defaults(command, env, given) for env in command.envs}, out)
    if len(runs) > 1 or command.seeds:
        return _train_several(command, runs, out, console)
    [(config, _)] = runs.values()
    return _train_one(command, config, out, console)


def _with_defaults(command: Train, env: str, given: Sequence[str]) -> Train:
    """The command as it is for that environment: what was given, and the defaults there for the rest."""
    algorithm = command.algorithm
    defaults = Train(
        command.envs,
        agent=agent_defaults(env, command.recipe),
        environment=environment_defaults(algorithm),
        dqn=dqn_defaults(algorithm),
    )
    _refuse_options_of_others(command)
    if defaults == Train(command.envs):
        return command
    # Read once more: `command` cannot tell a default from the same number given.
    return tyro.cli(Train, args=given[1:], default=defaults)  # after the word `train`


def _refuse_options_of_others(command: Train) -> None:
    """An error where an option of one algorithm is given to another, which would not heed it."""
    algorithm = command.algorithm
    if algorithm != "mfec" and command.recipe != "paper":
        raise ValueError(f"--recipe is an option of mfec, not of {algorithm}")
    own = {"mfec": "", "a2c": "a2c."}.get(algorithm, "dqn.")
    tables: list[tuple[str, Any, Any]] = [("dqn.", command.dqn, DQNConfig()), ("a2c.", command.a2c, A2CConfig())]
    if algorithm != "mfec":
        tables.append(("", replace(command.agent, device=AgentConfig.device), AgentConfig()))
    for prefix, settings, defaults in tables:
        for name, value in vars(settings).items():
            if prefix != own and value != getattr(defaults, name):
                whose = {"": "mfec", "dqn.": "dqn and prioritised_dqn", "a2c.": "a2c"}[prefix]
                hint = f"; its own begin with --{own}" if own else ""
                raise ValueError(
                    f"--{prefix}{name.replace('_', '-')} is an option of {whose}, not of {algorithm}{hint}"
                )


def _runs(commands: dict[str, Train], out: Path) -> Runs:
    """Every run that the command asks for; senseless settings are refused here, once for all of them."""
    runs = {}
    for env, command in commands.items():
        for seed in dict.fromkeys(command.seeds or (command.seed,)):
            names = ([env] if len(commands) > 1 else []) + ([f"seed {seed}"] if command.seeds else [])
            place = Path(*([folder_of(env)] if len(commands) > 1 else []), *([f"seed-{seed}"] if command.seeds else []))
            runs[" ".join(names)] = (_run_config(command, env, seed), out / place)
    return runs


def _run_config(command: Train, env: str, seed: int) -> RunConfig:
    agent = replace(command.agent, vae=command.agent.vae.replace("{env}", folder_of(env)))
    if agent.vae and agent.embedding == "auto":
        agent = replace(agent, embedding="vae")
    return RunConfig(
        env,
        command.total_frames,
        seed,
        agent,
        command.environment,
        VAEConfig(frames=command.vae_frames, steps=command.vae_steps),
        command.algorithm,
        command.dqn,
        command.a2c,
        command.evaluation,
    )


def _train_one(command: Train, config: RunConfig, out: Path, console: Console) -> int:
    from mfec.experiments.train import train

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
        return say_how_to_resume(_again(command, [config], out), saved=isinstance(stopped, Stopped))
    _draw_curve([directory], directory.curve, console)
    _draw_own_vae(config, directory, console)
    if command.video:
        _film(directory, command.seed, console)
    return 0


def _train_several(command: Train, runs: Runs, out: Path, console: Console) -> int:
    if command.algorithm == "mfec" and command.agent.resolved_index() == "cuda":
        outcomes = _train_fleet(command, runs, console)
    else:
        outcomes = _train_processes(command, runs, console)
    failed = [name for name, outcome in outcomes.items() if outcome == "failed"]
    if failed:
        print(f"mfec: these runs failed: {', '.join(failed)}", file=sys.stderr)
        return 1
    if set(outcomes.values()) != {"finished"}:
        configs = [config for config, _ in runs.values()]
        return say_how_to_resume(_again(command, configs, out), saved="stopped at once" not in outcomes.values())
    from mfec.run_directory import find_runs

    _draw_curve(find_runs([out]), out / "curve.png", console)  # with seeds that were trained before
    return 0


def _train_processes(command: Train, runs: Runs, console: Console) -> dict[str, str]:
    """What became of each run, as in a fleet's `Member`."""
    from mfec.experiments.processes import Child, train_processes

    _refuse_encoders_that_do_not_fit(runs)
    children = [
        Child(name, config.env, config.seed, place, _settings(command, [config]))
        for name, (config, place) in runs.items()
    ]
    status = train_processes(children, resume=command.resume, jobs=command.jobs, console=console)
    return {name: _outcome(status.get(name, STOPPED)) for name in runs}


def _outcome(status: int) -> str:
    """What became of a run whose process ended with this status."""
    if status == STOPPED or -status in STOP_SIGNALS:  # a signal ends it only while there is nothing to save
        return "stopped"
    return {0: "finished", STOPPED_AT_ONCE: "stopped at once"}.get(status, "failed")


def _refuse_encoders_that_do_not_fit(runs: Runs) -> None:
    """An error where a run names an encoder that is not there or of other pictures, or has none to train one on."""
    with_vae = [(config, place) for config, place in runs.values() if config.agent.embedding == "vae"]
    if with_vae:
        from mfec.experiments.embedding import encoder_of_checkpoint
        from mfec.experiments.train import resolve

        begin = [(config, place) for config, place in with_vae if encoder_of_checkpoint(place) is None]
        for config, place in {(config.env, config.agent.vae): (config, place) for config, place in begin}.values():
            resolve(config, place)


def _train_fleet(command: Train, runs: Runs, console: Console) -> dict[str, str]:
    """What became of each run."""
    from mfec.experiments.fleet import Member, train_fleet
    from mfec.run_directory import RunDirectory

    members = [Member(name, config, place, command.keep_frames) for name, (config, place) in runs.items()]
    train_fleet(
        members,
        resume=command.resume,
        checkpoint_frames=command.checkpoint_frames,
        frames_limit_gb=command.frames_limit_gb,
        ignore_memory_limit=command.ignore_memory_limit,
        console=console,
    )
    for member in members:
        if member.outcome == "finished":
            _draw_own_vae(member.config, RunDirectory(member.out), console)
    return {member.name: member.outcome for member in members}


def _again(command: Train, configs: Sequence[RunConfig], out: Path) -> list[str]:
    """The arguments that go on with what was stopped, but for `--resume`."""
    seeds = ["--seeds", *map(str, command.seeds)] if command.seeds else ["--seed", str(command.seed)]
    return ["train", *command.envs, *_settings(command, configs), *seeds, "--out", str(out)]


def _settings(command: Train, configs: Sequence[RunConfig]) -> list[str]:
    """The options that say what differs from the defaults of these runs, as a command line."""
    options: Options = {}
    for config in configs:  # what differs from the defaults of one environment was given, and so is the same in all
        as_given = replace(config.agent, vae=command.agent.vae, embedding=command.agent.embedding)
        options |= options_of(replace(config, agent=as_given))
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
    if config.trains_vae:
        from mfec.experiments.vae_directory import VAEDirectory, vae_of_run

        if VAEDirectory(directory.vae).finished:
            draw_vae(vae_of_run(config, directory), console)


def _film(directory: RunDirectory, seed: int, console: Console) -> None:
    from mfec.experiments.evaluate import evaluate_run

    try:
        evaluate_run(directory, episodes=1, seed=seed, video=directory.video)
        said = f"video: {directory.video}"
    except (MfecError, ImportError, OSError, TypeError, ValueError) as error:  # the run itself is finished
        said = f"no video: {error}"
    console.print(said, highlight=False, markup=False, soft_wrap=True)
