"""Neighbour indexes: each keeps the states of all action buffers and finds the k nearest in each buffer."""

from __future__ import annotations

import pkgutil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfec.config import INDEXES, AgentConfig, DeviceName
from mfec.device import Channel, device_name
from mfec.memory.neighbours.index import Found, NeighbourIndex, Shape

__all__ = ["Found", "NeighbourIndex", "index_bytes_per_entry", "make_index"]


def make_index(
    name: str,
    shape: Shape,
    entry_ids: NDArray[np.int64],
    *,
    k: int = AgentConfig.k,
    recall: float = AgentConfig.recall,
    device: DeviceName | Channel = "cpu",
) -> NeighbourIndex:
    """The index of that name; `auto` is `cuda` on a GPU."""
    resolved = AgentConfig(index=name, device=device_name(device)).resolved_index()
    index: NeighbourIndex = _kind(resolved)(shape, entry_ids, k=k, recall=recall, device=device)
    return index


def index_bytes_per_entry(name: str, dim: int) -> int:
    """Bytes that the index of that name needs for one entry, its state not counted."""
    return int(_kind(name).bytes_per_entry(dim))


def _kind(name: str) -> Any:
    if name not in INDEXES:
        raise ValueError(f"unknown index {name!r}; there is: {', '.join(INDEXES)}")
    return pkgutil.resolve_name(INDEXES[name])
