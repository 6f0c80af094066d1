"""What an episodic memory can come to need."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mfec.algorithms.registry import Footprint

if TYPE_CHECKING:
    from mfec.algorithms.nec.settings import NECConfig
    from mfec.config import AgentConfig

DEVICE_SLACK = 9 / 8  # states are given room in slabs of an eighth of what there is


def footprint_of_memory(agent: AgentConfig | NECConfig, n_actions: int, dim: int, steps: int) -> Footprint:
    """Bytes of the memory of an agent with these settings, in a run of so many steps; on a GPU its states are not in
    RAM."""
    from mfec.device.layout import PAGE
    from mfec.memory import EpisodicMemory

    index, capacity = agent.resolved_index(), agent.capacity
    each = EpisodicMemory.bytes_per_entry(dim, index)
    full = EpisodicMemory.bytes_when_full(n_actions, dim, capacity, index)
    tables = full - n_actions * capacity * each
    entries = min(n_actions * capacity, steps)
    on_device = 0
    if agent.device == "cuda":
        each -= 4 * dim
        full -= n_actions * capacity * 4 * dim
        on_device = int(DEVICE_SLACK * entries * 4 * dim) + n_actions * PAGE * 4 * dim
    rows = f"{n_actions} x {capacity:,} entries"
    return Footprint("memory", rows, full, min(full, entries * each + tables), "--capacity", on_device)
