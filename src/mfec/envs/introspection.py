"""Facts about an environment, found through all wrappers and vector environments around it."""

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

# Attributes with the number of frames that an action is repeated for: of our environments, ViZDoom's and Gymnasium's
# `AtariPreprocessing`; of ale-py's; of Gymnasium's `MaxAndSkipObservation` and wrappers like it.
REPEATS = ("frame_skip", "_frameskip", "_skip")
PUBLISHED = ("mfec.envs.", "ale_py.")  # modules of the environments that the paper is about


@dataclass(frozen=True)
class Facts:
    """What an agent must know about an environment beside its spaces."""

    frame_skip: int  # frames in a step
    published: bool  # whether it is an Atari game or a Labyrinth level, as in the paper


def facts_of(env: AnyEnv) -> Facts:
    """The facts about an environment; its `frame_skip` is the product of those of all layers, 1 if none has any."""
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
    """The frame skip of one layer, an environment or a wrapper, without the layers below; None if it has none."""
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
    """One of a vector's environments; if they live in other processes, a new one like them."""
    if envs := getattr(vector, "envs", None):
        yield envs[0]
    elif makers := getattr(vector, "env_fns", None):
        with contextlib.closing(makers[0]()) as made:
            yield made
    else:
        yield None
