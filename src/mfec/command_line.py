"""Settings as a command line: the arguments of `mfec` that make a run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mfec.config import CHECKPOINT_FRAMES, FRAMES_LIMIT_GB, A2CConfig, EvaluationConfig, RunConfig, VAEConfig
from mfec.recipes import agent_defaults, dqn_defaults, environment_defaults

Options = dict[str, str | None]  # a switch has no value


def arguments_of(config: RunConfig) -> list[str]:
    """The arguments that make a run, but for where it goes: `train`, the environment, and what is not the default.

    >>> arguments_of(RunConfig("qbert", total_frames=1000, seed=3))
    ['train', 'qbert', '--total-frames', '1000', '--seed', '3']
    """
    seed = ["--seed", str(config.seed)] if config.seed else []
    return ["train", config.env, *as_arguments(options_of(config)), *seed]


def as_arguments(options: Options) -> list[str]:
    """Options as a command line has them."""
    return [part for name, value in options.items() for part in (f"--{name}", value) if part is not None]


def options_of(config: RunConfig) -> Options:
    """The options of `mfec train` that say what differs from the defaults, but for the seed."""
    algorithm = config.algorithm
    options: Options = {"algorithm": algorithm} if algorithm != "mfec" else {}
    options["total-frames"] = str(config.total_frames)
    if config.trains_vae:
        options |= _differing(config.vae, VAEConfig(), "vae-", only=("frames", "steps"))
    if algorithm == "mfec":
        options |= _differing(config.agent, agent_defaults(config.env))
    else:
        options |= _differing(config.agent, replace(config.agent, device="cpu"))
        if algorithm == "a2c":
            options |= _differing(config.a2c, A2CConfig(), "a2c.")
        else:
            options |= _differing(config.dqn, dqn_defaults(algorithm), "dqn.")
    options |= _differing(config.environment, environment_defaults(algorithm))
    return options | _differing(config.evaluation, EvaluationConfig())


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


def _differing(settings: Any, defaults: Any, prefix: str = "", only: tuple[str, ...] = ()) -> Options:
    options: Options = {}
    for name, value in vars(settings).items():
        if value != getattr(defaults, name) and (not only or name in only):
            flag = name.replace("_", "-")
            if isinstance(value, bool):  # tyro puts `no-` before the last part of the name
                options[f"{prefix}{flag}" if value else f"{prefix}no-{flag}"] = None
            else:
                options[f"{prefix}{flag}"] = str(value)
    return options
