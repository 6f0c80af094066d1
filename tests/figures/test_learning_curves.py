"""Learning curves: the numbers against a plain reference, the pictures as real files."""

from __future__ import annotations

import math
import statistics
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mfec.algorithms import RunConfig
from mfec.algorithms import algorithm as algorithm_named
from mfec.algorithms.baselines.settings import DQNConfig
from mfec.algorithms.mfec import MFECConfig
from mfec.cli import main
from mfec.config import EnvConfig
from mfec.figures import ScoreName
from mfec.figures.axes import show_frames
from mfec.figures.learning_curves import Curve, draw_learning_curves, draw_spread, learning_curves
from mfec.figures.lines import FigureError
from mfec.figures.pictures import new_figure
from mfec.run_directory import RunDirectory, RunDirectoryError

from .run_files import evaluated, mfec, write_evaluated

CONFIG = RunConfig("FrozenLake-v1", 50_000, 0, MFECConfig(embedding="identity"))


def write_run(path: Path, games: list[tuple[int, float]], config: RunConfig = CONFIG) -> RunDirectory:
    """A run whose games ended at these frames with these scores."""
    run = RunDirectory(path)
    run.create(config)
    rows = [f"{frames},{number},{score!r},10\n" for number, (frames, score) in enumerate(games, start=1)]
    with run.episodes_file.open("a") as file:
        file.writelines(rows)
    return run


def curves_of(runs: list[RunDirectory], *, score: ScoreName = "training") -> list[Curve]:
    """The curves of all panels."""
    return [curve for panel in learning_curves(runs, score=score).values() for curve in panel]


def random_games(seed: int, n: int = 260) -> list[tuple[int, float]]:
    """More games than the hundred of which a point is the mean; some end at the same frame, as side by side."""
    rng = np.random.default_rng(seed)
    ends = 500 + np.cumsum(rng.integers(0, 300, n))
    return list(zip(ends.tolist(), (100 * rng.standard_normal(n) + np.arange(n)).tolist(), strict=True))


def reference(games: list[tuple[int, float]], frames: float) -> float:
    """Mean of the last hundred games that had ended by then."""
    return statistics.fmean([score for end, score in games if end <= frames][-100:])


# -- Numbers ----------------------------------------------------------------------------------------------------------


def test_a_curve_is_mean_and_standard_error_over_seeds_of_the_last_hundred_games(tmp_path):
    games = [random_games(seed) for seed in range(4)]
    runs = [write_run(tmp_path / str(seed), own, replace(CONFIG, seed=seed)) for seed, own in enumerate(games)]
    [curve] = curves_of(runs)
    assert curve.seeds == 4
    assert curve.frames[0] == max(own[0][0] for own in games)
    assert curve.frames[-1] == min(own[-1][0] for own in games)
    assert len(curve.frames) == len(curve.mean) == len(curve.standard_error) > 100
    for frames, mean, error in zip(curve.frames, curve.mean, curve.standard_error, strict=True):
        means = [reference(own, frames) for own in games]
        assert mean == pytest.approx(statistics.fmean(means), abs=1e-9)
        assert error == pytest.approx(statistics.stdev(means) / math.sqrt(4), abs=1e-9)


def test_a_single_seed_has_no_error(tmp_path):
    games = random_games(7)
    [curve] = curves_of([write_run(tmp_path, games)])
    assert curve.seeds == 1
    assert curve.standard_error.tolist() == [0.0] * len(curve.frames)
    assert curve.mean.tolist() == pytest.approx([reference(games, frames) for frames in curve.frames], abs=1e-9)


def test_a_single_game_is_a_curve(tmp_path):
    [curve] = curves_of([write_run(tmp_path, [(300, 5.0)])])
    assert set(curve.frames.tolist()) == {300.0}
    assert set(curve.mean.tolist()) == {5.0}


