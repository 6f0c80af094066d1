"""Which runs of a report are in which of its figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mfec.figures import ScoreName
from mfec.figures.lines import Line, curve_settings, settings_of, sort_runs
from mfec.figures.scores import SCORES, Score, frames_reached
from mfec.run_directory import RunDirectory


@dataclass(frozen=True)
class Selection:
    """The lines of a report, and what of them is drawn where.

    Where runs of MFEC differ in k, Figure 2 is of all of them, and everything else of those with the paper's k. Runs
    without a score are in no figure of scores.
    """

    lines: list[Line]
    """All runs; those of MFEC with another k are another line."""
    curves: list[Line]
    """Of these, at most one for each environment, algorithm and embedding."""
    neighbours: dict[str, list[Line]]
    """By embedding, those of environments with several k."""
    repeated: list[tuple[RunDirectory, RunDirectory]]
    """Runs that are left out, each with the one that is the same run and has come as far."""
    score_name: ScoreName = "training"
    """What the score of a run is."""

    @property
    def score(self) -> Score:
        """What the score of a run is."""
        return SCORES[self.score_name]

    @property
    def waiting(self) -> list[RunDirectory]:
        """Runs without a score."""
        return [run for line in self.lines for run in line.runs if not self.score.has(run)]

    @property
    def without_curve(self) -> list[Line]:
        """Lines of environments where there are several k, none of them the paper's."""
        drawn = {_kind(line) for line in self.curves}
        return [line for line in self.lines if _kind(line) not in drawn]

    def several_k(self, line: Line) -> bool:
        """Whether there are lines that differ from this one in k alone."""
        return sum(_kind(other) == _kind(line) for other in self.lines) > 1

    def scored(self, lines: Sequence[Line]) -> list[Line]:
        """Those in which a run has a score."""
        return [line for line in lines if any(map(self.score.has, line.runs))]

    def scored_runs(self, lines: Sequence[Line]) -> list[RunDirectory]:
        """Their runs that have a score."""
        return [run for line in lines for run in line.runs if self.score.has(run)]


def select(runs: Sequence[RunDirectory], *, score: ScoreName = "training") -> Selection:
    """Sort the runs; what differs in more than k, the seed and the number of frames is refused."""
    distinct, repeated = _without_repetitions(runs, score)
    lines = sort_runs(distinct, apart=["k"], score=score)
    kinds: dict[tuple[str, ...], list[Line]] = {}
    for line in lines:
        kinds.setdefault(_kind(line), []).append(line)
    neighbours: dict[str, list[Line]] = {}
    for same in kinds.values():
        if len(same) > 1:
            neighbours.setdefault(same[0].embedding, []).extend(same)
    curves = [line for line in lines if len(kinds[_kind(line)]) == 1 or _has_usual_k(line)]
    return Selection(lines, curves, neighbours, repeated, score)


def _has_usual_k(line: Line) -> bool:
    usual = line.config.kind.defaults(line.env)
    return settings_of(line.config).get("k") == getattr(usual, "k", None)


def _kind(line: Line) -> tuple[str, ...]:
    return line.env, line.algorithm, line.embedding


def _without_repetitions(
    runs: Sequence[RunDirectory], score: ScoreName
) -> tuple[list[RunDirectory], list[tuple[RunDirectory, RunDirectory]]]:
    """The runs, and those that are the same as one of them: the grids of two figures share some of theirs.

    Of runs with the same seed and settings, whatever their number of frames, the one whose scores have come furthest is
    kept, if the others played the same games as far as both came. If not, all stay, and are refused as a repeated seed.
    An evaluation leaves no trace on a run, so one without any is the same; one that was evaluated otherwise has other
    scores, and stays.
    """
    furthest: dict[str, RunDirectory] = {}
    for run in sorted(runs, key=lambda run: _came_to(run, score), reverse=True):
        config = run.read_config()
        furthest.setdefault(repr((config.seed, curve_settings(config))), run)
    distinct, repeated = [], []
    for run in runs:
        config = run.read_config()
        same = furthest[repr((config.seed, curve_settings(config)))]
        if run is same or not (_began_alike(run, same) and _scored_alike(run, same, score)):
            distinct.append(run)
        else:
            repeated.append((run, same))
    return distinct, repeated


def _came_to(run: RunDirectory, score: ScoreName) -> tuple[int, int]:
    """How far its scores go, and how far the run."""
    own = SCORES[score]
    return own.reached([run]) if own.has(run) else 0, frames_reached(run)


def _began_alike(run: RunDirectory, other: RunDirectory) -> bool:
    """Whether the games of one are the first of the other's."""
    columns = ((column, other.episodes()[name]) for name, column in run.episodes().items())
    return all(ours[: len(theirs)] == theirs[: len(ours)] for ours, theirs in columns)


def _scored_alike(run: RunDirectory, other: RunDirectory, score: ScoreName) -> bool:
    """Whether a run has no scores to lose, or such as the other has."""
    ours, theirs = (curve_settings(each.read_config(), score=score) for each in (run, other))
    return not SCORES[score].has(run) or ours == theirs
