"""MFEC's runs of a grid on one GPU: in fleets, one after the other."""

from __future__ import annotations

import contextlib
import io
import multiprocessing
import os
import traceback
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TextIO

from rich.console import Console

from mfec.device import free_on_device
from mfec.experiments.fleet import Member, train_fleet
from mfec.experiments.launchers import LOG, HowToTrain, Job
from mfec.experiments.launchers.child import be_child, end_children, start_child
from mfec.experiments.launchers.one_run import PATIENCE_SECONDS, in_a_line
from mfec.experiments.launchers.room import report_of
from mfec.experiments.leaving import HANGS, Leaving
from mfec.experiments.ram import RamReport
from mfec.experiments.stopping import ASK_TO_STOP, STOP_SIGNALS
from mfec.experiments.train import has_frames_to_keep


class FleetLauncher:
    """Fleets of at most so many runs, each in a process that has the GPU."""

    def __init__(self, *, jobs: int, how: HowToTrain, log: Path) -> None:
        """log: for what is said about all runs of a fleet together."""
        if jobs < 1:
            raise ValueError(f"jobs must be at least 1, not {jobs}")
        self._at_a_time = jobs
        self._how = how
        self._log = log
        self._jobs: dict[str, Job] = {}
        self._handed: list[Job] = []  # to the process
        self._process: Any = None
        self._pipe: Any = None
        self._leaving = Leaving()
        self._stopping = False

    @property
    def busy(self) -> bool:
        """Whether some of its jobs have not ended, or a process still has the GPU."""
        return self._process is not None or any(not job.ended for job in self._jobs.values())

    def start(self, jobs: Sequence[Job]) -> None:
        """Take these jobs on."""
        self._jobs |= {job.run.name: job for job in jobs}

    def watch(self, seconds: float) -> list[str]:
        """Bring the states of the jobs up to date; where no fleet is at work, the next one begins."""
        if self._process is None and self._stopping:
            for job in self._waiting():
                job.state = "stopped"
            return []
        if self._process is None:
            self._begin()
        if self._leaving:
            self._process.join(seconds)
        elif self._pipe.poll(seconds):
            try:
                name, state, reason = self._pipe.recv()
                self._jobs[name].state, self._jobs[name].reason = state, reason
            except (EOFError, OSError):
                self._leaving.add(self._process, self._handed)
        said = []
        for handed, status, hangs in self._leaving.gone():
            self._ended(handed, status)
            said += [f"{', '.join(job.run.name for job in handed)}: {HANGS}"] if hangs else []
        return said

    def stop(self) -> None:
        """Ask all runs to save and stop; asked again, they stop at once."""
        self._stopping = True
        if self._process is not None and self._process.is_alive():
            os.kill(self._process.pid, ASK_TO_STOP)

    def close(self) -> None:
        """Leave no process behind."""
        if self._process is not None:
            end_children(self._process)

    def _waiting(self) -> list[Job]:
        return [job for job in self._jobs.values() if job.state == "waiting"]

    def _begin(self) -> None:
        self._handed = self._waiting()[: self._at_a_time]
        members = [Member(job.run.name, job.run.config, job.out, self._how.keep_frames) for job in self._handed]
        self._pipe, theirs = multiprocessing.Pipe(duplex=False)
        self._process = start_child(_train_what_fits, theirs, members, self._how, self._log)
        theirs.close()

    def _ended(self, handed: Sequence[Job], status: int) -> None:
        """The process has ended; what it had no time to say must be said here."""
        self._process = None
        none_began = all(job.state == "waiting" for job in handed)  # else those that wait did not fit
        for job in handed:
            if job.state == "running" or none_began:
                if self._stopping and -status in STOP_SIGNALS:
                    job.state = "stopped"
                else:
                    job.state = "failed"
                    job.reason = f"the process of the fleet ended with status {status}; see {self._log}"


def _train_what_fits(pipe: Connection[Any, Any], members: Sequence[Member], how: HowToTrain, log: Path) -> None:
    """Train as many of these as fit, and tell what becomes of each; in a process of its own, since a GPU is never
    quite empty again after a fleet."""
    be_child(log)
    with log.open("a", buffering=1) as file:
        fleet = list(members) if how.ignore_memory_limit else _what_fits(members)
        for member in fleet:
            pipe.send((member.name, "running", ""))
        _train(fleet, how, file)
    for member in fleet:
        last_line = member.reason.strip().rpartition("\n")[2]
        pipe.send((member.name, member.outcome, last_line))
    pipe.close()


def _what_fits(members: Sequence[Member]) -> list[Member]:
    """As many of the first members as fit into RAM and on the GPU together; at least one, which may say it does not."""
    fitting: list[Member] = []
    reports: list[RamReport] = []
    free = free_on_device() if members[0].config.agent.device == "cuda" else 0
    for member in members:
        try:
            reports.append(report_of(member.config, member.out))
        except Exception:  # what is wrong with it is said when it begins
            break
        together = RamReport.together(reports)
        if together.in_this_run > together.ram or (free and together.on_device > free):
            break
        fitting.append(member)
    return fitting or list(members[:1])


def _train(members: Sequence[Member], how: HowToTrain, log: TextIO) -> None:
    """Train these members at once; whatever happens, each has an outcome."""
    ready = []
    for member in members:
        try:
            member.out.mkdir(parents=True, exist_ok=True)
            member.keep_frames = member.keep_frames and has_frames_to_keep(member.config)
            ready.append(member)
        except OSError as error:
            member.outcome, member.reason = "failed", f"cannot begin a run in {member.out}: {error}"
    try:
        if ready:
            train_fleet(
                ready,
                resume=True,
                checkpoint_frames=how.checkpoint_frames,
                frames_limit_gb=how.frames_limit_gb,
                ignore_memory_limit=how.ignore_memory_limit,
                console=Console(file=_Logs(ready, log), width=200),
                patience=PATIENCE_SECONDS,
            )
    except KeyboardInterrupt:
        for member in ready:
            member.outcome = "stopped at once" if member.outcome == "running" else member.outcome
    except Exception as error:
        traceback.print_exc(file=log)
        for member in ready:
            member.outcome, member.reason = "failed", in_a_line(error)
    for member in members:
        with contextlib.suppress(OSError), (member.out / LOG).open("a") as own:
            own.write(f"-- {member.outcome}\n{member.reason}\n".rstrip("\n") + "\n")


class _Logs(io.StringIO):
    """A file that gives lines of a run to its log, and all others to that of the fleet."""

    def __init__(self, members: Sequence[Member], log: TextIO) -> None:
        super().__init__()
        self._members = members
        self._log = log
        self._begun = ""

    def write(self, text: str) -> int:
        *lines, self._begun = (self._begun + text).split("\n")
        for line in lines:
            for member in self._members:
                if line.startswith(f"{member.name}: "):
                    with (member.out / LOG).open("a") as own:
                        own.write(line.removeprefix(f"{member.name}: ") + "\n")
                    break
            else:
                self._log.write(f"{line}\n")
        return len(text)
