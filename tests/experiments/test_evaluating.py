"""Evaluation while a run trains: exact scores in a table, and not a trace on the run."""

from __future__ import annotations

import csv
import hashlib
import io
import itertools
import math
from collections.abc import Iterator
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


@pytest.fixture(scope="module", autouse=True)
def _few_emulators() -> Iterator[None]:
    """To load one takes long; games are the same however many are played at a time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mfec.evaluation.whole_games.SIDE_BY_SIDE", 3)
        yield


def trained(config: RunConfig, out: Path, **options: Any) -> RunDirectory:
    return train(config, out, console=Console(file=io.StringIO()), **options)


def what_is_left(run: RunDirectory) -> tuple[str, dict[str, Any], dict[str, str]]:
    """Games, what a checkpoint says of the agent but for its clocks, and its arrays."""
    kind = "agent" if run.read_config().algorithm == "mfec" else "baseline"
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
    "carts, cells": (RunConfig("CartPole-v1", 400, 0, replace(SMALL, index="cells"), EnvConfig(n_envs=3)), 0.0),
    "games": (RunConfig("ms_pacman", 400, 0, SMALL, EnvConfig(max_frames=80, frame_stack=4)), 0.3),
    "dqn": (RunConfig("CartPole-v1", 200, 0, algorithm="dqn", agent=QUICK), 0.0),
    "a2c": (RunConfig("CartPole-v1", 200, 0, algorithm="a2c", environment=EnvConfig(n_envs=4), agent=A2CConfig()), 0.3),
}


@pytest.mark.parametrize("name", RUNS)
def test_a_run_is_the_same_with_and_without_and_games_are_those_of_evaluate_on_its_seed(tmp_path, name):
    config, epsilon = RUNS[name]
    every = EvaluationConfig(config.total_frames // 2, evaluate_games=2, evaluate_epsilon=epsilon)
    without = trained(config, tmp_path / "without")
    with_them = trained(replace(config, evaluation=every), tmp_path / "with")
    assert what_is_left(with_them) == what_is_left(without)
    assert int(rows(with_them)[0]["frames"]) - every.evaluate_every in range(8)  # at the first step that reaches it
    assert int(rows(with_them)[-1]["frames"]) >= config.total_frames
    assert not without.evaluations_file.exists()
    [same] = evaluate_run(without, episodes=2, seed=config.seed, epsilon=epsilon)
    assert float(rows(with_them)[-1]["mean"]) == pytest.approx(same.mean)
    assert int(rows(with_them)[-1]["games"]) == 2


def test_a_run_in_a_fleet_is_evaluated_as_it_is_alone(tmp_path):
    arguments = ["--index", "cuda", "--total-frames", "300", "--capacity", "99", "--no-video"]
    evaluate = ["--evaluate-every", "200", "--evaluate-games", "3"]
    assert main(["train", "CartPole-v1", "FrozenLake-v1", *arguments, *evaluate, "--out", str(tmp_path / "fleet")]) == 0
    assert main(["train", "CartPole-v1", *arguments, "--out", str(tmp_path / "without")]) == 0
    fleet, without = RunDirectory(tmp_path / "fleet" / "CartPole-v1"), RunDirectory(tmp_path / "without")
    assert what_is_left(fleet) == what_is_left(without)
    assert [row["frames"] for row in rows(fleet)] == ["200", "300"]
    [alone] = evaluate_run(without, episodes=3, seed=0, epsilon=0.0)  # of the same agent, with a search of its own
    assert float(rows(fleet)[-1]["mean"]) == pytest.approx(alone.mean)


# -- The table --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def game(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    config = RunConfig("qbert", 600, 2, SMALL, EnvConfig(max_frames=80), evaluation=EvaluationConfig(600))
    return trained(config, tmp_path_factory.mktemp("game"))


def test_the_last_row_is_what_evaluate_says_of_the_finished_run(game):
    """At the end of a run its agent is that of the checkpoint."""
    assert game.evaluations_file.read_text().splitlines()[0] == HEADER
    [exact] = evaluate_run(game, starts="all")
    assert exact.exact
    assert len(exact.scores) == 30
    [row] = rows(game)
    last = {name: float(value) for name, value in row.items()}
    assert last == {
        "frames": 600,
        "games": 30,
        "mean": pytest.approx(exact.mean),
        "standard_error": pytest.approx(exact.standard_error),
        "lowest": min(exact.scores),
        "highest": max(exact.scores),
        "mean_length_frames": pytest.approx(exact.mean_length_frames),
    }


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
    config = RunConfig("CartPole-v1", 300, 0, SMALL, EnvConfig(n_envs=2), evaluation=EvaluationConfig(50, 3))
    whole = trained(config, tmp_path / "whole")
    for steps in (20, 5, 1, 49):  # of two environments each
        with stopped_after(steps):
            trained(config, tmp_path / "parts", resume=True)
    parts = trained(config, tmp_path / "parts", resume=True)
    assert parts.evaluations_file.read_text() == whole.evaluations_file.read_text()
    assert what_is_left(parts) == what_is_left(whole)


@pytest.mark.parametrize("cut_short", [1, 4], ids=["the first", "the last"])
def test_an_evaluation_that_a_stop_cuts_short_is_made_when_the_run_goes_on(tmp_path, monkeypatch, cut_short):
    config = RunConfig("CartPole-v1", 350, 0, SMALL, evaluation=EvaluationConfig(100, 3))
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
    config = RunConfig("CartPole-v1", 250, 0, SMALL, evaluation=EvaluationConfig(50, 3))
    whole = trained(config, tmp_path / "whole")
    with stopped_after(125):
        trained(config, tmp_path / "parts")
    parts = RunDirectory(tmp_path / "parts")
    with parts.evaluations_file.open("a") as table:
        table.write("150,3,1.0,1.0,1.0,1.0,1.0\n200,3,1.0")  # killed in the middle of a row
    trained(config, parts.path, resume=True)
    assert parts.evaluations_file.read_text() == whole.evaluations_file.read_text()


def test_a_finished_run_can_be_evaluated_by_going_on_with_it(tmp_path):
    config = RunConfig("CartPole-v1", 200, 0, SMALL)
    run = trained(config, tmp_path)
    before = what_is_left(run)
    trained(replace(config, evaluation=EvaluationConfig(100, 4)), tmp_path, resume=True)
    assert [row["frames"] for row in rows(run)] == ["200"]
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


def test_a_finished_run_says_that_its_score_is_exact(game, capsys):
    assert main(["evaluate", str(game.path), "--starts", "unseen"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "that training never has, once each: the exact score" in said
    assert main(["evaluate", str(game.path), "--starts", "all", "--episodes", "5"]) == 1
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
