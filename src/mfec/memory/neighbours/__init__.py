"""Neighbour indexes: find the k nearest states in one action buffer."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mfec.config import AgentConfig
from mfec.memory.neighbours.auto import AutoIndex
from mfec.memory.neighbours.cells import CellIndex
from mfec.memory.neighbours.cuda import CudaIndex
from mfec.memory.neighbours.exact import ExactIndex
from mfec.memory.neighbours.none import NoIndex

AnyKind = type[ExactIndex] | type[CellIndex] | type[AutoIndex] | type[CudaIndex] | type[NoIndex]

INDEXES: dict[str, AnyKind] = {
    "exact": ExactIndex,
    "cells": CellIndex,
    "graph": CellIndex,  # cells took the place of a graph of single states, which was slower; docs/memory.md
    "auto": AutoIndex,
    "cuda": CudaIndex,
    "none": NoIndex,
}


class NeighbourIndex(Protocol):
    """What the episodic memory asks of an index over its action buffers."""

    name: str

    @property
    def active(self) -> str:
        """Name of the index that searches now."""

    @property
    def approximate(self) -> bool:
        """Whether the index that searches now may miss neighbours."""

    def put(self, actions: NDArray[np.int64], slots: NDArray[np.int64]) -> None:
        """Take in the states that now stand in these slots, new ones and replaced ones alike."""

    def search(self, states: Any, wanted: NDArray[np.bool_], k: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Slots, int64 (n, n_actions, k), -1 where there are none, and squared distances of the nearest entries."""

    def asked(self, states: Any, *, learning: bool = True) -> None:
        """States, float32 (n, dim), are about to be looked up: an index may set itself by those of a learning agent.

        Other look-ups must leave no trace on what a checkpoint keeps, nor on what learning look-ups find.
        """

    def settings(self) -> dict[str, Any]:
        """Everything that a checkpoint must keep and that is not an array."""

    def tensors(self) -> dict[str, NDArray[Any]]:
        """Arrays that a checkpoint must keep."""

    def restore(
        self,
        actions: NDArray[np.int64],
        slots: NDArray[np.int64],
        settings: dict[str, Any],
        tensors: dict[str, NDArray[Any]],
    ) -> None:
        """Take in the entries in these slots, and go on where the index stood of which these were kept."""


def make_index(
    name: str,
    states: NDArray[np.float32],
    entry_ids: NDArray[np.int64],
    recall: float = AgentConfig.recall,
    *,
    k: int = AgentConfig.k,
) -> NeighbourIndex:
    """The index of that name over `states`, float32 (n_actions, capacity, dim); `recall` and k as in `AgentConfig`."""
    kind = _kind(name)
    if kind is CudaIndex:
        raise ValueError("the index 'cuda' keeps its states on a device: EpisodicMemory(..., device=...)")
    return kind(states, entry_ids, recall, k=k)  # type: ignore[arg-type, call-arg]


def index_bytes_per_entry(name: str, dim: int) -> int:
    """What the index of that name adds to the bytes of one entry."""
    return _kind(name).bytes_per_entry(dim)


def _kind(name: str) -> AnyKind:
    if name not in INDEXES:
        raise ValueError(f"unknown index {name!r}; there is: {', '.join(INDEXES)}")
    return INDEXES[name]
