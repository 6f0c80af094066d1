"""`mfec check`: a minute of play in an environment, and what to expect of the method there."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

from tyro.conf import OmitArgPrefixes, Positional, arg

from mfec.cli.env_options import EnvOptions

if TYPE_CHECKING:
    from rich.console import Console

    from mfec.experiments.check import Check as Report

VERDICT_STYLES = {"good": "bold green", "fair": "bold yellow", "poor": "bold red", "fails": "bold red"}


@dataclass(frozen=True)
class Check:
    """Play in an environment for about a minute, at random and with MFEC, and say what that shows: whether it is
    deterministic, how often states come back, rewards, memory and speed, how well the method fits, and which settings
    to begin with."""

    env: Annotated[Positional[str], arg(metavar="ENV")]
    """The environment, as `mfec train` takes it."""
    seconds: float = 60.0
    """Seconds of play at most; environments that are fast need fewer."""
    frames: Annotated[int | None, arg(metavar="N")] = None
    """Frames of random play, and as many of MFEC, instead of seconds: the same report each time, but for its speeds."""
    seed: int = 0
    """Makes the games and the actions."""
    json: bool = False
    """Print JSON."""
    environment: OmitArgPrefixes[EnvOptions] = field(default_factory=EnvOptions)


def run_check(command: Check) -> int:
    """Check, and print what came of it; returns the exit status: 1 if a run would fail."""
    from rich.console import Console

    from mfec.experiments.check import check_environment

    with Console(stderr=True).status("making the environment") as status:
        check = check_environment(
            command.env,
            command.environment.settings,
            seconds=command.seconds,
            frames=command.frames,
            seed=command.seed,
            tell=status.update,
        )
    if command.json:
        print(json.dumps(check.as_json(), indent=1))
    else:
        _print(check, Console())
    return 1 if check.verdict == "fails" else 0


def _print(check: Report, console: Console) -> None:
    """One row for each thing that was measured; a command line and a traceback are never wrapped."""
    from rich.table import Table
    from rich.text import Text

    from mfec.experiments.check.sentences import sentences

    table, before = Table.grid(padding=(0, 2)), ""
    table.title, table.title_justify = check.env, "left"
    table.add_column(no_wrap=True)
    table.add_column()
    for label, said in sentences(check):
        if label != "begin with":
            style = VERDICT_STYLES[check.verdict] if label in ("verdict", "problem") else ""
            table.add_row(Text("" if label == before else label, style="bold"), Text(said, style=style))
            before = label
    console.print(table)
    for problem in check.problems:
        if problem.traceback:
            console.print(problem.traceback, highlight=False, markup=False, soft_wrap=True)
    if check.command:
        console.print("begin with:", style="bold")
        console.print(f"  {check.command}", highlight=False, markup=False, soft_wrap=True)
