"""Figure 2: scores against k."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from mfec.cli import main
from mfec.figures.figure2 import draw_figure2, figure2
from mfec.figures.lines import FigureError
from mfec.run_directory import RunDirectory, RunDirectoryError

from .run_files import baseline, evaluated, mfec, read_csv, vae, write_evaluated, write_run


def flat_games(score: float, until: int) -> list[tuple[int, float]]:
    """Games of one score, and a better one for the last."""
    return [(end, score) for end in range(1000, until, 1000)] + [(until, score + until / 1000)]


def write_all(path: Path) -> list[RunDirectory]:
    """Two seeds with k of 11, one of which came further; one with k of 3; a level; and others that are not drawn."""
    return [
        write_run(path / "a", vae(k=11), flat_games(100.0, 20_000)),
        write_run(path / "b", vae(k=11, seed=1), flat_games(200.0, 40_000)),
        write_run(path / "c", vae(k=3), flat_games(50.0, 30_000)),
        write_run(path / "d", vae("labyrinth_forage", k=50), flat_games(7.0, 10_000)),
        write_run(path / "e", mfec(k=5), flat_games(1.0, 10_000)),
        write_run(path / "f", mfec(k=7, epsilon=0.1), flat_games(1.0, 10_000)),
        write_run(path / "g", baseline("dqn"), flat_games(1.0, 10_000)),
    ]


def test_scores_are_taken_where_all_runs_of_the_environment_have_come(tmp_path):
    three, eleven, forage = figure2(write_all(tmp_path))
    assert {point.environment for point in (three, eleven)} == {"qbert"}
    assert {point.frames for point in (three, eleven)} == {1_020_000}  # with those of the encoder
    assert (three.k, three.mean, three.seeds) == (3, 50.0, 1)
    assert math.isnan(three.standard_error)
    assert (eleven.k, eleven.seeds) == (11, 2)
    assert eleven.mean == pytest.approx((100.0 + 20.0 / 20 + 200.0) / 2)  # the last of 20 games is better by 20
    assert eleven.standard_error == pytest.approx((200.0 - 101.0) / 2)
    assert (forage.environment, forage.k, forage.frames, forage.mean) == ("labyrinth_forage", 50, 1_010_000, 8.0)


def test_frames_can_be_named(tmp_path):
    three, eleven, forage = figure2(write_all(tmp_path), at_frames=1_005_000)
    assert (three.mean, eleven.mean, forage.mean) == (50.0, 150.0, 7.0)
    assert {point.frames for point in (three, eleven, forage)} == {1_005_000}


def test_other_embeddings_can_be_drawn(tmp_path):
    runs = write_all(tmp_path)
    with pytest.raises(FigureError, match="differ in epsilon"):
        figure2([*runs, write_run(tmp_path / "h", mfec(k=7, seed=1), [(9, 1.0)])], embedding="random_projection")
    five, seven = figure2(runs, embedding="random_projection")
    assert ((five.k, five.frames), (seven.k, seven.frames)) == ((5, 10_000), (7, 10_000))


def test_what_cannot_be_drawn_is_said(tmp_path):
    runs = write_all(tmp_path)
    with pytest.raises(FigureError, match=r"/d has come to 1,010,000 frames, not to 1,020,000 \(--at-frames\)"):
        figure2(runs, at_frames=1_020_000)
    with pytest.raises(FigureError, match="/d has no finished game in its first 1,000,100 frames"):
        figure2(runs[3:4], at_frames=1_000_100)
    with pytest.raises(
        FigureError, match="no run has the embedding identity; there are runs with random_projection, vae"
    ):
        figure2(runs, embedding="identity")
    with pytest.raises(FigureError, match="no run has the embedding vae; no run has neighbours"):
        figure2(runs[6:])


def test_the_command_writes_the_numbers(tmp_path, capsys):
    write_all(tmp_path / "runs")
    out = tmp_path / "figure2.csv"
    assert main(["figure", "figure2", str(tmp_path / "runs"), "--out", str(out), "--at-frames", "1005000"]) == 0
    assert capsys.readouterr().out == f"{out}\n"
    assert read_csv(out)[1] == {
        "environment": "qbert", "embedding": "vae", "k": "11", "frames": "1005000",
        "mean": "150", "standard_error": "50", "seeds": "2",
    }  # fmt: skip


def test_the_command_draws(tmp_path):
    write_all(tmp_path / "runs")
    out = tmp_path / "figure2.png"
    assert main(["figure", "figure2", str(tmp_path / "runs"), "--out", str(out)]) == 0
    assert out.stat().st_size > 1000


def test_games_and_levels_have_panels_of_their_own(tmp_path):
    text = draw_figure2(write_all(tmp_path), tmp_path / "figure2.svg").read_text()
    for words in (
        "Atari games, 1.02M frames", "Labyrinth levels, 1.01M frames", "k, number of neighbours", "Q*bert", "Forage",
        "MFEC, VAE, 1 to 2 seeds", "MFEC, VAE, 1 seed",
    ):  # fmt: skip
        assert f"<!-- {words} -->" in text, words


def test_frames_are_named_line_by_line_where_they_differ(tmp_path):
    runs = [
        write_run(tmp_path / env, vae(env), flat_games(10.0, at)) for env, at in (("qbert", 9000), ("pong", 20_000))
    ]
    text = draw_figure2(runs, tmp_path / "figure2.svg").read_text()
    for words in ("Atari games", "Q*bert, 1.01M", "Pong, 1.02M"):
        assert f"<!-- {words} -->" in text, words


# -- Evaluations ------------------------------------------------------------------------------------------------------


def write_evaluated_runs(path: Path) -> list[RunDirectory]:
    """Two seeds with k of 11, one of which came further; one with k of 3 whose steps are longer."""
    rows = [(200_000, 10.0), (400_000, 20.0), (600_000, 30.0)]
    return [
        write_evaluated(path / "a", mfec(k=11), rows[:2]),
        write_evaluated(path / "b", mfec(k=11, seed=1), [(at, score + 4.0) for at, score in rows]),
        write_evaluated(path / "c", mfec(k=3), [(at + 64, score / 2) for at, score in rows]),
    ]


def test_evaluations_are_the_last_that_all_runs_have(tmp_path, capsys):
    write_evaluated_runs(tmp_path / "runs")
    out = tmp_path / "figure2.csv"
    command = ["figure", "figure2", str(tmp_path / "runs"), "--embedding", "random_projection", "--score", "greedy"]
    assert main([*command, "--out", str(out)]) == 0
    rows = [(row["k"], row["frames"], row["mean"], row["standard_error"], row["seeds"]) for row in read_csv(out)]
    assert rows == [("3", "400000", "10", "", "1"), ("11", "400000", "22", "2", "2")]
    assert main([*command, "--out", str(out), "--at-frames", "250000"]) == 0
    assert [(row["frames"], row["mean"]) for row in read_csv(out)] == [("250000", "5"), ("250000", "12")]
    assert main([*command, "--out", str(out), "--at-frames", "600000"]) == 1
    assert f"{tmp_path / 'runs' / 'a'} has no evaluation after 600,000 frames" in capsys.readouterr().err


def test_a_run_without_an_evaluation_is_named(tmp_path):
    runs = [*write_evaluated_runs(tmp_path), write_run(tmp_path / "d", evaluated(mfec(k=5)), flat_games(1.0, 9000))]
    for at_frames, kind in ((None, RunDirectoryError), (200_000, FigureError)):
        with pytest.raises(kind, match="/d has no evaluation yet; `mfec train --evaluate-every 200000` makes some"):
            figure2(runs, embedding="random_projection", at_frames=at_frames, score="greedy")


def test_evaluations_of_different_kinds_are_refused(tmp_path):
    runs = [*write_evaluated_runs(tmp_path), write_evaluated(tmp_path / "d", mfec(seed=2), [(200_000, 1.0)], games=5)]
    with pytest.raises(FigureError, match="differ in evaluate_games 30 and evaluate_games 5"):
        figure2(runs, embedding="random_projection", score="greedy")
    assert [point.seeds for point in figure2(runs, embedding="random_projection")] == [1, 3]


def test_the_figure_says_which_score_it_is(tmp_path):
    runs, out = write_evaluated_runs(tmp_path), tmp_path / "figure2.svg"
    text = draw_figure2(runs, out, embedding="random_projection", score="greedy").read_text()
    for words in ("score of greedy play,", "mean of 30 games", "Atari games, 400k frames"):
        assert f"<!-- {words} -->" in text
    text = draw_figure2(runs, out, embedding="random_projection").read_text()
    assert "<!-- score, mean of the last 100 games -->" in text
