"""A line of progress: live on a terminal and in a notebook, else printed every few seconds."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from importlib import import_module
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from mfec.layout import lines_of

LOG = logging.getLogger("mfec")
LIVE_SECONDS = 0.25
PLAIN_SECONDS = 5.0
BAR_COLUMNS = 80  # of a bar, at most


class Line:
    """One line of progress: live on a terminal and in a notebook, printed every few seconds elsewhere.

    What the package logs meanwhile, such as a change of the neighbour index, is shown above.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live: Live | InNotebook | None = None
        if console.is_jupyter:
            self._live = InNotebook()
        elif console.is_terminal:
            self._live = Live(console=console, auto_refresh=False)
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

    def show(self, parts: list[str], share: float | None = None) -> None:
        """Show these parts; a narrow terminal gets several lines of them. share: what is done of all, as a bar."""
        line = "  ".join(parts)
        if self._live is None:
            self._console.print(line, highlight=False, markup=False, soft_wrap=True)
            return
        line = "\n".join(lines_of(parts, self._console.width))
        shown = Table.grid()
        if share is not None:
            shown.add_row(ProgressBar(total=1.0, completed=share, width=min(BAR_COLUMNS, self._console.width)))
        shown.add_row(Text(line, no_wrap=True, overflow="ellipsis"))
        self._live.update(shown, refresh=True)

    def say(self, message: str) -> None:
        """A line above the progress."""
        self._console.print(message, style="bold", highlight=False, markup=False, soft_wrap=True)


class InNotebook:
    """What `Live` is on a terminal: an output of the cell that is replaced. (rich's own needs ipywidgets for that.)"""

    def __init__(self) -> None:
        self._output: Any = None

    def start(self) -> None:
        """There is nothing to show yet."""

    def update(self, shown: Any, *, refresh: bool) -> None:
        """Show this instead."""
        if self._output is None:
            self._output = import_module("IPython.display").display(shown, display_id=True)
        else:
            self._output.update(shown)

    def stop(self) -> None:
        """What was shown last stays."""


class LogTo(logging.Handler):
    """Tells what the package logs, such as a change of the neighbour index."""

    def __init__(self, say: Callable[[str], None]) -> None:
        super().__init__(logging.INFO)
        self._say = say

    def emit(self, record: logging.LogRecord) -> None:
        """Tell one message."""
        self._say(record.getMessage())
