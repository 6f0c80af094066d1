"""The entries of the table of scores, and how they are laid out to be read."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from mfec.figures.grids import Grid
from mfec.figures.lines import count, label_of, title_of
from mfec.figures.literature import ALGORITHMS, SCORES_AT
from mfec.figures.scores import SCORES, Words
from mfec.statistics import FEWEST_SEEDS

AT_FRAMES = (1_000_000, 2_000_000, 4_000_000, 10_000_000)
MARKS = tuple(f"{at // 1_000_000}M" for at in AT_FRAMES)
RUNS, PUBLISHED = "runs", "Pritzel et al. 2017"  # where numbers are from
_OF_57 = "_of_57_games"


@dataclass(frozen=True)
class Entry:
    """One number. All but scores are of human-normalised scores, in percent."""

    quantity: str  # score, final_score, human_normalised, interquartile_mean, median_of_57_games, mean_of_57_games
    environment: str  # empty where it is over several
    algorithm: str
    embedding: str  # of MFEC among the runs
    source: str
    frames: int
    value: float  # NaN for a final score where no game was finished
    standard_error: float = math.nan
    low: float = math.nan  # ends of a 95% interval, where every game has enough seeds
    high: float = math.nan
    seeds: int = 0  # 0 is unknown
    games: int = 1


Row = dict[tuple[str, str, int], Entry]  # the entries of a row, by quantity, source and frames
Rows = dict[str, dict[str, Row]]  # by environment and label

OURS: dict[str, tuple[str, str]] = {
    "mfec": ("mfec", "random_projection"),
    "nec": ("nec", ""),
    "dqn": ("dqn", ""),
    "prioritised_replay": ("prioritised_dqn", ""),
    "a3c": ("a2c", ""),
}
"""Which of our algorithms a published number is beside, where there is one."""


def grids_of(entries: list[Entry], words: Words | None = None) -> list[Grid]:
    """Tables to be read: scores, human-normalised ones, and those over several games.

    words: what the scores are called; None stands for those of training.
    """
    words = words or SCORES["training"].words([])
    rows: Rows = {}
    for entry in entries:
        own = rows.setdefault(entry.environment, {})
        own.setdefault(_label(entry, own), {})[entry.quantity, entry.source, entry.frames] = entry
    over_games = rows.pop("", {})
    grids = [_scores(rows, words), _human_normalised(rows, words)]
    if over_games:
        grids += [_interquartile_means(over_games, words), _of_57_games(entries)]
    return [grid for grid in grids if grid.rows]


def _scores(rows: Rows, words: Words) -> Grid:
    final = {
        (env, label): entry
        for env, own in rows.items()
        for label, row in own.items()
        for entry in row.values()
        if entry.quantity == "final_score"
    }
    with_end = not {entry.frames for entry in final.values()} <= set(AT_FRAMES)
    with_published = any(
        entry.source == PUBLISHED for own in rows.values() for row in own.values() for entry in row.values()
    )
    sections = []
    for env, own in rows.items():
        section: list[tuple[str, ...]] = []
        for label, row in own.items():
            last = final.get((env, label))
            seeds = last.seeds if last else 0
            cells = [_score(row.get(("score", RUNS, at)), seeds) for at in AT_FRAMES]
            if with_end:
                cells.append(_end(last) if last and last.frames not in AT_FRAMES else "")
            if with_published:
                cells.append(_score(row.get(("score", PUBLISHED, SCORES_AT)), 0))
            section.append(("" if section else title_of(env), label, str(seeds or ""), *cells))
        sections.append(section)
    header = ["game", "algorithm", "seeds", *MARKS, *["at the end"] * with_end, *["published"] * with_published]
    notes = [words.starts] if words.starts else []
    if any(entry.embedding == "vae" for entry in final.values()):
        notes.append("With a VAE, the frames of random play that it was trained on count.")
    if with_published:
        notes.append(f"Published: after {SCORES_AT // 1_000_000}M frames, {PUBLISHED}, Neural Episodic Control.")
    title = f"Scores after so many frames: {words.mean}, ± standard error over seeds"
    return Grid(title, tuple(header), sections, names=2, note=" ".join(notes))


def _human_normalised(rows: Rows, words: Words) -> Grid:
    sections = []
    for env, own in rows.items():
        section: list[tuple[str, ...]] = []
        for label, row in own.items():
            cells = _cells(row, "human_normalised", lambda entry: _number(entry, 1))
            if any(cells):
                section.append(("" if section else title_of(env), label, *cells))
        sections += [section] if section else []
    title = "Human-normalised scores, %: 0 is random play, 100 is a person; ± standard error over the same seeds"
    return Grid(title, ("game", "algorithm", *MARKS, "published"), sections, names=2, note=words.note)


def _interquartile_means(over_games: dict[str, Row], words: Words) -> Grid:
    means = [entry for row in over_games.values() for entry in row.values() if entry.quantity == "interquartile_mean"]
    games = max(entry.games for entry in means)
    section = []
    for label, row in over_games.items():
        own = [entry for entry in row.values() if entry.quantity == "interquartile_mean"]
        if own:
            runs = max(entry.seeds for entry in own)
            cells = _cells(row, "interquartile_mean", partial(_middle, games=games, runs=runs))
            section.append((label, str(runs or ""), *cells))
    title = f"Interquartile means of these over {count(games, 'game')} and all seeds, %"
    note = f"In brackets a 95% interval, by stratified bootstrap over the runs, if every game has {FEWEST_SEEDS} seeds."
    note = f"{words.note} {note}".strip()
    return Grid(title, ("algorithm", "runs", *MARKS, "published"), [section], names=1, note=note)


def _of_57_games(entries: list[Entry]) -> Grid:
    ours = [entry for entry in entries if _OF_57 in entry.quantity]
    found = {(entry.quantity, entry.algorithm, entry.frames): entry.value for entry in ours}
    section = []
    for algorithm, name in ALGORITHMS.items():
        pairs = [[found[which + _OF_57, algorithm, at] for which in ("median", "mean")] for at in AT_FRAMES]
        section.append((name, *(f"{median:.1f}, {mean:.1f}" for median, mean in pairs)))
    return Grid("Published: median and mean over 57 games, %", ("algorithm", *MARKS), [section], names=1)


def _label(entry: Entry, rows: dict[str, Row]) -> str:
    """The row of an entry: that of our algorithm for a published one, where there is such a row."""
    if entry.source == RUNS:
        return label_of(entry.algorithm, entry.embedding)
    ours = label_of(*OURS[entry.algorithm]) if entry.algorithm in OURS else ""
    return ours if ours in rows else ALGORITHMS[entry.algorithm]


def _cells(row: Row, quantity: str, written: Callable[[Entry], str]) -> list[str]:
    """Ours after each number of frames, and the published one."""
    found = [row.get((quantity, RUNS, at)) for at in AT_FRAMES] + [row.get((quantity, PUBLISHED, SCORES_AT))]
    return [written(entry) if entry else "" for entry in found]


def _score(entry: Entry | None, seeds: int) -> str:
    """A score of ours without decimals where it is of hundreds, and how many seeds it is of where some are missing."""
    if entry is None or math.isnan(entry.value):
        return ""
    missing = f" ({entry.seeds} of {seeds})" if entry.seeds < seeds else ""
    return _number(entry, 0 if abs(entry.value) >= 100.0 and entry.source == RUNS else 1) + missing


def _end(entry: Entry) -> str:
    """A final score, and when it was."""
    return f"{_score(entry, 0)} ({entry.frames / 1e6:.3g}M)".strip()


def _number(entry: Entry, decimals: int) -> str:
    error = "" if math.isnan(entry.standard_error) else f" ± {entry.standard_error:,.{decimals}f}"
    return f"{entry.value:,.{decimals}f}{error}"


def _middle(entry: Entry, games: int, runs: int) -> str:
    """A mean with its interval, and what it is of where some runs or games are missing."""
    interval = "" if math.isnan(entry.low) else f" [{entry.low:.1f}, {entry.high:.1f}]"
    of = [count(entry.seeds, "run")] if entry.source == RUNS and entry.seeds < runs else []
    of += [count(entry.games, "game")] if entry.games < games else []
    return f"{entry.value:.1f}{interval}" + (f" ({', '.join(of)})" if of else "")
