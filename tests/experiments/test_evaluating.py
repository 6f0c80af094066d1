"""Evaluation while a run trains: exact scores in a table, and not a trace on the run."""

from __future__ import annotations

import csv
import hashlib
import io
import itertools
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from mfec.algorithms import RunConfig
from mfec.algorithms.baselines.settings import A2CConfig, DQNConfig
from mfec.algorithms.mfec import MFECConfig
from mfec.callbacks import Stopped
from mfec.checkpoint import read_checkpoint
from mfec.cli import main
from mfec.config import EnvConfig, EvaluationConfig
from mfec.evaluation.whole_games import WholeGames
from mfec.experiments.evaluate import evaluate_run
from mfec.experiments.train import train
from mfec.run_directory import RunDirectory, RunDirectoryError

from .stopping import stopped_after
from .test_tensorboard import scalars

HEADER = "frames,games,mean,standard_error,lowest,highest,mean_length_frames"
SMALL = MFECConfig(capacity=300, eviction="used")
QUICK = DQNConfig(replay_start=50, replay_capacity=500, target_every=100)


def trained(config: RunConfig, out: Path, **options: Any) -> RunDirectory:
    return train(config, out, console=Console(file=io.StringIO()), **options)


def what_is_left(run: RunDirectory, kind: str = "agent") -> tuple[str, dict[str, Any], dict[str, str]]:
    """Games, what a checkpoint says of the agent but for its clocks, and its arrays."""
    state, tensors = read_checkpoint(run.checkpoint, kind=kind)
    state.pop("tally", None)  # of MFEC
    arrays = {
        f"{group}.{name}": hashlib.sha256(array.tobytes()).hexdigest()
        for group, own in tensors.items()
        for name, array in own.items()
    }
    return run.episodes_file.read_text(), state, arrays


def rows(run: RunDirectory) -> list[dict[str, str]]:
    with run.evaluations_file.open() as file:
        return list(csv.DictReader(file))


# -- No trace ---------------------------------------------------------------------------------------------------------

RUNS = {
    "one lake": RunConfig("FrozenLake-v1", 1500, 3, SMALL),
    "carts, cells": RunConfig("CartPole-v1", 1500, 0, replace(SMALL, index="cells"), EnvConfig(n_envs=3)),
    "carts, device": RunConfig("CartPole-v1", 600, 1, replace(SMALL, index="cuda"), EnvConfig(n_envs=2)),
    "a game": RunConfig("qbert", 1200, 0, SMALL, EnvConfig(max_frames=120)),
    "games": RunConfig("ms_pacman", 1200, 0, SMALL, EnvConfig(n_envs=3, max_frames=120, frame_stack=4)),
    "dqn": RunConfig("CartPole-v1", 600, 0, algorithm="dqn", agent=QUICK),
    "a2c": RunConfig("CartPole-v1", 600, 0, algorithm="a2c", environment=EnvConfig(n_envs=4), agent=A2CConfig()),
}


