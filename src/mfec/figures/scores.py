"""What a figure takes for the score of a run: of which games it is, its values, its curve, and what texts call it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from mfec.algorithms import RunConfig
from mfec.canonical_names import GAMES as ATARI_GAMES
from mfec.figures import ScoreName
from mfec.run_directory import RunDirectory, RunDirectoryError

GAMES = 100  # a score of training is the mean of so many last games
POINTS = 200  # of a curve of training
LETTER = 0.065  # inches, of a label


@dataclass(frozen=True)
class Words:
    """What texts call the scores of some runs."""

    axis: tuple[str, str]
    """The label of an axis, which has a line or two."""
    mean: str
    """What a number in a table is the mean of."""
    curve: str
    """The same of a point of a curve."""
    note: str = ""
    """A sentence below what does not say it otherwise; none for what is usual."""
    starts: str = ""
    """A sentence where these games are all that there are."""

    def label(self, inches: float) -> str:
        """The label of an axis that is so high: in one line, where there is room."""
        line = " ".join(self.axis)
        return line if len(line) * LETTER <= inches else "\n".join(self.axis)


class Score(Protocol):
    """One kind of scores. Frames are the run's own, unless they are counted as figures count them."""

    settings: tuple[str, ...]
    """Of a run's evaluation: where they differ, scores do not belong together."""
    point: str
    """What a run needs for a curve."""
    yet: str
    """What a run has done then."""
    none_yet: str
    """Said of seeds without any."""
    waiting: str
    """Said of runs without any that are in a report."""
    last: str
    """What the last score of a run is of."""
    end: str
    """When the scores of runs are compared, if nobody says."""
    furthest: str
    """Why one of two equal runs was taken."""
    option: str
    """That of `mfec train` which makes such scores; none where every run has them."""
    how: str
    """A sentence on that option."""

    def has(self, run: RunDirectory) -> bool:
        """Whether the run has any score yet."""
        ...

    def reached(self, runs: Sequence[RunDirectory]) -> int:
        """Frames, as figures count them, after which all of these runs have their last score in common."""
        ...

    def at(self, run: RunDirectory, frames: Sequence[int]) -> list[float]:
        """The score after each of these numbers of frames; NaN where there is none."""
        ...

    def curve(self, runs: Sequence[RunDirectory], until: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Frames (points,) until then and scores (runs, points); the first point alone where it lies beyond.

        Every run has a score. There may still be no point that all of them have.
        """
        ...

    def missing(self, run: RunDirectory, frames: int) -> str:
        """Why a run has no score after so many frames, counted as figures count them."""
        ...

    def words(self, runs: Sequence[RunDirectory]) -> Words:
        """What texts call the scores of these runs."""
        ...


class Training:
    """The mean of the last games that had ended in training by then."""

    settings: tuple[str, ...] = ()
    point = "a finished game"
    yet = "finished a game yet"
    none_yet = "no game finished yet"
    waiting = "In no figure, as no game is finished yet"
    last = f"last {GAMES} games"
    end = "after as many frames as all runs of an environment have come to"
    furthest = "has come as far"
    option = how = ""

    def has(self, run: RunDirectory) -> bool:
        """Whether a game is finished."""
        return bool(run.episodes()["frames"])

    def reached(self, runs: Sequence[RunDirectory]) -> int:
        """As many frames as all of these have come to."""
        return min(map(frames_reached, runs))

    def at(self, run: RunDirectory, frames: Sequence[int]) -> list[float]:
        """Means of the last games by then; NaN where the run has not come so far."""
        reached = frames_reached(run) - displacement(run.read_config())
        scores = trailing_mean(run, np.array(frames, np.float64)).tolist()
        return [score if at <= reached else math.nan for at, score in zip(frames, scores, strict=True)]

    def curve(self, runs: Sequence[RunDirectory], until: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """It begins where the last of the runs has a finished game, and goes as far as every one has come."""
        ends = [run.episodes()["frames"] for run in runs]
        first, last = max(own[0] for own in ends), min(until, *(own[-1] for own in ends))
        frames = np.linspace(first, max(first, last), POINTS)
        return frames, np.array([trailing_mean(run, frames) for run in runs])

    def missing(self, run: RunDirectory, frames: int) -> str:
        """It has not come so far, or no game had ended by then."""
        reached = frames_reached(run)
        if frames > reached:
            return f"{run.path} has come to {reached:,} frames, not to {frames:,} (--at-frames)"
        return f"{run.path} has no finished game in its first {frames:,} frames"

    def words(self, runs: Sequence[RunDirectory]) -> Words:
        """The same for all runs."""
        last = f"the last {GAMES} games"
        return Words(("score, mean of", last), f"mean of {GAMES} games", f"the mean of {last}")


class Greedy:
    """The mean of an evaluation in between, of greedy play unless the run's `evaluate_epsilon` says otherwise."""

    settings: tuple[str, ...] = ("evaluate_games", "evaluate_epsilon")
    point = "an evaluation"
    yet = "an evaluation yet"
    none_yet = "no evaluation yet"
    waiting = "In no figure of scores, as there is no evaluation yet"
    last = "last evaluation"
    end = "at the last evaluation that all runs of an environment have"
    furthest = "was evaluated as far"
    option = "--evaluate-every 200000"
    how = f"For these scores, a run must be evaluated while it trains: mfec train {option}."

    def has(self, run: RunDirectory) -> bool:
        """Whether there was an evaluation."""
        return bool(run.evaluations()["frames"])

    def reached(self, runs: Sequence[RunDirectory]) -> int:
        """The frames of the last evaluation that all of these have; if there is none, as far as each has one."""
        tables = []
        for run in runs:
            check_scored(run, "greedy")
            before = displacement(run.read_config())
            tables.append({frames + before for frames in evaluations_by_frames(run)})
        common = set.intersection(*tables)
        return max(common) if common else min(map(max, tables))

    def at(self, run: RunDirectory, frames: Sequence[int]) -> list[float]:
        """For each number of frames, the last evaluation of its interval by then; NaN where that interval has none."""
        every = run.read_config().evaluation.evaluate_every or 1
        table = evaluations_by_frames(run)
        by_then = [[own for own in table if at // every * every <= own <= at] for at in frames]
        return [table[max(own)] if own else math.nan for own in by_then]

    def curve(self, runs: Sequence[RunDirectory], until: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """A point for each evaluation that all runs have."""
        tables = [evaluations_by_frames(run) for run in runs]
        common = sorted(set.intersection(*map(set, tables)))
        shown = [frames for frames in common if frames <= until] or common[:1]
        return np.array(shown, np.float64), np.array([[table[frames] for frames in shown] for table in tables])

    def missing(self, run: RunDirectory, frames: int) -> str:
        """There is no evaluation of that interval, or none at all."""
        return f"{run.path} has no evaluation after {frames:,} frames" if self.has(run) else _none(run, self)

    def words(self, runs: Sequence[RunDirectory]) -> Words:
        """How these runs were evaluated: with which chance of a random action, and in how many games."""
        configs = [run.read_config() for run in runs if self.has(run)]
        counts = {int(games) for run in runs for games in run.evaluations()["games"]}
        games = " to ".join(map(str, sorted({min(counts), max(counts)}))) + (" game" if counts == {1} else " games")
        epsilons = sorted({config.evaluation.evaluate_epsilon for config in configs})
        said = " or ".join(f"{epsilon:g}" for epsilon in epsilons)
        greedy = epsilons == [0.0]
        play = "greedy play" if greedy else f"evaluation with epsilon {said}"
        axis = f"score of {play},", f"mean of {games}"
        if not greedy:
            axis = "score of evaluation with", f"epsilon {said}, mean of {games}"
        starts = "The games are all thirty starts, once each." if all(map(_plays_every_start, configs)) else ""
        mean = f"mean of {games} of {play}"
        return Words(axis, mean, f"the {mean}", f"Scores are the {mean}.", starts)


SCORES: dict[ScoreName, Score] = {"training": Training(), "greedy": Greedy()}


def frames_reached(run: RunDirectory) -> int:
    """How far a run has come; frames of random play that its encoder was trained on count, too."""
    last = [table["frames"][-1] for table in (run.progress(), run.episodes()) if table["frames"]]
    return int(max(last, default=0.0)) + displacement(run.read_config())


def displacement(config: RunConfig) -> int:
    """Frames that others had seen for a run before its first."""
    return config.kind.frames_before(config)


def scores_at(run: RunDirectory, frames: Sequence[int], *, score: ScoreName = "training") -> list[float]:
    """The score after each of these numbers of frames, counted as figures count them; NaN where there is none."""
    before = displacement(run.read_config())
    return SCORES[score].at(run, [at - before for at in frames])


def check_scored(run: RunDirectory, score: ScoreName) -> None:
    """Refuse a run that has no score yet."""
    if not SCORES[score].has(run):
        raise RunDirectoryError(_none(run, SCORES[score]))


def trailing_mean(run: RunDirectory, frames: NDArray[np.float64]) -> NDArray[np.float64]:
    """At each of these frames, the mean score of the last games that had ended by then; NaN before the first."""
    table = run.episodes()
    ends, totals = np.array(table["frames"]), np.concatenate([[0.0], np.cumsum(table["return"])])
    last = np.searchsorted(ends, frames, side="right")
    first = np.maximum(last - GAMES, 0)
    with np.errstate(invalid="ignore"):
        return np.asarray((totals[last] - totals[first]) / np.where(last > first, last - first, np.nan))


def evaluations_by_frames(run: RunDirectory) -> dict[int, float]:
    """The scores of a run's evaluations, by the frames that they count for.

    A run is evaluated at the first step at or after each multiple of `evaluate_every`, and that counts for the
    multiple: else evaluations of runs whose steps are not of the same length would never meet. An evaluation besides,
    such as that at the end of a run, counts for the very frames that it was made at.
    """
    config, table = run.read_config(), run.evaluations()
    every = config.evaluation.evaluate_every
    begins = config.first_frame or 1  # before that there was nobody to evaluate
    scores: dict[int, float] = {}
    for at, score in zip(map(int, table["frames"]), table["mean"], strict=True):
        multiple = at // every * every if every else at
        scores[multiple if multiple >= begins and multiple not in scores else at] = score
    return scores


def _none(run: RunDirectory, score: Score) -> str:
    made = f"; `mfec train {score.option}` makes some" if score.option else ""
    return f"{run.path} has no {score.point.partition(' ')[2]} yet{made}"


def _plays_every_start(config: RunConfig) -> bool:
    """Whether an evaluation is of all starts that there are: nothing else in these games is left to chance."""
    still = config.environment.sticky_actions == 0.0 and config.evaluation.evaluate_epsilon == 0.0
    return config.env in ATARI_GAMES and still
