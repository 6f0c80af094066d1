"""Train many runs: one list of runs, one launcher, one table of their progress, one way to stop them.

A launcher knows where runs run: in processes of this machine, as a fleet on its GPU, or on a Ray cluster. All else that
there is to know about a run stands in its directory, so it does not matter to anybody else where it runs.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from rich.console import Console

from mfec.algorithms import RunConfig
from mfec.checkpoint import MANIFEST
from mfec.config import CHECKPOINT_FRAMES, FRAMES_LIMIT_GB, check_frames_limit
from mfec.experiments.runs_table import RunsTable
from mfec.experiments.stopping import passing_on
from mfec.run_directory import RunDirectory, RunDirectoryError

State = Literal["waiting", "running", "finished", "stopped", "stopped at once", "failed"]
LOG = "log.txt"  # in a run directory: everything that the run said
LOOK_SECONDS = 0.25  # between two looks at requests to stop
# An orphan of a grid that was killed needs seconds to save; the lock of a node that died, a minute and a half on NFS.
PATIENCE_SECONDS = 120.0


@dataclass
class Run:
    """One of many runs, and how it stands."""

    name: str
    config: RunConfig
    out: Path
    state: State = "waiting"
    reason: str = ""
    """Why it failed, in a line."""

    @property
    def log(self) -> Path:
        """Everything that the run said."""
        return self.out / LOG

    @property
    def shares_device(self) -> bool:
        """Whether it searches on a device, which it can share with others of its kind."""
        return self.config.kind.shares_device(self.config)

    @property
    def owns_context(self) -> bool:
        """Whether its own process computes on a GPU."""
        return self.config.kind.owns_context(self.config)

    @property
    def ended(self) -> bool:
        """Whether nothing more will come of it."""
        return self.state not in ("waiting", "running")


@dataclass(frozen=True)
class TrainingOptions:
    """What many runs have in common beside their settings; as for `train`."""

    resume: bool = False
    checkpoint_frames: int = CHECKPOINT_FRAMES
    keep_frames: bool = False
    """In runs that have frames to keep."""
    frames_limit_gb: float = FRAMES_LIMIT_GB
    ignore_memory_limit: bool = False
    patience: float = 0.0

    def __post_init__(self) -> None:
        if self.checkpoint_frames < 1:
            raise ValueError(f"checkpoint_frames must be at least 1, not {self.checkpoint_frames}")
        check_frames_limit(self.frames_limit_gb)


class Launcher(Protocol):
    """Trains runs somewhere and keeps their states up to date. Every run ends, whatever happens to it."""

    options: TrainingOptions

    @property
    def busy(self) -> bool:
        """Whether there are runs, or processes of runs, that have not ended."""

    def start(self, runs: Sequence[Run], console: Console) -> None:
        """Take these runs on; they begin when there is room for them. console: for what must come before the first."""

    def watch(self, seconds: float) -> list[str]:
        """Bring the states of the runs up to date, in about this time; what there is to say about it."""

    def stop(self) -> None:
        """Ask all runs to save and stop; asked again, they stop at once."""

    def close(self) -> None:
        """Leave nothing behind."""


def train_runs(runs: Sequence[Run], launcher: Launcher, *, console: Console | None = None) -> None:
    """Train all runs; what became of each stands in `runs`. One that fails does not stop the others.

    Asked to stop by a signal, all runs save and stop; asked again, they stop at once.
    """
    console = console or Console()
    requests = answered = 0

    def ask() -> None:
        nonlocal requests
        requests += 1

    with contextlib.closing(launcher), passing_on(ask):
        for run in runs:
            look_at(run, resume=launcher.options.resume)
        launcher.start([run for run in runs if not run.ended], console)
        failed: set[str] = set()  # and that was said
        with RunsTable(runs, console) as table:
            while True:
                for run in runs:
                    if run.state == "failed" and run.name not in failed:
                        failed.add(run.name)
                        table.say(f"{run.name} failed: {run.reason}")
                if not launcher.busy:
                    break
                for message in launcher.watch(LOOK_SECONDS):
                    table.say(message)
                table.refresh()
                # Here, and not when the signal comes, which may be in the middle of anything.
                if requests > answered:
                    answered += 1
                    launcher.stop()


def look_at(run: Run, *, resume: bool) -> None:
    """Find what is in the run's directory: a run that must not be touched, or one that is finished.

    One with other settings begins all the same: it says itself what differs.
    """
    directory = RunDirectory(run.out)
    if not directory.exists:
        return
    if not resume:
        reason = f"{run.out} already holds a run: --resume goes on with it, or choose another --out"
        run.state, run.reason = "failed", reason
    elif is_finished(run):
        run.state = "finished"


def saved_frames(directory: RunDirectory) -> int:
    """Frames of the run's checkpoint, by its manifest alone; 0 where there is none that can be read."""
    try:
        return int(json.loads((directory.checkpoint / MANIFEST).read_bytes())["state"]["frames"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0


def is_finished(run: Run) -> bool:
    """Whether the run has all frames, and an evaluation at the end if there is to be one: a stop may have cut it."""
    directory = RunDirectory(run.out)
    frames = saved_frames(directory)
    try:
        directory.check_same(run.config)
        evaluated = not run.config.evaluation.evaluate_every or frames in directory.evaluations()["frames"]
    except RunDirectoryError:
        return False
    return frames >= run.config.total_frames and evaluated
