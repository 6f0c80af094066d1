"""How large a run's memory can grow, and whether that fits."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from mfec.config import RunConfig
from mfec.errors import MfecError
from mfec.memory import EpisodicMemory


class TooLarge(MfecError):
    """A memory that cannot fit in RAM."""


@dataclass(frozen=True)
class RamReport:
    """Bytes of a memory when every buffer is full, at the end of the run at most, and of RAM."""

    full: int
    in_this_run: int
    ram: int
    capacity: int
    n_actions: int

    @classmethod
    def of(cls, n_actions: int, dim: int, config: RunConfig, frame_skip: int) -> RamReport:
        """The report for one run."""
        index, capacity = config.agent.index, config.agent.capacity
        full = EpisodicMemory.bytes_when_full(n_actions, dim, capacity, index)
        tables = EpisodicMemory.bytes_when_full(n_actions, 0, capacity, index) - n_actions * capacity * (
            EpisodicMemory.bytes_per_entry(0, index)
        )
        written = config.total_frames // frame_skip * EpisodicMemory.bytes_per_entry(dim, index) + tables
        return cls(full, min(full, written), physical_ram(), capacity, n_actions)

    def sentence(self) -> str:
        """What a run says before it starts."""
        return (
            f"memory: {self.n_actions} x {self.capacity:,} entries can grow to {show_bytes(self.full)}, "
            f"at most {show_bytes(self.in_this_run)} of it in this run; this machine has {show_bytes(self.ram)}"
        )

    def refuse_what_cannot_fit(self, ignore: bool) -> None:
        """An error if the full memory is larger than RAM, unless told otherwise."""
        if self.full > self.ram and not ignore:
            raise TooLarge(
                f"a capacity of {self.capacity:,} entries for each of {self.n_actions} actions needs "
                f"{show_bytes(self.full)}, this machine has {show_bytes(self.ram)}: choose a smaller --capacity, "
                f"or --ignore-memory-limit to start all the same"
            )


def show_bytes(number: float) -> str:
    """A number of bytes for people."""
    for unit in ("B", "kB", "MB", "GB"):
        if number < 1000:
            return f"{number:.3g} {unit}"
        number /= 1000
    return f"{number:,.3g} TB"


def physical_ram() -> int:
    """Bytes of RAM that this process may use: the machine's, or less where a control group says so."""
    ram = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for limit in (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes")):
        try:
            ram = min(ram, int(limit.read_text()))
        except (OSError, ValueError):
            continue
    return ram
