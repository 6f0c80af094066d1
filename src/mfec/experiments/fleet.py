"""A fleet: many runs, one device. This process owns the device; each run plays in a process of its own.

One search answers the look-ups of all runs that wait for one, while the emulators of the others step on the other
cores. What a run finds does not depend on who else is looked up, so a run in a fleet is the run alone, bit for bit.

Runs have their own processes because the emulator holds Python's lock while it steps, and because a run's own work
(episodes, exact matches, tables, checkpoints) is as much as an emulator step.
"""

from __future__ import annotations

import contextlib
import io
import logging
import multiprocessing
import os
import selectors
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from rich.console import Console

from mfec.config import CHECKPOINT_FRAMES, FRAMES_LIMIT_GB, DeviceName, RunConfig
from mfec.device.channel import DeviceError
from mfec.device.service import OWNER_ENDED, PipeChannel, Service
from mfec.errors import MfecError
from mfec.experiments.display import LOG, LogTo, Progress
from mfec.experiments.fleet_display import FleetDisplay
from mfec.experiments.leaving import HANGS, Leaving
from mfec.experiments.lock import locked
from mfec.experiments.ram import refuse_what_cannot_fit
from mfec.experiments.stopping import ASK_TO_STOP, STOP_SIGNALS, Stopped, hear_at_once, passing_on, start_unheard
from mfec.experiments.vae import train_own_vaes
from mfec.experiments.whole_games import Evaluation
from mfec.run_directory import RunDirectory, RunDirectoryError

REPORT_SECONDS = 0.5  # between two reports of a run's progress
IDLE_SECONDS = 0.02  # without a look-up, after which this process rests between two glances


@dataclass
class Member:
    """One run of a fleet, and what became of it."""

    name: str
    config: RunConfig
    out: Path
    keep_frames: bool = False
    outcome: str = "running"  # then finished, stopped (and saved), stopped at once, or failed
    reason: str = ""


def train_fleet(
    members: Sequence[Member],
    *,
    resume: bool = False,
    checkpoint_frames: int = CHECKPOINT_FRAMES,
    frames_limit_gb: float = FRAMES_LIMIT_GB,
    ignore_memory_limit: bool = False,
    console: Console | None = None,
    patience: float = 0.0,
) -> None:
    """Train all runs at once on the device of their settings; what became of each stands in `members`.

    A run that fails is reported, and the others go on. patience: as for `train`.
    """
    console = console or Console()
    devices = {member.config.agent.device for member in members}
    if len(devices) != 1:
        raise ValueError(f"the runs of a fleet share one device, not {', '.join(sorted(devices))}")
    device = devices.pop()
    service = Service(device)
    outs = [member.out for member in members]
    refuse_what_cannot_fit([member.config for member in members], console, outs=outs, ignore=ignore_memory_limit)
    try:
        _train_own_vaes(members, device, resume, console, patience)
    except Stopped:
        for member in members:
            member.outcome = "stopped" if member.outcome == "running" else member.outcome
        return
    left = [member for member in members if member.outcome == "running"]
    options = {
        "resume": resume,
        "checkpoint_frames": checkpoint_frames,
        "frames_limit_gb": frames_limit_gb,
        "patience": patience,
    }
    if left:
        _Fleet(left, service, console).train(options)


def _train_own_vaes(
    members: Sequence[Member], device: DeviceName, resume: bool, console: Console, patience: float
) -> None:
    """Train the VAEs of runs that begin with one, side by side in this process, which has their directories to itself.

    A run whose directory cannot be had fails here; afterwards the process of each run locks its own.
    """
    runs = []
    with contextlib.ExitStack() as locks:
        for member in members:
            directory = RunDirectory(member.out)
            if not member.config.trains_vae or directory.has_checkpoint:
                continue
            try:
                locks.enter_context(locked(directory.path, patience=patience))
                runs.append((member.config, directory))
            except RunDirectoryError as error:
                member.outcome, member.reason = "failed", str(error)
                console.print(f"{member.name} failed: {error}", highlight=False, markup=False, soft_wrap=True)
        if runs:
            train_own_vaes(runs, device=device, resume=resume, console=console)


