"""What a memory is given, checked before anything changes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mfec.memory.compiled import all_finite


def check_numbers(*, recall: float, delta: float, alpha: float, capacity: int, **sizes: Any) -> None:
    """Raise unless these settings are possible."""
    for name, number in {**sizes, "capacity": capacity}.items():
        if not isinstance(number, (int, np.integer)) or number < 1:
            raise ValueError(f"{name} must be a whole number of at least 1, not {number!r}")
    if capacity >= 2**30:
        raise ValueError(f"capacity must be below 2**30 entries per action, not {capacity}")
    for name, share in (("recall", recall), ("alpha", alpha)):
        if not 0.0 < share <= 1.0:
            raise ValueError(f"{name} must lie above 0 and not above 1, not {share}")
    # With less, weighted sums of float32 numbers could overflow.
    if not 1e-30 <= delta < np.inf:
        raise ValueError(f"delta must be a finite number of at least 1e-30, not {delta}")


def checked_actions(given: ArrayLike, n: int, n_actions: int) -> NDArray[np.int64]:
    """Actions, int64 (n,)."""
    actions = _integers(given, n, "actions")
    wrong = actions[(actions < 0) | (actions >= n_actions)]
    if len(wrong):
        raise ValueError(f"actions must lie in 0..{n_actions - 1}, not {wrong[0]}")
    return actions.astype(np.int64)


def checked_places(
    actions: ArrayLike, slots: ArrayLike, sizes: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Actions and slots, int64 (n,), of entries that are there, in buffers of these sizes."""
    taken = checked_actions(actions, np.size(actions), len(sizes))
    places = _integers(slots, len(taken), "slots")
    empty = np.flatnonzero((places < 0) | (places >= sizes[taken]))
    if len(empty):
        action = taken[empty[0]]
        raise ValueError(
            f"there is no entry in slot {places[empty[0]]} of action {action}: its buffer has {sizes[action]}, and "
            "slots are counted from 0"
        )
    return taken, places.astype(np.int64)


def checked_values(given: ArrayLike, n: int, what: str) -> NDArray[np.float32]:
    """Finite numbers, float32 (n,)."""
    with np.errstate(over="ignore"):
        values = np.asarray(given, np.float32)
    _check_shape(values, n, what)
    if not np.isfinite(values).all():
        raise ValueError(f"{what} must be finite float32 numbers")
    return values


def checked_states(given: ArrayLike, dim: int) -> NDArray[np.float32]:
    """Finite states, float32 (n, dim)."""
    if isinstance(given, np.ndarray) and given.dtype == np.float32 and given.flags.c_contiguous:
        states = given  # those of an agent's every step
    else:
        with np.errstate(over="ignore"):
            states = np.ascontiguousarray(given, np.float32)
    if states.ndim != 2 or states.shape[1] != dim:
        raise ValueError(f"states must have the shape (n, {dim}), not {states.shape}")
    if not all_finite(states):
        raise ValueError("states must be finite numbers")
    return states


def _integers(given: ArrayLike, n: int, what: str) -> NDArray[Any]:
    numbers = np.asarray(given)
    _check_shape(numbers, n, what)
    if n and numbers.dtype.kind not in "iu":
        raise ValueError(f"{what} must be integers, not {numbers.dtype}")
    return numbers


def _check_shape(numbers: NDArray[Any], n: int, what: str) -> None:
    if numbers.shape != (n,):
        raise ValueError(f"{what} must be {n} numbers in a row, not of shape {numbers.shape}")
