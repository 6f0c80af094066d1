"""Progress of many runs: a live table on a terminal, a plain line every few seconds elsewhere.

Everything is read from the run directories, so it does not matter where the runs are.
"""

from __future__ import annotations

import math
import os
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from mfec.layout import TextTable
from mfec.run_directory import RunDirectory
from mfec.statistics import mean
from mfec.terminal import PLAIN_SECONDS
from mfec.units import show_hours

if TYPE_CHECKING:
    from mfec.experiments.many_runs import Run

LOOK_SECONDS = 1.0  # between two looks at the tables of a run
SPEED_SECONDS = 60.0  # that a speed is taken over
GAMES = 100
TAIL_BYTES = 8192  # more than 100 rows of `episodes.csv`
NAME_WIDTH = 20  # below which a table leaves out columns that can be done without
SHORTEST_NAME = 8  # below which it has several lines for each run
LISTED_LINES = 4  # that many, on a terminal of 40 columns
BESIDE_ROWS = 6  # lines of a table that are no rows: title, head, borders
STATES = ("running", "waiting", "finished", "stopped", "stopped at once", "failed")


class RunsTable:
    """Shows state, frames, score and speed of the runs, and how far all of them are together."""

    def __init__(self, runs: Sequence[Run], console: Console) -> None:
        self._runs = runs
        self._console = console
        # What is printed meanwhile is not caught: Ray's own words are sent elsewhere.
        live = Live(console=console, auto_refresh=False, redirect_stdout=False, redirect_stderr=False)
        self._live = live if console.is_terminal else None
        self._every = LOOK_SECONDS if self._live else PLAIN_SECONDS
        self._files = {run.name: _Files(run.out) for run in runs}
        self._ended = {run.name: run for run in runs if run.ended}  # in the order in which they did
        self._evaluated = any(run.config.evaluation.evaluate_every for run in runs)
        self._shown_at = float("-inf")

    def __enter__(self) -> Self:
        if self._live:
            self._live.start()
        self.refresh()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.refresh(now=True)
        if self._live:
            self._live.stop()

    def say(self, message: str) -> None:
        """A line above the table."""
        self._console.print(message, style="bold", highlight=False, markup=False, soft_wrap=True)

    def refresh(self, now: bool = False) -> None:
        """Look at the runs and show them, if it is time to."""
        at = time.monotonic()
        if at - self._shown_at < self._every and not now:
            return
        self._shown_at = at
        for run in self._runs:
            if run.ended and run.name not in self._ended:
                self._ended[run.name] = run
                self._files[run.name].look(at)  # a last time
            elif run.state == "running":
                self._files[run.name].look(at)
        if self._live:
            self._live.update(self._table(), refresh=True)
        else:
            self._console.print(self._line(), highlight=False, markup=False, soft_wrap=True)

    def _line(self) -> str:
        frames = {run.name: self._frames(run) for run in self._runs}
        total = sum(run.config.total_frames for run in self._runs)
        ahead = sum(run.config.total_frames - frames[run.name] for run in self._runs if not run.ended)
        speed = sum(self._files[run.name].speed for run in self._runs if run.state == "running")
        states = [run.state for run in self._runs]
        counts = ", ".join(f"{states.count(state)} {state}" for state in STATES if state in states)
        left = f"  left {show_hours(ahead / speed)}" if speed and ahead else ""
        return f"{sum(frames.values()):,}/{total:,} frames  {speed:,.0f}/s  runs: {counts}{left}"

    def _frames(self, run: Run) -> int:
        total = run.config.total_frames
        return total if run.state == "finished" else min(self._files[run.name].frames, total)

    def _table(self) -> Table | Text:
        columns = self._columns(self._shown())
        for name in ("entries", "exact", "frames/s"):
            if self._room_for_names(columns) < (NAME_WIDTH if name != "frames/s" else SHORTEST_NAME):
                del columns[name]
        room = self._room_for_names(columns)
        if room < SHORTEST_NAME:  # several lines for each run
            columns = self._columns(self._shown(lines=LISTED_LINES))
            room = self._console.width
        columns["run"] = [shorten(name, room) for name in columns["run"]]
        rows = list(zip(*columns.values(), strict=True))
        return TextTable(list(columns), [rows], names=1, title=self._line()).fitted(self._console.width)

    def _columns(self, runs: Sequence[Run]) -> dict[str, list[str]]:
        columns: dict[str, list[str]] = {
            "run": [run.name for run in runs],
            "frames": [f"{self._frames(run):,} ({self._frames(run) / run.config.total_frames:.0%})" for run in runs],
            "mean of 100": [_number(self._files[run.name].score, ",.1f") for run in runs],
            "evaluation": [_number(self._files[run.name].evaluation, ",.1f") for run in runs],
            "exact": [_number(self._files[run.name].exact, ".0%") for run in runs],
            "entries": [_number(self._files[run.name].entries, ",.0f") for run in runs],
            "frames/s": [f"{self._files[run.name].speed:,.0f}" if run.state == "running" else "" for run in runs],
            "": [run.state for run in runs],
        }
        if not self._evaluated:
            del columns["evaluation"]
        return columns

    def _room_for_names(self, columns: dict[str, list[str]]) -> int:
        others = sum(max(map(len, [name, *cells])) for name, cells in columns.items() if name != "run")
        borders = 3 * len(columns) + 1  # and spaces
        return self._console.width - others - borders

    def _shown(self, lines: int = 1) -> list[Run]:
        """The runs that there is room for, each in so many lines: those that run, then those that ended last."""
        room = self._console.height - BESIDE_ROWS - (len(self._line()) // self._console.width)
        rows = max(1, room // lines)
        running = [run for run in self._runs if run.state == "running"][:rows]
        return running + list(self._ended.values())[::-1][: rows - len(running)]


@dataclass
class _Files:
    """The last rows of a run's tables, read when they have changed."""

    out: Path
    frames: int = 0
    score: float | None = None
    """Mean of the last 100 games."""
    evaluation: float | None = None
    exact: float | None = None
    """Share of exact matches."""
    entries: float | None = None
    _sizes: tuple[int, ...] = ()
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
        directory = RunDirectory(self.out)
        files = directory.episodes_file, directory.progress_file, directory.evaluations_file
        sizes = tuple(map(_size, files))
        if sizes != self._sizes:
            self._sizes = sizes
            games, rows, evaluations = map(_last_rows, files)
            self.frames = int(max(row["frames"] for row in ({"frames": 0.0}, *games[-1:], *rows[-1:])))
            self.score = mean([game["return"] for game in games[-GAMES:]]) if games else None
            self.exact, self.entries = _last(rows, "exact_match_rate"), _last(rows, "memory_entries")
            self.evaluation = _last(evaluations, "mean")
        self._seen.append((now, self.frames))
        while len(self._seen) > 2 and now - self._seen[1][0] > SPEED_SECONDS:
            self._seen.popleft()


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 0


def _last_rows(file: Path) -> list[dict[str, float]]:
    """Whole rows at the end of a table; none while it is not there, or is being written."""
    try:
        with file.open("rb") as stream:
            names = stream.readline().decode().strip().split(",")
            begin = stream.seek(max(stream.tell(), stream.seek(0, os.SEEK_END) - TAIL_BYTES))
            text = stream.read().decode()
        lines = text.split("\n")[:-1]  # what comes after the last line end is not whole
        if begin and len(text) == TAIL_BYTES:
            lines = lines[1:]
        rows = (line.split(",") for line in lines)
        return [
            {name: float(cell or "nan") for name, cell in zip(names, row, strict=True)}
            for row in rows
            if len(row) == len(names)
        ]
    except (OSError, ValueError):
        return []


def _last(rows: list[dict[str, float]], name: str) -> float | None:
    """The last number of a column; None where there is none."""
    value = rows[-1].get(name, math.nan) if rows else math.nan
    return None if math.isnan(value) else value


def _number(value: float | None, how: str) -> str:
    return "-" if value is None else format(value, how)


def shorten(name: str, width: int) -> str:
    """A name of at most that width, without its middle if need be: it ends with the seed.

    >>> shorten("ms_pacman mfec_random_projection seed 0", 24)
    'ms_pacman m…ction seed 0'
    """
    width = max(width, SHORTEST_NAME)
    if len(name) <= width:
        return name
    tail = width // 2
    return f"{name[: width - tail - 1]}…{name[-tail:]}"
