"""Figure 1: numbers against hand-computed ones, pictures as real files, and refusals in a sentence."""

from __future__ import annotations

import itertools
import math
import statistics
from pathlib import Path

import pytest

from mfec.algorithms.registry import OWN
from mfec.cli import main
from mfec.figures.figure1 import STROKES, draw_figure1, figure1, picture
from mfec.figures.lines import TITLES, FigureError
from mfec.run_directory import RunDirectory, RunDirectoryError

from .run_files import baseline, evaluated, mfec, read_csv, vae, write_evaluated, write_run


def games(slope: float, until: int = 30_000) -> list[tuple[int, float]]:
    """A game every thousand frames, whose score grows with time."""
    return [(end, slope * end / 1000) for end in range(1000, until + 1, 1000)]


def write_two_environments(path: Path) -> list[RunDirectory]:
    return [
        write_run(path / "q0", mfec("qbert", seed=0), games(1.0)),
        write_run(path / "q1", mfec("qbert", seed=1), games(3.0, 20_000)),
        write_run(path / "qv", vae("qbert"), games(2.0)),
        write_run(path / "qd", baseline("dqn", "qbert"), games(0.5)),
        write_run(path / "p0", mfec("ms_pacman"), games(4.0)),
    ]


def test_a_panel_for_each_environment_and_a_curve_for_each_algorithm(tmp_path):
    pacman, qbert = figure1(write_two_environments(tmp_path))
    assert (pacman.title, qbert.title) == ("Ms. Pac-Man", "Q*bert")
    assert [(curve.label, curve.seeds) for curve in qbert.curves] == [
        ("MFEC, random projections", 2),
        ("MFEC, VAE, displaced by 1M frames", 1),
        ("DQN", 1),
    ]
    assert [(curve.label, curve.seeds) for curve in pacman.curves] == [("MFEC, random projections", 1)]


def test_a_curve_goes_as_far_as_all_of_its_seeds(tmp_path):
    curve = figure1(write_two_environments(tmp_path))[1].curves[0]
    assert (curve.frames[0], curve.frames[-1]) == (1000.0, 20_000.0)
    means = [statistics.fmean(slope * game for game in range(1, 21)) for slope in (1.0, 3.0)]
    assert curve.mean[-1] == pytest.approx(statistics.fmean(means))
    assert curve.standard_error[-1] == pytest.approx(statistics.stdev(means) / math.sqrt(2))


def test_curves_of_an_encoder_are_displaced(tmp_path):
    curve = figure1(write_two_environments(tmp_path))[1].curves[1]
    assert (curve.frames[0], curve.frames[-1]) == (1_001_000.0, 1_030_000.0)
    assert curve.mean[0] == 2.0


def test_the_axis_of_frames_can_be_cut(tmp_path):
    runs = write_two_environments(tmp_path)
    qbert = figure1(runs, total_frames=10_000)[1]
    assert [curve.label for curve in qbert.curves] == ["MFEC, random projections", "DQN"]  # the VAE begins later
    assert {curve.frames[-1] for curve in qbert.curves} == {10_000.0}
    assert len(qbert.curves[0].frames) > 100  # as many points as without the cut
    assert qbert.curves[1].mean[-1] == pytest.approx(statistics.fmean(0.5 * game for game in range(1, 11)))
    displaced = figure1(runs, total_frames=1_010_000)[1].curves[1]
    assert displaced.frames[-1] == 1_010_000.0
    assert displaced.mean[-1] == pytest.approx(statistics.fmean(2.0 * game for game in range(1, 11)))


def test_a_cut_before_everything_is_refused(tmp_path):
    runs = write_two_environments(tmp_path)
    with pytest.raises(FigureError, match="no run has a finished game in the first 999 frames"):
        figure1(runs, total_frames=999)
    with pytest.raises(ValueError, match="total_frames must be at least 1, not 0"):
        figure1(runs, total_frames=0)


