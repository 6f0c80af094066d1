"""What an episodic memory can come to need."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mfec.algorithms.registry import Footprint

if TYPE_CHECKING:
    from mfec.algorithms.nec.settings import NECConfig
    from mfec.config import AgentConfig

DEVICE_SLACK = 9 / 8  # states are given room in slabs of an eighth of what there is
PLACES = 50  # bytes an entry, while a checkpoint is read: action, slot, and what changes without a write


def footprint_of_memory(agent: AgentConfig | NECConfig, n_actions: int, dim: int, steps: int) -> Footprint:
    """Bytes of the memory of an agent with these settings, in a run of so many steps; on a GPU its states are not in
    RAM."""
    from mfec.device.layout import PAGE
    from mfec.memory import EpisodicMemory
    from mfec.memory.parts import PART_BYTES

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
    rows, now = f"{n_actions} x {capacity:,} entries", min(full, entries * each + tables)
    for_checkpoint = min(now, 2 * PART_BYTES + PLACES * entries)
    return Footprint("memory", rows, full, now, "--capacity", on_device, for_checkpoint)
