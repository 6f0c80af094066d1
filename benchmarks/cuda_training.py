"""Training on a GPU: a fleet with large memories, one run with a full memory, ten million frames from nothing.

    mfec train qbert ms_pacman frostbite space_invaders river_raid --device cuda --n-envs 4 --out runs/games ...
    python benchmarks/cuda_training.py runs/games --json results/benchmarks/cuda_training.json

The first command makes the run directories (OUT/GAME) from whose memories the real states come that the fleet's
memories are filled with; any number of frames will do that leaves 500,000 entries.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from mfec.agent import MFEC
from mfec.algorithms import RunConfig
from mfec.algorithms.mfec import settings_of
from mfec.callbacks import Callback
from mfec.config import EnvConfig
from mfec.envs import make_env
from mfec.envs.atari import make_atari
from mfec.experiments.launchers.local import LocalLauncher
from mfec.experiments.many_runs import Run, TrainingOptions, train_runs
from mfec.run_directory import RunDirectory

GAMES = ("qbert", "ms_pacman", "frostbite", "space_invaders", "river_raid")
SEEDS = (0, 1, 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=Path, help="directory with a run directory for each of the five games")
    parser.add_argument("--parts", nargs="+", default=["fleet", "full", "ten_million"])
    parser.add_argument("--entries", type=int, default=500_000, help="real states in each memory of the fleet")
    parser.add_argument("--full-entries", type=int, default=1_000_000, help="in each of Frostbite's 18 buffers")
    parser.add_argument("--frames", type=int, default=80_000, help="of each run of the fleet")
    parser.add_argument("--ten-million", type=int, default=10_000_000, help="frames of the run from nothing")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    report: dict[str, Any] = {"cores": cores()}
    if given.json and given.json.exists():
        report = json.loads(given.json.read_text())
    for part in given.parts:
        report[part] = {"fleet": fleet, "full": full, "ten_million": ten_million}[part](given)
        print(json.dumps(report[part]), flush=True)
        if given.json:
            given.json.parent.mkdir(parents=True, exist_ok=True)
            given.json.write_text(json.dumps(report, indent=1) + "\n")
    show(report)


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0))


# -- The fleet --------------------------------------------------------------------------------------------------------


def fleet(given: argparse.Namespace) -> dict[str, Any]:
    """Agent steps per second of 15 runs with large memories, beside the same emulators without an agent."""
    bare = bare_steps_per_second(seconds=8.0)
    with tempfile.TemporaryDirectory() as folder:
        tasks = [(given, game, seed, Path(folder) / game / f"seed-{seed}") for game in GAMES for seed in SEEDS]
        with multiprocessing.get_context("spawn").Pool(min(len(tasks), cores())) as pool:
            configs = pool.starmap(fill, tasks, chunksize=1)
        runs = [
            Run(f"{game} seed {seed}", config, out) for (_, game, seed, out), config in zip(tasks, configs, strict=True)
        ]
        options = TrainingOptions(resume=True, checkpoint_frames=10**9)
        train_runs(runs, LocalLauncher(jobs=len(runs), options=options), console=Console(width=150))
        tables = [RunDirectory(run.out).progress() for run in runs]
        failed = [run.name for run in runs if run.state != "finished"]
    # The first frames have the start and the recordings in them, and at the last some runs have ended.
    late = [[30_000 < at <= given.frames - 10_000 for at in table["frames"]] for table in tables]
    speeds = [np.array(table["steps_per_second"])[own].mean() for table, own in zip(tables, late, strict=True)]
    look_ups = [np.array(table["lookup_ms"])[own].mean() for table, own in zip(tables, late, strict=True)]
    together = float(sum(speeds))
    return {
        "runs": len(runs),
        "entries_in_each": given.entries,
        "failed": failed,
        "steps_per_second": round(together),
        "bare_emulators_steps_per_second": round(bare),
        "share_of_bare_emulators": round(together / bare, 3),
        "look_up_ms": round(float(np.mean(look_ups)), 3),
    }


def fill(given: argparse.Namespace, game: str, seed: int, out: Path) -> RunConfig:
    """A run directory whose checkpoint holds the game's real states: those of a run, at most so many."""
    source = RunDirectory(given.runs / game)
    agent = MFEC.load(source.checkpoint, index="exact" if given.device == "cpu" else None)
    settings = replace(settings_of(source.read_config()), device=given.device)
    config = RunConfig(game, given.frames, seed, settings, EnvConfig())
    fresh = MFEC(make_env(game), **{**vars(settings.of_agent), "device": "cpu", "index": "exact"}, seed=seed)
    kept = agent.memory.tensors()
    actions = np.repeat(np.arange(agent.n_actions), kept["sizes"])
    chosen = np.random.default_rng(seed).permutation(len(actions))[: given.entries]
    fresh.memory.write(kept["states"][chosen], actions[chosen], kept["values"][chosen], kept["keys"][chosen])
    fresh.embedding = agent.embedding  # the states are of this projection
    fresh.config = settings.of_agent
    directory = RunDirectory(out)
    directory.create(config)
    fresh.save(directory.checkpoint)
    if len(fresh.memory) < given.entries:
        print(f"{game}: only {len(fresh.memory):,} states", flush=True)
    return config


