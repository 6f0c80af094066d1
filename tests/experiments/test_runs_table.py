"""Progress of many runs: read from the run directories, shown in a table that fits the terminal, or in plain lines."""

from __future__ import annotations

import io
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console

from mfec.algorithms import RunConfig
from mfec.config import EvaluationConfig
from mfec.experiments.many_runs import Run
from mfec.experiments.runs_table import RunsTable, shorten
from mfec.run_directory import EPISODES, EVALUATIONS, PROGRESS

COLUMNS = (*PROGRESS, "exact_match_rate", "memory_entries")
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time, which goes on when it is told to."""
    now = [100.0]
    monkeypatch.setattr("mfec.experiments.runs_table.time", SimpleNamespace(monotonic=lambda: now[0]))
    return now


def make_runs(out: Path, n: int, env: str = "qbert", **settings) -> list[Run]:
    names = [f"{env} mfec_random_projection seed {seed}" for seed in range(n)]
    return [Run(name, RunConfig(env, 10_000, seed, **settings), out / name) for seed, name in enumerate(names)]


def play(run: Run, *games: tuple[int, float], row: int | None = None, **columns: float) -> None:
    """The run finishes games, each at that frame with that score, and writes a row of progress."""
    run.out.mkdir(parents=True, exist_ok=True)
    episodes, progress = run.out / "episodes.csv", run.out / "progress.csv"
    if not episodes.exists():
        episodes.write_text(",".join(EPISODES) + "\n")
        progress.write_text(",".join(COLUMNS) + "\n")
    with episodes.open("a") as file:
        file.writelines(f"{frames},1,{score!r},400\n" for frames, score in games)
    if row is not None:
        with progress.open("a") as file:
            file.write(",".join(str({"frames": row, **columns}.get(name, "")) for name in COLUMNS) + "\n")


def plain() -> tuple[io.StringIO, Console]:
    said = io.StringIO()
    return said, Console(file=said, width=40)


def terminal(width: int = 120, height: int = 30) -> tuple[io.StringIO, Console]:
    said = io.StringIO()
    return said, Console(file=said, force_terminal=True, width=width, height=height)


def last_table(said: io.StringIO) -> list[str]:
    """Lines of the table that was drawn last, with its title."""
    drawn = re.split(r"(?<![\d,])(?=[\d,]+/[\d,]+ frames)", ESCAPES.sub("", said.getvalue()))[-1]
    return drawn.rstrip().splitlines()


def rows(said: io.StringIO) -> list[list[str]]:
    lines = [line for line in last_table(said) if line.startswith("│")]
    return [[cell.strip() for cell in line.strip("│").split("│")] for line in lines]


# -- Elsewhere --------------------------------------------------------------------------------------------------------


def test_a_plain_line_says_how_far_all_runs_are_together(tmp_path, clock):
    runs = make_runs(tmp_path, 4)
    play(runs[0], (400, 1.0))  # what it goes on from was not played now
    runs[3].state = "finished"
    said, console = plain()
    with RunsTable(runs, console) as display:
        assert said.getvalue() == "10,400/40,000 frames  0/s  runs: 3 waiting, 1 finished\n"
        runs[0].state = runs[1].state = "running"
        clock[0] += 5.0
        display.refresh()
        play(runs[0], (1400, 5.0))
        play(runs[1], (300, 0.0), row=1000)
        clock[0] += 10.0
        display.refresh()
        assert said.getvalue().splitlines()[-1] == (
            "12,400/40,000 frames  200/s  runs: 2 running, 1 waiting, 1 finished  left 2:18"
        )
        runs[0].state, runs[1].state, runs[2].state = "finished", "failed", "stopped"
    assert said.getvalue().splitlines()[-1] == "21,000/40,000 frames  0/s  runs: 2 finished, 1 stopped, 1 failed"
    assert "\x1b" not in said.getvalue()


def test_plain_lines_come_every_few_seconds(tmp_path, clock):
    said, console = plain()
    with RunsTable(make_runs(tmp_path, 1), console) as display:
        for _ in range(12):
            clock[0] += 1.0
            display.refresh()
        assert len(said.getvalue().splitlines()) == 1 + 2


def test_speed_is_that_of_the_last_minute(tmp_path, clock):
    [run] = make_runs(tmp_path, 1)
    run.state = "running"
    said, console = plain()
    display = RunsTable([run], console)
    for frames in range(0, 1300, 100):  # 20 frames a second for a minute ...
        play(run, (frames, 0.0))
        display.refresh()
        clock[0] += 5.0
    for frames in range(1300, 1600, 20):  # ... then 4
        play(run, (frames, 0.0))
        display.refresh()
        clock[0] += 5.0
    assert [line.split()[2] for line in said.getvalue().splitlines()][12] == "20/s"
    assert said.getvalue().splitlines()[-1].split()[2] == "4/s"


def test_a_row_that_is_only_half_written_is_not_read(tmp_path, clock):
    [run] = make_runs(tmp_path, 1)
    run.state = "running"
    play(run, (400, 1.0), row=300)
    with (run.out / "episodes.csv").open("a") as file:
        file.write("9999,2,7")
    said, console = plain()
    with RunsTable([run], console):
        assert said.getvalue().startswith("400/10,000 frames")


def test_a_message_is_printed_as_it_is(tmp_path):
    said, console = plain()
    RunsTable(make_runs(tmp_path, 1), console).say("it fails in [/runs]/[a]: [Errno 20] Not a directory")
    assert said.getvalue() == "it fails in [/runs]/[a]: [Errno 20] Not a directory\n"


# -- On a terminal ----------------------------------------------------------------------------------------------------


def test_on_a_terminal_runs_have_state_frames_score_and_speed(tmp_path, clock):
    runs = make_runs(tmp_path, 3)
    said, console = terminal()
    with RunsTable(runs, console) as display:
        assert rows(said) == []  # none has begun
        runs[0].state = runs[1].state = "running"
        clock[0] += 1.0
        display.refresh()
        play(runs[0], *[(frame, 10.0) for frame in range(1, 51)], *[(frame, 20.0) for frame in range(51, 151)])
        play(runs[1], row=2500, exact_match_rate=0.125, memory_entries=54321)
        clock[0] += 10.0
        display.refresh()
        assert rows(said) == [
            ["qbert mfec_random_projection seed 0", "150 (2%)", "20.0", "-", "-", "15", "running"],
            ["qbert mfec_random_projection seed 1", "2,500 (25%)", "-", "12%", "54,321", "250", "running"],
        ]
        assert last_table(said)[0].rstrip() == ("2,650/30,000 frames  265/s  runs: 2 running, 1 waiting  left 1:43")
        runs[0].state = "failed"
    assert rows(said)[1][-1] == "failed"


def test_the_mean_is_of_the_last_hundred_games_however_long_the_table_is(tmp_path, clock):
    [run] = make_runs(tmp_path, 1)
    run.state = "running"
    play(run, *[(10_000_000 + frame, 123456.75) for frame in range(5000)])
    play(run, *[(20_000_000 + frame, float(frame)) for frame in range(100)])
    said, console = terminal()
    with RunsTable([run], console):
        assert rows(said)[0][2] == "49.5"


def test_many_runs_fit_the_terminal(tmp_path, clock):
    """Those that run are shown, then those that ended last; the title counts all of them."""
    runs = make_runs(tmp_path, 200)
    said, console = terminal(height=12)
    with RunsTable(runs, console) as display:
        for run in runs[:100]:
            run.state = "finished"
            clock[0] += 1.0
            display.refresh()
        runs[100].state = runs[101].state = "running"
        clock[0] += 1.0
        display.refresh()
        table = last_table(said)
        assert len(table) < 12
        assert "runs: 2 running, 98 waiting, 100 finished" in table[0]
        shown = [row[0].rpartition(" ")[2] for row in rows(said)]
        assert shown[:4] == ["100", "101", "99", "98"]
        for run in runs:
            run.state = "running"
        clock[0] += 1.0
        display.refresh()
        assert len(last_table(said)) < 12


def test_as_narrow_as_most_terminals_are_no_number_and_no_seed_is_cut_off(tmp_path, clock):
    [run] = make_runs(tmp_path, 1, env="labyrinth_forage_and_avoid")
    run.config = RunConfig("labyrinth_forage_and_avoid", 40_000_000)
    said, console = terminal(width=80)
    with RunsTable([run], console) as display:
        run.state = "running"
        play(run, (1_000_000, 123456.7))
        clock[0] += 1.0
        display.refresh()
        play(run, row=39_999_999)
        clock[0] += 10.0
        display.refresh()
        [row] = rows(said)
    assert row[1:] == ["39,999,999 (100%)", "123,456.7", "3,900,000", "running"]
    assert row[0].startswith("labyr")
    assert row[0].endswith("seed 0")
    assert max(map(len, last_table(said))) <= 80


@pytest.mark.parametrize("width", [60, 40])
def test_however_narrow_the_terminal_is_every_number_is_there_and_the_table_fits(tmp_path, clock, width):
    runs = make_runs(tmp_path, 9)
    said, console = terminal(width=width, height=20)
    with RunsTable(runs, console) as display:
        for run in runs:
            run.state = "running"
            play(run, (1_000, 123456.7), row=8_765, exact_match_rate=0.25, memory_entries=1_234_567)
        clock[0] += 1.0
        display.refresh()
        table = last_table(said)
    assert len(table) <= 20
    assert max(map(len, table)) <= width
    text = "\n".join(table)
    shown = text.count("8,765 (88%)")
    assert shown >= 1
    assert text.count("123,456.7") == shown
    assert text.count("seed ") == shown


@pytest.mark.parametrize("width", [-3, 0, 8, 9, 20, 38])
def test_a_shortened_name_is_as_wide_as_asked_and_has_its_seed(width):
    name = shorten("ms_pacman mfec_random_projection seed 0", width)
    assert len(name) == max(width, 8)
    assert name.endswith("d 0")
    assert shorten("qbert a2c seed 0", 16) == "qbert a2c seed 0"


def test_the_last_evaluation_has_a_column_where_there_are_some(tmp_path, clock):
    [run] = make_runs(tmp_path, 1, evaluation=EvaluationConfig(evaluate_every=100))
    run.state = "running"
    play(run, (100, 1.0))
    (run.out / "evaluations.csv").write_text(",".join(EVALUATIONS) + "\n100,30,7.0,,1,9,400\n200,30,1234.56,,1,9,400\n")
    said, console = terminal()
    with RunsTable([run], console):
        assert rows(said)[0][2:4] == ["1.0", "1,234.6"]


def test_on_a_terminal_a_message_stands_above_the_table(tmp_path, clock):
    [run] = make_runs(tmp_path, 1)
    run.state = "running"
    said, console = terminal()
    with RunsTable([run], console) as table:
        table.say("seed 0 failed: its process ended with status -9")
        text = ESCAPES.sub("", said.getvalue())
    assert text.count("its process ended with status -9") == 1
    assert "│ qbert" in text.partition("its process ended with status -9")[2]  # the table is drawn again below


def test_a_table_that_an_error_closed_leaves_the_cursor_to_others(tmp_path):
    said, console = terminal()
    with pytest.raises(KeyboardInterrupt), RunsTable(make_runs(tmp_path, 1), console):
        raise KeyboardInterrupt
    assert said.getvalue().rstrip("\n").endswith("\x1b[?25h")
