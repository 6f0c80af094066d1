"""`mfec inspect`: the memories that chose an agent's actions, on a page."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional, arg

from mfec.config import AgentConfig, DeviceName
from mfec.inspector import MAX_MB, PORT

if TYPE_CHECKING:
    from rich.console import Console

    from mfec.inspector.inspection import Inspection
    from mfec.terminal import Line


@dataclass(frozen=True)
class Inspect:
    """Play with the agent of a run, and show on a page, step by step, the memories that chose each action."""

    directory: Annotated[Positional[Path], arg(metavar="DIR")]
    """A run directory."""
    episodes: int = 1
    """Games to play; the first is shown while others are being played, and the page can begin more."""
    seed: int = 0
    """Makes the games: starts and random actions."""
    epsilon: Annotated[float | None, arg(metavar="FLOAT")] = None
    """Chance of a random action; the run's own unless given."""
    host: str = "127.0.0.1"
    """Address to listen on; at any other than this one, others on the network can look on."""
    port: int = PORT
    """Port to listen on; 0 takes any that is free."""
    export: Annotated[Path | None, arg(metavar="FILE.html")] = None
    """Write the page of one game into this file, which needs no server and no network, and show nothing."""
    max_mb: Annotated[float, arg(metavar="MB")] = MAX_MB
    """Megabytes of that file, at most; frames of the memories that mattered least are left out."""
    device: DeviceName = AgentConfig.device
    """Where to search the memory: cpu or cuda, whatever the run was trained on."""


def run_inspect(command: Inspect) -> int:
    """Show the page until it is stopped, or write it; returns the exit status."""
    from rich.console import Console

    if command.episodes < 1:
        raise ValueError(f"episodes must be at least 1, not {command.episodes}")
    console = Console()
    if command.export is None:
        _serve(command, console)
    else:
        _export(command, command.export, console)
    return 0


def _serve(command: Inspect, console: Console) -> None:
    from mfec.inspector.server import MOST_GAMES, listen, serve

    if command.episodes > MOST_GAMES:
        raise ValueError(f"at most {MOST_GAMES} games are kept for a page, not {command.episodes}")
    listening = listen(command.host, command.port)  # first: reading a large memory takes a while
    try:
        inspection = _open(command)
        for _ in range(command.episodes):  # one after the other
            inspection.play()
        ended = serve(inspection, host=command.host, port=command.port, console=console, listening=listening)
    finally:
        listening.close()
    if not ended:  # Python cannot end beside a thread that is in an emulator: that aborts
        sys.stdout.flush()
        os._exit(0)


def _export(command: Inspect, out: Path, console: Console) -> None:
    from mfec.inspector.export import check_export, export_game
    from mfec.terminal import Line

    if command.episodes != 1:
        raise ValueError("a file holds one game: leave --episodes out, and choose another game by --seed")
    check_export(out, command.max_mb)
    inspection = _open(command)
    try:
        with Line(console) as line:
            game = inspection.play()
            _watch(inspection, game, line)
            written = export_game(inspection, game, out, max_mb=command.max_mb, tell=_Telling(line))
    finally:
        inspection.close()
    said = [f"page: {written.file} ({written.nbytes / 10**6:.1f} MB)"]
    said += [f"{words}: --max-mb {command.max_mb:g}" for words in written.left_out] + written.not_made
    for each in said:
        console.print(each, highlight=False, markup=False, soft_wrap=True)


def _open(command: Inspect) -> Inspection:
    from mfec.inspector.inspection import Inspection
    from mfec.run_directory import RunDirectory

    directory = RunDirectory(command.directory)
    return Inspection(directory, seed=command.seed, epsilon=command.epsilon, device=command.device)


def _watch(inspection: Inspection, game: int, line: Line) -> None:
    """Tell how a game is getting on until it is over."""
    while True:
        now = inspection.game(game)
        over = now["done"] or "error" in now
        speed = line.speed(now["steps"], done=over)
        if speed is not None:
            line.show([f"game: {now['steps']:,} steps", f"{speed:,.0f}/s", f"score {now['score']:,g}"])
        if over:
            return
        time.sleep(0.05)


class _Telling:
    """Tells how the writing of a page is getting on."""

    def __init__(self, line: Line) -> None:
        self._line = line

    def __call__(self, what: str, done: int, of: int) -> None:
        """Show it, if it is time to."""
        if self._line.speed(done, done=False) is not None:
            self._line.show([f"writing: {what} {done:,}/{of:,}"])
