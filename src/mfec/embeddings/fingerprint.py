"""What an embedding makes of a few observations, to know it again: an agent is lost with any other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

if TYPE_CHECKING:
    from mfec.embeddings import Embedding

TENSORS = "fingerprint"  # in a checkpoint
N_PROBES = 8
LARGEST = 1e6  # bounds beyond it, such as 3.4e38, are none


def probes_of(space: spaces.Box | spaces.Discrete[Any]) -> NDArray[Any]:
    """Observations of that space, (n, ...), always the same: numbers from 0, or pictures and vectors.

    They are noise, from fine to coarse: an encoder of pictures sees hardly any difference between two of fine noise.
    """
    if isinstance(space, spaces.Discrete):
        return np.unique(np.linspace(0, int(space.n) - 1, N_PROBES).astype(space.dtype))
    rng = np.random.default_rng(0)
    low, high = space.low.astype(np.float64), space.high.astype(np.float64)
    below, above = np.abs(low) < LARGEST, np.abs(high) < LARGEST
    low = np.where(below, low, np.where(above, high - 2.0, -1.0))
    high = np.where(above, high, low + 2.0)
    whole = 0.0 if np.dtype(space.dtype).kind == "f" else 1.0  # whole numbers are cut off
    probes = np.stack([low + (high - low + whole) * _noise(rng, space.shape, number) for number in range(N_PROBES)])
    return np.clip(probes, space.low, space.high).astype(space.dtype)


def _noise(rng: np.random.Generator, shape: tuple[int, ...], number: int) -> NDArray[np.float64]:
    """Numbers in 0 to 1, equal in blocks of a size that grows with the number."""
    block = [min(side, 2**number) for side in shape]
    few = rng.random([-(-side // size) for side, size in zip(shape, block, strict=True)])
    for axis, size in enumerate(block):
        few = few.repeat(size, axis)
    return few[tuple(slice(side) for side in shape)]


def fingerprint(embedding: Embedding, space: spaces.Box | spaces.Discrete[Any]) -> dict[str, NDArray[Any]]:
    """What a checkpoint keeps of an embedding that it cannot hold: observations and their states."""
    probes = probes_of(space)
    return {"observations": probes, "states": np.asarray(embedding(probes))}


def mismatch(embedding: Embedding, kept: dict[str, NDArray[Any]]) -> str:
    """How far an embedding is from the one whose fingerprint was kept, in words; empty where it is the same one."""
    saved, states = kept["states"], np.asarray(embedding(kept["observations"]))
    if states.shape != saved.shape:
        return f"its states have {saved.shape[-1]} numbers, not {states.shape[-1]}"
    return differ(states, saved)


# The largest difference that is none, as a share of how far the states of the probes lie apart. EfficientNet-Lite0's is
# 1e-6 between one thread and two, and 0.005 where products are rounded to TF32, as a GPU's convolutions are by default.
# Without the normalisation of colours, from smaller pictures, or with weights that are 1% off it is 0.26 or more.
TOLERANCE = 0.02


def differ(states: NDArray[np.float32], saved: NDArray[np.float32]) -> str:
    """How far two embeddings' states of the same observations, float32 (n, dim), lie apart; empty where they agree."""
    spread = float(np.ptp(saved, axis=0).max()) if saved.size else 0.0
    largest = float(np.abs(saved.astype(np.float64)).max()) if saved.size else 0.0
    apart = float(np.abs(states.astype(np.float64) - saved).max()) if saved.size else 0.0
    # Where all states are alike, only rounding may differ, and that grows with the numbers.
    if apart <= TOLERANCE * spread + 1e-6 * largest:
        return ""
    share = f", {apart / spread:.0%} of how far its states lie apart" if spread else ""
    return f"the states of {len(saved)} observations differ from the saved ones by up to {apart:.3g}{share}"
