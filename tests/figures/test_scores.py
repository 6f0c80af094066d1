"""Scores after a number of frames."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from mfec.config import VAEConfig
from mfec.figures.scores import frames_reached, scores_at

from .run_files import mfec, vae, write_run


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
    own = replace(mfec(embedding="vae"), vae=VAEConfig(frames=300))
    trained = write_run(tmp_path / "own", own, [(500, 3.0)])
    assert frames_reached(trained) == 500  # its own frames of random play are in the table
    assert scores_at(trained, [500]) == [pytest.approx(3.0)]
