"""Progress: a live line on a terminal, plain lines elsewhere; both say the same."""

from __future__ import annotations

import io
import logging
import os
import pty
import re
import subprocess
import sys
import termios
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from mfec import MFEC
from mfec.callbacks import Callback, ProgressBar
from mfec.cli import main
from mfec.interface import Agent
from mfec.terminal import Line
from mfec.units import show_bytes

from ..waiting import PATIENCE

LINE = re.compile(
    r"(?P<frames>[\d,]+)/(?P<total>[\d,]+) frames +[\d,]+/s +mean of last (?P<games>\d+) games (?P<mean>\S+) +"
    r"exact (?P<exact>\d+)% +memory (?P<entries>[\d,]+) \((?P<full>[\d.]+)% full, (?P<bytes>[\d.]+ \w+)\) +"
    r"left (?P<minutes>\d+):(?P<seconds>\d\d)"
)
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Rows(Callback):
    """Keeps the rows of progress."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def on_progress(self, agent: Agent, row: dict[str, Any]) -> None:
        self.rows.append(row)


def learn(console: Console, *others: Callback, frames: int = 400) -> MFEC:
    return MFEC("FrozenLake-v1", capacity=50, seed=0).learn(frames, [ProgressBar(console), *others])


# -- The line ---------------------------------------------------------------------------------------------------------


def test_a_plain_line_says_how_far_a_run_is():
    said = io.StringIO()
    agent = learn(Console(file=said, width=40), progress := Rows())
    last = said.getvalue().splitlines()[-1]
    line = LINE.fullmatch(last)
    assert line, last
    assert (line["frames"], line["total"]) == ("400", "400")
    assert line["games"] == str(len(agent.scores))
    assert line["mean"] == f"{sum(agent.scores) / len(agent.scores):.1f}"
    assert line["exact"] == f"{100 * progress.rows[-1]['exact_match_rate']:.0f}"
    assert line["entries"] == str(len(agent.memory))
    assert line["full"] == f"{100 * max(agent.memory.sizes) / 50:.1f}"
    assert line["bytes"] == show_bytes(agent.memory.nbytes)
    assert (line["minutes"], line["seconds"]) == ("0", "00")
    assert "\x1b" not in said.getvalue()


def test_before_the_first_game_there_is_no_mean():
    said = io.StringIO()
    learn(Console(file=said), frames=1)
    assert "mean of last 0 games -  exact" in said.getvalue()


@pytest.mark.parametrize("width", [200, 80, 60, 40])
def test_on_a_terminal_the_line_is_live_and_whole(width, monkeypatch):
    """However narrow it is, nothing of it may be cut off."""
    monkeypatch.setattr("mfec.terminal.LIVE_SECONDS", 0.0)
    said = io.StringIO()
    learn(Console(file=said, force_terminal=True, width=width), frames=20)
    assert "\x1b[" in said.getvalue()
    lines = [" ".join(part.split()) for part in re.split(r"(?=\b\d+/20 frames)", ESCAPES.sub("", said.getvalue()))]
    shown = [line for line in map(LINE.search, lines) if line]
    assert [line["frames"] for line in shown[:3]] == ["1", "2", "3"]  # drawn again and again
    assert shown[-1]["frames"] == "20"


def test_plain_lines_come_every_few_seconds_and_at_the_end(monkeypatch):
    now = 0.0

    def clock() -> float:
        nonlocal now
        now += 1.0
        return now

    monkeypatch.setattr("mfec.terminal.time", SimpleNamespace(perf_counter=clock))
    said = io.StringIO()
    agent = MFEC("FrozenLake-v1", capacity=50, seed=0)
    shown = ProgressBar(Console(file=said))
    shown.on_start(agent, 12)
    shown.on_progress(agent, {"exact_match_rate": 0.5})
    for agent.frames in range(13):
        shown.on_step(agent)
    shown.close()
    # Every five seconds by this clock, a frame a second, and the end: 8 frames are left after 4 or 5.
    frames = [LINE.fullmatch(line)["frames"] for line in said.getvalue().splitlines()]
    assert frames == ["4", "9", "12"]
    left = [LINE.fullmatch(line)["seconds"] for line in said.getvalue().splitlines()]
    assert left == ["10", "03", "00"]  # 4 frames in 5 seconds at first, then a frame a second


def test_a_message_is_printed_as_it_is(monkeypatch):
    """rich would take brackets for colours, and stop at what closes none."""
    said = io.StringIO()
    Line(Console(file=said, width=30)).say("cannot save [/runs]/[a]: [Errno 28] No space left on device")
    assert said.getvalue() == "cannot save [/runs]/[a]: [Errno 28] No space left on device\n"


# -- What the package logs ---------------------------------------------------------------------------------------------


@pytest.fixture(params=[logging.NOTSET, logging.DEBUG, logging.ERROR], ids=logging.getLevelName)
def package_log(request: pytest.FixtureRequest) -> Iterator[logging.Logger]:
    """The package's logger, at a level that somebody has set."""
    log = logging.getLogger("mfec")
    before = log.level
    log.setLevel(request.param)
    yield log
    log.setLevel(before)


