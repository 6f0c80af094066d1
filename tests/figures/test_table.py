"""The table: every number against one computed by hand, and the forms that it is written in."""

from __future__ import annotations

import math
import statistics
from pathlib import Path

import pytest

from mfec.cli import main
from mfec.figures.table import table, write_table
from mfec.figures.table_entries import Entry, grids_of
from mfec.run_directory import RunDirectory
from mfec.statistics import interquartile_mean, stratified_bootstrap

from .run_files import baseline, evaluated, mfec, read_csv, vae, write_evaluated, write_run

MILLION = 1_000_000
QBERT, FROSTBITE = (163.9, 13455.0), (65.2, 4334.7)  # random play, people


def steps(*scores: float, last: int | None = None) -> tuple[list[tuple[int, float]], list[dict[str, float]]]:
    """A hundred games in each million of frames, all of one score; the run ends after them, or later."""
    games = [
        (million * MILLION + 10_000 * game, score) for million, score in enumerate(scores) for game in range(1, 101)
    ]
    return games, [{"frames": last or len(scores) * MILLION}]


def percent(score: float, game: tuple[float, float]) -> float:
    random, human = game
    return 100 * (score - random) / (human - random)


def write_all(path: Path) -> list[RunDirectory]:
    return [
        write_run(path / "a", mfec("qbert"), *steps(1000.0, 2000.0, 0.0, 3000.0, last=4_250_000)),
        write_run(path / "b", mfec("qbert", seed=1), *steps(1100.0, 2400.0)),
        write_run(path / "c", mfec("frostbite"), *steps(200.0, 300.0)),
        write_run(path / "d", mfec("frostbite", seed=1), *steps(220.0, 340.0)),
        write_run(path / "e", vae("qbert"), *steps(700.0)),
        write_run(path / "f", baseline("dqn", "qbert"), *steps(*[50.0] * 9, 90.0)),
        write_run(path / "g", mfec("labyrinth_forage"), *steps(7.25)),
    ]


def find(entries: list[Entry], quantity: str, *which: object) -> Entry:
    """The one entry of this quantity, environment, algorithm, embedding, and frames, of runs or published."""
    [found] = [
        entry
        for entry in entries
        if (entry.quantity, entry.environment, entry.algorithm, entry.embedding, entry.frames, entry.source)
        == (quantity, *which)
    ]
    return found


PRITZEL = "Pritzel et al. 2017"


def test_scores_after_millions_of_frames(tmp_path):
    entries = table(write_all(tmp_path))
    ours = "qbert", "mfec", "random_projection"
    one = find(entries, "score", *ours, MILLION, "runs")
    assert (one.value, one.standard_error, one.seeds) == (1050.0, 50.0, 2)
    two = find(entries, "score", *ours, 2 * MILLION, "runs")
    assert (two.value, two.standard_error, two.seeds) == (2200.0, pytest.approx(200.0), 2)
    four = find(entries, "score", *ours, 4 * MILLION, "runs")  # where only one of the seeds has come
    assert (four.value, four.seeds) == (3000.0, 1)
    assert math.isnan(four.standard_error)
    assert not [entry for entry in entries if entry.frames == 10 * MILLION and entry.embedding]
    assert find(entries, "score", "qbert", "dqn", "", 10 * MILLION, "runs").value == 90.0
    last = find(entries, "final_score", *ours, 2 * MILLION, "runs")  # as far as both have come
    assert (last.value, last.seeds) == (2200.0, 2)


def test_a_million_frames_with_an_encoder_are_two(tmp_path):
    entries = table(write_all(tmp_path))
    own = [entry for entry in entries if entry.embedding == "vae" and entry.quantity == "score"]
    assert [(entry.frames, entry.value) for entry in own] == [(2 * MILLION, 700.0)]


def test_human_normalised_scores_lie_between_random_play_and_people(tmp_path):
    entries = table(write_all(tmp_path))
    ours = find(entries, "human_normalised", "qbert", "mfec", "random_projection", MILLION, "runs")
    assert ours.value == pytest.approx(percent(1050.0, QBERT))
    assert ours.standard_error == pytest.approx(100 * 50 / (13455.0 - 163.9))
    theirs = find(entries, "human_normalised", "qbert", "mfec", "", 10 * MILLION, PRITZEL)
    assert theirs.value == pytest.approx(percent(12500.4, QBERT))
    assert not [entry for entry in entries if entry.environment == "labyrinth_forage" and entry.quantity != "score"][1:]


