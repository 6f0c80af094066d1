"""Print Neural Episodic Control beside MFEC and what was published: `python results/nec/table.py [FRAMES ...]`.

Greedy scores, all thirty starts, of the runs in `results/nec` (GAME/ALGORITHM/seed-N); in brackets the number of seeds.
"""

from __future__ import annotations

import sys
from pathlib import Path

from mfec.run_directory import find_runs
from mfec.statistics import mean

HERE = Path(__file__).parent
PEERS = {"ms_pacman": 857, "qbert": 667, "frostbite": 222}  # a public reimplementation of NEC after 400,000 frames


def main(frames: list[int]) -> None:
    """A row for each game and algorithm, a column for each number of frames."""
    print(f"| game | algorithm | {' | '.join(f'{at:,}' for at in frames)} | public NEC, 400,000 |")
    print("| --- " * (len(frames) + 3) + "|")
    for folder in sorted(HERE.glob("*/*/")):
        game, runs = folder.parent.name, find_runs([folder])
        cells = []
        for at in frames:
            tables = [run.evaluations() for run in runs]
            scores = [
                score
                for table in tables
                for when, score in zip(table["frames"], table["mean"], strict=True)
                if when == at
            ]
            cells.append(f"{mean(scores):,.0f} ({len(scores)})" if scores else "")
        if any(cells):
            print(f"| {game} | {folder.name} | {' | '.join(cells)} | {PEERS.get(game, '')} |")


if __name__ == "__main__":
    main([int(frames) for frames in sys.argv[1:]] or [100_000, 200_000, 400_000])