def test_what_the_package_logs_is_shown_while_there_is_a_line(package_log):
    said = io.StringIO()
    with Line(Console(file=said, width=30)):
        logging.getLogger("mfec.memory").info("%s entries: [/searching] cells, %.2f ms a look-up", "65,536", 0.5)
        package_log.warning("take care")
        logging.getLogger("mfec.memory").debug("a detail")
        logging.getLogger("numba").warning("somebody else")
    logging.getLogger("mfec.memory").error("when it is closed")
    assert said.getvalue() == "65,536 entries: [/searching] cells, 0.50 ms a look-up\ntake care\n"


def test_a_closed_line_leaves_the_logger_as_it_was(package_log):
    before = package_log.level, package_log.handlers[:]
    line = Line(Console(file=io.StringIO()))
    for _ in range(2):
        with line:
            assert len(package_log.handlers) == len(before[1]) + 1
            assert package_log.level == logging.INFO
        assert (package_log.level, package_log.handlers) == before


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
@pytest.mark.parametrize("terminal", [True, False])
def test_a_line_that_an_error_closed_leaves_the_logger_as_it_was(package_log, terminal, error):
    before = package_log.level, package_log.handlers[:]
    said = io.StringIO()

    class Fails(Callback):
        def on_step(self, agent: Agent) -> None:
            raise error

    with pytest.raises(error):
        learn(Console(file=said, force_terminal=terminal), Fails())
    assert (package_log.level, package_log.handlers) == before
    shown = said.getvalue()
    package_log.error("nobody shows this")
    assert said.getvalue() == shown


def test_on_a_terminal_a_message_stands_above_the_live_line(monkeypatch):
    monkeypatch.setattr("mfec.terminal.LIVE_SECONDS", 0.0)

    class Logs(Callback):
        def on_step(self, agent: Agent) -> None:
            if agent.frames == 10:
                logging.getLogger("mfec.memory").info("searching cells from now on")

    said = io.StringIO()
    learn(Console(file=said, force_terminal=True, width=200), Logs(), frames=20)
    text = ESCAPES.sub("", said.getvalue())
    assert text.count("searching cells from now on") == 1
    after = text.partition("searching cells from now on")[2]
    assert after.startswith("\n")
    assert LINE.search(after)["frames"] == "10"  # the line is drawn again below


# -- The command ------------------------------------------------------------------------------------------------------


COMMAND = ["train", "FrozenLake-v1", "--total-frames", "300", "--capacity", "500", "--no-video", "--out"]


def test_the_command_on_a_terminal(tmp_path):
    master, slave = pty.openpty()
    termios.tcsetwinsize(slave, (24, 100))
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "NO_COLOR")}
    command = [sys.executable, "-m", "mfec", *COMMAND, str(tmp_path)]
    process = subprocess.Popen(command, stdout=slave, env={**environment, "TERM": "xterm-256color"})
    os.close(slave)
    said = b""
    while True:
        try:
            part = os.read(master, 65536)
        except OSError:  # Linux: the other end is closed
            break
        if not part:
            break
        said += part
    os.close(master)
    assert process.wait(timeout=PATIENCE) == 0
    text = said.decode()
    assert "\x1b[" in text
    line = LINE.search(" ".join(ESCAPES.sub("", text).split()))
    assert line, text
    assert line["total"] == "300"
    assert f"learning curve: {tmp_path / 'curve.png'}" in ESCAPES.sub("", text).replace("\r\n", "\n")


def test_the_command_without_a_terminal(tmp_path, capsys):
    assert main([*COMMAND, str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "\x1b" not in said
    assert "\r" not in said
    memory, *lines, curve = said.splitlines()
    assert memory.startswith("memory: 4 x 500 entries can grow to ")
    assert all(LINE.fullmatch(line) for line in lines)
    assert lines[-1].startswith("300/300 frames")
    assert curve == f"learning curve: {tmp_path / 'curve.png'}"
