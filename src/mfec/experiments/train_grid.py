"""Train a grid: finished runs are skipped, partial ones go on, and one that fails does not stop the others."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from mfec.experiments.grid import GridRun
from mfec.experiments.grid_display import GridDisplay
from mfec.experiments.launchers import OWN, Job, Launcher, look_at
from mfec.experiments.lock import locked
from mfec.experiments.stopping import passing_on
from mfec.files import write_whole
from mfec.run_directory import RunDirectoryError

GRID = "grid.toml"  # what was asked for
GLANCE_SECONDS = 0.25


def train_grid(
    runs: Sequence[GridRun], out: Path, launcher: Launcher, *, asked: str = "", console: Console | None = None
) -> list[Job]:
    """Train all runs below `out`; what became of each.

    asked: what `grid.toml` is to keep. Asked to stop, all runs save and stop; asked again, they stop at once.
    """
    jobs = [Job(run, out / run.place) for run in runs]
    requests = answered = 0

    def ask() -> None:
        nonlocal requests
        requests += 1

    _make(out / OWN)
    with contextlib.closing(launcher), passing_on(ask), locked(out, "begin a grid"):
        write_whole(out / GRID, asked)
        for job in jobs:
            look_at(job)
        with GridDisplay(jobs, console or Console()) as display:
            launcher.start([job for job in jobs if not job.ended])
            while any(not job.ended for job in jobs):
                for message in launcher.watch(GLANCE_SECONDS):
                    display.say(message)
                # Here, and not when the signal comes, which may be in the middle of anything.
                if requests > answered:
                    answered += 1
                    launcher.stop()
                display.refresh()
    return jobs


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunDirectoryError(f"cannot begin a grid in {folder.parent}: {error}") from None
