"""What a checkpoint of a large memory costs: the pause, the bytes written and the RAM beside, next to a whole save.

A memory is filled with random states. Then it goes on for a while, and saves what has changed, once for each round; a
save to a fresh directory writes the whole of it in the same process. Another process reads the last checkpoint.

    python benchmarks/checkpoints.py                                    # 4 x 100,000 entries
    python benchmarks/checkpoints.py --actions 9 --entries 1000000      # 8 GB
"""

from __future__ import annotations

import argparse
import ctypes
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import numpy as np
from rich.console import Console
from rich.table import Table

from mfec.config import Eviction, IndexName
from mfec.memory import EpisodicMemory

AT_ONCE = 50_000  # entries that are written together while it fills
BATCH = 100  # entries written, and look-ups, in turn while it goes on
MB = 1e6


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--actions", type=int, default=4)
    parser.add_argument("--entries", type=int, default=100_000, help="of each action")
    parser.add_argument("--dim", type=int, default=64)
    parser.add_argument("--index", choices=get_args(IndexName), default="none")
    parser.add_argument("--eviction", choices=get_args(Eviction), default="updated")
    parser.add_argument("--changes", type=int, default=50_000, help="entries written between two checkpoints")
    parser.add_argument("--look-ups", type=int, default=BATCH, help="for each 100 of these")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, help="a folder on the disk to measure, by default a temporary one")
    parser.add_argument("--read", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.read:
        before = resident()
        seconds, of_cpu, peak = watched(lambda: kept.append(EpisodicMemory.load(options.read)))
        beside = peak - (resident() - before)
        print(f"{seconds:.2f} {of_cpu:.2f} {beside / MB:.0f} {len(kept[0])}")
        return
    folder = Path(tempfile.mkdtemp(dir=options.out))
    try:
        measure(folder, options)
    finally:
        shutil.rmtree(folder)


kept: list[EpisodicMemory] = []


def measure(folder: Path, options: argparse.Namespace) -> None:
    """Fill a memory, save it in both ways, read it back."""
    memory = EpisodicMemory(
        options.actions, options.dim, capacity=options.entries, index=options.index, eviction=options.eviction
    )
    rng = np.random.default_rng(0)
    console = Console()
    console.print(f"filling {options.actions} x {options.entries:,} entries, {options.index}, {options.eviction}")
    total = options.actions * options.entries
    for begin in range(0, total, AT_ONCE):
        write(memory, rng, begin, min(AT_ONCE, total - begin))
    memory.estimate(rng.standard_normal((1, options.dim), np.float32))
    table = Table("", "seconds", "of a core", "MB written", "MB of RAM beside", "files", "MB on the disk")
    number = total
    for round_ in range(options.rounds + 1):
        row = "first, whole" if round_ == 0 else f"{options.changes:,} more"
        table.add_row(row, *saved(memory, folder / "run"))
        for _ in range(0, options.changes if round_ < options.rounds else 0, BATCH):
            memory.estimate(rng.standard_normal((options.look_ups, options.dim), np.float32))
            write(memory, rng, number, BATCH)
            number += BATCH
    table.add_row("whole, elsewhere", *saved(memory, folder / "fresh"))
    command = [sys.executable, __file__, "--read", str(folder / "run")]
    read = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    seconds, of_cpu, beside, entries = read.split()
    assert int(entries) == len(memory)
    table.add_row("read again", seconds, of_cpu, "", beside, "", "")
    console.print(table)


def write(memory: EpisodicMemory, rng: np.random.Generator, first: int, n: int) -> None:
    """Write new states, each of an identity of its own."""
    numbers = np.arange(first, first + n)
    keys = np.stack([numbers, ~numbers], axis=1).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    states = rng.standard_normal((n, memory.dim), np.float32)
    memory.write(states, numbers % memory.n_actions, rng.standard_normal(n), keys)


def saved(memory: EpisodicMemory, path: Path) -> tuple[str, ...]:
    """The columns of the table for a save to this directory."""
    before = {file.name for file in path.glob("*")}
    seconds, of_cpu, peak = watched(lambda: memory.save(path))
    files = list(path.iterdir())
    written = sum(file.stat().st_size for file in files if file.name not in before or file.suffix == ".json")
    on_disk = sum(file.stat().st_size for file in files)
    sizes = (f"{n / MB:,.0f}" for n in (written, peak))
    return f"{seconds:.2f}", f"{of_cpu:.2f}", *sizes, str(len(files)), f"{on_disk / MB:,.0f}"


def watched(act: Callable[[], Any]) -> tuple[float, float, int]:
    """Seconds, those that a core was at work, and how far the resident memory of this process rose."""
    ctypes.CDLL(None).malloc_trim(0)
    before, over = resident(), threading.Event()
    peaks = [before]

    def watch() -> None:
        while not over.wait(0.002):
            peaks.append(resident())

    watcher = threading.Thread(target=watch)
    watcher.start()
    began, of_cpu = time.perf_counter(), time.thread_time()
    act()
    seconds, of_cpu = time.perf_counter() - began, time.thread_time() - of_cpu
    over.set()
    watcher.join()
    return seconds, of_cpu, max(peaks) - before


def resident() -> int:
    """Bytes of RAM that this process has now."""
    return 4096 * int(Path("/proc/self/statm").read_text().split()[1])


if __name__ == "__main__":
    main()
