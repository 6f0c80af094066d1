"""Print how the agents of runs play with their learning switched off: `python results/evaluations.py DIR ...`.

Reads the `evaluation.json` that `mfec evaluate RUN --episodes 20 --json > RUN/evaluation.json` wrote.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from mfec.statistics import mean


def main(directories: list[str]) -> None:
    """One row for each environment and algorithm: the mean score of each seed."""
    seeds: dict[tuple[str, str], list[float]] = {}
    for directory in directories:
        for file in sorted(Path(directory).rglob("evaluation.json")):
            run = file.parent
            scores = json.loads(file.read_text())[-1]["scores"]
            seeds.setdefault((run.parts[-3], run.parts[-2]), []).append(mean(scores))
    print("| environment | algorithm | mean score of each seed |\n| --- | --- | --- |")
    for (env, algorithm), means in seeds.items():
        print(f"| {env} | {algorithm} | {', '.join(f'{each:,.1f}' for each in means)} |")


if __name__ == "__main__":
    main(sys.argv[1:])