def test_a_curve_does_not_run_backwards_where_one_seed_ended_before_the_other_began(tmp_path):
    early = write_run(tmp_path / "0", [(1000, 1.0)])
    late = write_run(tmp_path / "1", [(2000, 3.0), (2500, 5.0)], replace(CONFIG, seed=1))
    [curve] = curves_of([early, late])
    assert np.isfinite(curve.mean).all()
    assert (np.diff(curve.frames) >= 0).all()
    assert curve.mean[0] == 2.0  # where the later one has its first game


def test_runs_that_differ_in_the_seed_alone_are_one_curve(tmp_path):
    other = replace(CONFIG, agent=replace(CONFIG.agent, k=5, epsilon=0.1))
    runs = [
        write_run(tmp_path / "a", [(100, 1.0), (900, 2.0)]),
        write_run(tmp_path / "b", [(100, 10.0), (900, 20.0)], other),
        write_run(tmp_path / "c", [(100, 3.0), (900, 4.0)], replace(CONFIG, seed=9, total_frames=70_000)),
    ]
    first, second = curves_of(runs)
    assert (first.label, first.seeds) == ("defaults", 2)
    assert (second.label, second.seeds) == ("k 5, epsilon 0.1", 1)
    assert (first.mean[0], first.mean[-1]) == (2.0, 2.5)
    assert (second.mean[0], second.mean[-1]) == (10.0, 15.0)


EXACT = replace(CONFIG, agent=replace(CONFIG.agent, index="exact"))
ON_GPU = replace(CONFIG, agent=replace(CONFIG.agent, index="auto", device="cuda"))  # where the search is exact, too


@pytest.mark.parametrize("other", [EXACT, replace(EXACT, total_frames=70_000), ON_GPU])
def test_a_seed_that_is_there_twice_is_refused(tmp_path, capsys, other):
    """Else it would be drawn as two seeds without any error."""
    for name, config in {"a": EXACT, "b": replace(EXACT, seed=1), "c": other}.items():
        write_run(tmp_path / name, [(100, 1.0), (900, 2.0)], config)
    out = tmp_path / "curve.png"
    assert main(["plot", str(tmp_path), "--out", str(out)]) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"mfec: {tmp_path / 'a'} and {tmp_path / 'c'} are both seed 0 of ")
    assert "name only one of them" in said
    assert not out.exists()


def test_a_seed_that_lies_there_already_does_not_make_a_training_fail(tmp_path, capsys):
    train = ["train", "FrozenLake-v1", "--total-frames", "200", "--capacity", "50", "--no-video", "--out"]
    assert main([*train, str(tmp_path / "runs" / "seed-0")]) == 0
    assert main([*train, str(tmp_path / "runs")]) == 0  # its own curve is of its own games
    assert (tmp_path / "runs" / "curve.png").exists()
    capsys.readouterr()
    assert main([*train, str(tmp_path / "runs"), "--seeds", "0", "--resume"]) == 0
    assert "no learning curve: " in capsys.readouterr().out


def test_a_seed_with_other_settings_is_another_curve(tmp_path):
    cells = replace(EXACT, agent=replace(EXACT.agent, index="cells"))
    runs = [write_run(tmp_path / str(i), [(100, 1.0)], config) for i, config in enumerate([EXACT, cells])]
    assert [(curve.label, curve.seeds) for curve in curves_of(runs)] == [
        ("index exact", 1),
        ("index cells", 1),
    ]


def test_seeds_from_a_cpu_and_a_gpu_are_one_curve(tmp_path):
    runs = [
        write_run(tmp_path / str(i), [(100, 1.0)], config) for i, config in enumerate([EXACT, replace(ON_GPU, seed=1)])
    ]
    [curve] = curves_of(runs)
    assert (curve.label, curve.seeds) == ("", 2)


