"""Progress of a run: a live line on a terminal, a plain line every few seconds elsewhere."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol, Self

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from mfec.callback import Learner
from mfec.experiments.ram import show_bytes
from mfec.experiments.whole_games import Evaluation

LOG = logging.getLogger("mfec")
LIVE_SECONDS = 0.25
PLAIN_SECONDS = 5.0


@dataclass(frozen=True)
class Progress:
    """How a run is getting on."""

    frames: int
    games: int  # of the last 100
    mean: float  # of their scores
    exact: float | None  # share of exact matches lately; None where nothing is looked up
    entries: int
    fill: float  # share of the fullest action buffer
    nbytes: int
    evaluation: Evaluation | None = None  # the last one, where there was one

    @classmethod
    def of(cls, agent: Learner, exact: float | None = 0.0, evaluation: Evaluation | None = None) -> Progress:
        """The agent's progress; `exact` is the share to show where none was counted since the last row."""
        scores, tally = agent.scores, agent.tally
        if tally.lookups:
            exact = tally.exact / tally.lookups
        return cls(
            frames=agent.frames,
            games=len(scores),
            mean=sum(scores) / len(scores) if scores else 0.0,
            exact=exact if agent.algorithm == "mfec" else None,
            entries=len(agent.memory),
            fill=float(max(agent.memory.sizes) / agent.memory.capacity),
            nbytes=agent.memory.nbytes,
            evaluation=evaluation,
        )

    def score(self) -> str:
        """The mean of the last games, for people."""
        return f"{self.mean:,.1f}" if self.games else "-"

    def evaluated(self) -> str:
        """The last evaluation, for people."""
        return "-" if self.evaluation is None else f"{self.evaluation.mean:,.1f}"

    def matches(self) -> str:
        """The share of exact matches, for people."""
        return "-" if self.exact is None else f"{self.exact:.0%}"


class RunDisplay(Protocol):
    """What a run tells its progress to."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def update(self, agent: Learner) -> None:
        """Show the agent's progress, if it is time to."""

    def evaluated(self, evaluation: Evaluation) -> None:
        """Show this evaluation from now on."""

    def say(self, message: str) -> None:
        """A line above the progress."""


class Line:
    """One line of progress: live on a terminal, printed every few seconds elsewhere.

    What the package logs meanwhile, such as a change of the neighbour index, is shown above.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, auto_refresh=False) if console.is_terminal else None
        self._every = LIVE_SECONDS if self._live else PLAIN_SECONDS
        self._shown_at = time.perf_counter()
        self._shown_amount = -1.0
        self._speed = 0.0
        self._handler = LogTo(self.say)

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

    def speed(self, amount: float, *, done: bool) -> float | None:
        """How much comes in a second now, if it is time to show it; None if not."""
        now = time.perf_counter()
        if self._shown_amount < 0:
            self._shown_amount = amount
        if now - self._shown_at < self._every and not done:
            return None
        speed = (amount - self._shown_amount) / max(now - self._shown_at, 1e-9)
        self._speed = speed if self._speed == 0.0 else 0.8 * self._speed + 0.2 * speed
        self._shown_at, self._shown_amount = now, amount
        return self._speed

    def show(self, parts: list[str]) -> None:
        """Show these parts; a narrow terminal gets two lines of them."""
        line = "  ".join(parts)
        if self._live is None:
            self._console.print(line, highlight=False, markup=False, soft_wrap=True)
            return
        if len(line) > self._console.width:
            line = "  ".join(parts[:3]) + "\n" + "  ".join(parts[3:])
        self._live.update(Text(line, no_wrap=True, overflow="ellipsis"), refresh=True)

    def say(self, message: str) -> None:
        """A line above the progress."""
        self._console.print(message, style="bold", highlight=False, markup=False, soft_wrap=True)


class Display(Line):
    """Shows frames, speed, the mean of the last 100 games, exact matches, memory and the time left."""

    def __init__(self, total_frames: int, console: Console) -> None:
        super().__init__(console)
        self._total_frames = total_frames
        self._exact: float | None = 0.0
        self._evaluation: Evaluation | None = None

    def update(self, agent: Learner) -> None:
        """Show the agent's progress, if it is time to."""
        speed = self.speed(agent.frames, done=agent.frames >= self._total_frames)
        if speed is not None:
            progress = Progress.of(agent, self._exact, self._evaluation)
            self._exact = progress.exact
            self.show(self._parts(progress, speed))

    def evaluated(self, evaluation: Evaluation) -> None:
        """Show this evaluation from now on."""
        self._evaluation = evaluation

    def _parts(self, now: Progress, speed: float) -> list[str]:
        left = int(max(0, self._total_frames - now.frames) / speed) if speed else 0
        kept = f"{now.entries:,} ({now.fill:.1%} full, {show_bytes(now.nbytes)})"
        return [
            f"{now.frames:,}/{self._total_frames:,} frames",
            f"{speed:,.0f}/s",
            f"mean of last {now.games} games {now.score()}",
            *([f"{now.evaluation.kind} {now.evaluated()}"] if now.evaluation else []),
            *([] if now.exact is None else [f"exact {now.matches()}"]),
            *(
                [f"{'replay' if now.exact is None else 'memory'} {kept}"]
                if now.entries or now.exact is not None
                else []
            ),
            f"left {show_time(left)}",
        ]


class LiveTable:
    """A table of many runs: live on a terminal, a plain line every few seconds elsewhere."""

    def __init__(self, console: Console, *, every: float = LIVE_SECONDS, **options: Any) -> None:
        """every: seconds between two looks on a terminal; options: of rich's `Live`."""
        self._console = console
        self._live = Live(console=console, auto_refresh=False, **options) if console.is_terminal else None
        self._every = every if self._live else PLAIN_SECONDS

    def __enter__(self) -> Self:
        if self._live:
            self._live.start()
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
        """Show everything, if it is time to."""
        raise NotImplementedError

    def _show(self, table: Callable[[], Table], line: Callable[[], str]) -> None:
        if self._live:
            self._live.update(table(), refresh=True)
        else:
            self._console.print(line(), highlight=False, markup=False, soft_wrap=True)


class LogTo(logging.Handler):
    """Tells what the package logs, such as a change of the neighbour index."""

    def __init__(self, say: Callable[[str], None]) -> None:
        super().__init__(logging.INFO)
        self._say = say

    def emit(self, record: logging.LogRecord) -> None:
        """Tell one message."""
        self._say(record.getMessage())


def show_time(seconds: int) -> str:
    """Minutes and seconds for people."""
    return f"{seconds // 60}:{seconds % 60:02d}"
