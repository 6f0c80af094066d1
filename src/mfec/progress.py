"""Progress of a run, on a terminal and in a notebook."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mfec.interface import Agent, Callback, Evaluation, Metrics
from mfec.units import show_bytes, show_time

if TYPE_CHECKING:
    from rich.console import Console


class ProgressBar(Callback):
    """Shows a bar, frames, speed, the mean of the last 100 games, exact matches, memory and the time left.

    On a terminal and in a notebook it is live; elsewhere, such as in a log, a line every few seconds. What the package
    logs meanwhile, such as a change of the neighbour index, is shown, too. `learn(..., progress_bar=True)` makes one.
    """

    def __init__(self, console: Console | None = None) -> None:
        from rich import get_console  # when it is used: an agent needs no terminal

        from mfec.terminal import Line

        self._line = Line(console or get_console())
        self._begun = False
        self._total_frames = 0
        self._exact: float | None = None  # of the last row of progress
        self._evaluation: Evaluation | None = None

    def on_start(self, agent: Agent, total_frames: int) -> None:
        """Begin the line."""
        self._total_frames, self._begun = total_frames, True
        self._line.__enter__()

    def on_progress(self, agent: Agent, row: dict[str, Any]) -> None:
        """Show these matches from now on: a share that was counted since the row before."""
        self._exact = row.get("exact_match_rate")

    def on_evaluation(self, agent: Agent, evaluation: Evaluation) -> None:
        """Show this evaluation from now on."""
        self._evaluation = evaluation

    def on_step(self, agent: Agent) -> None:
        """Show progress, if it is time to."""
        speed = self._line.speed(agent.frames, done=agent.frames >= self._total_frames)
        if speed is not None:
            share = min(1.0, agent.frames / self._total_frames)
            self._line.show(self._parts(agent, agent.metrics(), speed), share)

    def close(self) -> None:
        """End the line."""
        if self._begun:  # else another callback has failed before
            self._line.__exit__(None, None, None)
        self._begun = False

    def _parts(self, agent: Agent, now: Metrics, speed: float) -> list[str]:
        left = int(max(0, self._total_frames - agent.frames) / speed) if speed else 0
        scores = agent.scores
        score = f"{sum(scores) / len(scores):,.1f}" if scores else "-"
        parts = [
            f"{agent.frames:,}/{self._total_frames:,} frames",
            f"{speed:,.0f}/s",
            f"mean of last {len(scores)} games {score}",
        ]
        if self._evaluation:
            parts.append(f"{self._evaluation.kind} {self._evaluation.mean:,.1f}")
        exact = now.get("exact_match_rate") if self._exact is None else self._exact
        if exact is not None:
            parts.append(f"exact {exact:.0%}")
        entries, fill, size = (now.get(f"memory_{name}") for name in ("entries", "fill", "bytes"))
        if entries is not None and fill is not None and size is not None:
            parts.append(f"memory {entries:,} ({fill:.1%} full, {show_bytes(size)})")
        return [*parts, f"left {show_time(left)}"]
