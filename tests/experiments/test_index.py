"""A run and its neighbour index: cells are as repeatable as the exact search, and a change to them is told."""

from __future__ import annotations

import io
import logging
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from mfec import MFEC
from mfec.algorithms import RunConfig
from mfec.algorithms.mfec import MFECConfig
from mfec.cli import main
from mfec.config import EnvConfig
from mfec.experiments.evaluate import evaluate_run
from mfec.experiments.train import train
from mfec.run_directory import RunDirectory, RunDirectoryError

from .stopping import outcome, stopped_after

CHANGE = re.compile(
    r"^([\d,]+) entries: searching cells from now on, 1\.00 ms a look-up instead of 2\.00$", re.MULTILINE
)
ENTRIES = 200  # at which `auto` tries cells here; a cart pole's every step is one


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first trial of `auto` comes early, so that short runs have it."""
    monkeypatch.setattr("mfec.memory.neighbours.auto.FIRST_TRIAL", ENTRIES)
    monkeypatch.setattr("mfec.memory.neighbours.recent.EVERY", 4)  # enough was looked up by then
    race(monkeypatch, lost=0)


def race(monkeypatch: pytest.MonkeyPatch, lost: int) -> None:
    """From now on cells are faster, but for the first trials."""
    trials = 0

    def milliseconds(index: Any, *_: Any) -> float:
        nonlocal trials
        if not index.approximate:
            return 2.0
        trials += 1
        return 1.0 if trials > lost else 3.0

    monkeypatch.setattr("mfec.memory.neighbours.auto.milliseconds", milliseconds)


def cart_pole(frames: int, index: str, n_envs: int = 1, **settings: Any) -> RunConfig:
    agent = MFECConfig(**{"capacity": 1000, "epsilon": 0.1, "index": index, **settings})
    return RunConfig("CartPole-v1", frames, 0, agent, EnvConfig(n_envs=n_envs))


def quiet_train(config: RunConfig, out: Path, **options: Any) -> str:
    """Train; what was said."""
    said = io.StringIO()
    train(config, out, console=Console(file=said, width=200), **options)
    return said.getvalue()


def active_index(out: Path) -> str:
    return MFEC.load(out / "checkpoint").memory.active_index


# -- Stop and go ------------------------------------------------------------------------------------------------------


def test_a_run_with_cells_goes_on_as_if_it_had_never_stopped(tmp_path):
    """Stopped by its length, and after a step."""
    config = cart_pole(900, "cells", 3, capacity=200, eviction="used")
    quiet_train(replace(config, total_frames=90), tmp_path / "parts")
    with stopped_after(150):
        quiet_train(config, tmp_path / "parts", resume=True)
    assert MFEC.load(tmp_path / "parts" / "checkpoint").frames == 90 + 3 * 150
    quiet_train(config, tmp_path / "parts", resume=True)
    quiet_train(config, tmp_path / "whole")
    assert outcome(tmp_path / "parts") == outcome(tmp_path / "whole")
    assert active_index(tmp_path / "whole") == "cells"
    assert len(RunDirectory(tmp_path / "whole").episodes()["frames"]) > 10


@pytest.mark.parametrize(("lost", "n_envs"), [(0, 3), (1, 1)])
def test_a_run_that_changed_its_index_goes_on_as_if_it_had_never_stopped(tmp_path, monkeypatch, lost, n_envs):
    """Stopped before the first trial, after it, and after the second, which comes at 1.5 times as many entries.
    An evaluation in between changes nothing."""
    race(monkeypatch, lost)
    said, indexes = [], []
    for frames in (150, 290 if lost else 390, 480, 800):
        config = cart_pole(frames, "auto", n_envs, recall=0.8)
        said.append(quiet_train(config, tmp_path / "parts", resume=True))
        indexes.append(active_index(tmp_path / "parts"))
        evaluate_run(RunDirectory(tmp_path / "parts"), episodes=2, seed=frames)
    assert indexes == ["exact", "exact" if lost else "cells", "cells", "cells"]
    race(monkeypatch, lost)
    whole = quiet_train(config, tmp_path / "whole")
    assert outcome(tmp_path / "parts") == outcome(tmp_path / "whole")
    assert [len(CHANGE.findall(text)) for text in said] == ([0, 0, 1, 0] if lost else [0, 1, 0, 0])
    assert CHANGE.findall("".join(said)) == CHANGE.findall(whole)


# -- One exact index for the other ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("first", "second", "n_envs"), [("exact", "cuda", 3), ("cuda", "exact", 1)])
def test_a_run_goes_on_with_the_other_exact_index_as_if_it_had_always_had_it(tmp_path, first, second, n_envs):
    with stopped_after(100):
        quiet_train(cart_pole(500, first, n_envs), tmp_path / "parts")
    stopped_at = MFEC.load(tmp_path / "parts" / "checkpoint").frames
    said = quiet_train(cart_pole(500, second, n_envs), tmp_path / "parts", resume=True)
    assert f"going on from frame {stopped_at:,}" in said
    quiet_train(cart_pole(500, second, n_envs), tmp_path / "whole")
    (games, progress, *agent), (same_games, same_progress, *same_agent) = map(
        outcome, (tmp_path / "parts", tmp_path / "whole")
    )
    assert (games, agent) == (same_games, same_agent)
    own = progress[0].index("memory_bytes")  # each index takes its own
    assert [row[:own] + row[own + 1 :] for row in progress] == [row[:own] + row[own + 1 :] for row in same_progress]
    assert active_index(tmp_path / "parts") == second
    assert RunDirectory(tmp_path / "parts").read_config() == RunDirectory(tmp_path / "whole").read_config()


@pytest.mark.parametrize(("first", "second"), [("exact", "auto"), ("cells", "cuda")])
def test_a_run_does_not_go_on_with_an_index_that_may_find_others(tmp_path, first, second):
    quiet_train(cart_pole(50, first), tmp_path / "run")
    before = outcome(tmp_path / "run")
    with pytest.raises(RunDirectoryError, match=f"was begun with index = {first}, it cannot go on with {second}"):
        quiet_train(cart_pole(90, second), tmp_path / "run", resume=True)
    assert outcome(tmp_path / "run") == before
    assert RunDirectory(tmp_path / "run").read_config().agent.index == first


# -- Seeds ------------------------------------------------------------------------------------------------------------


def test_one_seed_is_one_run_whatever_the_number_of_threads(tmp_path, monkeypatch):
    monkeypatch.setattr("mfec.memory.neighbours.cells.WORTH_SHARING", 100)
    for threads in (1, 3):
        monkeypatch.setenv("MFEC_THREADS", str(threads))
        quiet_train(cart_pole(1200, "cells", 8), tmp_path / str(threads))
    assert outcome(tmp_path / "1") == outcome(tmp_path / "3")


# -- What is told -----------------------------------------------------------------------------------------------------


def train_command(out: Path, *options: str) -> None:
    arguments = ["CartPole-v1", "--total-frames", "500", "--capacity", "1000", "--no-video", "--out", str(out)]
    assert main(["train", *arguments, *options]) == 0


def test_the_change_of_the_index_is_shown_once(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("mfec.terminal.PLAIN_SECONDS", 0.0)
    log = logging.getLogger("mfec")
    before = log.level, log.handlers[:]
    train_command(tmp_path)
    said = capsys.readouterr().out
    [entries] = CHANGE.findall(said)
    assert ENTRIES <= int(entries.replace(",", "")) < 1.5 * ENTRIES
    shown = said[: said.index(f"{entries} entries: ")].splitlines()[-1], said.splitlines()[-2]
    assert all(" frames  " in line and "memory " in line for line in shown)  # among the lines of progress
    assert (log.level, log.handlers) == before
    train_command(tmp_path, "--resume")
    assert not CHANGE.search(capsys.readouterr().out)


def test_a_change_that_brings_nothing_is_not_made(tmp_path, monkeypatch):
    race(monkeypatch, lost=99)
    assert "from now on" not in quiet_train(cart_pole(500, "auto"), tmp_path / "auto")
    assert active_index(tmp_path / "auto") == "exact"
    quiet_train(cart_pole(500, "exact"), tmp_path / "exact")
    games, progress, _, digests = outcome(tmp_path / "exact")
    of_auto = outcome(tmp_path / "auto")
    assert (games, progress) == of_auto[:2]
    assert digests == {name: digest for name, digest in of_auto[3].items() if not name[1].startswith("index.")}


def test_recall_is_a_share_while_the_search_is_approximate(tmp_path, monkeypatch):
    quiet_train(cart_pole(200, "cells"), tmp_path)
    run = RunDirectory(tmp_path)
    first = min(entries for entries in run.progress()["memory_entries"] if entries)
    # The first game is looked into by the second one, and that check has ended when the second one is written.
    rows = zip(run.progress()["memory_entries"], run.progress()["recall"], strict=True)
    told = [(entries, recall) for entries, recall in rows if entries != first]
    assert {entries > 0 for entries, _ in told} == {True, False}
    assert all(0.0 < recall <= 1.0 if entries else math.isnan(recall) for entries, recall in told)


def test_recall_is_empty_until_the_search_becomes_approximate(tmp_path, monkeypatch):
    [entries] = CHANGE.findall(quiet_train(cart_pole(500, "auto"), tmp_path))
    change = int(entries.replace(",", ""))
    rows = RunDirectory(tmp_path).progress_file.read_text().splitlines()[1:]
    for row in (row.split(",") for row in rows):
        held, recall = int(row[6]), row[-1]
        if held < change:
            assert recall == ""
        elif held > change:  # a game was written since, and the first check has ended with that
            assert 0.0 < float(recall) <= 1.0
    assert rows[0].endswith(",")
    assert not rows[-1].endswith(",")
