"""Published numbers, which ship with the package; each file in `published/` begins with its source."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ALGORITHMS = {"mfec": "MFEC", "nec": "NEC", "dqn": "DQN", "prioritised_replay": "prioritised replay", "a3c": "A3C"}
"""What the columns of published scores are called."""
SCORES_AT = 10_000_000  # frames
PUBLISHED = Path(__file__).parent / "published"


@dataclass(frozen=True)
class Bounds:
    """What human-normalised scores of a game lie between."""

    random: float
    human: float


@dataclass(frozen=True)
class ManyGames:
    """Human-normalised scores over 57 games after so many frames, in percent, by algorithm."""

    statistic: str  # median or mean
    frames: int
    percent: dict[str, float]


@cache
def published_scores() -> dict[str, dict[str, float]]:
    """Scores after ten million frames, by game and algorithm (Pritzel et al., 2017)."""
    rows = _rows("scores_at_10M_frames.csv")
    return {row["game"]: {name: float(row[name]) for name in ALGORITHMS} for row in rows}


@cache
def bounds() -> dict[str, Bounds]:
    """Scores of random play and of people, by game (Wang et al., 2016)."""
    rows = _rows("random_and_human_scores.csv")
    return {row["game"]: Bounds(float(row["random"]), float(row["human"])) for row in rows}


@cache
def published_match_rates() -> dict[str, str]:
    """The paper's shares of exact matches by environment; one that begins with `<` is an upper bound."""
    return {row["environment"]: row["share"] for row in _rows("exact_match_rates.csv")}


@cache
def published_over_many_games() -> list[ManyGames]:
    """Medians and means over 57 games (Pritzel et al., 2017)."""
    return [
        ManyGames(row["statistic"], int(row["frames"]), {name: float(row[name]) for name in ALGORITHMS})
        for row in _rows("human_normalised_by_frames.csv")
    ]


def _rows(name: str) -> list[dict[str, str]]:
    lines = (PUBLISHED / name).read_text().splitlines()
    return list(csv.DictReader(line for line in lines if not line.startswith("#")))