def test_the_interquartile_mean_is_over_games_and_seeds(tmp_path):
    more = [
        write_run(tmp_path / "h", mfec("qbert", seed=2), *steps(1300.0)),
        write_run(tmp_path / "i", mfec("frostbite", seed=2), *steps(260.0)),
    ]
    entries = table([*write_all(tmp_path), *more])
    ours = "", "mfec", "random_projection"
    scores = {
        "qbert": [percent(1000.0, QBERT), percent(1100.0, QBERT), percent(1300.0, QBERT)],
        "frostbite": [percent(200.0, FROSTBITE), percent(220.0, FROSTBITE), percent(260.0, FROSTBITE)],
    }
    one = find(entries, "interquartile_mean", *ours, MILLION, "runs")
    every = [score for own in scores.values() for score in own]
    assert one.value == pytest.approx(statistics.fmean(sorted(every)[1:5]))
    assert (one.low, one.high) == pytest.approx(stratified_bootstrap(scores, interquartile_mean))
    assert one.low < one.value < one.high
    assert (one.games, one.seeds) == (2, 6)
    two = find(entries, "interquartile_mean", *ours, 2 * MILLION, "runs")
    assert (two.games, two.seeds) == (2, 4)
    assert math.isnan(two.low)  # two seeds of a game are too few for an interval
    four = find(entries, "interquartile_mean", *ours, 4 * MILLION, "runs")
    assert (four.value, four.games, four.seeds) == (pytest.approx(percent(3000.0, QBERT)), 1, 1)
    theirs = find(entries, "interquartile_mean", "", "nec", "", 10 * MILLION, PRITZEL)
    assert theirs.value == pytest.approx((percent(7419.2, QBERT) + percent(2747.4, FROSTBITE)) / 2)


def test_an_interval_is_read_where_every_game_has_three_seeds(tmp_path):
    runs = [write_run(tmp_path / str(seed), mfec(seed=seed), *steps(1000.0 + 100 * seed)) for seed in range(3)]
    rows = [grids_of(table(some))[2].rows[0] for some in (runs[:2], runs)]
    assert [row[:2] for row in rows] == [("MFEC, random projections", "2"), ("MFEC, random projections", "3")]
    assert "[" not in rows[0][2]
    assert rows[1][2].startswith("7.0 [6.3, ")


def test_published_numbers_are_those_of_the_same_games(tmp_path):
    entries = [entry for entry in table(write_all(tmp_path)) if entry.source == PRITZEL]
    assert {entry.environment for entry in entries} == {"qbert", "frostbite", ""}
    assert find(entries, "score", "frostbite", "prioritised_replay", "", 10 * MILLION, PRITZEL).value == 711.3
    assert find(entries, "median_of_57_games", "", "mfec", "", MILLION, PRITZEL).value == 12.8
    assert find(entries, "mean_of_57_games", "", "dqn", "", 4 * MILLION, PRITZEL).value == 8.8


def test_without_atari_nothing_is_published(tmp_path):
    run = write_run(tmp_path, mfec("labyrinth_forage"), *steps(7.25))
    entries = table([run])
    assert {(entry.quantity, entry.source) for entry in entries} == {("score", "runs"), ("final_score", "runs")}
    [grid] = grids_of(entries)
    assert grid.header == ("game", "algorithm", "seeds", "1M", "2M", "4M", "10M")
    assert grid.rows == [("Forage", "MFEC, random projections", "1", "7.2", "", "", "")]


