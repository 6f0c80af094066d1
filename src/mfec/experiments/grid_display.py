"""Progress of a grid: a live table on a terminal, a plain line every few seconds elsewhere.

Everything is read from the run directories, so it does not matter where the runs are.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from rich.console import Console
from rich.table import Table

from mfec.experiments.display import LiveTable
from mfec.experiments.launchers import Job
from mfec.run_directory import RunDirectory
from mfec.statistics import mean

LOOK_SECONDS = 1.0  # between two looks at the tables of a run
SPEED_SECONDS = 60.0  # that a speed is taken over
GAMES = 100
TAIL_BYTES = 8192  # more than 100 rows of `episodes.csv`
COLUMNS = ("run", "frames", "mean of 100", "frames/s", "")
BORDERS = 3 * len(COLUMNS) + 1  # and spaces, across
BESIDE_ROWS = 6  # lines of a table that are no rows: title, head, borders


class GridDisplay(LiveTable):
    """Shows state, frames, score and speed of the runs, and how far all of them are together."""

    def __init__(self, jobs: Sequence[Job], console: Console) -> None:
        super().__init__(console, every=LOOK_SECONDS, redirect_stdout=False, redirect_stderr=False)
        self._jobs = jobs
        self._tables = {job.run.name: _Tables(job) for job in jobs}
        self._ended = {job.run.name: job for job in jobs if job.ended}  # in the order in which they did
        self._shown_at = float("-inf")

    def __enter__(self) -> Self:
        super().__enter__()
        self.refresh()
        return self

    def refresh(self, now: bool = False) -> None:
        """Look at the runs and show them, if it is time to."""
        at = time.monotonic()
        if at - self._shown_at < self._every and not now:
            return
        self._shown_at = at
        for job in self._jobs:
            if job.ended and job.run.name not in self._ended:
                self._ended[job.run.name] = job
                self._tables[job.run.name].look(at)  # a last time
            elif job.state == "running":
                self._tables[job.run.name].look(at)
        self._show(self._table, self._line)

    def _line(self) -> str:
        frames = {job.run.name: self._frames(job) for job in self._jobs}
        totals = {job.run.name: job.run.config.total_frames for job in self._jobs}
        ahead = sum(totals[job.run.name] - frames[job.run.name] for job in self._jobs if not job.ended)
        speed = sum(self._tables[job.run.name].speed for job in self._jobs if job.state == "running")
        states = [job.state for job in self._jobs]
        order = ("running", "waiting", "finished", "stopped", "stopped at once", "failed")
        counts = ", ".join(f"{states.count(state)} {state}" for state in order if state in states)
        left = f"  left {show_hours(ahead / speed)}" if speed and ahead else ""
        return f"{sum(frames.values()):,}/{sum(totals.values()):,} frames  {speed:,.0f}/s  runs: {counts}{left}"

    def _frames(self, job: Job) -> int:
        total = job.run.config.total_frames
        return total if job.state == "finished" else min(self._tables[job.run.name].frames, total)

    def _table(self) -> Table:
        table = Table(title=self._line(), title_justify="left")
        for column in COLUMNS:
            table.add_column(column, justify="left" if column in ("run", "") else "right", no_wrap=True)
        rows = [self._row(job) for job in self._shown()]
        others = sum(max(map(len, column)) for column in list(zip(COLUMNS, *rows, strict=True))[1:])
        for name, *numbers in rows:
            table.add_row(shorten(name, self._console.width - others - BORDERS), *numbers)
        return table

    def _row(self, job: Job) -> tuple[str, ...]:
        tables, frames = self._tables[job.run.name], self._frames(job)
        return (
            job.run.name,
            f"{frames:,} ({frames / job.run.config.total_frames:.0%})",
            "-" if tables.score is None else f"{tables.score:,.1f}",
            f"{tables.speed:,.0f}" if job.state == "running" else "",
            job.state,
        )

    def _shown(self) -> list[Job]:
        """The runs that there is room for: those that run, then those that ended last."""
        rows = max(1, self._console.height - BESIDE_ROWS - (len(self._line()) // self._console.width))
        running = [job for job in self._jobs if job.state == "running"][:rows]
        return running + list(self._ended.values())[::-1][: rows - len(running)]


@dataclass
class _Tables:
    """The last rows of a run's tables, read when they have changed."""

    job: Job
    frames: int = 0
    score: float | None = None
    """Mean of the last 100 games."""
    _sizes: tuple[int, int] = (-1, -1)
    _seen: deque[tuple[float, int]] = field(default_factory=deque)  # when, and how many frames

    def __post_init__(self) -> None:
        self.look(time.monotonic())
        self._seen.clear()  # what it goes on from was not played now

    @property
    def speed(self) -> float:
        """Frames a second, of late."""
        if len(self._seen) < 2:
            return 0.0
        (began, first), (now, last) = self._seen[0], self._seen[-1]
        return max(0.0, (last - first) / max(now - began, 1e-9))

    def look(self, now: float) -> None:
        """Read what is new."""
        directory = RunDirectory(self.job.out)
        sizes = (_size(directory.episodes_file), _size(directory.progress_file))
        if sizes != self._sizes:
            self._sizes = sizes
            games, rows = _last_rows(directory.episodes_file), _last_rows(directory.progress_file)
            self.frames = int(max(row[0] for row in ([0.0], *games[-1:], *rows[-1:])))
            self.score = mean([game[2] for game in games[-GAMES:]]) if games else None
        self._seen.append((now, self.frames))
        while len(self._seen) > 2 and now - self._seen[1][0] > SPEED_SECONDS:
            self._seen.popleft()


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 0


def _last_rows(file: Path) -> list[list[float]]:
    """Whole rows at the end of a table; none while it is not there, or is being written."""
    try:
        with file.open("rb") as stream:
            names = stream.readline().count(b",") + 1
            begin = stream.seek(max(stream.tell(), stream.seek(0, os.SEEK_END) - TAIL_BYTES))
            text = stream.read().decode()
        lines = text.split("\n")[:-1]  # what comes after the last line end is not whole
        if begin and len(text) == TAIL_BYTES:
            lines = lines[1:]
        return [[float(cell or "nan") for cell in line.split(",")] for line in lines if line.count(",") + 1 == names]
    except (OSError, ValueError):
        return []


def shorten(name: str, width: int) -> str:
    """A name of at most that width, without its middle if need be: it ends with the seed.

    >>> shorten("ms_pacman mfec_random_projection seed 0", 24)
    'ms_pacman m…ction seed 0'
    """
    if len(name) <= max(width, 8):
        return name
    tail = max(width, 8) // 2
    return f"{name[: max(width, 8) - tail - 1]}…{name[-tail:]}"


def show_hours(seconds: float) -> str:
    """A long time for people.

    >>> show_hours(59), show_hours(3_661), show_hours(200_000)
    ('0:59', '1 h 1 min', '2 d 7 h')
    """
    minutes = int(seconds) // 60
    if minutes < 60:
        return f"{minutes}:{int(seconds) % 60:02d}"
    hours = minutes // 60
    return f"{hours} h {minutes % 60} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"
