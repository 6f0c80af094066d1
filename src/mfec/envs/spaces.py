"""Which Gymnasium environments the agent can play."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

SUPPORTED = "supported are Discrete actions, and Box (images or vectors) or Discrete observations"


def actions_of(space: spaces.Space[Any]) -> spaces.Discrete[Any]:
    """The action space; an error if the agent cannot act in it."""
    if not isinstance(space, spaces.Discrete):
        raise TypeError(f"the action space is {_kind(space)}; {SUPPORTED}")
    return space


def observations_of(space: spaces.Space[Any]) -> spaces.Box | spaces.Discrete[Any]:
    """The observation space; an error if the agent cannot use it."""
    if not isinstance(space, (spaces.Box, spaces.Discrete)):
        raise TypeError(f"the observation space is {_kind(space)}; {SUPPORTED}")
    return space


def is_picture(space: spaces.Space[Any]) -> bool:
    """Whether observations are grey pictures, which can be stacked."""
    return isinstance(space, spaces.Box) and space.dtype == np.uint8 and len(space.shape) == 2


def in_space(observations: Any, space: spaces.Box | spaces.Discrete[Any]) -> NDArray[Any]:
    """A copy of observations (n, ...) in the space's dtype, unless the cast would change whole numbers.

    float64 becomes float32, so that a state has one key whichever wrapper shows it. Floats in a space of bytes stay
    floats, and `fits` is False for them: cut to whole numbers, all of `picture / 255` would be zeros.
    """
    given = np.array(observations)
    if given.dtype == space.dtype:
        return given
    with np.errstate(invalid="ignore", over="ignore"):
        cast = given.astype(space.dtype)
    return cast if cast.dtype.kind == "f" or np.array_equal(cast, given) else given


def fits(observations: NDArray[Any], space: spaces.Box | spaces.Discrete[Any]) -> bool:
    """Whether observations (n, ...) have the space's dtype, are finite, and lie in a `Discrete` space."""
    if observations.dtype != space.dtype:
        return False
    if isinstance(space, spaces.Discrete):
        return bool(((observations >= space.start) & (observations < space.start + space.n)).all())
    return observations.dtype.kind != "f" or bool(np.isfinite(observations).all())


def misfit(observations: NDArray[Any], space: spaces.Box | spaces.Discrete[Any]) -> str:
    """What is wrong with observations that do not fit, for an error message."""
    if observations.dtype != space.dtype and not np.can_cast(observations.dtype, space.dtype, "same_kind"):
        return f"an observation of {observations.dtype}, where the space has {np.dtype(space.dtype)}"
    if isinstance(space, spaces.Discrete):
        return f"an observation that is not in {space}"
    return "an observation that is not finite"


def _kind(space: spaces.Space[Any]) -> str:
    return f"{type(space).__name__} ({space})"


def describe_spaces(observations: spaces.Box | spaces.Discrete[Any], actions: spaces.Discrete[Any]) -> dict[str, Any]:
    """The spaces as JSON takes them."""
    if isinstance(observations, spaces.Discrete):
        shown: dict[str, Any] = {"discrete": int(observations.n), "start": int(observations.start)}
    else:
        shown = {"box": list(observations.shape)}
    shown["dtype"] = str(np.dtype(observations.dtype))  # the keys of states are made of their bytes
    return {"observations": shown, "actions": {"discrete": int(actions.n), "start": int(actions.start)}}


def _range(dtype: np.dtype[Any]) -> tuple[float, float]:
    if dtype.kind == "b":
        return 0, 1
    return (-np.inf, np.inf) if dtype.kind == "f" else (np.iinfo(dtype).min, np.iinfo(dtype).max)


def spaces_from(
    described: dict[str, Any],
) -> tuple[spaces.Box | spaces.Discrete[Any], spaces.Discrete[Any]]:
    """The spaces that `describe_spaces` described; the bounds of a Box are those of its dtype."""
    shown, actions = described["observations"], described["actions"]
    action_space = spaces.Discrete(actions["discrete"], start=actions["start"])
    dtype = np.dtype(shown["dtype"])
    if "discrete" in shown:
        return spaces.Discrete(shown["discrete"], start=shown["start"], dtype=dtype.type), action_space
    low, high = _range(dtype)
    return spaces.Box(low, high, tuple(shown["box"]), dtype.type), action_space
