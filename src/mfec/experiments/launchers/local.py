"""A grid on this machine: runs in processes, so many at a time, as far as RAM goes; on a GPU, MFEC's in a fleet."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing import connection, resource_tracker
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from mfec.config import RunConfig
from mfec.experiments.launchers import LOG, HowToTrain, Job, State
from mfec.experiments.launchers.child import be_child, end_children, start_child
from mfec.experiments.launchers.fleet import FleetLauncher
from mfec.experiments.launchers.one_run import train_one
from mfec.experiments.launchers.room import bytes_needed
from mfec.experiments.leaving import HANGS, Leaving
from mfec.experiments.ram import physical_ram, show_bytes
from mfec.experiments.stopping import ASK_TO_STOP, STOP_SIGNALS


class LocalLauncher:
    """Runs in processes of one thread each."""

    def __init__(self, *, jobs: int, how: HowToTrain) -> None:
        if jobs < 1:
            raise ValueError(f"jobs must be at least 1, not {jobs}")
        self._at_a_time = jobs
        self._how = how
        self._waiting: list[Job] = []
        self._running: dict[Any, _Running] = {}  # by the pipe that tells of its end
        self._leaving = Leaving()
        self._stopping = False
        self._said_what_fits = False

    def start(self, jobs: Sequence[Job]) -> None:
        """Take these jobs on; they begin when there is room for them."""
        resource_tracker.ensure_running()  # starting it later would let signals through that are held back
        self._waiting += jobs

    def watch(self, seconds: float) -> list[str]:
        """Begin what there is room for, and wait so long for a run to end; what there is to say about it."""
        said = self._begin_what_fits()
        exits = [process.sentinel for process in self._leaving.processes()]
        for pipe in connection.wait([*self._running, *exits], timeout=seconds):
            if pipe in self._running:
                self._last_word(pipe)
        for (running, state, reason), status, hangs in self._leaving.gone():
            self._ended(running.job, state, reason, status)
            said += [f"{running.job.run.name}: {HANGS}"] if hangs else []
        return said

    def stop(self) -> None:
        """Ask all runs to save and stop; asked again, they stop at once."""
        self._stopping = True
        for job in self._waiting:
            job.state = "stopped"
        self._waiting = []
        for running in self._running.values():
            if running.process.is_alive():
                os.kill(running.process.pid, ASK_TO_STOP)

    def close(self) -> None:
        """Leave no process behind."""
        end_children(*(running.process for running in self._running.values()), *self._leaving.processes())

    def _begin_what_fits(self) -> list[str]:
        while self._waiting and len(self._running) + len(self._leaving) < self._at_a_time:
            first = self._waiting[0]
            needs = 0 if self._how.ignore_memory_limit else bytes_needed(first.run.config, first.out)
            beside = [*self._running.values(), *(running for running, *_ in self._leaving.about())]
            together = needs + sum(running.needs for running in beside)
            if beside and together > physical_ram():  # one that cannot fit at all begins alone, and says so
                return self._what_fits(len(beside), together)
            self._begin(self._waiting.pop(0), needs)
        return []

    def _what_fits(self, runs: int, together: int) -> list[str]:
        if self._said_what_fits:
            return []
        self._said_what_fits = True
        return [
            f"{runs + 1} runs side by side can come to need {show_bytes(together)}, this machine has "
            f"{show_bytes(physical_ram())}: {runs} at a time, though --jobs is {self._at_a_time}"
        ]

    def _begin(self, job: Job, needs: int) -> None:
        ours, theirs = multiprocessing.Pipe(duplex=False)
        process = start_child(_play, theirs, job.run.config, job.out, self._how)
        theirs.close()
        self._running[ours] = _Running(job, process, needs)
        job.state = "running"

    def _last_word(self, pipe: Any) -> None:
        """Nothing more will come from this run; its process may need a while to exit."""
        running = self._running.pop(pipe)
        state, reason = "running", ""
        with contextlib.suppress(EOFError, OSError):
            state, reason = pipe.recv()
        pipe.close()
        self._leaving.add(running.process, (running, state, reason))

    def _ended(self, job: Job, state: State, reason: str, status: int) -> None:
        job.state, job.reason = state, reason
        if job.state == "running":  # it had no time to say anything
            if self._stopping and -status in STOP_SIGNALS:
                job.state = "stopped"
            else:
                job.state, job.reason = "failed", f"its process ended with status {status}"
                with contextlib.suppress(OSError), job.log.open("a") as log:
                    log.write(f"{job.reason}\n")


@dataclass(frozen=True)
class _Running:
    job: Job
    process: Any
    needs: int  # bytes of RAM


def _play(pipe: Connection[Any, Any], config: RunConfig, out: Path, how: HowToTrain) -> None:
    """One run, in its own process."""
    try:
        be_child(out / LOG)
        outcome = train_one(config, out, how)
    except OSError as error:
        outcome = "failed", f"cannot begin a run in {out}: {error}"
    with contextlib.suppress(OSError):  # nobody listens any more
        pipe.send(outcome)
    pipe.close()


class LocalGPULauncher:
    """MFEC's runs in fleets on the GPU, and when those have ended all others in processes that share it."""

    def __init__(self, *, jobs: int, how: HowToTrain, log: Path) -> None:
        self._processes = LocalLauncher(jobs=jobs, how=how)
        self._fleets = FleetLauncher(jobs=jobs, how=how, log=log)
        self._waiting: list[Job] = []

    def start(self, jobs: Sequence[Job]) -> None:
        """Take these jobs on."""
        self._fleets.start([job for job in jobs if job.run.config.algorithm == "mfec"])
        self._waiting += [job for job in jobs if job.run.config.algorithm != "mfec"]

    def watch(self, seconds: float) -> list[str]:
        """Bring the states of the jobs up to date."""
        if self._fleets.busy:
            return self._fleets.watch(seconds)
        self._processes.start(self._waiting)
        self._waiting = []
        return self._processes.watch(seconds)

    def stop(self) -> None:
        """Ask all runs to save and stop; asked again, they stop at once."""
        for job in self._waiting:
            job.state = "stopped"
        self._waiting = []
        self._fleets.stop()
        self._processes.stop()

    def close(self) -> None:
        """Leave no process behind."""
        self._fleets.close()
        self._processes.close()
