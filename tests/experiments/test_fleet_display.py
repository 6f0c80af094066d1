"""Progress of a fleet: a live table on a terminal, plain lines elsewhere; both say the same."""

from __future__ import annotations

import io
import itertools
import re
from pathlib import Path

import pytest
from rich.console import Console

from mfec.config import AgentConfig, RunConfig
from mfec.experiments import fleet_display
from mfec.experiments.display import Progress
from mfec.experiments.fleet import Member
from mfec.experiments.fleet_display import FleetDisplay

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
FIRST = Progress(frames=2500, games=7, mean=1234.56, exact=0.125, entries=54321, fill=0.5, nbytes=10**6)
SECOND = Progress(frames=500, games=0, mean=0.0, exact=0.0, entries=0, fill=0.0, nbytes=0)


@pytest.fixture
def members() -> list[Member]:
    """Two runs of 10,000 frames."""
    config = RunConfig("qbert", 10_000, 0, AgentConfig(index="cuda"))
    return [Member(name, config, Path(name)) for name in ("qbert seed 0", "ms_pacman seed 0")]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, which goes on when it is told to."""
    now = [100.0]
    monkeypatch.setattr(fleet_display.time, "perf_counter", lambda: now[0])
    return now


def plain() -> tuple[io.StringIO, Console]:
    said = io.StringIO()
    return said, Console(file=said, width=40)


def terminal(width: int = 120) -> tuple[io.StringIO, Console]:
    said = io.StringIO()
    return said, Console(file=said, force_terminal=True, width=width, height=30)


def rows(text: str) -> list[list[str]]:
    """Cells of the last table that was drawn."""
    lines = [line for line in ESCAPES.sub("", text).splitlines() if line.startswith("│")]
    return [[cell.strip() for cell in line.strip("│").split("│")] for line in lines][-2:]


# -- Elsewhere --------------------------------------------------------------------------------------------------------


def test_a_plain_line_says_how_far_all_runs_are_together(members, clock):
    said, console = plain()
    with FleetDisplay(members, console) as display:
        display.progress("qbert seed 0", Progress(0, 0, 0.0, 0.0, 0, 0.0, 0))
        display.refresh()
        assert said.getvalue() == ""  # it is not time yet
        clock[0] += 10.0
        display.progress("qbert seed 0", FIRST)
        display.progress("ms_pacman seed 0", SECOND)  # its first words: what it went on from was not played now
        display.refresh()
        assert said.getvalue() == "3,000/20,000 frames  250/s  runs: 2 running  left 1:08\n"
        members[0].outcome = "failed"
    assert said.getvalue().splitlines()[1] == "3,000/20,000 frames  250/s  runs: 1 failed, 1 running  left 0:38"
    assert "\x1b" not in said.getvalue()


def test_plain_lines_come_every_few_seconds(members, clock):
    said, console = plain()
    with FleetDisplay(members, console) as display:
        for frames in itertools.islice(itertools.count(0, 10), 12):
            display.progress("qbert seed 0", Progress(frames, 0, 0.0, 0.0, 0, 0.0, 0))
            clock[0] += 1.0
            display.refresh()
        shown = [line.split("/")[0] for line in said.getvalue().splitlines()]
        assert shown == ["40", "90"]
    assert said.getvalue().splitlines()[-1].startswith("110/20,000 frames  ")  # and at the end


def test_speed_is_that_of_late(members, clock):
    """A fifth of it is new with every line."""
    said, console = plain()
    display = FleetDisplay(members, console)
    display.progress("qbert seed 0", Progress(0, 0, 0.0, 0.0, 0, 0.0, 0))
    for frames in (500, 1500):
        clock[0] += 5.0
        display.progress("qbert seed 0", Progress(frames, 0, 0.0, 0.0, 0, 0.0, 0))
        display.refresh()
    assert [line.split()[2] for line in said.getvalue().splitlines()] == ["100/s", "120/s"]


def test_a_fleet_that_ends_before_its_first_line_tells_its_speed(members, clock):
    said, console = plain()
    with FleetDisplay(members[:1], console) as display:
        display.progress("qbert seed 0", Progress(0, 0, 0.0, 0.0, 0, 0.0, 0))
        clock[0] += 2.0
        display.progress("qbert seed 0", Progress(10_002, 0, 0.0, 0.0, 0, 0.0, 0))
    assert said.getvalue() == "10,002/10,000 frames  5,001/s  runs: 1 running  left 0:00\n"


def test_a_run_that_had_all_frames_from_the_start_counts(members, clock):
    said, console = plain()
    with FleetDisplay(members, console):
        members[0].outcome = members[1].outcome = "finished"
    assert said.getvalue() == "20,000/20,000 frames  0/s  runs: 2 finished  left 0:00\n"


@pytest.mark.parametrize("console", [plain, terminal])
def test_a_message_is_printed_as_it_is(members, console):
    """rich would take brackets for colours, and stop at what closes none."""
    said, shown = console()
    FleetDisplay(members, shown).say("seed 0 failed: cannot begin a run in [/runs]/[a]: [Errno 20] Not a directory")
    text = ESCAPES.sub("", said.getvalue())
    assert text == "seed 0 failed: cannot begin a run in [/runs]/[a]: [Errno 20] Not a directory\n"


# -- On a terminal ----------------------------------------------------------------------------------------------------


def test_on_a_terminal_every_run_has_a_row(members, clock):
    said, console = terminal()
    with FleetDisplay(members, console) as display:
        clock[0] += 0.1
        display.progress("qbert seed 0", FIRST)
        display.refresh()
        assert rows(said.getvalue()) == []  # it is not time yet
        clock[0] += 0.2
        display.refresh()
        assert rows(said.getvalue()) == [
            ["qbert seed 0", "2,500 (25%)", "1,234.6", "12%", "54,321", "running"],
            ["ms_pacman seed 0", "-", "-", "-", "-", "running"],
        ]
        members[0].outcome = "failed"
        display.progress("ms_pacman seed 0", SECOND)
    assert rows(said.getvalue()) == [
        ["qbert seed 0", "2,500 (25%)", "1,234.6", "12%", "54,321", "failed"],
        ["ms_pacman seed 0", "500 (5%)", "-", "0%", "0", "running"],
    ]
    assert "3,000/20,000 frames" in ESCAPES.sub("", said.getvalue())
    assert "\x1b[" in said.getvalue()


def test_on_a_terminal_a_message_stands_above_the_table(members, clock):
    said, console = terminal()
    with FleetDisplay(members, console) as display:
        clock[0] += 1.0
        display.refresh()
        display.say("seed 0 failed: its process ended with status -9")
        text = ESCAPES.sub("", said.getvalue())
    after = text.partition("its process ended with status -9")[2]
    assert text.count("its process ended with status -9") == 1
    assert len(rows(after)) == 2  # the table is drawn again below


def test_as_narrow_as_most_terminals_are_no_number_is_cut_off(members, clock):
    said, console = terminal(width=80)
    with FleetDisplay(members, console) as display:
        display.progress("qbert seed 0", FIRST)
        display.progress("ms_pacman seed 0", SECOND)
    shown = ESCAPES.sub("", said.getvalue())
    assert "…" not in shown
    assert max(map(len, shown.splitlines())) <= 80
    for number in ("2,500 (25%)", "1,234.6", "12%", "54,321", "ms_pacman seed 0"):
        assert number in shown


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_table_that_an_error_closed_leaves_the_cursor_to_others(members, error):
    said, console = terminal()
    with pytest.raises(error), FleetDisplay(members, console):
        raise error
    assert said.getvalue().rstrip("\n").endswith("\x1b[?25h")
