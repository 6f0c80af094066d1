"""What `mfec evaluate` prints: the scores of one run, or of several and their means over seeds."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console

from mfec.algorithms import RunConfig
from mfec.figures.lines import curve_settings
from mfec.interface import Evaluation
from mfec.layout import TextTable
from mfec.run_directory import RunDirectory
from mfec.statistics import mean, standard_error

NUMBERS = ("mean", "standard error", "lowest", "highest", "frames a game")


def print_evaluations(console: Console, evaluations: Sequence[Evaluation]) -> None:
    """A table of the policies that have played the same games."""
    rows = [(each.policy, f"{each.epsilon:g}", *_numbers(each)) for each in evaluations]
    _print_table(console, ("policy", "epsilon"), [rows], _games(evaluations[-1]))


def print_groups(console: Console, groups: Sequence[Group]) -> None:
    """A table of the agents of several runs, with the mean over seeds where there are several."""
    above = os.path.commonpath([run.path.resolve().parent for group in groups for run in group.runs])
    _print_table(console, ("run", "epsilon"), [group.rows(above) for group in groups], _games(groups[0].agents[0]))


@dataclass(frozen=True)
class Group:
    """Runs that differ in the seed alone, and their evaluations."""

    runs: dict[RunDirectory, RunConfig]
    agents: list[Evaluation]
    random: Evaluation | None  # the same games, beside whichever of the agents

    def as_json(self) -> dict[str, Any]:
        """Everything, as JSON takes it."""
        means = [each.mean for each in self.agents]
        error = standard_error(means)
        return {
            "runs": [
                {"run": str(run.path), "env": config.env, "algorithm": config.algorithm, "seed": config.seed}
                | each.as_json()
                for (run, config), each in zip(self.runs.items(), self.agents, strict=True)
            ],
            "mean": mean(means),
            "standard_error": None if math.isnan(error) else error,
            "random": self.random and self.random.as_json(),
        }

    def rows(self, above: str) -> list[list[str]]:
        """A row for each run, by its path below the directory above; of several, also the mean over seeds."""
        rows = [
            [os.path.relpath(run.path, above), f"{each.epsilon:g}", *_numbers(each)]
            for run, each in zip(self.runs, self.agents, strict=True)
        ]
        if len(rows) > 1:
            means = [each.mean for each in self.agents]
            length = mean([each.mean_length_frames for each in self.agents])
            over = f"{len(rows)} seeds"
            rows.append([over, "", f"{mean(means):,.1f}", f"{standard_error(means):,.1f}", "", "", f"{length:,.1f}"])
        if self.random:
            rows.append(["random", f"{self.random.epsilon:g}", *_numbers(self.random)])
        return rows


def by_settings(runs: Sequence[RunDirectory]) -> list[dict[RunDirectory, RunConfig]]:
    """Runs that differ in the seed alone, taken together; where a seed is there again, another group begins."""
    groups: dict[str, list[dict[RunDirectory, RunConfig]]] = {}
    for run in runs:
        config = run.read_config()
        alike = groups.setdefault(repr((curve_settings(config), config.total_frames)), [])
        free = [group for group in alike if config.seed not in {each.seed for each in group.values()}]
        if not free:
            alike.append({})
        (free or alike)[-1 if not free else 0][run] = config
    return [group for alike in groups.values() for group in alike]


def _print_table(
    console: Console, names: tuple[str, ...], sections: Sequence[Sequence[Sequence[str]]], games: str
) -> None:
    title = f"whole games, unclipped scores; {games}"
    table = TextTable((*names, *NUMBERS), sections, names=1, title=title)
    console.print(table.fitted(console.width), highlight=False)


def _numbers(each: Evaluation) -> list[str]:
    row = [each.mean, each.standard_error, min(each.scores), max(each.scores), each.mean_length_frames]
    return ["-" if math.isnan(number) else f"{number:,.1f}" for number in row]


def _games(evaluation: Evaluation) -> str:
    """How many games were played, and what their mean is."""
    if evaluation.starts == "sampled":
        return f"games: {len(evaluation.scores)}"
    which = "all thirty starts" if evaluation.starts == "all" else "thirty starts that training never has"
    return f"{which}, once each: {'the exact score' if evaluation.exact else 'a sample'}"
