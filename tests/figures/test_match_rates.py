"""Shares of exact matches beside the paper's."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from mfec.cli import main
from mfec.figures.lines import FigureError
from mfec.figures.match_rates import draw_match_rates, match_rates
from mfec.run_directory import RunDirectory

from .run_files import baseline, mfec, read_csv, vae, write_run

GAME = [(100, 1.0)]


def progress(early: float, late: float, until: int = 500_000) -> list[dict[str, float]]:
    """Shares of the chosen action, twice those of all, that change 200,000 frames before the end."""
    return [
        {
            "frames": frames,
            "exact_match_rate_chosen": (share := early if frames <= until - 200_000 else late),
            "exact_match_rate": share / 2,
        }
        for frames in range(10_000, until + 1, 10_000)
    ]


def write_all(path: Path) -> list[RunDirectory]:
    return [
        write_run(path / "a", mfec("qbert"), GAME, progress(0.1, 0.5)),
        write_run(path / "b", mfec("qbert", seed=1), GAME, progress(0.9, 0.7)),
        write_run(path / "c", vae("qbert"), GAME, progress(0.0, 0.25, 100_000)),
        write_run(path / "d", mfec("labyrinth_forage"), GAME, progress(0.0, 0.0)),
        write_run(path / "e", mfec("CartPole-v1"), GAME, progress(0.0, 1.0)),
        write_run(path / "f", baseline("dqn", "qbert"), GAME, [{"frames": 10_000}]),
    ]


def test_shares_are_means_over_the_last_frames_and_over_seeds(tmp_path):
    shares = {(own.environment, own.embedding, own.lookups): own for own in match_rates(write_all(tmp_path))}
    assert len(shares) == 8  # those of DQN are not among them
    chosen, every = (shares["qbert", "random_projection", lookups] for lookups in ("chosen", "all"))
    assert (chosen.mean, chosen.standard_error) == (pytest.approx(0.6), pytest.approx(0.1))
    assert (every.mean, every.standard_error) == (pytest.approx(0.3), pytest.approx(0.05))
    assert (chosen.seeds, chosen.published) == (2, "0.60")
    alone = shares["qbert", "vae", "chosen"]
    assert (alone.mean, alone.seeds, alone.published) == (pytest.approx(0.25), 1, "0.60")  # all of a short run
    assert math.isnan(alone.standard_error)
    assert shares["labyrinth_forage", "random_projection", "all"].published == "<0.001"
    assert shares["CartPole-v1", "random_projection", "chosen"].published == ""


def test_rows_without_a_share_are_left_out(tmp_path):
    rows = [{"frames": 10_000, "exact_match_rate_chosen": 0.5, "exact_match_rate": 0.25}, {"frames": 20_000}]
    chosen, every = match_rates([write_run(tmp_path, mfec(), GAME, rows)])
    assert (chosen.mean, every.mean) == (0.5, 0.25)


def test_a_row_counts_by_the_frames_that_it_is_about(tmp_path):
    ends = {100: 1.0, 400: 0.0, 500: 0.25}
    rows = [{"frames": at, "exact_match_rate_chosen": own, "exact_match_rate": own} for at, own in ends.items()]
    chosen, _ = match_rates([write_run(tmp_path, mfec(), GAME, rows)])
    assert chosen.mean == pytest.approx((100 * 1.0 + 300 * 0.0 + 100 * 0.25) / 500)


def test_what_has_no_shares_is_said(tmp_path):
    with pytest.raises(FigureError, match=r"a/progress\.csv says nothing of exact matches yet"):
        match_rates([write_run(tmp_path / "a", mfec(), GAME)])
    with pytest.raises(FigureError, match="there is no run among these whose memory matches states"):
        match_rates([write_run(tmp_path / "b", baseline("a2c"), GAME)])
    neighbours_alone = write_run(tmp_path / "c", baseline("nec"), GAME, [{"frames": 10_000}])
    with pytest.raises(FigureError, match="there is no run among these whose memory matches states"):
        match_rates([neighbours_alone])
    shares = match_rates([neighbours_alone, write_run(tmp_path / "d", mfec(), GAME, progress(0.0, 0.5))])
    assert {share.embedding for share in shares} == {"random_projection"}
    with pytest.raises(FigureError, match="differ in k 11 and k 3"):
        match_rates([write_run(tmp_path / str(k), mfec(k=k, seed=k), GAME, progress(0.0, 0.5)) for k in (11, 3)])


def test_the_command_writes_the_numbers(tmp_path, capsys):
    write_all(tmp_path / "runs")
    out = tmp_path / "match_rates.csv"
    assert main(["figure", "match_rates", str(tmp_path / "runs"), "--out", str(out)]) == 0
    assert capsys.readouterr().out == f"{out}\n"
    assert read_csv(out)[0] == {
        "environment": "qbert", "embedding": "random_projection", "lookups": "chosen",
        "mean": "0.6", "standard_error": "0.1", "seeds": "2", "published": "0.60",
    }  # fmt: skip


def test_the_picture_says_shares_in_percent(tmp_path):
    text = draw_match_rates(write_all(tmp_path), tmp_path / "match_rates.svg").read_text()
    for words in (
        "MFEC, random projections (1 to 2 seeds)", "MFEC, VAE (1 seed)", "Q*bert", "Forage", "CartPole-v1",
        "of the actions taken", "of all actions", "the paper", "&lt;0.1", "100", "12",
    ):  # fmt: skip
        assert f"<!-- {words} -->" in text, words
    assert text.count("<!-- 60 -->") >= 3  # ours, and the paper's beside both embeddings
    assert draw_match_rates(write_all(tmp_path), tmp_path / "match_rates.png").stat().st_size > 1000
