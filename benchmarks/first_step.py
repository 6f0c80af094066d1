"""Seconds until a fresh installation has made its first step, beside Stable-Baselines3's DQN.

Each run is a process of its own, from the start of Python to its end: one step, or 2,000 frames, in which episodes end
and memories are written and searched. With an empty cache everything is compiled that they need. On a busy machine CPU
seconds, of all cores, say more than the clock.

    python benchmarks/first_step.py --json results/benchmarks/first_step.json
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

PEER = """
import sys
from stable_baselines3 import DQN
DQN("MlpPolicy", "CartPole-v1").learn(int(sys.argv[1])).save(sys.argv[2])
"""
LENGTHS = {"CartPole-v1": (1, 2000), "qbert": (4, 2000)}


def main() -> None:
    """Print the table, and write it as JSON if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = [row for _ in range(options.repeats) for row in measure_all()]
    names = dict.fromkeys(row["name"] for row in rows)
    medians = [median([row for row in rows if row["name"] == name]) for name in names]
    table = Table(title=f"whole processes, medians of {options.repeats}: seconds, and CPU seconds")
    table.add_column(no_wrap=True)
    for column in ("one step", "CPU", "/ DQN's", "2,000 frames", "CPU", "/ DQN's"):
        table.add_column(column, justify="right")
    for row in medians:
        cells = []
        for name in ("step", "frames"):
            cpu, peers = row[f"{name}_cpu"], medians[0][f"{name}_cpu"]
            cells += [f"{row[name]:.1f}", f"{cpu:.1f}", f"{cpu / peers:.2f}"]
        table.add_row(row["name"], *cells)
    Console(width=100).print(table)
    if options.json:
        options.json.write_text(json.dumps(medians, indent=1) + "\n")


def median(rows: list[dict[str, float]]) -> dict[str, float]:
    """The rows of one name as one."""
    numbers = {name: statistics.median(row[name] for row in rows) for name in rows[0] if name != "name"}
    return {"name": rows[0]["name"], **{name: round(number, 2) for name, number in numbers.items()}}


def measure_all() -> list[dict[str, float]]:
    """A row for the peer and two for each environment, whose second finds what the first has compiled."""
    rows = [both("DQN, CartPole-v1", [[sys.executable, "-c", PEER, n] for n in ("1", "2000")], [None, None])]
    for env, lengths in LENGTHS.items():
        commands = [
            [sys.executable, "-m", "mfec", "train", env, "--total-frames", str(n), "--no-video", "--out"]
            for n in lengths
        ]
        caches = [tempfile.mkdtemp(), tempfile.mkdtemp()]
        rows += [both(f"mfec, {env}, {cache} cache", commands, caches) for cache in ("empty", "warm")]
    return rows


def both(name: str, commands: list[list[str]], caches: list[str | None]) -> dict[str, float]:
    """Seconds and CPU seconds of two commands, each of which is given a path to write to."""
    (step, step_cpu), (frames, frames_cpu) = map(measure, commands, caches)
    return {"name": name, "step": step, "step_cpu": step_cpu, "frames": frames, "frames_cpu": frames_cpu}


def measure(command: list[str], cache: str | None) -> tuple[float, float]:
    """Seconds and CPU seconds of a process."""
    environment = {**os.environ, **({"NUMBA_CACHE_DIR": cache} if cache else {})}
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([*command, f"{folder}/out"], env=environment, check=True, capture_output=True)
    taken, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return taken, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    main()
