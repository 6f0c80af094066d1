"""Progress of many runs at once: a live table on a terminal, a plain line every few seconds elsewhere."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from mfec.experiments.display import LiveTable, Progress, show_time

if TYPE_CHECKING:
    from mfec.experiments.fleet import Member


class FleetDisplay(LiveTable):
    """Shows frames, score, exact matches and memory of every run, and how fast they are together."""

    def __init__(self, members: Sequence[Member], console: Console) -> None:
        super().__init__(console)
        self._members = members
        self._progress: dict[str, Progress] = {}
        self._began_at: dict[str, int] = {}  # frames that a run had when it was first heard of
        self._shown_at = time.perf_counter()
        self._shown_frames = 0
        self._speed = 0.0

    def progress(self, name: str, progress: Progress) -> None:
        """A run tells how it is getting on."""
        self._began_at.setdefault(name, progress.frames)
        self._progress[name] = progress

    def refresh(self, now: bool = False) -> None:
        """Show everything, if it is time to."""
        at = time.perf_counter()
        if at - self._shown_at < self._every and not now:
            return
        played = sum(progress.frames - self._began_at[name] for name, progress in self._progress.items())
        speed = (played - self._shown_frames) / max(at - self._shown_at, 1e-9)
        if not now or not self._speed:
            self._speed = speed if self._speed == 0.0 else 0.8 * self._speed + 0.2 * speed
        self._shown_at, self._shown_frames = at, played
        self._show(self._table, self._line)

    def _line(self) -> str:
        done = sum(self._frames(member) for member in self._members)
        total = sum(member.config.total_frames for member in self._members)
        running = [member for member in self._members if member.outcome == "running"]
        ahead = sum(max(0, member.config.total_frames - self._frames(member)) for member in running)
        states = [member.outcome for member in self._members]
        counts = ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))
        left = int(ahead / self._speed) if self._speed else 0
        return f"{done:,}/{total:,} frames  {self._speed:,.0f}/s  runs: {counts}  left {show_time(left)}"

    def _frames(self, member: Member) -> int:
        """Frames of a run so far; one that had all of them from the start tells of no progress."""
        if progress := self._progress.get(member.name):
            return progress.frames
        return member.config.total_frames if member.outcome == "finished" else 0

    def _table(self) -> Table:
        table = Table(title=self._line(), title_justify="left")
        evaluated = any(member.config.evaluation.evaluate_every for member in self._members)
        columns = ["run", "frames", "mean of last games", *["evaluation"] * evaluated, "exact", "entries", ""]
        for column in columns:
            table.add_column(column, justify="left" if column in ("run", "") else "right")
        for member in self._members:
            progress = self._progress.get(member.name)
            if progress is None:
                table.add_row(member.name, *["-"] * (len(columns) - 2), member.outcome)
                continue
            share = progress.frames / member.config.total_frames
            table.add_row(
                member.name,
                f"{progress.frames:,} ({share:.0%})",
                progress.score(),
                *[progress.evaluated()] * evaluated,
                progress.matches(),
                f"{progress.entries:,}",
                member.outcome,
            )
        return table