@pytest.mark.parametrize(("seeds", "lines", "bands"), [(1, 1, 0), (2, 3, 0), (3, 1, 1)])
def test_fewer_than_three_seeds_are_drawn_each(tmp_path, seeds, lines, bands):
    """The standard error of two is but half of what lies between them."""
    runs = [write_run(tmp_path / str(i), random_games(i), replace(CONFIG, seed=i)) for i in range(seeds)]
    [curve] = curves_of(runs)
    axes = new_figure(4.0, 3.0).add_subplot()
    axes.plot(curve.frames, curve.mean)
    draw_spread(axes, curve, "C0")
    assert (len(axes.lines), len(axes.collections)) == (lines, bands)
    for line, games in zip(axes.lines[1:], range(seeds), strict=False):
        assert line.get_ydata()[-1] == pytest.approx(reference(random_games(games), curve.frames[-1]))


def test_each_environment_has_a_panel(tmp_path):
    runs = [write_run(tmp_path / name, [(9, 1.0)], replace(CONFIG, env=name)) for name in ("qbert", "frostbite")]
    assert list(learning_curves(runs)) == ["qbert", "frostbite"]
    text = draw_learning_curves(runs, tmp_path / "curve.svg").read_text()
    assert "<!-- Q*bert -->" in text
    assert "<!-- Frostbite -->" in text
    assert text.count("<!-- 1\N{NO-BREAK SPACE}seed -->") == 1  # one legend


def test_a_run_without_a_finished_game_is_named(tmp_path):
    runs = [write_run(tmp_path / "a", [(9, 1.0)]), write_run(tmp_path / "b", [], replace(CONFIG, seed=1))]
    with pytest.raises(RunDirectoryError, match="/b has no finished game yet"):
        curves_of(runs)


# -- Evaluations ------------------------------------------------------------------------------------------------------


def random_evaluations(seed: int, intervals: range, every: int = 200_000) -> list[tuple[int, float]]:
    """An evaluation for each interval, up to 255 frames late."""
    rng = np.random.default_rng(seed)
    return [(every * number + int(rng.integers(256)), float(rng.standard_normal())) for number in intervals]


