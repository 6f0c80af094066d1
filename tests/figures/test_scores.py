"""Scores after a number of frames."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from mfec.config import EnvConfig
from mfec.figures.scores import SCORES, check_scored, frames_reached, scores_at
from mfec.run_directory import RunDirectory, RunDirectoryError

from .run_files import baseline, evaluated, mfec, vae, write_evaluated, write_evaluations, write_run


def test_a_score_is_the_mean_of_the_last_hundred_games_by_then(tmp_path):
    games = [(1000 * number, float(number)) for number in range(1, 251)]
    run = write_run(tmp_path, mfec(), games, [{"frames": 260_000}])
    assert scores_at(run, [1000, 2500, 100_000, 100_999, 200_000, 255_000]) == [
        1.0, 1.5, 50.5, 50.5, 150.5, 200.5,
    ]  # fmt: skip


def test_a_run_has_no_score_before_its_first_game_nor_after_its_last_frame(tmp_path):
    run = write_run(tmp_path, mfec(), [(1000, 5.0), (2000, 7.0)], [{"frames": 10_000}])
    before, there, after = scores_at(run, [999, 10_000, 10_001])
    assert there == 6.0
    assert math.isnan(before)
    assert math.isnan(after)


def test_a_run_has_come_as_far_as_either_of_its_tables_says(tmp_path):
    assert frames_reached(write_run(tmp_path / "a", mfec(), [(14_000, 1.0)], [{"frames": 10_000}])) == 14_000
    assert frames_reached(write_run(tmp_path / "b", mfec(), [(14_000, 1.0)], [{"frames": 20_000}])) == 20_000
    assert frames_reached(write_run(tmp_path / "c", mfec(), [(14_000, 1.0)])) == 14_000
    assert frames_reached(write_run(tmp_path / "d", mfec(), [])) == 0


def test_frames_that_an_encoder_was_trained_on_count(tmp_path):
    run = write_run(tmp_path / "ready", vae(), [(500, 3.0)], [{"frames": 10_000}])
    assert frames_reached(run) == 1_010_000
    early, late, _ = scores_at(run, [1_000_499, 1_000_500, 1_010_001])
    assert math.isnan(early)
    assert late == 3.0
    own = mfec(embedding="vae", vae_frames=300)
    trained = write_run(tmp_path / "own", own, [(500, 3.0)])
    assert frames_reached(trained) == 500  # its own frames of random play are in the table
    assert scores_at(trained, [500]) == [pytest.approx(3.0)]


# -- Evaluations ------------------------------------------------------------------------------------------------------


def greedy(run: RunDirectory, *frames: int) -> list[float | None]:
    """Scores of greedy play after so many frames; None where there is none."""
    return [None if math.isnan(score) else score for score in scores_at(run, frames, score="greedy")]


def reference(rows: list[tuple[int, float]], frames: int, every: int) -> float | None:
    """The one row whose number of intervals is that of these frames."""
    return next((score for at, score in rows if at // every == frames // every), None)


def test_a_greedy_score_is_the_evaluation_of_the_interval(tmp_path):
    rows = [(200_000 * number + late, 10.0 * number) for number, late in enumerate((64, 0, 192, 128, 64), start=1)]
    run = write_evaluated(tmp_path, mfec(), rows)
    marks = range(0, 1_400_000, 50_000)
    assert greedy(run, *marks) == [reference(rows, at, 200_000) for at in marks]
    assert greedy(run, 1_000_000, 1_199_999, 1_200_000, 199_999) == [50.0, 50.0, None, None]


def test_an_evaluation_that_was_left_out_is_no_score(tmp_path):
    """Nor is the one before it, which is older by an interval."""
    run = write_evaluated(tmp_path, mfec(), [(200_000, 1.0), (600_000, 3.0)])
    assert greedy(run, 399_999, 400_000, 599_999, 600_000) == [1.0, None, None, 3.0]


def test_the_evaluation_at_the_end_counts_for_its_own_frames(tmp_path):
    run = write_evaluated(tmp_path / "a", mfec(), [(200_064, 1.0), (300_032, 2.0)])
    assert greedy(run, 200_000, 300_000, 300_032, 399_999, 400_000) == [1.0, 1.0, 2.0, 2.0, None]
    short = write_evaluated(tmp_path / "b", mfec(), [(100_000, 5.0)])
    assert greedy(short, 50_000, 100_000, 200_000) == [None, 5.0, None]


def test_frames_that_an_encoder_was_trained_on_count_before_evaluations(tmp_path):
    run = write_evaluated(tmp_path / "ready", vae(), [(200_000, 1.0), (1_000_064, 5.0)])
    assert greedy(run, 200_000, 1_000_000, 1_200_000, 2_000_000) == [None, None, 1.0, 5.0]
    own = mfec(embedding="vae", vae_frames=300_000)
    trained = write_evaluated(tmp_path / "own", own, [(300_004, 1.0), (400_000, 2.0)])
    assert greedy(trained, 200_000, 300_003, 300_004, 400_000) == [None, None, 1.0, 2.0]


def test_evaluations_of_a_run_that_goes_on_without_any_count_for_their_own_frames(tmp_path):
    run = write_evaluations(write_run(tmp_path, mfec(), [(9, 1.0)]), [(200_064, 1.0)])
    assert run.read_config().evaluation.evaluate_every == 0
    assert greedy(run, 200_000, 200_064, 200_065) == [None, 1.0, None]


def test_runs_have_come_to_the_last_evaluation_that_all_have(tmp_path):
    runs = [
        write_evaluated(tmp_path / "a", mfec(), [(200_000, 1.0), (400_064, 2.0), (600_000, 3.0)]),
        write_evaluated(tmp_path / "b", mfec(seed=1), [(200_064, 1.0), (400_000, 2.0), (500_000, 3.0)]),
        write_evaluated(tmp_path / "c", mfec(seed=2), [(100_000 * n, 1.0) for n in range(1, 10)], every=100_000),
    ]
    assert SCORES["greedy"].reached(runs) == 400_000
    assert SCORES["greedy"].reached(runs[1:]) == 500_000
    apart = write_evaluated(tmp_path / "d", mfec(seed=3), [(300_000, 1.0), (900_000, 2.0)], every=300_000)
    assert SCORES["greedy"].reached([runs[0], apart]) == 600_000  # where each has one of the interval before


def test_a_run_without_evaluations_says_how_to_make_some(tmp_path):
    run = write_run(tmp_path, evaluated(mfec()), [(9, 1.0)])
    check_scored(run, "training")
    with pytest.raises(RunDirectoryError) as error:
        check_scored(run, "greedy")
    assert str(error.value) == f"{tmp_path} has no evaluation yet; `mfec train --evaluate-every 200000` makes some"


def test_texts_say_how_runs_were_evaluated(tmp_path):
    def said(*runs: RunDirectory) -> list[str]:
        words = SCORES["greedy"].words(runs)
        return [words.label(9.0), words.label(1.0), words.mean, words.starts]

    rows, starts = [(200_000, 1.0)], "The games are all thirty starts, once each."
    plain = write_evaluated(tmp_path / "plain", mfec(), rows)
    level = write_evaluated(tmp_path / "level", mfec("labyrinth_forage"), rows, games=10)
    sticky = replace(mfec(), environment=EnvConfig(sticky_actions=0.25))
    other = write_evaluated(tmp_path / "other", sticky, rows)
    random = write_evaluated(tmp_path / "random", baseline("dqn"), rows, epsilon=0.05)
    assert said(plain) == [
        "score of greedy play, mean of 30 games", "score of greedy play,\nmean of 30 games",
        "mean of 30 games of greedy play", starts,
    ]  # fmt: skip
    assert said(plain, level)[::3] == ["score of greedy play, mean of 10 to 30 games", ""]
    assert said(other)[::3] == ["score of greedy play, mean of 30 games", ""]
    assert said(random) == [
        "score of evaluation with epsilon 0.05, mean of 30 games",
        "score of evaluation with\nepsilon 0.05, mean of 30 games",
        "mean of 30 games of evaluation with epsilon 0.05", "",
    ]  # fmt: skip
    assert said(plain, random)[2] == "mean of 30 games of evaluation with epsilon 0 or 0.05"
    single = write_evaluated(tmp_path / "single", mfec("labyrinth_forage"), rows, games=1)
    assert said(single)[2] == "mean of 1 game of greedy play"
    # On Atari all thirty are played whatever was asked for, so the table knows best.
    more = write_evaluated(tmp_path / "more", mfec(), rows, games=10)
    more.evaluations_file.write_text(plain.evaluations_file.read_text())
    assert said(more)[2] == "mean of 30 games of greedy play"
