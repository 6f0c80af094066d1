"""Scores beside published ones: by game, human-normalised, and over all games together."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from mfec.figures import ScoreName
from mfec.figures.grids import to_markdown, to_picture
from mfec.figures.lines import Line, sort_runs
from mfec.figures.literature import ALGORITHMS, SCORES_AT, bounds, published_over_many_games, published_scores
from mfec.figures.scores import SCORES, scores_at
from mfec.figures.table_entries import AT_FRAMES, PUBLISHED, RUNS, Entry, grids_of
from mfec.figures.tidy import check_ending, save
from mfec.files import write_whole
from mfec.run_directory import RunDirectory
from mfec.statistics import human_normalised, interquartile_mean, mean, standard_error, stratified_bootstrap


@dataclass(frozen=True)
class Scored:
    """A line and its scores by frames, one for each seed that has come so far, and those where all have come."""

    line: Line
    scores: dict[int, list[float]]
    end: int
    final: list[float]

    def percent(self, frames: int) -> list[float]:
        """Human-normalised scores, where the game has them."""
        return [_percent(self.line.env, score) for score in self.scores[frames]] if self.line.env in bounds() else []


def table(runs: Sequence[RunDirectory], *, score: ScoreName = "training") -> list[Entry]:
    """Every number of the table: ours, and published ones of the same games.

    Scores are means of the last 100 games after so many frames, over the seeds that have come so far; final ones are
    taken after as many frames as all seeds of a line have come to. Those of greedy play are the evaluations after so
    many frames, and the last that all seeds have. The interquartile mean is over games and seeds.
    """
    scored = [_score(line, score) for line in sort_runs(runs, score=score)]
    envs = list(dict.fromkeys(own.line.env for own in scored))
    entries = [entry for own in scored for entry in _of_line(own)]
    entries += [entry for env in envs for entry in _of_literature(env)]
    for kind in dict.fromkeys((own.line.algorithm, own.line.embedding) for own in scored):
        entries += _over_games([own for own in scored if (own.line.algorithm, own.line.embedding) == kind])
    if any(env in bounds() for env in envs):
        entries += _literature_over_games([env for env in envs if env in bounds()])
    return entries


def write_table(runs: Sequence[RunDirectory], out: Path, *, score: ScoreName = "training") -> Path:
    """Write the table: numbers one a row (.csv), Markdown (.md), or a picture."""
    check_ending(out, ".md")
    entries = table(runs, score=score)
    grids = grids_of(entries, SCORES[score].words(runs))
    if out.suffix.lower() == ".md":
        write_whole(out, to_markdown(grids))
        return out
    rows = [{**asdict(entry), "seeds": entry.seeds or ""} for entry in entries]
    return save(out, rows, lambda: to_picture(grids))


def _score(line: Line, score: ScoreName) -> Scored:
    end = SCORES[score].reached(line.runs)
    by_run = [scores_at(run, (*AT_FRAMES, end), score=score) for run in line.runs]
    *marks, final = ([value for value in values if not math.isnan(value)] for values in zip(*by_run, strict=True))
    return Scored(line, dict(zip(AT_FRAMES, marks, strict=True)), end, final)


def _of_line(own: Scored) -> Iterator[Entry]:
    """Its scores, those at the end, and what they are beside people's."""
    line = own.line
    name = line.env, line.algorithm, line.embedding, RUNS
    for at, scores in own.scores.items():
        if scores:
            yield Entry("score", *name, at, mean(scores), standard_error(scores), seeds=len(scores))
        if percent := own.percent(at):
            yield Entry("human_normalised", *name, at, mean(percent), standard_error(percent), seeds=len(percent))
    yield Entry("final_score", *name, own.end, mean(own.final), standard_error(own.final), seeds=len(line.runs))


def _of_literature(env: str) -> Iterator[Entry]:
    for algorithm, score in published_scores().get(env, {}).items():
        name = env, algorithm, "", PUBLISHED
        yield Entry("score", *name, SCORES_AT, score)
        if env in bounds():
            yield Entry("human_normalised", *name, SCORES_AT, _percent(env, score))


def _over_games(games: list[Scored]) -> Iterator[Entry]:
    """The interquartile mean of one algorithm, with an interval where every game has enough seeds."""
    line = games[0].line
    for at in AT_FRAMES:
        percent = {own.line.env: found for own in games if (found := own.percent(at))}
        if percent:
            middle = interquartile_mean([value for values in percent.values() for value in values])
            name = "interquartile_mean", "", line.algorithm, line.embedding, RUNS
            low, high = stratified_bootstrap(percent, interquartile_mean)
            seeds = sum(map(len, percent.values()))
            yield Entry(*name, at, middle, low=low, high=high, seeds=seeds, games=len(percent))


def _literature_over_games(envs: list[str]) -> Iterator[Entry]:
    """Published algorithms: over these games after ten million frames, and over all of Atari on the way there."""
    for algorithm in ALGORITHMS:
        percent = [_percent(env, published_scores()[env][algorithm]) for env in envs if env in published_scores()]
        name = "", algorithm, "", PUBLISHED
        yield Entry("interquartile_mean", *name, SCORES_AT, interquartile_mean(percent), games=len(percent))
    for many in published_over_many_games():
        for algorithm, value in many.percent.items():
            if many.frames in AT_FRAMES:
                yield Entry(f"{many.statistic}_of_57_games", "", algorithm, "", PUBLISHED, many.frames, value, games=57)


def _percent(env: str, score: float) -> float:
    known = bounds()[env]
    return 100.0 * human_normalised(score, known.random, known.human)