class _Fleet:
    """The processes of a fleet, from their start to their end."""

    def __init__(self, members: Sequence[Member], service: Service, console: Console) -> None:
        self._members = members
        self._service = service
        self._console = console
        self._of_pipe: dict[Connection[Any, Any], Member] = {}
        self._processes: dict[str, Any] = {}
        self._leaving = Leaving()
        self._selector = selectors.DefaultSelector()
        self._last_look_up = 0.0
        self._stopping = False

    def train(self, options: dict[str, Any]) -> None:
        context = multiprocessing.get_context("spawn")  # a fork of a process that has a GPU would break
        resource_tracker.ensure_running()  # starting it would let signals through that are held back
        # One thread each: the processes share the cores already.
        threads = os.environ.get("MFEC_THREADS")
        os.environ["MFEC_THREADS"] = threads or "1"
        try:
            with passing_on(self._stop):
                self._start_all(context, options)
                with FleetDisplay(self._members, self._console) as display:
                    while self._of_pipe or self._leaving:
                        self._serve(display)
        finally:
            if threads is None:
                del os.environ["MFEC_THREADS"]
            for process in self._processes.values():
                process.kill()  # all have ended, unless an error came: then nobody serves them any more
                process.join()

    def _start_all(self, context: Any, options: dict[str, Any]) -> None:
        for member in self._members:
            if self._stopping:
                member.outcome = "stopped"
                continue
            ours, theirs = context.Pipe()
            arguments = (theirs, member.config, member.out, {**options, "keep_frames": member.keep_frames})
            process = context.Process(target=_play, args=arguments, daemon=True)
            self._processes[member.name] = start_unheard(process)
            theirs.close()
            self._of_pipe[ours] = member
            self._selector.register(ours, selectors.EVENT_READ)
            if self._stopping:  # since it was started; asked twice so soon it hears it once
                os.kill(process.pid, ASK_TO_STOP)

    def _serve(self, display: FleetDisplay) -> None:
        """Answer what the runs ask: look-ups at once and together, everything else as it comes."""
        if self._service.look_up():
            self._last_look_up = time.perf_counter()
        idle = time.perf_counter() - self._last_look_up > IDLE_SECONDS
        for key, _ in self._selector.select(timeout=0.001 if idle else 0):
            pipe: Any = key.fileobj
            member = self._of_pipe[pipe]
            try:
                what, *arguments = pipe.recv()
            except (EOFError, OSError):
                self._last_word(pipe, member)
                continue
            if what == "progress":
                display.progress(member.name, *arguments)
            elif what == "say":
                display.say(f"{member.name}: {arguments[0]}")
            elif what == "outcome":
                member.outcome, member.reason = arguments
                self._last_word(pipe, member)
            else:
                self._service.answer(pipe, what, *arguments)
        for member, status, hangs in self._leaving.gone():
            self._ended(member, status, hangs, display)
        display.refresh()

    def _last_word(self, pipe: Connection[Any, Any], member: Member) -> None:
        """Nothing more will come from this run; its process may need a while to exit, and others go on."""
        self._selector.unregister(pipe)
        del self._of_pipe[pipe]
        pipe.close()
        self._service.forget(pipe)
        self._leaving.add(self._processes[member.name], member)

    def _ended(self, member: Member, status: int, hangs: bool, display: FleetDisplay) -> None:
        if hangs:
            display.say(f"{member.name}: {HANGS}")
        if member.outcome == "running":  # it had no time to say anything
            if self._stopping and -status in STOP_SIGNALS:
                member.outcome = "stopped"
            else:
                member.outcome, member.reason = "failed", f"its process ended with status {status}"
        if member.outcome != "finished":
            display.say(f"{member.name} {member.outcome}" + (f": {member.reason}" if member.reason else ""))

    def _stop(self) -> None:
        """Ask all runs to save and stop; this process goes on until they have."""
        self._stopping = True
        for process in self._processes.values():
            if process.is_alive():
                os.kill(process.pid, ASK_TO_STOP)


def _play(pipe: Connection[Any, Any], config: RunConfig, out: Path, options: dict[str, Any]) -> None:
    """One run, in its own process; options as for `train`."""
    hear_at_once()
    from mfec.experiments.train import train

    outcome, reason = "failed", ""
    try:
        train(
            config,
            out,
            **options,
            ignore_memory_limit=True,  # all runs together were looked at before
            console=Console(file=_Lines(pipe), width=200),
            device=PipeChannel(pipe, config.agent.device),
            display=_Reporter(pipe, config.total_frames),
        )
        outcome = "finished"
    except Stopped:
        outcome = "stopped"
    except KeyboardInterrupt:
        outcome = "stopped at once"
    except (MfecError, ImportError, MemoryError, OSError, TypeError, ValueError) as error:
        reason = str(error)
    except Exception:
        reason = traceback.format_exc()
    _tell(pipe, "outcome", outcome, reason)
    pipe.close()


class _Reporter:
    """Tells the fleet's display how a run is getting on; see `Display`."""

    def __init__(self, pipe: Connection[Any, Any], total_frames: int) -> None:
        self._pipe = pipe
        self._total_frames = total_frames
        self._told_at = 0.0
        self._evaluation: Evaluation | None = None

    def __enter__(self) -> _Reporter:
        LOG.setLevel(logging.INFO)
        LOG.addHandler(LogTo(self.say))
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing: the process ends with its run."""

    def update(self, agent: Any) -> None:
        now = time.perf_counter()
        if now - self._told_at >= REPORT_SECONDS or agent.frames >= self._total_frames:
            self._told_at = now
            # A run that need not look anything up would not find out in any other way, and train on for nobody.
            if not _tell(self._pipe, "progress", Progress.of(agent, evaluation=self._evaluation)):
                raise DeviceError(OWNER_ENDED)

    def evaluated(self, evaluation: Evaluation) -> None:
        self._evaluation = evaluation

    def say(self, message: str) -> None:
        _tell(self._pipe, "say", message)


class _Lines(io.StringIO):
    """A file whose lines are told to the fleet's display."""

    def __init__(self, pipe: Connection[Any, Any]) -> None:
        super().__init__()
        self._pipe = pipe
        self._begun = ""

    def write(self, text: str) -> int:
        *lines, self._begun = (self._begun + text).split("\n")
        for line in lines:
            _tell(self._pipe, "say", line)
        return len(text)


def _tell(pipe: Connection[Any, Any], *message: Any) -> bool:
    """Whether anybody listens."""
    try:
        pipe.send(message)
    except OSError:
        return False
    return True
