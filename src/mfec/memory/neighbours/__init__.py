"""Neighbour indexes: each keeps the states of all action buffers, and finds the k nearest in each."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfec.config import AgentConfig, DeviceName
from mfec.device import Channel, device_name
from mfec.memory.neighbours.auto import AutoIndex
from mfec.memory.neighbours.cells import CellIndex
from mfec.memory.neighbours.cuda import CudaIndex
from mfec.memory.neighbours.exact import ExactIndex
from mfec.memory.neighbours.index import Found, NeighbourIndex, Shape
from mfec.memory.neighbours.none import NoIndex

__all__ = ["INDEXES", "Found", "NeighbourIndex", "index_bytes_per_entry", "make_index"]

INDEXES: dict[str, Any] = {
    "exact": ExactIndex,
    "cells": CellIndex,
    "auto": AutoIndex,
    "cuda": CudaIndex,
    "none": NoIndex,
}
"""What `index` can name: add yours here."""


def make_index(
    name: str,
    shape: Shape,
    entry_ids: NDArray[np.int64],
    *,
    k: int = AgentConfig.k,
    recall: float = AgentConfig.recall,
    device: DeviceName | Channel = "cpu",
) -> NeighbourIndex:
    """The index of that name; on a device, `auto` is the one that keeps its states there."""
    resolved = AgentConfig(index=name, device=device_name(device)).resolved_index()  # type: ignore[arg-type]
    index: NeighbourIndex = _kind(resolved)(shape, entry_ids, k=k, recall=recall, device=device)
    return index


def index_bytes_per_entry(name: str, dim: int) -> int:
    """What the index of that name adds to the bytes of one entry."""
    return int(_kind(name).bytes_per_entry(dim))


def _kind(name: str) -> Any:
    if name not in INDEXES:
        raise ValueError(f"unknown index {name!r}; there is: {', '.join(INDEXES)}")
    return INDEXES[name]