def test_what_is_read(tmp_path):
    scores, human, middle, many = grids_of(table(write_all(tmp_path)))
    assert scores.header == ("game", "algorithm", "seeds", "1M", "2M", "4M", "10M", "published")
    assert scores.rows == [
        ("Q*bert", "MFEC, random projections", "2", "1,050 ± 50", "2,200 ± 200", "3,000 (1 of 2)", "", "12,500.4"),
        ("", "MFEC, VAE", "1", "", "700", "", "", ""),
        ("", "DQN", "1", "50.0", "50.0", "50.0", "90.0", "2,372.5"),
        ("", "NEC", "", "", "", "", "", "7,419.2"),
        ("", "prioritised replay", "", "", "", "", "", "839.0"),
        ("", "A3C", "", "", "", "", "", "438.9"),
        ("Frostbite", "MFEC, random projections", "2", "210 ± 10", "320 ± 20", "", "", "925.1"),
        ("", "NEC", "", "", "", "", "", "2,747.4"),
        ("", "DQN", "", "", "", "", "", "339.1"),
        ("", "prioritised replay", "", "", "", "", "", "711.3"),
        ("", "A3C", "", "", "", "", "", "218.9"),
        ("Forage", "MFEC, random projections", "1", "7.2", "", "", "", ""),
    ]
    assert [len(section) for section in scores.sections] == [6, 5, 1]
    assert "frames of random play" in scores.note
    assert human.rows[0] == ("Q*bert", "MFEC, random projections", "6.7 ± 0.4", "15.3 ± 1.5", "21.3", "", "92.8")
    assert len(human.rows) == 11  # without the Labyrinth
    assert "over 2 games" in middle.title
    ours = middle.rows[0]
    assert middle.header == ("algorithm", "runs", "1M", "2M", "4M", "10M", "published")
    assert ours == ("MFEC, random projections", "4", "5.0", "10.1", "21.3 (1 run, 1 game)", "", "56.5")
    assert many.rows[0] == ("MFEC", "12.8, 28.4", "16.7, 39.4", "26.6, 53.4", "45.4, 85.0")


def test_runs_that_stopped_between_show_where(tmp_path):
    write_run(tmp_path / "a", mfec(), *steps(1000.0, last=1_500_000))
    write_run(tmp_path / "b", mfec("frostbite"), [], [{"frames": 10_000}])
    scores, *_ = grids_of(table([RunDirectory(tmp_path / name) for name in "ab"]))
    assert scores.header[-2:] == ("at the end", "published")
    ends = {row[0]: row[-2] for row in scores.rows if row[0]}
    assert ends == {"Q*bert": "1,000 (1.5M)", "Frostbite": "(0.01M)"}


# -- Files ------------------------------------------------------------------------------------------------------------


def test_a_csv_has_one_number_a_row(tmp_path):
    runs = write_all(tmp_path)
    rows = read_csv(write_table(runs, tmp_path / "new" / "table.csv"))
    assert len(rows) == len(table(runs))
    assert rows[0] == {
        "quantity": "score", "environment": "qbert", "algorithm": "mfec", "embedding": "random_projection",
        "source": "runs", "frames": "1000000", "value": "1050", "standard_error": "50", "low": "", "high": "",
        "seeds": "2", "games": "1",
    }  # fmt: skip
    assert {row["seeds"] for row in rows if row["source"] == PRITZEL} == {""}


def test_markdown(tmp_path):
    text = write_table(write_all(tmp_path), tmp_path / "new" / "table.md").read_text(encoding="utf-8")
    lines = text.splitlines()
    assert lines[2] == "| game | algorithm | seeds | 1M | 2M | 4M | 10M | published |"
    assert lines[3] == "| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |"
    assert lines[4].startswith("| Q\\*bert | MFEC, random projections | 2 | 1,050 ± 50 | 2,200 ± 200 |")
    tables = [line for line in lines if line.startswith("|")]
    assert {line.count("|") for line in tables} == {9, 8, 6}
    assert text.endswith("|\n")


def test_pictures(tmp_path, capsys):
    write_all(tmp_path / "runs")
    out = tmp_path / "table.png"
    assert main(["figure", "table", str(tmp_path / "runs"), "--out", str(out)]) == 0
    assert capsys.readouterr().out == f"{out}\n"
    assert out.read_bytes().startswith(b"\x89PNG")


