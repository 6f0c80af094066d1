"""Settings as a command line: the arguments of `mfec` that make a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mfec.algorithms import RunConfig
from mfec.config import CHECKPOINT_FRAMES, FRAMES_LIMIT_GB, EvaluationConfig

Options = dict[str, str | tuple[str, ...] | None]  # a switch has no value
REPEATED = {"--env-kwargs": "--env-kwargs", "--wrapper": "--wrapper", "--wrappers": "--wrapper"}
"""Options that may be given several times, each with several values, and what each is called."""


def arguments_of(config: RunConfig) -> list[str]:
    """The arguments that make a run, but for where it goes: `train`, the environment, and what is not the default.

    >>> arguments_of(RunConfig("qbert", total_frames=1000, seed=3))
    ['train', 'qbert', '--total-frames', '1000', '--seed', '3']
    """
    seed = ["--seed", str(config.seed)] if config.seed else []
    return ["train", config.env, *as_arguments(options_of(config)), *seed]


def as_arguments(options: Options) -> list[str]:
    """Options as a command line has them."""
    return [part for name, value in options.items() for part in (f"--{name}", *_values(value))]


def _values(value: str | tuple[str, ...] | None) -> tuple[str, ...]:
    if value is None:
        return ()
    return (value,) if isinstance(value, str) else value


def gather(given: Sequence[str]) -> list[str]:
    """A command line in which an option that was given several times is given once, with all of its values.

    >>> gather(["train", "a:B", "--wrapper", "c:D", "--seed", "1", "--wrapper=e:F"])
    ['train', 'a:B', '--wrapper', 'c:D', 'e:F', '--seed', '1']
    """
    values: dict[str, list[str]] = {}
    kept: list[str | list[str]] = []
    now: list[str] | None = None  # values of the option that is being read
    for part in given:
        name, equals, value = part.partition("=")
        option = REPEATED.get(name.replace("_", "-")) if part.startswith("--") else None
        if option is not None:
            if option not in values:
                values[option] = [option]
                kept.append(values[option])
            now = values[option]
            now += [value] if equals else []
        elif part.startswith("--"):
            now = None
            kept.append(part)
        else:
            (kept if now is None else now).append(part)
    return [part for own in kept for part in (own if isinstance(own, list) else [own])]


def options_of(config: RunConfig) -> Options:
    """The options of `mfec train` that say what differs from the defaults, but for the seed."""
    options: Options = {"algorithm": config.algorithm} if config.algorithm != RunConfig.algorithm else {}
    options["total-frames"] = str(config.total_frames)
    options |= differing(config.agent, config.kind.defaults(config.env))
    options |= differing(config.environment, config.kind.environment)
    return options | differing(config.evaluation, EvaluationConfig())


def options_of_training(
    *, checkpoint_frames: int, keep_frames: bool, frames_limit_gb: float, ignore_memory_limit: bool
) -> Options:
    """The options of `mfec train` beside the settings of a run, those that are not the default."""
    options: Options = {}
    if checkpoint_frames != CHECKPOINT_FRAMES:
        options["checkpoint-frames"] = str(checkpoint_frames)
    if keep_frames:
        options["keep-frames"] = None
    if frames_limit_gb != FRAMES_LIMIT_GB:
        options["frames-limit-gb"] = str(frames_limit_gb)
    if ignore_memory_limit:
        options["ignore-memory-limit"] = None
    return options


def differing(settings: Any, defaults: Any) -> Options:
    """The options that say what differs from these defaults."""
    options: Options = {}
    for name, value in vars(settings).items():
        if value != getattr(defaults, name):
            flag = name.replace("_", "-")
            if isinstance(value, bool):
                options[flag if value else f"no-{flag}"] = None
            elif isinstance(value, tuple):
                options["wrapper" if name == "wrappers" else flag] = value
            else:
                options[flag] = str(value)
    return options
