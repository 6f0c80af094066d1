"""Runs on a Ray cluster: every run is a task, and one whose worker is lost goes on elsewhere from its checkpoint.

A task trains in its worker's own process. A process of its own could outlive a worker that is killed, and write into a
directory in which another worker has gone on.
"""

from __future__ import annotations

import contextlib
import logging
import os
import secrets
import signal
import socket
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console

from mfec.algorithms import RunConfig
from mfec.errors import MfecError
from mfec.experiments.launchers.local_ray import LocalRay, prepare_environment
from mfec.experiments.launchers.run_process import in_a_line, train_one
from mfec.experiments.lock import LOCK
from mfec.experiments.many_runs import PATIENCE_SECONDS, Run, State, TrainingOptions
from mfec.experiments.ram import needs_of, physical_ram
from mfec.experiments.stopping import STOP_SIGNALS
from mfec.files import write_whole
from mfec.units import show_bytes

OWN = ".ray"  # in the folder of the runs: what Ray says, and how its workers know the folder
LOST_WORKERS = 20  # that a run survives; more of them are no accident
LOOK_SECONDS = 1.0  # between two looks for runs that have begun


class RayLauncher:
    """Runs as tasks of a Ray cluster, or of a Ray of one's own on this machine."""

    def __init__(
        self,
        *,
        folder: Path,
        options: TrainingOptions,
        address: str | None = None,
        cpus_per_run: float = 1.0,
        gpus_per_run: float = 0.0,
        jobs: int = 1,
    ) -> None:
        """folder: with all runs in it, which all nodes share; jobs: runs at a time, of a Ray of one's own."""
        if cpus_per_run <= 0.0 or gpus_per_run < 0.0:
            raise ValueError(f"a run needs more than 0 CPUs and at least 0 GPUs, not {cpus_per_run} and {gpus_per_run}")
        if jobs < 1:
            raise ValueError(f"jobs must be at least 1, not {jobs}")
        prepare_environment(own=address is None)
        self._ray = _import_ray()
        self.options = options
        self._folder = folder.resolve()
        self._resources = {"num_cpus": cpus_per_run, "num_gpus": gpus_per_run}
        self._runs: dict[Any, Run] = {}  # by the reference to what its task will return
        self._users: dict[str, str] = {}  # who had locked a run's directory when it was last looked at
        self._looked_at = 0.0
        self._stopping = False
        self._token = secrets.token_hex(16)
        self._address = address
        self._own_cores = max(1, round(jobs * cpus_per_run))
        self._opened = contextlib.ExitStack()

    @property
    def busy(self) -> bool:
        """Whether there are runs that have not ended."""
        return bool(self._runs)

    def start(self, runs: Sequence[Run], console: Console) -> None:
        """Take these runs on; Ray begins them where there is room."""
        if not runs:
            return
        _token_file(self._folder).parent.mkdir(parents=True, exist_ok=True)
        write_whole(_token_file(self._folder), self._token)
        self._connect()
        for run in runs:
            self._submit(run)

    def watch(self, seconds: float) -> list[str]:
        """Bring the states of the runs up to date; what there is to say about it."""
        ready, _ = self._ray.wait(list(self._runs), timeout=seconds)
        for reference in ready:
            self._ended(reference)
        if time.monotonic() - self._looked_at < LOOK_SECONDS:
            return []
        self._looked_at = time.monotonic()
        return self._look_for_workers()

    def stop(self) -> None:
        """Ask all runs to save and stop; asked again, they stop at once."""
        self._stopping = True
        for reference in self._runs:
            self._ray.cancel(reference)  # reaches a run as Ctrl-C would: it saves

    def close(self) -> None:
        """Leave the cluster; a Ray of one's own ends."""
        self._ray.shutdown()
        self._opened.close()
        with contextlib.suppress(OSError):
            _token_file(self._folder).unlink()

    def _connect(self) -> None:
        address = self._address
        if address is None:
            own = LocalRay(cpus=self._own_cores, memory=physical_ram(), log=self._folder / OWN / "log.txt")
            self._opened.callback(own.close)
            address = own.address
        # Ray prints what it thinks about every worker that is lost, at length.
        said = self._opened.enter_context((self._folder / OWN / "log.txt").open("a", buffering=1))
        self._opened.enter_context(contextlib.redirect_stdout(said))
        listening = {number: signal.getsignal(number) for number in STOP_SIGNALS}
        try:
            self._ray.init(address, log_to_driver=False, logging_level=logging.ERROR)
        except Exception as error:  # of many kinds
            raise MfecError(
                f"cannot join the Ray cluster {address}: {in_a_line(error)}; is it there, is this machine one of its "
                "nodes, and if it asks for a token, are RAY_AUTH_MODE=token and the same token set here?"
            ) from None
        for number, handler in listening.items():  # Ray has put its own in their place
            signal.signal(number, handler)

    def _submit(self, run: Run) -> None:
        memory = {}
        if not self.options.ignore_memory_limit:
            needs, largest = needs_of(run.config, run.out).ram, self._largest_memory()
            if needs > largest:
                run.state = "failed"
                run.reason = (
                    f"it can come to need {show_bytes(needs)}, and no node of the Ray cluster has more than "
                    f"{show_bytes(largest)}; --ignore-memory-limit starts it all the same"
                )
                return
            memory = {"memory": needs}
        options = {**self._resources, **memory, "max_calls": 1, "max_retries": LOST_WORKERS, "name": run.name}
        train = self._ray.remote(**options)(_train_task)
        self._users[run.name] = _read(run.out / LOCK)
        threads = max(1, int(self._resources["num_cpus"]))
        # A task that another worker takes over finds a run that was begun.
        training = replace(self.options, resume=True, patience=PATIENCE_SECONDS)
        reference = train.remote(run.config, run.out.resolve(), training, self._folder, self._token, threads)
        self._runs[reference] = run

    def _largest_memory(self) -> int:
        return int(max(node["Resources"].get("memory", 0) for node in self._ray.nodes() if node["Alive"]))

    def _look_for_workers(self) -> list[str]:
        """See which runs have a worker, by who has locked their directories; what there is to say about it."""
        said = []
        for run in self._runs.values():
            user = _read(run.out / LOCK)
            if user and user != self._users[run.name]:
                if run.state == "running":
                    said.append(f"{run.name}: its worker was lost, it goes on in {user}")
                run.state = "running"
                self._users[run.name] = user
        return said

    def _ended(self, reference: Any) -> None:
        run = self._runs.pop(reference)
        try:
            run.state, run.reason = self._ray.get(reference)
        except self._ray.exceptions.TaskCancelledError:
            run.state = "stopped"
        except self._ray.exceptions.RayError as error:
            run.state, run.reason = "failed", in_a_line(getattr(error, "cause", None) or error)
        if run.state == "stopped" and not self._stopping:  # its node goes down, and let it save
            run.state = "waiting"
            self._submit(run)


def _train_task(
    config: RunConfig, out: Path, options: TrainingOptions, folder: Path, token: str, threads: int
) -> tuple[State, str]:
    """One run, in a worker of the cluster."""
    os.environ["MFEC_THREADS"] = str(threads)  # OMP_NUM_THREADS is Ray's doing
    if _read(_token_file(folder)) != token:
        return "failed", (
            f"the node {socket.gethostname()} does not see the folder {folder} in which this was begun: "
            "--out must be on a file system that all nodes of the cluster share"
        )
    try:
        return train_one(config, out, options)
    except OSError as error:
        return "failed", f"cannot begin a run in {out}: {error}"


def _import_ray() -> Any:
    try:
        import ray
    except ImportError:
        raise ImportError("the launcher ray needs the extra `ray`: pip install 'mfec[ray]'") from None
    return ray


def _token_file(folder: Path) -> Path:
    return folder / OWN / "token"


def _read(file: Path) -> str:
    try:
        return file.read_text().strip()
    except OSError:
        return ""