def test_without_a_file_it_is_printed_whole(tmp_path, capsys):
    runs = write_all(tmp_path)
    assert main(["figure", "table", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    for grid in grids_of(table(runs)):
        for row in grid.rows:
            assert any(all(cell in line for cell in row) for line in printed.splitlines()), row
        for word in grid.title.split() + grid.note.split():
            assert word in printed


def test_an_unknown_ending_is_refused(tmp_path, capsys):
    write_all(tmp_path / "runs")
    assert main(["figure", "table", str(tmp_path / "runs"), "--out", str(tmp_path / "table.tex")]) == 1
    said = (
        f"mfec: cannot write {tmp_path / 'table.tex'}: a picture ends in .png, .pdf, .svg, its numbers in .csv or .md\n"
    )
    assert capsys.readouterr().err == said


def test_mixed_settings_and_missing_runs_are_refused(tmp_path, capsys):
    assert main(["figure", "table", str(tmp_path)]) == 1
    assert "there is no run in" in capsys.readouterr().err
    write_all(tmp_path)
    write_run(tmp_path / "z", mfec("qbert", seed=9, k=3), *steps(1.0))
    assert main(["figure", "table", str(tmp_path)]) == 1
    assert f"{tmp_path / 'a'} and {tmp_path / 'z'} are both" in capsys.readouterr().err


# -- Evaluations ------------------------------------------------------------------------------------------------------


def write_evaluated_runs(path: Path) -> list[RunDirectory]:
    """Two seeds, one of which was last evaluated at 1.5 million frames; and one whose encoder was ready."""
    rows = [(200_000 * number + 64, 100.0 * number) for number in range(1, 11)]
    return [
        write_evaluated(path / "a", mfec(), rows),
        write_evaluated(path / "b", mfec(seed=1), [*((at, 2 * score) for at, score in rows[:7]), (1_500_000, 9.0)]),
        write_evaluated(path / "c", vae(), rows[:5]),
    ]


def test_evaluations_after_millions_of_frames(tmp_path):
    entries = table(write_evaluated_runs(tmp_path), score="greedy")
    ours = "qbert", "mfec", "random_projection"
    one = find(entries, "score", *ours, MILLION, "runs")
    assert (one.value, one.standard_error, one.seeds) == (750.0, 250.0, 2)
    two = find(entries, "score", *ours, 2 * MILLION, "runs")  # b has none after 1.5 million
    assert (two.value, two.seeds) == (1000.0, 1)
    last = find(entries, "final_score", *ours, 1_400_000, "runs")  # that both have
    assert (last.value, last.seeds) == (1050.0, 2)
    human = find(entries, "human_normalised", *ours, MILLION, "runs")
    assert human.value == pytest.approx(percent(750.0, QBERT))
    own = [entry for entry in entries if entry.embedding == "vae" and entry.quantity == "score"]
    assert [(entry.frames, entry.value) for entry in own] == [(2 * MILLION, 500.0)]


def test_the_table_says_which_score_it_is(tmp_path, capsys):
    write_evaluated_runs(tmp_path / "runs")
    command = ["figure", "table", str(tmp_path / "runs"), "--score", "greedy"]
    assert main([*command, "--out", str(tmp_path / "table.md")]) == 0
    text = (tmp_path / "table.md").read_text()
    assert text.startswith(
        "Scores after so many frames: mean of 30 games of greedy play, ± standard error over seeds\n"
    )
    assert "| Q\\*bert | MFEC, random projections | 2 | 750 ± 250 | 1,000 (1 of 2) |" in text
    assert "\nThe games are all thirty starts, once each. With a VAE," in text
    assert text.count("\nScores are the mean of 30 games of greedy play.") == 2  # human-normalised, over games
    capsys.readouterr()
    assert main(command) == 0
    assert "mean of 30 games of greedy play" in " ".join(capsys.readouterr().out.split())
    assert main(command[:3]) == 0
    printed = capsys.readouterr().out
    assert "mean of 100 games" in printed
    assert "greedy" not in printed


def test_runs_without_evaluations_or_of_different_kinds_are_refused(tmp_path, capsys):
    write_evaluated_runs(tmp_path)
    command = ["figure", "table", str(tmp_path), "--score", "greedy"]
    write_run(tmp_path / "d", evaluated(mfec(seed=3)), *steps(1.0))
    assert main(command) == 1
    assert f"{tmp_path / 'd'} has no evaluation yet; `mfec train --evaluate-every" in capsys.readouterr().err
    write_evaluated(tmp_path / "d", mfec(seed=3), [(MILLION, 1.0)], epsilon=0.05)
    assert main(command) == 1
    said = capsys.readouterr().err
    assert f"{tmp_path / 'a'} and {tmp_path / 'd'} are both MFEC, random projections on qbert, but differ in" in said
    assert "evaluate_epsilon 0.0 and evaluate_epsilon 0.05" in said
    assert main(command[:3]) == 0


def test_each_algorithm_stands_beside_its_own_published_scores(tmp_path):
    algorithms = [mfec(), *map(baseline, ("nec", "dqn", "prioritised_dqn", "a2c"))]
    runs = [write_run(tmp_path / str(i), config, *steps(100.0)) for i, config in enumerate(algorithms)]
    rows = {row[1]: (row[3], row[-1]) for row in grids_of(table(runs))[0].rows}
    assert rows == {
        "MFEC, random projections": ("100", "12,500.4"), "NEC": ("100", "7,419.2"), "DQN": ("100", "2,372.5"),
        "prioritised DQN": ("100", "839.0"), "A2C (synchronous A3C)": ("100", "438.9"),
    }  # fmt: skip
