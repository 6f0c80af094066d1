"""Several runs side by side on the CPU, one process each."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from mfec.experiments.stopping import ASK_TO_STOP, passing_on


@dataclass(frozen=True)
class Child:
    """A run that a process of its own trains."""

    name: str
    env: str
    seed: int
    out: Path
    settings: Sequence[str]
    """Its other options."""


def train_processes(children: Sequence[Child], *, resume: bool, jobs: int, console: Console) -> dict[str, int]:
    """Run `mfec train` once for each child, at most `jobs` at a time; the exit status of each.

    A run that fails is reported and the others go on.
    """
    if jobs < 1:
        raise ValueError(f"jobs must be at least 1, not {jobs}")
    threads = one_thread(os.environ)
    waiting = list(children)
    running: dict[str, subprocess.Popen[str]] = {}
    readers: list[threading.Thread] = []
    status: dict[str, int] = {}
    stopping = False
    ended = threading.Semaphore(0)

    def relay(name: str, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            console.print(f"{name}: {line.rstrip()}", highlight=False, markup=False, soft_wrap=True)
        process.wait()
        ended.release()

    def ask_to_stop() -> None:
        nonlocal stopping
        stopping = True
        for process in running.values():
            process.send_signal(ASK_TO_STOP)  # unless it has ended

    with passing_on(ask_to_stop):
        while running or (waiting and not stopping):
            while waiting and len(running) < jobs and not stopping:
                child = waiting.pop(0)
                command = [sys.executable, "-m", "mfec", "train", child.env, *child.settings]
                command += ["--seed", str(child.seed), "--out", str(child.out), *(["--resume"] if resume else [])]
                process = subprocess.Popen(
                    command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=threads
                )
                running[child.name] = process
                if stopping:  # since it was started
                    process.send_signal(ASK_TO_STOP)
                readers.append(threading.Thread(target=relay, args=(child.name, process), daemon=True))
                readers[-1].start()
            ended.acquire()
            for name, process in list(running.items()):
                if process.poll() is not None:
                    status[name] = process.returncode
                    del running[name]
    for reader in readers:
        reader.join()
    return status


def one_thread(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of a process beside others: one thread, also of torch, for they share the cores already."""
    return {"OMP_NUM_THREADS": "1", **environ, "MFEC_THREADS": "1"}
