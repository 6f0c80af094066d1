"""Published numbers: that they ship, that they are what their sources say, and that each says its source."""

from __future__ import annotations

from mfec.figures.literature import (
    PUBLISHED,
    bounds,
    published_match_rates,
    published_over_many_games,
    published_scores,
)

GAMES = {"ms_pacman", "space_invaders", "qbert", "frostbite", "river_raid"}


def test_every_table_begins_with_its_source():
    files = sorted(PUBLISHED.glob("*.csv"))
    assert len(files) == 4
    for file in files:
        comments = [line for line in file.read_text().splitlines() if line.startswith("#")]
        assert any(" et al. 201" in line and "Source: " in line for line in comments), file


def test_scores_after_ten_million_frames():
    scores = published_scores()
    assert set(scores) > GAMES
    assert scores["qbert"] == {"mfec": 12500.4, "nec": 7419.2, "dqn": 2372.5, "prioritised_replay": 839.0, "a3c": 438.9}
    assert scores["pong"]["a3c"] == -20.3


def test_scores_of_people_and_of_random_play():
    assert set(bounds()) == GAMES
    assert (bounds()["frostbite"].random, bounds()["frostbite"].human) == (65.2, 4334.7)
    assert all(own.random < own.human for own in bounds().values())


def test_the_papers_exact_matches():
    assert published_match_rates()["ms_pacman"] == "0.50"
    assert published_match_rates()["labyrinth_forage"] == "<0.001"
    assert len(published_match_rates()) == 8


def test_medians_and_means_over_many_games():
    [found] = [own for own in published_over_many_games() if (own.statistic, own.frames) == ("median", 10_000_000)]
    assert found.percent == {"mfec": 45.4, "nec": 54.6, "dqn": 15.7, "prioritised_replay": 22.4, "a3c": 3.6}
    assert len(published_over_many_games()) == 12