@pytest.mark.parametrize(("name", "epsilon"), [(name, 0.3 * (i % 2)) for i, name in enumerate(RUNS)])
def test_a_run_is_the_same_with_and_without(tmp_path, name, epsilon):
    config = RUNS[name]
    kind = "agent" if config.algorithm == "mfec" else "baseline"
    times = 2 if config.environment.max_frames < 1000 else 5  # thirty emulators take their time
    every = EvaluationConfig(config.total_frames // times, evaluate_games=3, evaluate_epsilon=epsilon)
    without = trained(config, tmp_path / "without")
    with_them = trained(replace(config, evaluation=every), tmp_path / "with")
    assert what_is_left(with_them, kind) == what_is_left(without, kind)
    assert len(rows(with_them)) >= times
    assert not without.evaluations_file.exists()


def test_a_run_in_a_fleet_is_evaluated_as_it_is_alone(tmp_path):
    arguments = ["--index", "cuda", "--total-frames", "800", "--capacity", "99", "--max-frames", "120", "--no-video"]
    evaluate = ["--evaluate-every", "400"]
    assert main(["train", "qbert", "ms_pacman", *arguments, *evaluate, "--out", str(tmp_path / "fleet")]) == 0
    assert main(["train", "qbert", *arguments, "--out", str(tmp_path / "without")]) == 0
    fleet, without = RunDirectory(tmp_path / "fleet" / "qbert"), RunDirectory(tmp_path / "without")
    assert what_is_left(fleet) == what_is_left(without)
    assert [row["frames"] for row in rows(fleet)] == ["400", "800"]
    [alone] = evaluate_run(without, starts="all")  # of the same agent, with a search of its own
    assert float(rows(fleet)[-1]["mean"]) == alone.mean


# -- The table --------------------------------------------------------------------------------------------------------


def test_the_last_row_is_what_evaluate_says_of_the_finished_run(tmp_path):
    """At the end of a run its agent is that of the checkpoint. Rows come at the first step after each multiple."""
    evaluation = EvaluationConfig(700)
    config = RunConfig("qbert", 900, 2, SMALL, EnvConfig(n_envs=3, max_frames=120), evaluation=evaluation)
    run = trained(config, tmp_path)
    assert run.evaluations_file.read_text().splitlines()[0] == HEADER
    assert [int(row["frames"]) for row in rows(run)] == [704, 900]
    [exact] = evaluate_run(run, starts="all")
    assert exact.exact
    assert len(exact.scores) == 30
    last = {name: float(value) for name, value in rows(run)[-1].items()}
    assert last == {
        "frames": 900,
        "games": 30,
        "mean": pytest.approx(exact.mean),
        "standard_error": pytest.approx(exact.standard_error),
        "lowest": min(exact.scores),
        "highest": max(exact.scores),
        "mean_length_frames": pytest.approx(exact.mean_length_frames),
    }


@pytest.mark.parametrize("config", [
    RunConfig("CartPole-v1", 900, 4, SMALL, evaluation=EvaluationConfig(500, 7)),
    RunConfig("CartPole-v1", 900, 4, SMALL, evaluation=EvaluationConfig(500, 7, 0.2)),
    RunConfig("qbert", 900, 4, SMALL, EnvConfig(max_frames=240), evaluation=EvaluationConfig(500, 2, 0.2)),
    RunConfig("CartPole-v1", 900, 4, algorithm="dqn", agent=QUICK, evaluation=EvaluationConfig(500, 3)),
])  # fmt: skip
def test_sampled_games_are_those_of_evaluate_on_the_runs_seed(tmp_path, config):
    run = trained(config, tmp_path)
    settings = config.evaluation
    [same] = evaluate_run(run, episodes=settings.evaluate_games, seed=4, epsilon=settings.evaluate_epsilon)
    assert float(rows(run)[-1]["mean"]) == pytest.approx(same.mean)
    assert int(rows(run)[-1]["games"]) == settings.evaluate_games


def test_a_single_game_has_no_standard_error(tmp_path):
    run = trained(RunConfig("FrozenLake-v1", 60, 0, SMALL, evaluation=EvaluationConfig(50, 1)), tmp_path)
    assert [row["standard_error"] for row in rows(run)] == ["", ""]
    assert all(math.isnan(error) for error in run.evaluations()["standard_error"])


def test_settings_are_kept_with_the_run(tmp_path):
    config = RunConfig("FrozenLake-v1", 60, 0, SMALL, evaluation=EvaluationConfig(50, 2))
    run = trained(config, tmp_path)
    assert run.read_config().evaluation == config.evaluation
    more = replace(config, total_frames=90)
    with pytest.raises(RunDirectoryError, match=r"was begun with evaluate_games = 2, it cannot go on with 3"):
        trained(replace(more, evaluation=EvaluationConfig(50, 3)), tmp_path, resume=True)
    trained(replace(more, evaluation=EvaluationConfig(10, 2)), tmp_path, resume=True)
    assert [row["frames"] for row in rows(run)][-3:] == ["70", "80", "90"]


# -- Stops ------------------------------------------------------------------------------------------------------------


def test_a_run_that_was_stopped_has_the_table_of_one_that_was_not(tmp_path):
    config = RunConfig("CartPole-v1", 1000, 0, SMALL, EnvConfig(n_envs=2), evaluation=EvaluationConfig(150, 4))
    whole = trained(config, tmp_path / "whole")
    for steps in (70, 5, 1, 75, 150):  # of two environments each
        with stopped_after(steps):
            trained(config, tmp_path / "parts", resume=True)
    parts = trained(config, tmp_path / "parts", resume=True)
    assert parts.evaluations_file.read_text() == whole.evaluations_file.read_text()
    assert what_is_left(parts) == what_is_left(whole)


@pytest.mark.parametrize("cut_short", [1, 4], ids=["the first", "the last"])
def test_an_evaluation_that_a_stop_cuts_short_is_made_when_the_run_goes_on(tmp_path, monkeypatch, cut_short):
    config = RunConfig("CartPole-v1", 700, 0, SMALL, evaluation=EvaluationConfig(200, 4))
    whole = trained(config, tmp_path / "whole")
    play, numbers = WholeGames.play, itertools.count(1)

    def stopped_once(games: WholeGames, player: Any, check: Any) -> Any:
        if next(numbers) == cut_short:
            raise Stopped
        return play(games, player, check)

    monkeypatch.setattr(WholeGames, "play", stopped_once)
    with pytest.raises(Stopped):
        trained(config, tmp_path / "parts")
    parts = RunDirectory(tmp_path / "parts")
    assert len(parts.evaluations()["frames"]) == cut_short - 1
    trained(config, parts.path, resume=True)
    assert parts.evaluations_file.read_text() == whole.evaluations_file.read_text()
    assert what_is_left(parts) == what_is_left(whole)


def test_rows_that_a_checkpoint_does_not_know_are_written_again(tmp_path):
    config = RunConfig("CartPole-v1", 500, 0, SMALL, evaluation=EvaluationConfig(100, 4))
    whole = trained(config, tmp_path / "whole")
    with stopped_after(250):
        trained(config, tmp_path / "parts")
    parts = RunDirectory(tmp_path / "parts")
    with parts.evaluations_file.open("a") as table:
        table.write("300,4,1.0,1.0,1.0,1.0,1.0\n400,4,1.0")  # killed in the middle of a row
    trained(config, parts.path, resume=True)
    assert parts.evaluations_file.read_text() == whole.evaluations_file.read_text()


def test_a_finished_run_can_be_evaluated_by_going_on_with_it(tmp_path):
    config = RunConfig("CartPole-v1", 500, 0, SMALL)
    run = trained(config, tmp_path)
    before = what_is_left(run)
    trained(replace(config, evaluation=EvaluationConfig(100, 4)), tmp_path, resume=True)
    assert [row["frames"] for row in rows(run)] == ["500"]
    assert what_is_left(run) == before


# -- What a user sees -------------------------------------------------------------------------------------------------


def test_the_line_and_tensorboard_tell_of_it(tmp_path, capsys):
    arguments = ["--total-frames", "900", "--capacity", "300", "--evaluate-every", "400", "--evaluate-games", "5"]
    assert main(["train", "CartPole-v1", *arguments, "--no-video", "--out", str(tmp_path)]) == 0
    table = RunDirectory(tmp_path).evaluations()
    assert table["frames"] == [400, 800, 900]
    last = [line for line in capsys.readouterr().out.splitlines() if "900/900 frames" in line]
    assert f"greedy {table['mean'][-1]:,.1f}" in last[-1]
    told = scalars(tmp_path)
    for name, column in table.items():
        if name != "frames":
            expected = list(zip([400, 800, 900], column, strict=True))
            assert told[f"evaluation/{name}"] == [(frames, pytest.approx(number)) for frames, number in expected]


def test_a_finished_run_says_that_its_score_is_exact(tmp_path, capsys):
    arguments = ["--total-frames", "800", "--capacity", "300", "--max-frames", "120", "--no-video"]
    assert main(["train", "qbert", *arguments, "--out", str(tmp_path)]) == 0
    capsys.readouterr()
    for starts, words in (("all", "all thirty starts, once each"), ("unseen", "that training never has, once each")):
        assert main(["evaluate", str(tmp_path), "--starts", starts]) == 0
        said = " ".join(capsys.readouterr().out.split())
        assert f"{words}: the exact score of the agent's policy" in said
    assert main(["evaluate", str(tmp_path), "--starts", "all", "--epsilon", "0.5"]) == 0
    assert "exact score" not in capsys.readouterr().out
    assert main(["evaluate", str(tmp_path), "--starts", "all", "--episodes", "5"]) == 1
    assert "there are 30 starts, once each, not 5" in capsys.readouterr().err


@pytest.mark.parametrize(("option", "value", "message"), [
    ("--evaluate-every", "-1", "evaluate_every must not be negative, and -1 is"),
    ("--evaluate-games", "0", "evaluate_games must be at least 1, not 0"),
    ("--evaluate-epsilon", "1.5", "evaluate_epsilon must lie between 0 and 1, not 1.5"),
])  # fmt: skip
def test_senseless_numbers_are_refused(tmp_path, capsys, option, value, message):
    with pytest.raises(SystemExit):
        main(["train", "CartPole-v1", option, value, "--out", str(tmp_path / "run")])
    assert message in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "run").exists()
