"""Observations that are of their space, and spaces as a checkpoint describes them."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray


def is_picture(space: spaces.Space[Any]) -> bool:
    """Whether observations are grey pictures, which can be stacked."""
    return isinstance(space, spaces.Box) and space.dtype == np.uint8 and len(space.shape) == 2


SMALLEST_SIDE = 36  # of a picture: what DQN's convolutions of 8, 4 and 3 pixels at steps of 4, 2 and 1 leave some of


def n_planes(space: spaces.Space[Any]) -> int:
    """Grey pictures in an observation, one above the other, large enough for convolutions; 0 where it shows none."""
    if not isinstance(space, spaces.Box) or space.dtype != np.uint8 or len(space.shape) not in (2, 3):
        return 0
    *stacked, height, width = space.shape
    planes = stacked[0] if stacked else 1
    return planes if min(height, width) >= SMALLEST_SIDE and planes <= min(height, width) else 0


def in_space(observations: Any, space: spaces.Space[Any]) -> NDArray[Any]:
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


def describe_spaces(observations: spaces.Space[Any], actions: spaces.Space[Any]) -> dict[str, Any]:
    """The spaces as JSON takes them."""
    doing = _describe(actions)
    if isinstance(actions, spaces.Discrete):
        del doing["dtype"]
    return {"observations": _describe(observations), "actions": doing}


def spaces_from(described: dict[str, Any]) -> tuple[Any, Any]:
    """The spaces that `describe_spaces` described; the bounds of a Box are those of its dtype."""
    return _space(described["observations"]), _space({"dtype": "int64", **described["actions"]})


def _describe(space: spaces.Space[Any]) -> dict[str, Any]:
    match space:
        case spaces.Dict():
            return {"dict": [[key, _describe(own)] for key, own in space.spaces.items()]}
        case spaces.Tuple():
            return {"tuple": [_describe(own) for own in space.spaces]}
        case spaces.Text():
            return {"text": space.max_length, "shortest": space.min_length, "characters": space.characters}
    # The keys of states are made of their bytes.
    dtype = {"dtype": str(np.dtype(space.dtype))}
    match space:
        case spaces.Discrete():
            return {"discrete": int(space.n), "start": int(space.start)} | dtype
        case spaces.MultiDiscrete():
            return {"multi_discrete": space.nvec.tolist(), "start": space.start.tolist()} | dtype
        case spaces.MultiBinary():
            return {"multi_binary": list(space.shape)}
    return {"box": list(space.shape or ())} | dtype


def _space(described: dict[str, Any]) -> spaces.Space[Any]:
    match described:
        case {"dict": members}:
            return spaces.Dict([(key, _space(own)) for key, own in members])
        case {"tuple": members}:
            return spaces.Tuple([_space(own) for own in members])
        case {"text": longest, "shortest": shortest, "characters": characters}:
            return spaces.Text(longest, min_length=shortest, charset=characters)
        case {"multi_binary": shape}:
            return spaces.MultiBinary(shape)
    dtype = np.dtype(described["dtype"])
    match described:
        case {"discrete": n, "start": start}:
            return spaces.Discrete(n, start=start, dtype=dtype.type)
        case {"multi_discrete": counts, "start": start}:
            return spaces.MultiDiscrete(counts, dtype=dtype.type, start=start)
    low, high = _range(dtype)
    return spaces.Box(low, high, tuple(described["box"]), dtype.type)


def _range(dtype: np.dtype[Any]) -> tuple[float, float]:
    if dtype.kind == "b":
        return 0, 1
    return (-np.inf, np.inf) if dtype.kind == "f" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
