"""How long the slowest of many steps takes in a full memory that is searched by cells, beside making its cells at once.

States come from recorded play (recorded_states.py). The memory is filled, then each step looks one state up, and every
episode replaces as many entries as it had steps. Beside it: what the same entries take that are put into new cells all
at once, as a step would if cells were made anew.

    python benchmarks/pauses.py --entries 1000000 --json results/benchmarks/pauses.json
"""

from __future__ import annotations

import argparse
import json
import os
import time
from itertools import count
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from mfec.memory import EpisodicMemory
from mfec.memory.neighbours import make_index
from recorded_states import recorded_states

ACTIONS, EPISODE = 9, 600  # of Ms. Pac-Man


def main() -> None:
    """Print the table, and write it as JSON if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--entries", type=int, default=100_000, help="in each of nine buffers")
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--states", type=int, default=2_500_000, help="recorded states to take them from")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    pool = recorded_states("ms_pacman", options.states)
    memory = EpisodicMemory(ACTIONS, pool.shape[1], capacity=options.entries, index="cells")
    playing = Playing(memory, pool)
    for number in count():
        if len(memory) == ACTIONS * options.entries:
            break
        playing.episode(look_up=number % 100 == 0)
    at_once = making_cells(memory)
    playing.taken.clear()
    while len(playing.taken) < options.steps:
        playing.episode()
    taken = 1000 * np.array(playing.taken)
    figures = {
        "entries": len(memory), "steps": len(taken), "cores": os.cpu_count(), "recall": memory.measured_recall,
        "median_ms": float(np.median(taken)), "p99.9_ms": float(np.quantile(taken, 0.999)),
        "slowest_ms": float(taken.max()), "cells_at_once_ms": 1000 * at_once,
        "at_once_to_slowest": 1000 * at_once / float(taken.max()),
    }  # fmt: skip
    table = Table(title=f"{len(memory):,} entries, {len(taken):,} steps, {os.cpu_count()} cores: milliseconds")
    for column in ("median step", "99.9%", "slowest step", "all cells at once", "at once / slowest", "recall"):
        table.add_column(column, justify="right")
    shown = (figures[name] for name in ("median_ms", "p99.9_ms", "slowest_ms", "cells_at_once_ms"))
    table.add_row(*(f"{ms:,.2f}" for ms in shown), f"{figures['at_once_to_slowest']:,.0f}", f"{figures['recall']:.4f}")
    Console(width=120).print(table)
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1) + "\n")


class Playing:
    """Steps of recorded play: a look-up each, and a write for each episode, under identities that never come twice."""

    def __init__(self, memory: EpisodicMemory, pool: np.ndarray) -> None:
        self.taken: list[float] = []  # seconds
        self._memory, self._pool = memory, pool
        self._rng = np.random.default_rng(0)
        self._identity = 0

    def episode(self, *, look_up: bool = True) -> None:
        """An episode from anywhere in what was recorded; its last step writes."""
        first = int(self._rng.integers(len(self._pool) - EPISODE))
        states = np.array(self._pool[first : first + EPISODE])
        keys = np.stack([np.arange(self._identity, self._identity + EPISODE)] * 2, axis=1).astype(np.uint64)
        keys *= np.uint64(0x9E3779B97F4A7C15)  # keys of real identities are spread evenly
        self._identity += EPISODE
        actions = self._rng.integers(ACTIONS, size=EPISODE)
        for step in range(EPISODE) if look_up else [EPISODE - 1]:
            began = time.perf_counter()
            if look_up:
                self._memory.estimate(states[step : step + 1])
            if step == EPISODE - 1:
                self._memory.write(states, actions, np.zeros(EPISODE), keys)
            self.taken.append(time.perf_counter() - began)


def making_cells(memory: EpisodicMemory) -> float:
    """Seconds that new cells of all entries take."""
    entries = memory.entries()
    shape = (ACTIONS, memory.capacity, memory.dim)
    index = make_index("cells", shape, np.arange(ACTIONS * memory.capacity).reshape(shape[:2]), k=memory.k)
    slots = np.concatenate([np.arange(size) for size in memory.sizes])
    began = time.perf_counter()
    index.put(np.asarray(entries.actions, np.int64), slots, entries.states)
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
