"""Print the table of `docs/when-it-works.md`: `python results/when_it_works/table.py`."""

from __future__ import annotations

import csv
from collections import defaultdict
from pathlib import Path

from mfec.statistics import mean, standard_error

HERE = Path(__file__).parent
METHODS = ("mfec, paper", "mfec, tuned", "DQN", "PPO", "random")


def cell(scores: list[float]) -> str:
    """Mean and standard error over seeds."""
    if not scores:
        return "-"
    digits = 2 if max(map(abs, scores)) < 10 else 0
    if len(scores) == 1:
        return f"{scores[0]:,.{digits}f} (one seed)"
    return f"{mean(scores):,.{digits}f} ± {standard_error(scores):,.{digits}f}"


def main() -> None:
    """Markdown, a row for each environment; the highest mean in bold."""
    scores: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    with (HERE / "scores.csv").open(newline="") as stream:
        for row in csv.DictReader(stream):
            scores[row["env"]][row["method"]].append(float(row["greedy_mean"]))
    with (HERE / "checks.csv").open(newline="") as stream:
        verdicts = {row["env"]: row["verdict"] for row in csv.DictReader(stream)}
    print("| environment | MFEC, paper | MFEC, tuned | DQN | PPO | random | `mfec check` |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for env, own in scores.items():
        means = {method: mean(own[method]) for method in METHODS if own[method]}
        best = max(means.values())
        won = {method for method in METHODS if means.get(method) == best and best > means.get("random", best - 1.0)}
        cells = [f"**{cell(own[method])}**" if method in won else cell(own[method]) for method in METHODS]
        print(f"| {env.replace('*', chr(92) + '*')} | {' | '.join(cells)} | {verdicts.get(env, '-')} |")


if __name__ == "__main__":
    main()
