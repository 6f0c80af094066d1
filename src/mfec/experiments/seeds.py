"""Several seeds of one run side by side, one process each."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console


def train_seeds(
    env: str,
    settings: Sequence[str],
    seeds: Sequence[int],
    out: Path,
    *,
    resume: bool,
    jobs: int,
    console: Console,
) -> dict[int, int]:
    """Run `mfec train` once for each seed, in `out`/seed-N, at most `jobs` at a time; exit status of each seed.

    A seed that fails is reported and the others go on.
    """
    if jobs < 1:
        raise ValueError(f"jobs must be at least 1, not {jobs}")
    # One thread each: the processes share the cores already.
    threads = {**os.environ, "MFEC_THREADS": "1"}
    waiting = list(dict.fromkeys(seeds))
    running: dict[int, subprocess.Popen[str]] = {}
    readers: list[threading.Thread] = []
    status: dict[int, int] = {}
    stopping = False
    ended = threading.Semaphore(0)

    def relay(seed: int, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            console.print(f"seed {seed}: {line.rstrip()}", highlight=False, markup=False, soft_wrap=True)
        process.wait()
        ended.release()

    while waiting or running:
        while waiting and len(running) < jobs and not stopping:
            seed = waiting.pop(0)
            command = [sys.executable, "-m", "mfec", "train", env, *settings]
            command += ["--seed", str(seed), "--out", str(out / f"seed-{seed}"), *(["--resume"] if resume else [])]
            process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=threads
            )
            running[seed] = process
            readers.append(threading.Thread(target=relay, args=(seed, process), daemon=True))
            readers[-1].start()
        try:
            ended.acquire()
        except KeyboardInterrupt:
            stopping, waiting = True, []
            for process in running.values():  # a terminal has told them already, a plain kill has not
                if process.poll() is None:
                    process.send_signal(signal.SIGTERM)
            continue
        for seed, process in list(running.items()):
            if process.poll() is not None:
                status[seed] = process.returncode
                del running[seed]
    for reader in readers:
        reader.join()
    return status
