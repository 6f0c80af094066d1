"""Runs on this machine: in processes, so many at a time, as far as memory goes.

Runs that search on a device make a fleet: this process owns the device, and one search answers the look-ups of all runs
that wait for one, while the environments of the others step on the other cores. What a run finds does not depend on who
else is looked up, so a run in a fleet is the run alone, bit for bit.

Runs whose own processes compute on a GPU share it through NVIDIA's MPS (`mps.py`).

Runs have their own processes because the emulator holds Python's lock while it steps, and because a run's own work
(episodes, exact matches, tables, checkpoints) is as much as an emulator step.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from typing import Any

from rich.console import Console

from mfec.callbacks import Stopped
from mfec.device import free_on_device
from mfec.device.service import Service
from mfec.errors import MfecError
from mfec.experiments.launchers.mps import MOST_CLIENTS, shared_gpu
from mfec.experiments.launchers.run_process import in_a_line, start_run
from mfec.experiments.lock import locked
from mfec.experiments.many_runs import LOOK_SECONDS, Run, TrainingOptions
from mfec.experiments.ram import (
    DEVICE_SCRATCH,
    Needs,
    TooLarge,
    needs_of,
    physical_ram,
    refuse_what_cannot_fit,
)
from mfec.experiments.stopping import ASK_TO_STOP, STOP_SIGNALS
from mfec.experiments.vae import train_own_vaes
from mfec.run_directory import RunDirectory, RunDirectoryError
from mfec.units import show_bytes

IDLE_SECONDS = 0.02  # without a look-up, after which this process rests between two glances at the device's requests
SAVE_SECONDS = 60.0  # that runs are given to save where an error ends their launcher
EXIT_SECONDS = 30.0  # that a process is given to exit when its run has ended
HANGS = f"its process did not exit within {EXIT_SECONDS:.0f} seconds after its end, and was killed"


class LocalLauncher:
    """Runs in processes of one thread each; those that search on a device share it."""

    def __init__(self, *, jobs: int, options: TrainingOptions) -> None:
        """jobs: runs at a time."""
        if jobs < 1:
            raise ValueError(f"jobs must be at least 1, not {jobs}")
        self.options = options
        self._jobs = jobs
        self._waiting: list[Run] = []
        self._needs: dict[str, Needs] = {}  # by the name of the run
        self._processes: list[_RunProcess] = []
        self._selector = selectors.DefaultSelector()
        self._service: Service | None = None  # while there are runs that share a device
        self._free_on_device: int | None = None  # before runs take of it; None until that matters
        self._mps: dict[str, str] | None = None  # for the environment of the runs; None until that matters
        self._opened = contextlib.ExitStack()
        self._looked_up_at = 0.0
        self._stopping = False
        self._said_what_fits = False

    @property
    def busy(self) -> bool:
        """Whether there are runs, or processes of runs, that have not ended."""
        return bool(self._waiting or self._processes)

    def start(self, runs: Sequence[Run], console: Console) -> None:
        """Take these runs on: first those that share a device, whose VAEs are trained now, then all others."""
        resource_tracker.ensure_running()  # starting it later would let signals through that are held back
        sharing = [run for run in runs if run.shares_device]
        self._waiting = [*sharing, *(run for run in runs if not run.shares_device)]
        if sharing:
            self._open_device(sharing)
            self._train_own_vaes(sharing, console)
            self._waiting = [run for run in self._waiting if not run.ended]

    def watch(self, seconds: float) -> list[str]:
        """Begin what there is room for, and serve the runs for so long; what there is to say about it."""
        said = self._begin_what_fits()
        until = time.monotonic() + seconds
        while not said and self._processes and time.monotonic() < until:
            said += self._serve(until - time.monotonic())
            if any(self._has_gone(process) for process in self._processes):
                return said + self._let_go()
        return said

    def stop(self) -> None:
        """Ask all runs to save and stop; asked again, they stop at once. Those that wait do not begin."""
        self._stopping = True
        for run in self._waiting:
            run.state = "stopped"
        self._waiting = []
        for each in self._processes:
            if each.exits_until is None and each.process.is_alive():
                os.kill(each.process.pid, ASK_TO_STOP)

    def close(self) -> None:
        """Leave no process behind. There are some where an error came: their runs save and stop."""
        try:
            self.stop()
            until = time.monotonic() + SAVE_SECONDS
            while self._processes and time.monotonic() < until:
                self._serve(LOOK_SECONDS)
                self._let_go()
        finally:
            with self._opened:  # MPS ends after those whom it serves
                for each in self._processes:
                    each.process.kill()
                    each.process.join()
                self._selector.close()

    # -- Beginning ----------------------------------------------------------------------------------------------------

    def _open_device(self, sharing: Sequence[Run]) -> None:
        devices = {run.config.agent.device for run in sharing}
        if len(devices) != 1:
            raise ValueError(f"the runs of a fleet share one device, not {', '.join(sorted(devices))}")
        [device] = devices
        self._service = Service(device)
        self._free_on_device = free_on_device() if device == "cuda" else None
        quiet = Console(quiet=True)
        for run in sharing if not self.options.ignore_memory_limit else ():
            try:
                refuse_what_cannot_fit(run.config, quiet, out=run.out, ignore=False, free=self._free_on_device)
            except TooLarge as error:
                run.state, run.reason = "failed", str(error)
            except Exception:  # an environment may raise anything; the run says itself what is wrong with it
                continue

    def _train_own_vaes(self, sharing: Sequence[Run], console: Console) -> None:
        """Train the VAEs of runs that begin with one, side by side in this process, which has their directories to
        itself; afterwards the process of each run locks its own."""
        beginning: list[Run] = []
        with contextlib.ExitStack() as locks:
            for run in sharing:
                if run.ended or not run.config.own_vae or RunDirectory(run.out).has_checkpoint:
                    continue
                try:
                    locks.enter_context(locked(run.out, patience=self.options.patience))
                    beginning.append(run)
                except RunDirectoryError as error:
                    run.state, run.reason = "failed", str(error)
            if not beginning:
                return
            pairs = [(run.config, RunDirectory(run.out)) for run in beginning]
            device = beginning[0].config.agent.device
            try:
                train_own_vaes(pairs, device=device, resume=self.options.resume, console=console)
            except (Stopped, KeyboardInterrupt) as stopped:
                for run in beginning:
                    run.state = "stopped" if isinstance(stopped, Stopped) else "stopped at once"
                self._waiting = [run for run in self._waiting if not run.ended]
                self.stop()
            except (MfecError, ImportError, OSError, ValueError) as error:
                for run in beginning:
                    run.state, run.reason = "failed", in_a_line(error)

    def _begin_what_fits(self) -> list[str]:
        """Begin runs while there is room; what there is to say if memory gives room for fewer than asked for."""
        while self._waiting and len(self._processes) < self._jobs:
            run = self._waiting[0]
            if self._service and not run.shares_device:
                if self._processes:
                    return []  # the others may need the device for themselves
                self._close_device()
            if run.owns_context and self._mps is None and (said := self._share_gpu()):
                return said
            needs = self._needs_of(run)
            figures = self._what_is_missing(needs)
            if self._processes and figures:  # one that cannot fit at all begins alone, and says so
                return self._what_fits(figures)
            self._begin(self._waiting.pop(0), needs)
        return []

    def _share_gpu(self) -> list[str]:
        """Let runs with contexts of their own share the GPU, if there are to be several; what there is to say of it."""
        self._mps = {}
        if self._jobs == 1 or sum(run.owns_context for run in self._waiting) == 1:
            return []
        try:
            self._mps = self._opened.enter_context(shared_gpu())
            self._jobs = min(self._jobs, MOST_CLIENTS)
            return []
        except (MfecError, OSError) as error:
            return [f"the runs take turns on the GPU, at about a third of their speed under NVIDIA's MPS: {error}"]

    def _needs_of(self, run: Run) -> Needs:
        if self.options.ignore_memory_limit:
            return Needs()
        if run.name not in self._needs:  # what waits is looked at often
            self._needs[run.name] = needs_of(run.config, run.out)
        return self._needs[run.name]

    def _what_is_missing(self, needs: Needs) -> str:
        """The figures, if a run with these needs does not fit beside those that run; else nothing."""
        ram = needs.ram + sum(each.needs.ram for each in self._processes)
        device = needs.device + sum(each.needs.device for each in self._processes) + DEVICE_SCRATCH
        if ram > physical_ram():
            return f"{show_bytes(ram)}, this machine has {show_bytes(physical_ram())}"
        if needs.device:
            if self._free_on_device is None:
                self._free_on_device = free_on_device()
            if device > self._free_on_device:
                return f"{show_bytes(device)} of the GPU, of which {show_bytes(self._free_on_device)} are free"
        return ""

    def _what_fits(self, figures: str) -> list[str]:
        if self._said_what_fits:
            return []
        self._said_what_fits = True
        n = len(self._processes)
        at_a_time = f"{n} at a time, though {self._jobs} may run"
        return [f"{n + 1} runs side by side can come to need {figures}: {at_a_time}"]

    def _begin(self, run: Run, needs: Needs) -> None:
        process, pipe = start_run(run, self.options, self._mps or {})
        self._processes.append(_RunProcess(run, process, pipe, needs))
        self._selector.register(pipe, selectors.EVENT_READ, self._processes[-1])
        run.state = "running"

    def _close_device(self) -> None:
        self._service = None
        if self._free_on_device is not None:
            import torch

            torch.cuda.empty_cache()
            self._free_on_device = None

    # -- Serving ------------------------------------------------------------------------------------------------------

    def _serve(self, seconds: float) -> list[str]:
        """Answer what the runs ask: look-ups at once and together, everything else as it comes; what they say."""
        if self._service:
            now = time.monotonic()
            if self._service.look_up():
                self._looked_up_at = now
            seconds = min(seconds, 0.001 if now - self._looked_up_at > IDLE_SECONDS else 0.0)
        said = []
        for key, _ in self._selector.select(max(seconds, 0.0)):
            if key.data is None:  # a process has exited
                continue
            each: _RunProcess = key.data
            try:
                what, *arguments = each.pipe.recv()
            except (EOFError, OSError):
                self._heard_all(each)
                continue
            if what == "say":
                said.append(f"{each.run.name}: {arguments[0]}")
            elif what == "ended":
                each.run.state, each.run.reason = arguments
                self._heard_all(each)
            elif self._service:
                self._service.respond(each.pipe, what, *arguments)
        return said

    def _heard_all(self, each: _RunProcess) -> None:
        """Nothing more will come from this run. A thread or an exit handler, of an environment for instance, can keep
        its process from exiting for ever; nobody else must wait for it."""
        self._selector.unregister(each.pipe)
        self._selector.register(each.process.sentinel, selectors.EVENT_READ, None)
        if self._service:
            self._service.forget(each.pipe)
        each.pipe.close()
        each.exits_until = time.monotonic() + EXIT_SECONDS

    def _has_gone(self, each: _RunProcess) -> bool:
        """Whether the process has exited, or must."""
        until = each.exits_until
        return until is not None and (not each.process.is_alive() or time.monotonic() >= until)

    def _let_go(self) -> list[str]:
        """Forget processes that have exited, and kill those that do not."""
        said = []
        for each in [each for each in self._processes if self._has_gone(each)]:
            if each.process.is_alive():
                said.append(f"{each.run.name}: {HANGS}")
                each.process.kill()
                each.process.join()
            self._selector.unregister(each.process.sentinel)
            self._processes.remove(each)
            if each.run.state == "running":  # it had no time to say anything
                self._died(each.run, each.process.exitcode)
        return said

    def _died(self, run: Run, status: int) -> None:
        if self._stopping and -status in STOP_SIGNALS:
            run.state = "stopped"
            return
        run.state, run.reason = "failed", f"its process ended with status {status}"
        with contextlib.suppress(OSError), run.log.open("a") as log:
            log.write(f"{run.reason}\n")


@dataclass
class _RunProcess:
    """A run, its process, and what they can come to need."""

    run: Run
    process: Any
    pipe: Connection[Any, Any]
    needs: Needs
    exits_until: float | None = None  # when the process is killed; None while there is more to hear