def test_the_numbers_can_be_had_instead(tmp_path):
    runs = write_two_environments(tmp_path)
    rows = read_csv(draw_figure1(runs, tmp_path / "new" / "figure1.csv"))
    assert list(rows[0]) == ["environment", "algorithm", "embedding", "frames", "mean", "standard_error", "seeds"]
    panels = figure1(runs)
    assert len(rows) == sum(len(curve.frames) for panel in panels for curve in panel.curves)
    ours = [row for row in rows if row["environment"] == "qbert" and row["embedding"] == "random_projection"]
    curve = panels[1].curves[0]
    assert [float(row["frames"]) for row in ours] == pytest.approx(curve.frames.tolist(), rel=1e-9)
    assert [float(row["mean"]) for row in ours] == pytest.approx(curve.mean.tolist(), rel=1e-9)
    assert [float(row["standard_error"]) for row in ours] == pytest.approx(curve.standard_error.tolist(), rel=1e-9)
    assert {(row["algorithm"], row["seeds"]) for row in ours} == {("mfec", "2")}
    [other] = {(row["embedding"], row["standard_error"], row["seeds"]) for row in rows if row["algorithm"] == "dqn"}
    assert other == ("", "", "1")  # no error of a single seed


# -- Pictures ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("ending", "begins"), [("png", b"\x89PNG\r\n\x1a\n"), ("pdf", b"%PDF-")])
def test_the_command_draws(tmp_path, capsys, ending, begins):
    write_two_environments(tmp_path / "runs")
    out = tmp_path / "new" / f"figure1.{ending}"
    directories = [str(tmp_path / "runs" / name) for name in ("q0", "q1", "p0")]
    assert main(["figure", "figure1", *directories, "--out", str(out), "--total-frames", "15000"]) == 0
    assert capsys.readouterr().out == f"{out}\n"
    assert out.read_bytes().startswith(begins)


def test_the_picture_has_one_legend_with_the_number_of_seeds(tmp_path):
    text = draw_figure1(write_two_environments(tmp_path), tmp_path / "figure1.svg").read_text()
    # matplotlib draws letters as outlines and keeps the words as comments
    for words in (
        "Q*bert", "Ms. Pac-Man", "frames", "MFEC, random projections, 1 to 2 seeds",
        "MFEC, VAE, displaced by 1M frames, 1 seed", "DQN, 1 seed",
    ):  # fmt: skip
        assert text.count(f"<!-- {words} -->") == 1, words


def test_lines_stand_in_the_order_of_the_registry(tmp_path):
    configs = [baseline("dqn"), baseline("nec"), mfec()]
    runs = [write_run(tmp_path / str(i), config, [(100, 1.0)]) for i, config in enumerate(configs)]
    panels = figure1(runs)
    labels = ["MFEC, random projections", "NEC", "DQN"]
    assert [line.label for line in panels[0].lines] == labels
    [legend] = picture(panels).legends
    assert [text.get_text() for text in legend.get_texts()] == [f"{label}, 1 seed" for label in labels]
    assert {name for name, _ in STROKES} == set(OWN)


def test_no_two_lines_look_alike():
    assert len({colour for colour, _ in STROKES.values()}) == len(STROKES)
    assert len({str(dashes) for _, dashes in STROKES.values()}) == len(STROKES)


@pytest.mark.parametrize("environments", [1, 3, 8])
def test_titles_and_legend_have_room(tmp_path, environments):
    configs = [
        config
        for env in list(TITLES)[:environments]
        for config in (mfec(env), vae(env), *(baseline(name, env) for name in ("dqn", "prioritised_dqn", "a2c")))
    ]
    runs = [write_run(tmp_path / str(number), config, games(1.0, 3000)) for number, config in enumerate(configs)]
    figure = picture(figure1(runs))
    figure.draw_without_rendering()
    [legend] = figure.legends
    texts = [legend, *(axes.title for axes in figure.axes), *figure.texts]
    boxes = [text.get_window_extent() for text in texts]
    assert len(figure.axes) == environments
    assert len(legend.get_texts()) == 5
    for box in boxes:
        assert figure.bbox.x0 <= box.x0 < box.x1 <= figure.bbox.x1
        assert figure.bbox.y0 <= box.y0 < box.y1 <= figure.bbox.y1
    for one, other in itertools.combinations(boxes, 2):
        assert not one.overlaps(other)


# -- Refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["figure1.txt", "figure1"])
def test_an_unknown_ending_is_refused(tmp_path, capsys, name):
    write_two_environments(tmp_path / "runs")
    out = tmp_path / name
    assert main(["figure", "figure1", str(tmp_path / "runs"), "--out", str(out)]) == 1
    said = f"mfec: cannot write {out}: a picture ends in .png, .pdf, .svg, its numbers in .csv\n"
    assert capsys.readouterr().err == said
    assert not out.exists()


