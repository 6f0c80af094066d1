"""The figures and tables of a report, each with a caption, or with what is missing and how to make it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from mfec.config import folder_of
from mfec.figures.figure1 import draw_figure1
from mfec.figures.figure2 import draw_figure2
from mfec.figures.lines import TITLES, FigureError, Line, label_of, title_of
from mfec.figures.match_rates import COLUMNS, LAST_FRAMES, draw_match_rates
from mfec.figures.report.html import Html, element, together
from mfec.figures.report.missing import command_for, command_for_figure2, command_for_scores, missing_curves
from mfec.figures.report.pictures import drawn, figure, numbers, table
from mfec.figures.report.runs import commands
from mfec.figures.report.selection import Selection
from mfec.figures.scores import SCORES
from mfec.figures.table import table as score_table
from mfec.figures.table import write_table
from mfec.figures.table_entries import grids_of
from mfec.run_directory import RunDirectory
from mfec.statistics import FEWEST_SEEDS

SPREAD = f"with its standard error, or with each seed where they are fewer than {FEWEST_SEEDS}"


@dataclass(frozen=True)
class Section:
    """A part of the page: what links call it, its heading, and what is in it."""

    name: str
    title: str
    content: Html


def learning_curves(selection: Selection) -> Section:
    """Figure 1, and what the paper's has besides."""
    name, title = "figure1", "Learning curves"
    runs, lines = selection.scored_runs(selection.curves), selection.scored(selection.curves)
    if not runs:
        return Section(name, title, _no_score(selection))
    words = selection.score.words(runs)
    try:
        content = drawn(partial(draw_figure1, runs, score=selection.score_name))
    except FigureError as error:  # seeds were evaluated at different times
        return Section(name, title, element("p", f"Figure 1 cannot be drawn yet: {error}."))
    picture = figure(
        content,
        name=name,
        alt=f"Learning curves of {_labels(lines)}: score against frames {_places(lines)}. Tables of scores follow.",
        caption=together([
            element("b", "Figure 1."),
            _sentences(f" Score against frames: {words.curve}, and over seeds, {SPREAD}.", words.starts),
        ]),
    )  # fmt: skip
    return Section(name, title, together([picture, _without_curve(selection), _missing(selection)]))


def neighbours(selection: Selection) -> Section:
    """Figure 2, one for each embedding that has runs with several k."""
    pictures = [
        _effect_of_k(embedding, lines, selection)
        for embedding, lines in selection.neighbours.items()
        if selection.scored(lines)
    ]
    if not pictures:
        what = "Figure 2 needs runs in one environment that differ in k alone, and there are none. To make some:"
        pictures.append(_how_to_make(what, command_for_figure2(selection.lines)))
        pictures.append(_how_to_score(selection))
    return Section("figure2", "The effect of k", together(pictures))


def exact_matches(selection: Selection) -> Section:
    """Shares of exact matches beside the paper's."""
    name, title = "match_rates", "Exact matches"
    played = SCORES["training"].has  # whatever the scores are of
    ours = [line for line in selection.curves if line.config.kind.matches and any(map(played, line.runs))]
    runs = [run for line in ours for run in line.runs if played(run) and _says_matches(run)]
    if not runs:
        what = "No run of MFEC here says how many look-ups matched exactly. To make some:"
        return Section(name, title, _how_to_make(what, command_for("match_rates", selection.lines, algorithm="mfec")))
    picture = figure(
        drawn(partial(draw_match_rates, runs)),
        name=name,
        alt=f"Bars of the shares of exact matches {_places(ours)}, beside the paper's.",
        caption=f"How many look-ups found their very state in the buffers, in a run's last {LAST_FRAMES:,} frames: "
        f"the mean over seeds, {SPREAD}. The paper does not say which look-ups it counts.",
    )
    return Section(name, title, picture)


def scores(selection: Selection) -> Section:
    """The tables: scores, human-normalised ones, interquartile means, beside published ones."""
    name, title = "scores", "Scores"
    runs, score = selection.scored_runs(selection.curves), selection.score_name
    if not runs:
        return Section(name, title, _no_score(selection))
    with TemporaryDirectory() as folder:
        csv = write_table(runs, Path(folder) / "table.csv", score=score).read_bytes()
    grids = [table(grid) for grid in grids_of(score_table(runs, score=score), selection.score.words(runs))]
    return Section(name, title, together([*grids, element("p", numbers(csv, "table.csv"))]))


def _effect_of_k(embedding: str, lines: Sequence[Line], selection: Selection) -> Html:
    label = label_of("mfec", embedding)
    runs, score = selection.scored_runs(lines), selection.score_name
    words = selection.score.words(runs)
    try:
        picture = drawn(partial(draw_figure2, runs, embedding=embedding, score=score))
    except FigureError as error:  # some have only just begun
        return element("p", f"Figure 2, {label}, cannot be drawn yet: {error}.")
    return figure(
        picture,
        name="figure2" if embedding == "vae" else f"figure2_{folder_of(embedding)}",
        alt=f"Score against the number of neighbours of {label} {_places(selection.scored(lines))}.",
        caption=together([
            element("b", "Figure 2."),
            _sentences(
                f" Score against k, {label}: the mean over seeds, {SPREAD}, {selection.score.end}.",
                words.note,
                words.starts,
            ),
        ]),
    )  # fmt: skip


def _no_score(selection: Selection) -> Html:
    which = "run with the paper's k" if selection.scored(selection.lines) else "run"
    command = command_for_scores(selection.score, selection.lines)
    return _how_to_make(f"No {which} has {selection.score.yet}. To make some:", command)


def _without_curve(selection: Selection) -> Html:
    """A sentence on runs that have no line in Figure 1."""
    names = dict.fromkeys(f"{line.label} in {line.title}" for line in selection.without_curve)
    if not names:
        return Html()
    return element("p", f"Without a line, as none of their k is the paper's: {'; '.join(names)}.", class_="note")


def _missing(selection: Selection) -> Html:
    """What to run for the rest of the paper's Figure 1, where there is some of it."""
    missing = missing_curves(selection.curves)
    if not missing or not any(line.env in TITLES for line in selection.curves):
        return Html()
    parts: list[Html] = []
    for own in missing:
        what = ", ".join(own.titles) + (f": {'; '.join(own.labels)}" if own.labels else ": everything")
        parts += [element("p", what), commands([own.command])]
    what = element("summary", "What the paper's figure has besides, and how to make it")
    return element("details", what, *parts, _how_to_score(selection))


def _how_to_score(selection: Selection) -> Html:
    """A sentence on what such runs need for the scores of this report."""
    return element("p", selection.score.how, class_="note") if selection.score.how else Html()


def _sentences(*parts: str) -> str:
    return " ".join(part for part in parts if part)


def _how_to_make(what: str, command: str) -> Html:
    return together([element("p", what), commands([command])])


def _says_matches(run: RunDirectory) -> bool:
    """Whether its last rows have shares of both kinds."""
    progress = run.progress()
    since = progress["frames"][-1] - LAST_FRAMES if progress["frames"] else 0.0
    return all(
        any(
            at > since and not math.isnan(share)
            for at, share in zip(progress["frames"], progress.get(column, []), strict=False)
        )
        for column in COLUMNS.values()
    )


def _labels(lines: Sequence[Line]) -> str:
    return "; ".join(dict.fromkeys(line.label for line in lines))


def _places(lines: Sequence[Line]) -> str:
    return "in " + ", ".join(dict.fromkeys(title_of(line.env) for line in lines))
