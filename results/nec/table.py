"""Print Neural Episodic Control's scores, and what was tried: `python results/nec/table.py`.

Greedy scores are those of `evaluations.csv`, all thirty starts; in brackets the number of seeds.
"""

from __future__ import annotations

from pathlib import Path

from mfec.run_directory import RunDirectory, find_runs
from mfec.statistics import mean

HERE = Path(__file__).parent
PEER = {"ms_pacman": 857, "qbert": 667, "frostbite": 222}  # a public reimplementation after 400,000 frames
FRAMES = [200_000, 400_000, 1_000_000, 2_000_000]
FIRST, LAST = 20_000, 100_000  # frames of the games that what was tried is judged by


def main() -> None:
    """Two tables."""
    print(f"| game | settings | {' | '.join(f'{at:,}' for at in FRAMES)} | a public one, 400,000 |")
    print("| --- " * (len(FRAMES) + 3) + "|")
    for folder in sorted(HERE.glob("scores/*/*/")):
        cells = []
        for at in FRAMES:
            scores = [score for run in find_runs([folder]) for score in _greedy(run, at)]
            cells.append(f"{mean(scores):,.0f} ({len(scores)})" if scores else "")
        print(f"| {folder.name} | `{folder.parent.name}` | {' | '.join(cells)} | {PEER.get(folder.name, '')} |")
    print(f"\n| game | variant | games of frames {FIRST:,} to {LAST:,} |\n| --- | --- | --- |")
    for folder in sorted(HERE.glob("screening/*/*/")):
        each = [mean(_played(run)) for run in find_runs([folder])]
        print(f"| {folder.parent.name} | `{folder.name}` | {', '.join(f'{score:,.0f}' for score in each)} |")


def _greedy(run: RunDirectory, at: int) -> list[float]:
    table = run.evaluations()
    return [score for frames, score in zip(table["frames"], table["mean"], strict=True) if frames == at]


def _played(run: RunDirectory) -> list[float]:
    table = run.episodes()
    return [score for frames, score in zip(table["frames"], table["return"], strict=True) if FIRST < frames <= LAST]


if __name__ == "__main__":
    main()
