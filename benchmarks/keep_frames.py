"""What `mfec train --keep-frames` costs: bytes of a kept frame, and time against the same run without it.

The two runs of a pair follow each other, in changing order, on the same seed and settings; a ratio is the median over
the pairs, so that what else the machine is doing falls on both.

    python benchmarks/keep_frames.py --json keep_frames.json
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from mfec.algorithms import RunConfig, algorithm
from mfec.config import EnvConfig
from mfec.experiments.train import train
from mfec.history import History

GAMES = ("qbert", "ms_pacman", "space_invaders", "frostbite", "river_raid")
COLUMNS = ("", "environments", "steps", "bytes a frame", "frames/s without", "frames/s with", "time with / without")


def main() -> None:
    """Print the table, and write it as JSON if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--envs", nargs="+", default=list(GAMES))
    parser.add_argument("--n-envs", type=int, nargs="+", default=[1])
    parser.add_argument("--frames", type=int, default=100_000, help="of every run")
    parser.add_argument("--pairs", type=int, default=5, help="of runs, for each game")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = [measure(env, n, options.frames, options.pairs) for env in options.envs for n in options.n_envs]
    show(rows)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


def measure(env: str, n_envs: int, frames: int, pairs: int) -> dict[str, Any]:
    """One row: pairs of runs of one game."""
    config = RunConfig(env, frames, agent=algorithm("mfec").defaults(env), environment=EnvConfig(n_envs=n_envs))
    seconds: dict[bool, list[float]] = {False: [], True: []}
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        _train(config, place / "warm", keep_frames=False)  # compiles
        for pair in range(pairs):
            for keep_frames in (False, True) if pair % 2 else (True, False):
                out = place / f"{pair}-{keep_frames}"
                seconds[keep_frames].append(_train(config, out, keep_frames=keep_frames))
        history = History(place / "0-True" / "history")
        steps = sum(len(history.episode(number)) for number in range(1, len(history) + 1))
        each = history.frames_bytes / steps
    ratios = [kept / plain for plain, kept in zip(seconds[False], seconds[True], strict=True)]
    return {
        "env": env,
        "n_envs": n_envs,
        "steps": steps,
        "bytes_per_frame": round(each, 1),
        "frames_per_second": {name: round(frames / statistics.median(seconds[kept])) for name, kept in NAMES.items()},
        "ratio": round(statistics.median(ratios), 4),
        "ratios": [round(ratio, 4) for ratio in ratios],
    }


NAMES = {"without": False, "with": True}


def _train(config: RunConfig, out: Path, *, keep_frames: bool) -> float:
    began = time.perf_counter()
    train(config, out, keep_frames=keep_frames, console=Console(quiet=True))
    return time.perf_counter() - began


def show(rows: list[dict[str, Any]]) -> None:
    """Print the table."""
    table = Table(title="kept frames: their size, and the time of a run with them against one without")
    for column in COLUMNS:
        table.add_column(column, justify="left" if not column else "right")
    for row in rows:
        speeds = [f"{row['frames_per_second'][name]:,}" for name in NAMES]
        spread = f"{row['ratio']:.3f} ({min(row['ratios']):.3f} to {max(row['ratios']):.3f})"
        table.add_row(
            row["env"], str(row["n_envs"]), f"{row['steps']:,}", f"{row['bytes_per_frame']:.0f}", *speeds, spread
        )
    Console().print(table)


if __name__ == "__main__":
    main()