def bare_steps_per_second(seconds: float) -> float:
    """What the emulators of the fleet give without agents, a process each."""
    with multiprocessing.get_context("spawn").Pool(len(GAMES) * len(SEEDS)) as pool:
        pool.map(play_bare, [(game, 1.0) for game in GAMES for _ in SEEDS], chunksize=1)
        return sum(pool.map(play_bare, [(game, seconds) for game in GAMES for _ in SEEDS], chunksize=1))


def play_bare(task: tuple[str, float]) -> float:
    """Steps per second of one emulator with random actions."""
    game, seconds = task
    env = make_atari(game)
    env.reset(seed=0)
    actions = np.random.default_rng(0).integers(0, env.action_space.n, 100_000).tolist()
    began, steps = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        _, _, terminated, truncated, _ = env.step(actions[steps % len(actions)])
        steps += 1
        if terminated or truncated:
            env.reset()
    return steps / (time.perf_counter() - began)


# -- One run ----------------------------------------------------------------------------------------------------------


class Clock(Callback):
    """Agent steps per second from a number of frames on."""

    def __init__(self, from_frames: int) -> None:
        self.from_frames = from_frames
        self.began = 0.0

    def on_step(self, agent: MFEC) -> None:
        if not self.began and agent.frames >= self.from_frames:
            self.began, self.from_frames = time.perf_counter(), agent.frames

    def steps_per_second(self, agent: MFEC) -> float:
        return (agent.frames - self.from_frames) / 4 / (time.perf_counter() - self.began)


def full(given: argparse.Namespace) -> dict[str, Any]:
    """Frostbite, 18 actions, 64 environments, every buffer full."""
    env = make_env("frostbite", EnvConfig(n_envs=64))
    agent = MFEC(env, device=given.device, index="cuda", capacity=given.full_entries, seed=0)
    rng = np.random.default_rng(0)
    source = MFEC.load(RunDirectory(given.runs / "frostbite").checkpoint, index="exact")
    real = source.memory.tensors()["states"]
    agent.embedding = source.embedding
    agent.memory.embed_with(agent.embedding)
    for action in range(agent.n_actions):
        # More entries than were ever played: real states, each a little elsewhere.
        states = real[rng.integers(0, len(real), given.full_entries)]
        states = states + 200.0 * (rng.random(states.shape, np.float32) - 0.5)
        keys = rng.integers(0, 2**63, (given.full_entries, 2)).astype(np.uint64)
        values = rng.uniform(0.0, 100.0, given.full_entries)
        agent.memory.write(states, np.full(given.full_entries, action), values, keys)
    clock = Clock(from_frames=20_000 * 4)
    agent.learn(200_000 * 4, clock)
    result = {
        "entries": len(agent.memory),
        "environments": 64,
        "steps_per_second": round(clock.steps_per_second(agent)),
        "host_bytes_per_entry": round((agent.memory.nbytes / len(agent.memory)) - 4 * agent.memory.dim, 1),
    }
    if given.device == "cuda":
        import torch

        raw = len(agent.memory) * 4 * agent.memory.dim
        result["peak_over_raw_vectors"] = round(torch.cuda.max_memory_allocated() / raw, 3)
    return result


def ten_million(given: argparse.Namespace) -> dict[str, Any]:
    """Q*bert with 32 environments from an empty memory, by the command, checkpoints included."""
    out = Path(tempfile.mkdtemp())
    command = [sys.executable, "-m", "mfec", "train", "qbert", "--device", given.device, "--n-envs", "32"]
    command += ["--total-frames", str(given.ten_million), "--no-video", "--out", str(out / "qbert")]
    began = time.perf_counter()
    subprocess.run(command, check=True)
    seconds = time.perf_counter() - began
    progress = RunDirectory(out / "qbert").progress()
    shutil.rmtree(out / "qbert" / "checkpoint")
    return {
        "frames": given.ten_million,
        "seconds": round(seconds, 1),
        "steps_per_second": round(given.ten_million / 4 / seconds),
        "final_mean_100": progress["return_mean_100"][-1],
        "entries": int(progress["memory_entries"][-1]),
        "episodes": str(out / "qbert" / "episodes.csv"),
    }


def show(report: dict[str, Any]) -> None:
    """Print one table of all parts."""
    table = Table(title=f"training on {report['cores']} cores")
    for column in ("part", "figure", "value"):
        table.add_column(column)
    for part, figures in report.items():
        if isinstance(figures, dict):
            for name, value in figures.items():
                table.add_row(part, name.replace("_", " "), str(value))
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
