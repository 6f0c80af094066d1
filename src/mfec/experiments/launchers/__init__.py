"""Where the runs of a grid run: in processes of this machine, in a fleet on its GPU, or on a Ray cluster.

A launcher is told what to train and keeps the states of its jobs up to date. All else that there is to know about a run
stands in its directory, so it does not matter to anybody else where a run is.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from mfec.checkpoint import MANIFEST
from mfec.config import CHECKPOINT_FRAMES, FRAMES_LIMIT_GB, check_frames_limit
from mfec.experiments.grid import GridRun
from mfec.run_directory import RunDirectory, RunDirectoryError

State = Literal["waiting", "running", "finished", "stopped", "stopped at once", "failed"]
LOG = "log.txt"  # in a run directory: everything that the run said
OWN = ".grid"  # in the folder of a grid: what belongs to no run


@dataclass
class Job:
    """One run of a grid, and how it stands."""

    run: GridRun
    out: Path
    state: State = "waiting"
    reason: str = ""
    """Why it failed, in a line."""

    @property
    def log(self) -> Path:
        """Everything that the run said."""
        return self.out / LOG

    @property
    def ended(self) -> bool:
        """Whether nothing more will come of it."""
        return self.state not in ("waiting", "running")


@dataclass(frozen=True)
class HowToTrain:
    """What all runs of a grid have in common beside their settings."""

    checkpoint_frames: int = CHECKPOINT_FRAMES
    ignore_memory_limit: bool = False
    keep_frames: bool = False
    """In runs that have frames to keep."""
    frames_limit_gb: float = FRAMES_LIMIT_GB

    def __post_init__(self) -> None:
        if self.checkpoint_frames < 1:
            raise ValueError(f"checkpoint_frames must be at least 1, not {self.checkpoint_frames}")
        check_frames_limit(self.frames_limit_gb)


class Launcher(Protocol):
    """Trains jobs somewhere. Every job ends in one of the states, whatever happens to it."""

    def start(self, jobs: Sequence[Job]) -> None:
        """Take these jobs on; they begin when there is room for them."""

    def watch(self, seconds: float) -> list[str]:
        """Bring the states of the jobs up to date, in about this time; what there is to say about it."""

    def stop(self) -> None:
        """Ask all runs to save and stop; asked again, they stop at once."""

    def close(self) -> None:
        """Leave nothing behind."""


def saved_frames(directory: RunDirectory) -> int:
    """Frames of the run's checkpoint, by its manifest alone; 0 where there is none that can be read."""
    try:
        return int(json.loads((directory.checkpoint / MANIFEST).read_bytes())["state"]["frames"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0


def look_at(job: Job) -> None:
    """Find what an earlier grid has left in the job's directory: a run that is finished, or one with other settings."""
    directory = RunDirectory(job.out)
    if not directory.exists:
        return
    try:
        directory.check_same(job.run.config)
    except RunDirectoryError as error:
        job.state, job.reason = "failed", str(error)
        return
    if saved_frames(directory) >= job.run.config.total_frames:
        job.state = "finished"
