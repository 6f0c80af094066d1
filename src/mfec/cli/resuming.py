"""`mfec train --resume --out DIR`: runs that go on with the settings in their directories."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mfec.algorithms import Algorithm, algorithm
from mfec.cli.env_options import EnvOptions
from mfec.cli.many_runs import LauncherOptions
from mfec.cli.reading import read, value_of
from mfec.command_line import Options, as_arguments, differing, options_of, options_of_training
from mfec.config import FRAMES_LIMIT_GB
from mfec.errors import MfecError

if TYPE_CHECKING:
    from mfec.cli.train import Train
    from mfec.experiments.many_runs import Run
    from mfec.run_directory import RunDirectory

NEW = ("seeds", "recipe")  # options that make new runs


def named_directory(given: Sequence[str]) -> Path | None:
    """The directory with runs that a command line goes on with, if it does, before it is read."""
    out = value_of(given, "--out")
    return Path(out) if out and "--resume" in given else None


def runs_below(out: Path | None) -> list[RunDirectory]:
    """The run in this directory, or all runs below it."""
    if out is None:
        raise ValueError("name the run that goes on, or the directory of several: --out DIR; or an environment")
    from mfec.run_directory import RunDirectory, find_runs

    directory = RunDirectory(out)
    return [directory] if directory.exists else find_runs([out])


def begun_with(out: Path) -> str | None:
    """The algorithm of the first run in a directory; None where there is none, which is an error later on."""
    try:
        return runs_below(out)[0].read_config().algorithm
    except MfecError:
        return None


def as_begun(command_of: Callable[[Algorithm], type[Any]], run: RunDirectory, given: Sequence[str]) -> Train:
    """The command that goes on with a run: what is given, and the settings in its directory for the rest.

    command_of: `Train` with the settings of an algorithm; given: what comes after the word `train`.
    """
    begun = run.read_config()
    other = value_of(given, "--algorithm") or begun.algorithm
    if other != begun.algorithm:
        raise ValueError(f"{run.path} was begun with algorithm = {begun.algorithm}, it cannot go on with {other}")
    kept = _kept_frames_gb(run)
    cls = command_of(begun.kind)
    same = {field.name: getattr(begun, field.name) for field in fields(begun) if field.name != "env"}
    same["environment"] = EnvOptions.of(begun.environment)
    default = cls((begun.env,), **same, keep_frames=kept > 0.0, frames_limit_gb=max(kept, FRAMES_LIMIT_GB))
    command: Train = read(cls, given, prog="mfec train", default=default)
    for name in NEW:
        if getattr(command, name) != getattr(default, name):
            raise ValueError(f"--{name} is for new runs: name an environment; those in {run.path} keep what they have")
    return command


def _kept_frames_gb(run: RunDirectory) -> float:
    """Gigabytes of frames that the run has kept so far: it goes on to keep them, and drops none of these."""
    from mfec.experiments.train import kept_frame_bytes

    return kept_frame_bytes(run) / 1e9


def how_to_go_on(commands: dict[str, Train], out: Path, runs: Sequence[Run] = ()) -> list[str]:
    """The arguments that go on with what was stopped, but for `--resume`; `commands`: for each environment.

    Where all runs have begun, their directories tell what they are.
    """
    command = next(iter(commands.values()))
    where = as_arguments(differing(command.where, LauncherOptions()))
    if runs and all(map(_is_told, runs)):
        return ["train", *as_arguments(_of_training(command)), *where, "--out", str(out)]
    seeds = ["--seeds", *map(str, command.seeds)] if command.seeds else ["--seed", str(command.seed)]
    return ["train", *commands, *_settings(commands), *seeds, *where, "--out", str(out)]


def _is_told(run: Run) -> bool:
    """Whether its directory tells everything about the run, also what it was told when it went on."""
    from mfec.run_directory import RunDirectory

    directory = RunDirectory(run.out)
    begun = directory.read_config() if directory.exists else None
    return begun is not None and (begun.total_frames, begun.evaluation) == (
        run.config.total_frames,
        run.config.evaluation,
    )


def _settings(commands: dict[str, Train]) -> list[str]:
    """The options that say what differs from the defaults of these runs, as a command line."""
    options: Options = {}
    for env, command in commands.items():  # what differs from the defaults of one was given, and is the same in all
        defaults = algorithm(command.algorithm).defaults(env)
        options |= options_of(replace(command.run_config(env, command.seed), agent=defaults))
        options |= differing(command.agent, defaults)  # as given: with {env} in an encoder's name
    return as_arguments(options | _of_training(command))


def _of_training(command: Train) -> Options:
    """The options beside the settings of a run, those that are not the default."""
    options = options_of_training(
        checkpoint_frames=command.checkpoint_frames,
        keep_frames=command.keep_frames,
        frames_limit_gb=command.frames_limit_gb,
        ignore_memory_limit=command.ignore_memory_limit,
    )
    return options if command.video else options | {"no-video": None}
