"""Print the frozen encoder beside the random projection: `python results/encoders/table.py [FRAMES ...]`.

Greedy scores are those of `evaluations.csv` (all thirty starts); in training, the mean of the last 100 games.
"""

from __future__ import annotations

import sys
from pathlib import Path

from mfec.figures.scores import GAMES
from mfec.run_directory import RunDirectory, find_runs
from mfec.statistics import mean, standard_error

HERE = Path(__file__).parent


def main(frames: list[int]) -> None:
    """A row for each embedding and number of frames, with the scores of the seeds that have come to it."""
    print("| embedding | frames | greedy, each seed | greedy | training |\n| --- | --- | --- | --- | --- |")
    for folder in sorted(each for each in HERE.iterdir() if each.is_dir()):
        runs = find_runs([folder])
        for at in frames:
            greedy = [score for run in runs for score in _greedy(run, at)]
            training = [_training(run, at) for run in runs if _greedy(run, at)]
            if greedy:
                each = ", ".join(f"{score:,.0f}" for score in greedy)
                print(f"| `{folder.name}` | {at:,} | {each} | {_summary(greedy)} | {_summary(training)} |")


def _greedy(run: RunDirectory, at: int) -> list[float]:
    table = run.evaluations()
    return [score for frames, score in zip(table["frames"], table["mean"], strict=True) if frames == at]


def _training(run: RunDirectory, at: int) -> float:
    table = run.episodes()
    played = [score for frames, score in zip(table["frames"], table["return"], strict=True) if frames <= at]
    return mean(played[-GAMES:])


def _summary(scores: list[float]) -> str:
    return f"{mean(scores):,.0f}" + (f" ± {standard_error(scores):,.0f}" if len(scores) > 1 else "")


if __name__ == "__main__":
    main([int(frames) for frames in sys.argv[1:]] or [200_000, 400_000])
