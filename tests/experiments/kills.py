"""Kill runs at random moments, let each go on, and compare how it ends with one that was never stopped.

Their memories lie in several files, which are merged again and again, and a checkpoint is written every few steps.

    python -m tests.experiments.kills 100
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import itertools
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mfec.checkpoint import read_checkpoint
from mfec.cli import main as mfec
from mfec.memory import EpisodicMemory, parts
from mfec.memory.neighbours import auto
from mfec.run_directory import RunDirectory

INDEXES = ("exact", "cells", "auto", "cuda")
ENVIRONMENTS = (1, 8)
PART_BYTES = 9_000  # some 30 entries of 64 numbers


def main() -> None:
    """Say how many ended equally, and how many were killed in the middle of writing a checkpoint."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kills", type=int, nargs="?", default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--index", nargs="+", choices=INDEXES, default=INDEXES)
    parser.add_argument("--n-envs", type=int, nargs="+", default=ENVIRONMENTS)
    options = parser.parse_args()
    os.environ["MFEC_THREADS"] = "1"  # a process that forks had better have no threads
    parts.PART_BYTES = PART_BYTES
    auto.FIRST_TRIAL = 100
    auto.milliseconds = lambda index, *_: float(index.active == "exact")
    rng = random.Random(options.seed)
    folder = Path(tempfile.mkdtemp())
    counts: Counter[str] = Counter()
    try:
        kinds = list(itertools.product(options.index, options.n_envs))
        runs = {kind: Killed(folder / "-".join(map(str, kind)), *kind) for kind in kinds}
        for number in range(options.kills):
            kind = kinds[number % len(kinds)]
            came, equal = runs[kind].kill_and_go_on(rng)
            counts[came] += 1
            counts["equal endings"] += equal
            print(f"{number + 1}: {kind[0]}, n_envs {kind[1]}: {came}, {'equal' if equal else 'NOT EQUAL'}", flush=True)
    finally:
        shutil.rmtree(folder)
    print(f"{options.kills} kills:", ", ".join(f"{n} {what}" for what, n in counts.items()))
    sys.exit(counts["equal endings"] != options.kills)


class Killed:
    """Runs of one kind, each in a process of its own."""

    def __init__(self, folder: Path, index: str, n_envs: int, *, frames: int = 1200) -> None:
        self.folder = folder
        self.arguments = ["train", "qbert", "--index", index, "--n-envs", str(n_envs), "--total-frames", str(frames)]
        self.arguments += ["--eviction", "used", "--capacity", "60", "--max-frames", "120", "--no-video"]
        self.arguments += ["--checkpoint-frames", "60", "--out"]
        if index == "cuda":  # the threads of torch do not survive a fork
            self._run("first")
        else:
            self._train("first")  # here, so that children of this process find all imported and compiled
        self._run("whole")
        self.checkpoints = self._written("whole")
        self.ending = self._ending("whole")

    def kill_and_go_on(self, rng: random.Random) -> tuple[str, bool]:
        """What the kill came upon, and whether the run ended as one that was never stopped."""
        status = 0
        while not os.WIFSIGNALED(status):  # some end before
            shutil.rmtree(self.folder / "killed", ignore_errors=True)
            child = self._start("killed")
            self._wait_for_checkpoints("killed", rng.randrange(1, self.checkpoints))
            time.sleep(rng.uniform(0.0, 0.05))  # a checkpoint takes some milliseconds, the steps to the next one more
            os.kill(child, signal.SIGKILL)
            _, status = os.waitpid(child, 0)
        came = self._came_upon("killed")
        self._run("killed", "--resume")
        return came, self._ending("killed") == self.ending

    def _came_upon(self, name: str) -> str:
        run = RunDirectory(self.folder / name)
        _, tensors = read_checkpoint(run.checkpoint, kind="agent", only={"memory"})
        named = {file.file for file in getattr(tensors["memory"], "files", ())}
        there = {file.name for file in run.checkpoint.iterdir()}
        if any(name.startswith(".draft") for name in there) or (
            named and {name for name in there if name.startswith("memory-")} != named
        ):
            return "in the middle of a checkpoint"
        return "between two checkpoints"

    def _run(self, name: str, *more: str) -> None:
        ended(self._start(name, *more))

    def _wait_for_checkpoints(self, name: str, number: int) -> None:
        while self._written(name) < number:
            time.sleep(0.001)

    def _written(self, name: str) -> int:
        """How many checkpoints were begun so far; their data files have the number."""
        files = RunDirectory(self.folder / name).checkpoint.glob("episodes-*.safetensors")
        return max((int(file.stem.rpartition("-")[2]) for file in files), default=0)

    def _start(self, name: str, *more: str) -> int:
        return forked(lambda: self._train(name, *more))

    def _train(self, name: str, *more: str) -> int:
        with open(os.devnull, "w") as nothing, contextlib.redirect_stdout(nothing):
            return mfec([*self.arguments, str(self.folder / name), *more])

    def _ending(self, name: str) -> str:
        """A checksum of all that equal runs have in common."""

        def digest() -> int:
            run = RunDirectory(self.folder / name)
            state, tensors = read_checkpoint(run.checkpoint, kind="agent")
            del state["tally"]["lookup_seconds"], state["tally"]["write_seconds"]
            tensors["memory"] = EpisodicMemory.restore(state["memory"], tensors["memory"]).tensors()
            content: Any = [run.episodes_file.read_text(), sorted(state.items())]
            for own in tensors.values():
                content += [(key, own[key].shape, own[key].tobytes()) for key in sorted(own)]
            (self.folder / "ending").write_text(hashlib.sha256(repr(content).encode()).hexdigest())
            return 0

        ended(forked(digest))
        return (self.folder / "ending").read_text()


def ended(child: int) -> None:
    """Wait for a child, which must end well."""
    _, status = os.waitpid(child, 0)
    assert status == 0, status


def forked(act: Callable[[], int]) -> int:
    """Do this in a child of this process; returns its number."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = act()
        finally:
            os._exit(status)
    return child


if __name__ == "__main__":
    main()