def test_directories_without_runs_are_refused(tmp_path, capsys):
    for directories, said in (([], "name a run directory"), ([str(tmp_path)], f"there is no run in {tmp_path}")):
        assert main(["figure", "figure1", *directories, "--out", str(tmp_path / "a.png")]) == 1
        assert said in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_mixed_settings_are_refused(tmp_path, capsys):
    write_run(tmp_path / "a", mfec(), games(1.0))
    write_run(tmp_path / "b", mfec(k=3, seed=1), games(1.0))
    assert main(["figure", "figure1", str(tmp_path), "--out", str(tmp_path / "a.png")]) == 1
    error = capsys.readouterr().err
    assert f"{tmp_path / 'a'} and {tmp_path / 'b'}" in error
    assert "k 11 and k 3" in error
    assert error.count("\n") == 1


def test_a_run_without_a_finished_game_is_named(tmp_path):
    with pytest.raises(RunDirectoryError, match="/a has no finished game yet"):
        figure1([write_run(tmp_path / "a", mfec(), [])])


# -- Evaluations ------------------------------------------------------------------------------------------------------


def write_evaluated_runs(path: Path) -> list[RunDirectory]:
    rows = [(200_000 * number, 10.0 * number) for number in range(1, 6)]
    return [
        write_evaluated(path / "q0", mfec(), rows),
        write_evaluated(path / "q1", mfec(seed=1), [(at + 64, 3.0 * score) for at, score in rows[:4]]),
        write_evaluated(path / "qv", vae(), rows),
        write_evaluated(path / "p0", baseline("a2c", "ms_pacman"), rows, epsilon=0.05),
    ]


def test_curves_of_evaluations(tmp_path, capsys):
    write_evaluated_runs(tmp_path / "runs")
    out = tmp_path / "figure1.csv"
    command = ["figure", "figure1", str(tmp_path / "runs"), "--score", "greedy", "--out", str(out)]
    assert main([*command, "--total-frames", "1400000"]) == 0
    rows = read_csv(out)
    ours = [row for row in rows if row["environment"] == "qbert"]
    found = {"random_projection": [200_000, 400_000, 600_000, 800_000], "vae": [1_200_000, 1_400_000]}
    for embedding, frames in found.items():
        assert [float(row["frames"]) for row in ours if row["embedding"] == embedding] == frames
    means = [statistics.fmean([score, 3 * score]) for score in (10.0, 20.0, 30.0, 40.0)]
    assert [float(row["mean"]) for row in ours[:4]] == means
    assert float(ours[0]["standard_error"]) == pytest.approx(statistics.stdev([10.0, 30.0]) / math.sqrt(2))
    assert main([*command, "--total-frames", "199999"]) == 1
    assert "no run has an evaluation in the first 199,999 frames" in capsys.readouterr().err


def test_the_figure_says_which_score_it_is(tmp_path):
    *greedy, other = write_evaluated_runs(tmp_path)
    for runs, lines in (
        (greedy, ["score of greedy play, mean of 30 games"]),
        ([other], ["score of evaluation with", "epsilon 0.05, mean of 30 games"]),
    ):
        text = draw_figure1(runs, tmp_path / "figure1.svg", score="greedy").read_text()
        assert all(f"<!-- {line} -->" in text for line in lines)
    assert "<!-- score, mean of the last 100 games -->" in draw_figure1(greedy, tmp_path / "1.svg").read_text()


def test_a_run_without_an_evaluation_is_named(tmp_path):
    with pytest.raises(RunDirectoryError, match="/a has no evaluation yet; `mfec train --evaluate-every 200000`"):
        figure1([write_run(tmp_path / "a", evaluated(mfec()), games(1.0))], score="greedy")


@pytest.mark.parametrize("environments", [1, 3])
def test_the_label_of_evaluations_has_room(tmp_path, environments):
    runs = [
        write_evaluated(tmp_path / env, mfec(env), [(200_000, 1.0)], epsilon=0.05)
        for env in list(TITLES)[:environments]
    ]
    figure = picture(figure1(runs, score="greedy"), score="greedy")
    figure.draw_without_rendering()
    for text in figure.texts:
        box = text.get_window_extent()
        assert figure.bbox.y0 <= box.y0 < box.y1 <= figure.bbox.y1
