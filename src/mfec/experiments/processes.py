"""Several runs side by side on the CPU, one process each."""

from __future__ import annotations

import os
import queue
import select
import subprocess
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from mfec.experiments import leaving
from mfec.experiments.stopping import ASK_TO_STOP, STATUS_FD, passing_on

GLANCE_SECONDS = 1.0


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
    status: dict[str, int] = {}
    stopping = False
    ended: queue.SimpleQueue[tuple[str, int]] = queue.SimpleQueue()

    def say(name: str, line: str) -> None:
        console.print(f"{name}: {line}", highlight=False, markup=False, soft_wrap=True)

    def relay(name: str, lines: Iterable[str]) -> None:
        for line in lines:
            say(name, line.rstrip())

    def watch(name: str, process: subprocess.Popen[str], told: int) -> None:
        """Until the process has exited; one that has told its status and does not exit is killed."""
        assert process.stdout is not None
        reader = threading.Thread(target=relay, args=(name, process.stdout), daemon=True)
        reader.start()
        while not select.select([told], [], [], GLANCE_SECONDS)[0] and process.poll() is None:
            pass
        own = os.read(told, 16) if select.select([told], [], [], 0.0)[0] else b""
        os.close(told)
        try:
            process.wait(leaving.EXIT_SECONDS if own else None)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            say(name, leaving.HANGS)
        reader.join(leaving.EXIT_SECONDS)  # a process of its own, which goes on, may hold its output
        ended.put((name, int(own) if own else process.returncode))

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
                told, tells = os.pipe()
                process = subprocess.Popen(
                    command,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                    env={**threads, STATUS_FD: str(tells)},
                    pass_fds=(tells,),
                )
                os.close(tells)
                running[child.name] = process
                if stopping:  # since it was started
                    process.send_signal(ASK_TO_STOP)
                threading.Thread(target=watch, args=(child.name, process, told), daemon=True).start()
            name, outcome = ended.get()
            status[name] = outcome
            del running[name]
    return status


def one_thread(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of a process beside others: one thread, also of torch, for they share the cores already."""
    return {"OMP_NUM_THREADS": "1", **environ, "MFEC_THREADS": "1"}
