"""Print scores of Neural Episodic Control beside MFEC's, and what was tried.

    python results/nec/table.py [DIR ...] [--at FRAMES ...]

DIR: run directories, or folders that have some below them, such as `mfec reproduce nec` makes; by default those of
`scores`. A score is the mean of an evaluation (`--evaluate-every`), over all starts of a game; in brackets the
number of seeds. Human-normalised scores are medians over so many games.
"""

from __future__ import annotations

import argparse
import math
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from mfec.algorithms import RunConfig
from mfec.canonical_names import env_kind
from mfec.figures.lines import title_of
from mfec.figures.literature import bounds, published_over_many_games
from mfec.figures.scores import scores_at
from mfec.recipes import AGENT
from mfec.run_directory import RunDirectory, find_runs
from mfec.statistics import human_normalised, mean

HERE = Path(__file__).parent
METHODS = ("MFEC, paper", "MFEC, tuned", "NEC")
PEER = {"ms_pacman": 857, "qbert": 667, "frostbite": 222}  # NEC, a public reimplementation after 400,000 frames
FIRST, LAST = 20_000, 100_000  # frames of the games that what was tried is judged by

Scores = dict[tuple[str, str], list[list[float]]]
"""By game and method, for each run its scores at the numbers of frames; NaN where it has none."""


def main() -> None:
    """Scores, if there are any yet, and what was tried."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="*", type=Path, metavar="DIR")
    parser.add_argument("--at", nargs="+", type=int, default=[200_000, 400_000, 1_000_000, 2_000_000])
    given = parser.parse_args()
    there = given.runs or [folder for folder in [HERE / "scores"] if folder.exists()]
    if there:
        print("\n".join(scores_table(find_runs(there), given.at)), end="\n\n")
    if not given.runs:
        print("\n".join(screening_table()))


def scores_table(runs: list[RunDirectory], at: list[int]) -> Iterator[str]:
    """Every game's scores, medians over games, and the published ones over 57 games."""
    scores: Scores = defaultdict(list)
    for run in runs:
        config = run.read_config()
        scores[config.env, method_of(config)].append(scores_at(run, at, score="greedy"))
    yield f"| game | | {' | '.join(f'{frames:,} frames' for frames in at)} | another's NEC, 400,000 |"
    yield "| --- " * (len(at) + 3) + "|"
    for env in dict.fromkeys(env for env, _ in scores):
        for method in METHODS:
            if own := scores.get((env, method)):
                cells = [_cell(list(column)) for column in zip(*own, strict=True)]
                peer = f"{PEER[env]}" if env in PEER and method == "NEC" else ""
                yield f"| {title_of(env).replace('*', chr(92) + '*')} | {method} | {' | '.join(cells)} | {peer} |"
    for method in METHODS:
        percent = [_percent(scores, method, i) for i in range(len(at))]
        if any(percent):
            cells = [f"{median(own):.1f}% (of {len(own)})" if own else "" for own in percent]
            yield f"| median, human-normalised | {method} | {' | '.join(cells)} | |"
    medians = {many.frames: many.percent for many in published_over_many_games() if many.statistic == "median"}
    for name, label in (("mfec", "MFEC, published"), ("nec", "NEC, published")):
        cells = [f"{medians[frames][name]}% (of 57)" if frames in medians else "" for frames in at]
        yield f"| median, human-normalised | {label} | {' | '.join(cells)} | |"


def method_of(config: RunConfig) -> str:
    """NEC, or MFEC with the last recipe that all settings agree with."""
    if config.algorithm != "mfec":
        return config.kind.label
    own = vars(config.agent)
    recipes = {name: kinds[env_kind(config.env)].items() for name, kinds in AGENT.items()}
    return f"MFEC, {[name for name, settings in recipes.items() if settings <= own.items()][-1]}"


def screening_table() -> Iterator[str]:
    """The mean score of early games of everything that was tried at first."""
    yield f"| game | variant | games of frames {FIRST:,} to {LAST:,} |"
    yield "| --- | --- | --- |"
    for folder in sorted(HERE.glob("screening/*/*/")):
        each = [mean(_played(run)) for run in find_runs([folder])]
        yield f"| {folder.parent.name} | `{folder.name}` | {', '.join(f'{score:,.0f}' for score in each)} |"


def _cell(scores: list[float]) -> str:
    known = [score for score in scores if not math.isnan(score)]
    return f"{mean(known):,.0f} ({len(known)})" if known else ""


def _percent(scores: Scores, method: str, i: int) -> list[float]:
    """Human-normalised scores at one number of frames, of the games that have one."""
    percent = []
    for (env, own), runs in scores.items():
        known = [run[i] for run in runs if not math.isnan(run[i])]
        if own == method and known and env in bounds():
            percent.append(100.0 * human_normalised(mean(known), bounds()[env].random, bounds()[env].human))
    return percent


def _played(run: RunDirectory) -> list[float]:
    table = run.episodes()
    return [score for frames, score in zip(table["frames"], table["return"], strict=True) if FIRST < frames <= LAST]


if __name__ == "__main__":
    main()
