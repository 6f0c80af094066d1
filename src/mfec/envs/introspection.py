"""What an environment says of itself, through whatever wrappers and vectors lie around it."""

from __future__ import annotations

import contextlib
import inspect
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import VectorEnv

AnyEnv = gymnasium.Env[Any, Any] | VectorEnv[Any, Any, Any]

# How environments and wrappers call the number of frames that they repeat an action for: ours, ViZDoom's and
# Gymnasium's `AtariPreprocessing`; ale-py's; Gymnasium's `MaxAndSkipObservation` and its like elsewhere.
REPEATS = ("frame_skip", "_frameskip", "_skip")
PUBLISHED = ("mfec.envs.", "ale_py.")  # modules of the environments that the paper is about


@dataclass(frozen=True)
class Facts:
    """What an agent must know of an environment beside its spaces."""

    frame_skip: int  # frames in a step
    published: bool  # one of the paper's kinds of environment: an Atari game or a level of the Labyrinth


def facts_of(env: AnyEnv) -> Facts:
    """Frames are the product of what the environment and its wrappers repeat an action for; one where none says."""
    if not isinstance(env, VectorEnv):
        return Facts(_frame_skip(env), _is_published(env))
    with _one_of(env.unwrapped) as one:
        if one is not None:
            return facts_of(one)
    return Facts(_repeats(env.unwrapped) or _assume(env.unwrapped), _is_published(env))


def _frame_skip(env: gymnasium.Env[Any, Any]) -> int:
    frames = _repeats(env) or 1
    return frames * _frame_skip(env.env) if isinstance(env, gymnasium.Wrapper) else frames


def _repeats(layer: Any) -> int | None:
    """What one layer says: an environment or one wrapper of it, not what lies below."""
    for name in REPEATS:
        if inspect.getattr_static(layer, name, None) is None:
            continue
        value = getattr(layer, name)
        if isinstance(value, (int, np.integer)):
            return int(value)
        if isinstance(value, tuple):  # ale-py's v0 and v4: any number from the first to below the last
            mean = sum(range(*value)) / len(range(*value))
            warnings.warn(
                f"{type(layer).__name__} repeats an action for {value[0]} to {value[1] - 1} frames at random; "
                f"{round(mean)} frames a step are counted",
                stacklevel=6,
            )
            return round(mean)
    return None


def _assume(vector: VectorEnv[Any, Any, Any]) -> int:
    module = type(vector).__module__
    if module.startswith("gymnasium.envs."):  # classic control and the like: a step is a frame
        return 1
    frames = 4 if module.startswith("ale_py.") else 1  # the default of ale-py's own vector
    warnings.warn(
        f"{type(vector).__name__} does not say how many frames a step has, and {frames} is assumed; an attribute "
        "`frame_skip` would say it",
        stacklevel=5,
    )
    return frames


def _is_published(env: AnyEnv) -> bool:
    return any(kind.__module__.startswith(PUBLISHED) for kind in type(env.unwrapped).__mro__)


@contextlib.contextmanager
def _one_of(vector: VectorEnv[Any, Any, Any]) -> Iterator[gymnasium.Env[Any, Any] | None]:
    """One of the environments of a vector: where they live in other processes, another one like them."""
    if envs := getattr(vector, "envs", None):
        yield envs[0]
    elif makers := getattr(vector, "env_fns", None):
        with contextlib.closing(makers[0]()) as made:
            yield made
    else:
        yield None
