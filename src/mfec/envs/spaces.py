"""Which Gymnasium environments the agent can play."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

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


def _kind(space: spaces.Space[Any]) -> str:
    return f"{type(space).__name__} ({space})"


def describe_spaces(observations: spaces.Box | spaces.Discrete[Any], actions: spaces.Discrete[Any]) -> dict[str, Any]:
    """The spaces as JSON takes them."""
    if isinstance(observations, spaces.Discrete):
        shown: dict[str, Any] = {"discrete": int(observations.n), "start": int(observations.start)}
    else:
        shown = {"box": list(observations.shape), "dtype": str(np.dtype(observations.dtype))}
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
    if "discrete" in shown:
        return spaces.Discrete(shown["discrete"], start=shown["start"]), action_space
    dtype = np.dtype(shown["dtype"])
    low, high = _range(dtype)
    return spaces.Box(low, high, tuple(shown["box"]), dtype.type), action_space
