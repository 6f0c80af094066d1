"""Which Gymnasium environments the agent can play."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

SUPPORTED = "supported are Discrete actions, and Box (images or vectors) or Discrete observations"


def actions_of(space: spaces.Space[Any]) -> spaces.Discrete[Any]:
    """The action space, if the agent can act in it."""
    if not isinstance(space, spaces.Discrete):
        raise TypeError(f"the action space is {_kind(space)}; {SUPPORTED}")
    return space


def observations_of(space: spaces.Space[Any]) -> spaces.Box | spaces.Discrete[Any]:
    """The observation space, if the agent can see in it."""
    if not isinstance(space, (spaces.Box, spaces.Discrete)):
        raise TypeError(f"the observation space is {_kind(space)}; {SUPPORTED}")
    return space


def in_space(observations: Any, space: spaces.Box | spaces.Discrete[Any]) -> NDArray[Any]:
    """Observations (n, ...) as an array of its own, in the space's dtype unless that would make others of them.

    float64 becomes float32, so that a state is known again whoever shows it. Floats where the space has bytes stay
    floats, and `fits` is False of them: cut to whole numbers, all of `picture / 255` would be zeros.
    """
    given = np.array(observations)
    if given.dtype == space.dtype:
        return given
    with np.errstate(invalid="ignore", over="ignore"):
        cast = given.astype(space.dtype)
    return cast if cast.dtype.kind == "f" or np.array_equal(cast, given) else given


def fits(observations: NDArray[Any], space: spaces.Box | spaces.Discrete[Any]) -> bool:
    """Whether observations (n, ...) are of the space's dtype, finite, and known to a `Discrete` space."""
    if observations.dtype != space.dtype:
        return False
    if isinstance(space, spaces.Discrete):
        return bool(((observations >= space.start) & (observations < space.start + space.n)).all())
    return observations.dtype.kind != "f" or bool(np.isfinite(observations).all())


def misfit(observations: NDArray[Any], space: spaces.Box | spaces.Discrete[Any]) -> str:
    """What is wrong with observations that do not fit, for people."""
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
    """Spaces of that description, with the bounds of a Box as wide as its numbers go."""
    shown, actions = described["observations"], described["actions"]
    action_space = spaces.Discrete(actions["discrete"], start=actions["start"])
    dtype = np.dtype(shown["dtype"])
    if "discrete" in shown:
        return spaces.Discrete(shown["discrete"], start=shown["start"], dtype=dtype.type), action_space
    low, high = _range(dtype)
    return spaces.Box(low, high, tuple(shown["box"]), dtype.type), action_space
