"""The search in plain torch, for devices without Triton: slower, with the same results."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from mfec.device.buffers import ActionBuffers

SPARE = 4  # entries beyond k + 1 that are measured again, because float32 rounds distances


def search_plain(
    buffers: ActionBuffers, states: torch.Tensor, wanted: NDArray[np.bool_], k: int
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.bool_]]:
    """Slots, squared distances and `unsure`, as in `Response`, for states, float32 (n, dim), on the buffers' device."""
    slots = np.full((*wanted.shape, k + 1), -1, np.int64)
    squared = np.full((*wanted.shape, k + 1), np.inf)
    unsure = np.zeros(wanted.shape, np.bool_)
    for action in np.flatnonzero(wanted.any(0) & (buffers.sizes > 0)).tolist():
        rows = np.flatnonzero(wanted[:, action])
        queries = states[torch.from_numpy(rows).to(buffers.device)]
        rough = _rough_distances(buffers, action, queries)
        keep = min(rough.shape[1], k + 1 + SPARE)
        near, nearest = torch.topk(rough, keep, dim=1, largest=False)
        candidates = nearest.cpu().numpy()
        entries = buffers.gather(np.full(candidates.size, action), candidates.ravel())
        exact = squared_distances(entries.view(len(rows), keep, -1), queries[:, None])
        exact, ranks = torch.sort(exact, dim=1, stable=True)
        found = min(keep, k + 1)
        squared[rows, action, :found] = exact[:, :found].cpu().numpy()
        slots[rows, action, :found] = torch.gather(nearest, 1, ranks)[:, :found].cpu().numpy()
        if rough.shape[1] > keep:
            limit = near[:, k - 1] * (1.0 + 1e-6 + 2e-7 * buffers.dim) + 1e-30
            doubt = (near[:, -1] <= limit) | ~torch.isfinite(near[:, -1])
            unsure[rows, action] = doubt.cpu().numpy()
    return slots, squared, unsure


def squared_distances(entries: torch.Tensor, states: torch.Tensor) -> torch.Tensor:
    """Squared distances, float64, over the last axis, summed in the order of the numbers."""
    return (entries.double() - states.double()).square_().cumsum(-1)[..., -1]


def _rough_distances(buffers: ActionBuffers, action: int, states: torch.Tensor) -> torch.Tensor:
    """Float32 squared distances (n, entries) of all entries of an action from n states."""
    pages = buffers.pages(action)  # (pages, blocks, dim, entries)
    rough = [(pages - state[:, None]).square_().sum(2).view(-1) for state in states]
    return torch.stack(rough)[:, : int(buffers.sizes[action])]
