"""Progress of a run: a live line on a terminal, a plain line every few seconds elsewhere."""

from __future__ import annotations

import logging
import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.text import Text

from mfec.agent import MFEC
from mfec.experiments.ram import show_bytes

LOG = logging.getLogger("mfec")
LIVE_SECONDS = 0.25
PLAIN_SECONDS = 5.0


class Display:
    """Shows frames, speed, the mean of the last 100 games, exact matches, memory and the time left.

    What the package logs meanwhile, such as a change of the neighbour index, is shown above.
    """

    def __init__(self, total_frames: int, console: Console) -> None:
        self._total_frames = total_frames
        self._console = console
        self._live = Live(console=console, auto_refresh=False) if console.is_terminal else None
        self._every = LIVE_SECONDS if self._live else PLAIN_SECONDS
        self._shown_at = time.perf_counter()
        self._shown_frames = -1
        self._speed = 0.0
        self._exact = 0.0
        self._handler = _Sayer(self)

    def __enter__(self) -> Self:
        if self._live:
            self._live.start()
        self._level = LOG.level
        LOG.setLevel(logging.INFO)
        LOG.addHandler(self._handler)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        LOG.removeHandler(self._handler)
        LOG.setLevel(self._level)
        if self._live:
            self._live.stop()

    def update(self, agent: MFEC) -> None:
        """Show the agent's progress, if it is time to."""
        now = time.perf_counter()
        if self._shown_frames < 0:
            self._shown_frames = agent.frames
        done = agent.frames >= self._total_frames
        if now - self._shown_at < self._every and not done:
            return
        speed = (agent.frames - self._shown_frames) / max(now - self._shown_at, 1e-9)
        self._speed = speed if self._speed == 0.0 else 0.8 * self._speed + 0.2 * speed
        self._shown_at, self._shown_frames = now, agent.frames
        if agent.tally.lookups:
            self._exact = agent.tally.exact / agent.tally.lookups
        parts = self._parts(agent)
        line = "  ".join(parts)
        if self._live is None:
            self._console.print(line, highlight=False, markup=False, soft_wrap=True)
            return
        if len(line) > self._console.width:  # a narrow terminal gets two lines
            line = "  ".join(parts[:3]) + "\n" + "  ".join(parts[3:])
        self._live.update(Text(line, no_wrap=True, overflow="ellipsis"), refresh=True)

    def say(self, message: str) -> None:
        """A line above the progress."""
        self._console.print(message, style="bold", highlight=False, markup=False, soft_wrap=True)

    def _parts(self, agent: MFEC) -> list[str]:
        mean = f"{sum(agent.scores) / len(agent.scores):,.1f}" if agent.scores else "-"
        fill = max(agent.memory.sizes) / agent.memory.capacity
        left = int((self._total_frames - agent.frames) / self._speed) if self._speed else 0
        return [
            f"{agent.frames:,}/{self._total_frames:,} frames",
            f"{self._speed:,.0f}/s",
            f"mean of last {len(agent.scores)} games {mean}",
            f"exact {self._exact:.0%}",
            f"memory {len(agent.memory):,} ({fill:.1%} full, {show_bytes(agent.memory.nbytes)})",
            f"left {left // 60}:{left % 60:02d}",
        ]


class _Sayer(logging.Handler):
    """Shows log messages on a display."""

    def __init__(self, display: Display) -> None:
        super().__init__(logging.INFO)
        self._display = display

    def emit(self, record: logging.LogRecord) -> None:
        self._display.say(record.getMessage())