def test_a_greedy_curve_has_a_point_for_each_evaluation_that_all_seeds_have(tmp_path):
    tables = [
        random_evaluations(seed, range(first, last)) for seed, (first, last) in enumerate([(1, 9), (3, 8), (1, 7)])
    ]
    runs = [write_evaluated(tmp_path / str(i), replace(CONFIG, seed=i), own) for i, own in enumerate(tables)]
    [curve] = curves_of(runs, score="greedy")
    assert curve.seeds == 3
    assert curve.frames.tolist() == [600_000.0, 800_000.0, 1_000_000.0, 1_200_000.0]
    for point, number in enumerate(range(3, 7)):
        scores = [next(score for at, score in own if at // 200_000 == number) for own in tables]
        assert curve.each[:, point].tolist() == scores
        assert curve.mean[point] == pytest.approx(statistics.fmean(scores))
        assert curve.standard_error[point] == pytest.approx(statistics.stdev(scores) / math.sqrt(3))


def test_seeds_that_were_evaluated_more_or_less_often_meet_where_both_were(tmp_path):
    often = write_evaluated(tmp_path / "a", CONFIG, random_evaluations(0, range(1, 13), 100_000), every=100_000)
    seldom = write_evaluated(
        tmp_path / "b", replace(CONFIG, seed=1), random_evaluations(1, range(1, 5), 300_000), every=300_000
    )
    [curve] = curves_of([often, seldom], score="greedy")
    assert curve.frames.tolist() == [300_000.0, 600_000.0, 900_000.0, 1_200_000.0]
    assert curve.each[0].tolist() == often.evaluations()["mean"][2::3]
    assert curve.each[1].tolist() == seldom.evaluations()["mean"]


def test_the_evaluation_at_the_end_is_a_point_where_all_seeds_end(tmp_path):
    rows = [(200_064, 1.0), (250_000, 2.0)]
    runs = [write_evaluated(tmp_path / str(seed), replace(CONFIG, seed=seed), rows) for seed in range(2)]
    [curve] = curves_of(runs, score="greedy")
    assert curve.frames.tolist() == [200_000.0, 250_000.0]
    longer = write_evaluated(tmp_path / "longer", replace(CONFIG, seed=2), [(200_000, 4.0), (270_000, 5.0)])
    [curve] = curves_of([*runs, longer], score="greedy")
    assert (curve.frames.tolist(), curve.mean.tolist()) == ([200_000.0], [2.0])
    assert curve.marker != ""  # a point alone has no line to be seen by


def test_a_greedy_curve_is_displaced_as_one_of_training(tmp_path):
    [curve] = curves_of([write_evaluated(tmp_path, READY, [(200_000, 1.0), (400_000, 2.0)])], score="greedy")
    assert curve.label == "displaced by 1M frames"
    assert curve.frames.tolist() == [1_200_000.0, 1_400_000.0]


def test_evaluations_of_other_kinds_are_other_curves_and_of_no_matter_to_training(tmp_path):
    rows = [(200_000, 1.0)]
    runs = [
        write_evaluated(tmp_path / "a", CONFIG, rows),
        write_evaluated(tmp_path / "b", replace(CONFIG, seed=1), rows, every=50_000),
        write_evaluated(tmp_path / "c", replace(CONFIG, seed=2), rows, games=10, epsilon=0.05),
        write_run(tmp_path / "d", [(4000, 1.0), (200_000, 1.0)], replace(CONFIG, seed=3)),
    ]
    assert [(curve.label, curve.seeds) for curve in curves_of(runs)] == [("", 4)]
    assert [(curve.label, curve.seeds) for curve in curves_of(runs[:3], score="greedy")] == [
        ("evaluate games 30, evaluate epsilon 0", 2),
        ("evaluate games 10, evaluate epsilon 0.05", 1),
    ]


def test_what_has_no_greedy_curve_is_said(tmp_path, capsys):
    run = write_evaluated(tmp_path / "a", CONFIG, [(200_000, 1.0)])
    other = write_evaluated(tmp_path / "b", replace(CONFIG, seed=1), [(400_000, 1.0)])
    with pytest.raises(FigureError, match=r"/a, .*/b have no evaluation after the same frames"):
        curves_of([run, other], score="greedy")
    write_run(tmp_path / "c", [(9, 1.0)], evaluated(replace(CONFIG, seed=2)))
    out = tmp_path / "curve.png"
    assert main(["plot", str(tmp_path / "c"), "--score", "greedy", "--out", str(out)]) == 1
    said = f"mfec: {tmp_path / 'c'} has no evaluation yet; `mfec train --evaluate-every 200000` makes some\n"
    assert capsys.readouterr().err == said
    assert not out.exists()


@pytest.mark.parametrize(("score", "epsilon", "said"), [
    ("training", 0.0, ["score, mean of the last 100 games"]),
    ("greedy", 0.0, ["score of greedy play, mean of 30 games"]),
    ("greedy", 0.05, ["score of evaluation with", "epsilon 0.05, mean of 30 games"]),
])  # fmt: skip
def test_the_picture_says_which_score_it_is(tmp_path, score, epsilon, said):
    write_evaluated(tmp_path / "a", CONFIG, [(200_000, 1.0), (400_000, 3.0)], epsilon=epsilon)
    out = tmp_path / "curve.svg"
    assert main(["plot", str(tmp_path / "a"), "--score", score, "--out", str(out)]) == 0
    for line in said:
        assert f"<!-- {line} -->" in out.read_text()


# -- Encoders ---------------------------------------------------------------------------------------------------------

READY = replace(CONFIG, agent=MFECConfig(embedding="vae", vae="/somewhere/far/away/qbert"))
OWN = replace(CONFIG, total_frames=2_000_000, agent=MFECConfig(embedding="vae", vae_frames=1_500_000))


def test_a_run_whose_encoder_was_ready_is_displaced_by_the_frames_of_its_training(tmp_path):
    games = random_games(0)
    plain, ready = (write_run(tmp_path / name, games, own) for name, own in (("a", CONFIG), ("b", READY)))
    other_seed = write_run(tmp_path / "c", random_games(1), replace(READY, seed=1))
    [alone] = curves_of([ready])
    assert alone.label == "displaced by 1M frames"
    [undisplaced] = curves_of([plain])
    assert undisplaced.label == ""
    assert alone.frames.tolist() == (undisplaced.frames + 1_000_000).tolist()
    assert alone.mean.tolist() == undisplaced.mean.tolist()
    first, second = curves_of([plain, ready, other_seed])
    assert (first.label, first.seeds) == ("no embedding", 1)
    assert (second.label, second.seeds) == ("VAE, encoder qbert, displaced by 1M frames", 2)
    assert second.frames[0] == 1_000_000 + max(random_games(seed)[0][0] for seed in (0, 1))


def test_a_run_that_trained_its_own_vae_has_counted_its_frames_already(tmp_path):
    games = [(1_500_000 + frames, score) for frames, score in random_games(0)]
    [curve] = curves_of([write_run(tmp_path / "a", games, OWN)])
    assert curve.label == ""
    assert (curve.frames[0], curve.frames[-1]) == (games[0][0], games[-1][0])
    runs = [
        RunDirectory(tmp_path / "a"),
        write_run(tmp_path / "b", games, replace(OWN, seed=1, total_frames=1_900_000)),
    ]
    assert [curve.seeds for curve in curves_of(runs)] == [2]


def test_encoders_are_told_apart_by_as_much_of_their_names_as_it_takes(tmp_path):
    runs = [
        write_run(tmp_path / str(i), [(9, 1.0)], replace(CONFIG, agent=MFECConfig(embedding="vae", vae=vae)))
        for i, vae in enumerate(["runs/first/qbert", "runs/second/qbert"])
    ]
    assert [curve.label for curve in curves_of(runs)] == [
        "encoder runs/first/qbert, displaced by 1M frames",
        "encoder runs/second/qbert, displaced by 1M frames",
    ]


def test_the_picture_says_that_a_curve_is_displaced(tmp_path):
    text = draw_learning_curves([write_run(tmp_path / "a", random_games(0), READY)], tmp_path / "curve.svg").read_text()
    assert "displaced by 1M frames (1\N{NO-BREAK SPACE}seed)" in text


# -- Pictures ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("ending", "begins"), [("png", b"\x89PNG\r\n\x1a\n"), ("pdf", b"%PDF-")])
def test_a_picture_is_of_the_kind_that_its_ending_says(tmp_path, capsys, ending, begins):
    for seed in range(2):
        write_run(tmp_path / "runs" / f"seed-{seed}", random_games(seed), replace(CONFIG, seed=seed))
    out = tmp_path / "new" / f"curve.{ending}"
    assert main(["plot", str(tmp_path / "runs"), "--out", str(out)]) == 0
    assert capsys.readouterr().out.strip() == str(out)
    assert out.read_bytes().startswith(begins)


def test_the_picture_names_curves_and_axes(tmp_path):
    runs = [write_run(tmp_path / str(seed), random_games(seed), replace(CONFIG, seed=seed)) for seed in range(2)]
    runs.append(write_run(tmp_path / "other", random_games(5), replace(CONFIG, agent=MFECConfig(k=3))))
    text = draw_learning_curves(runs, tmp_path / "curve.svg").read_text()
    # matplotlib draws letters as outlines and keeps the words as comments
    for words in (
        "frames",
        "mean of the last 100 games",
        "no embedding",
        "(2\N{NO-BREAK SPACE}seeds)",
        "k 3",
        "(1\N{NO-BREAK SPACE}seed)",
    ):
        assert words in text


def test_runs_can_be_named_one_by_one(tmp_path, capsys):
    write_run(tmp_path / "a", random_games(0))
    write_run(tmp_path / "b", random_games(1), replace(CONFIG, seed=1))
    out = tmp_path / "curve.svg"
    assert main(["plot", str(tmp_path / "a"), str(tmp_path / "b"), "--out", str(out)]) == 0
    assert "2\N{NO-BREAK SPACE}seeds" in out.read_text()
    assert main(["plot", str(tmp_path / "a"), "--out", str(out)]) == 0
    assert "1\N{NO-BREAK SPACE}seed" in out.read_text()


@pytest.mark.parametrize("name", ["curve.xyz", "curve"])
def test_a_picture_of_an_unknown_ending_is_refused(tmp_path, capsys, name):
    write_run(tmp_path / "a", random_games(0))
    assert main(["plot", str(tmp_path / "a"), "--out", str(tmp_path / name)]) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"mfec: cannot draw {tmp_path / name}: ")
    assert error.count("\n") == 1
    assert [file.name for file in tmp_path.iterdir()] == ["a"]  # curve.png neither


def test_a_place_that_cannot_be_written_is_a_sentence(tmp_path, capsys):
    write_run(tmp_path / "a", random_games(0))
    (tmp_path / "curve.png").mkdir()
    for out in (tmp_path / "curve.png", tmp_path / "a" / "config.toml" / "curve.png"):
        assert main(["plot", str(tmp_path / "a"), "--out", str(out)]) == 1
        error = capsys.readouterr().err
        assert error.startswith("mfec: ")
        assert str(out.parent) in error


def test_a_directory_without_runs_is_refused(tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    assert main(["plot", str(tmp_path / "empty"), "--out", str(tmp_path / "curve.png")]) == 1
    assert f"there is no run in {tmp_path / 'empty'}" in capsys.readouterr().err
    assert main(["plot", str(tmp_path / "nowhere"), "--out", str(tmp_path / "curve.png")]) == 1
    assert f"there is no directory {tmp_path / 'nowhere'}" in capsys.readouterr().err
    assert main(["plot", "--out", str(tmp_path / "curve.png")]) == 1
    assert "name a run directory" in capsys.readouterr().err
    assert not (tmp_path / "curve.png").exists()


def test_an_encoder_of_the_game_itself_is_not_named(tmp_path):
    runs = [
        write_run(tmp_path / vae, [(9, 1.0)], replace(CONFIG, env="qbert", agent=MFECConfig(embedding="vae", vae=vae)))
        for vae in ("qbert", "ms_pacman")
    ]
    assert [curve.label for curve in curves_of(runs)] == [
        "displaced by 1M frames",
        "encoder ms_pacman, displaced by 1M frames",
    ]


def test_algorithms_are_told_apart_by_their_names_alone(tmp_path):
    """Neither the k of MFEC nor the replay of DQN says anything, nor what both of them have."""
    dqn = replace(CONFIG, algorithm="dqn", agent=DQNConfig(), environment=EnvConfig(frame_stack=4))
    runs = [write_run(tmp_path / str(i), [(9, 1.0)], config) for i, config in enumerate([CONFIG, dqn])]
    assert [curve.label for curve in curves_of(runs)] == ["MFEC", "DQN"]


def test_a_legend_says_only_what_differs_in_words(tmp_path):
    """One thing is said by everyone; of several, what is not the default."""

    def labels(*configs: RunConfig) -> list[str]:
        place = tmp_path / str(len(list(tmp_path.iterdir())))
        return [curve.label for curve in curves_of([write_run(place / str(i), [(9, 1.0)], own)
                                                    for i, own in enumerate(configs)])]  # fmt: skip

    tuned = RunConfig("qbert", 1000, 0, algorithm_named("mfec").defaults("qbert", "tuned"))
    paper, more = mfec("qbert", embedding="auto"), mfec("qbert", embedding="auto", k=50)
    assert labels(paper) == [""]
    assert labels(paper, more) == ["k 11", "k 50"]
    assert labels(paper, mfec("qbert", embedding="auto", capacity=100_000)) == [
        "capacity 1,000,000",
        "capacity 100,000",
    ]
    assert labels(paper, replace(more, environment=EnvConfig(n_envs=8))) == ["defaults", "k 50, 8 environments"]
    assert labels(paper, tuned) == ["paper", "tuned"]
    assert labels(tuned, more, replace(tuned, agent=replace(tuned.agent, k=3))) == [
        "tuned",
        "paper, k 50",
        "tuned, k 3",
    ]


@pytest.mark.parametrize("settings", [1, 5, 12])
@pytest.mark.parametrize(("last", "envs"), [(300, 1), (40_000_000, 2)])
def test_nothing_in_a_picture_overlaps(tmp_path, monkeypatch, settings, last, envs):
    """Neither legend, titles and labels each other, nor the legend a curve; and all lie in the picture."""
    runs = []
    for env in ("qbert", "ms_pacman")[:envs]:
        for k in range(settings):
            agent = MFECConfig(k=k + 1, gamma=0.9 + k / 1000, embedding="identity", few_neighbours="zero")
            games = [(last // 3, -1e6), (last // 2, 1.0), (last, 250_000.0 * k)]
            runs.append(write_run(tmp_path / f"{env}-{k}", games, replace(CONFIG, env=env, agent=agent)))
    drawn: list[Any] = []
    monkeypatch.setattr("mfec.figures.learning_curves.save_figure", lambda figure, out: drawn.append(figure) or out)
    draw_learning_curves(runs, tmp_path / "curve.png")
    [figure] = drawn
    figure.draw_without_rendering()
    boxes = [figure.legends[0].get_window_extent(), *(axes.get_tightbbox() for axes in figure.axes)]
    for place, box in enumerate(boxes):
        assert min(box.x0, box.y0) >= -1
        assert box.x1 <= figure.bbox.x1 + 1
        assert box.y1 <= figure.bbox.y1 + 1
        assert not any(box.overlaps(other) for other in boxes[:place])
    for axes in figure.axes:
        assert axes.xaxis.get_offset_text().get_text() == axes.yaxis.get_offset_text().get_text() == ""
        labels = [label.get_window_extent() for label in axes.get_xticklabels()]
        assert not any(one.overlaps(other) for one, other in pairwise(labels))


@pytest.mark.parametrize(("last", "shown"), [
    (900, ["0", "500"]), (40_000, ["0", "0.5k"]), (1_000_000, ["0", "0.0005M"]),
])  # fmt: skip
def test_frames_of_an_axis_are_in_one_unit(last, shown):
    assert [show_frames(frames, last) for frames in (0, 500)] == shown


def test_what_has_no_finished_game_is_left_out_and_said(tmp_path, capsys):
    write_run(tmp_path / "a", random_games(0))
    write_run(tmp_path / "b", [], replace(CONFIG, seed=1))
    out = tmp_path / "curve.svg"
    assert main(["plot", str(tmp_path), "--out", str(out)]) == 0
    said = capsys.readouterr()
    assert said.out == f"{out}\n"
    assert said.err == f"mfec: left out: {tmp_path / 'b'} has no finished game yet\n"
    assert "1\N{NO-BREAK SPACE}seed" in out.read_text()
    assert main(["plot", str(tmp_path / "b"), "--out", str(out)]) == 1
    assert "b has no finished game yet" in capsys.readouterr().err


def test_a_single_game_is_a_point_that_can_be_seen(tmp_path):
    [curve] = curves_of([write_run(tmp_path, [(300, 5.0)])])
    assert curve.marker != ""
