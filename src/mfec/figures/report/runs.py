"""The runs of a report: settings, seeds, how far each has come, and the commands that repeat them."""

from __future__ import annotations

import math
import re
import shlex
import tomllib
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from mfec.algorithms import RunConfig
from mfec.command_line import arguments_of
from mfec.figures.grids import Grid
from mfec.figures.lines import Line, count, settings_of
from mfec.figures.report.html import Html, element, together
from mfec.figures.report.pictures import scrolling, table
from mfec.figures.scores import Score, displacement, frames_reached
from mfec.run_directory import RunDirectory
from mfec.statistics import mean, standard_error

OF_EACH_RUN = {"env", "algorithm", "embedding", "seed", "total_frames"}  # said elsewhere


def describe(line: Line, score: Score) -> Html:
    """Seeds, settings and commands of one line."""
    runs = sorted(line.runs, key=lambda run: run.read_config().seed)
    configs = [run.read_config() for run in runs]
    return together(
        [
            _seeds(runs, configs, score),
            _settings(configs),
            element("p", "Command" if len(configs) == 1 else "Commands, seed by seed", class_="caption"),
            commands([shlex.join(["mfec", *arguments_of(config)]) for config in configs]),
            _all_settings(runs[0], several=len(configs) > 1),
        ]
    )


def in_short(line: Line, score: Score) -> str:
    """How many seeds, and what they came to."""
    ends = [last for run in line.runs if not math.isnan(last := _last_score(run, score))]
    seeds = count(len(line.runs), "seed")
    if not ends:
        return f"{seeds}, {score.none_yet}"
    middle, error = mean(ends), standard_error(ends)
    spread = "" if math.isnan(error) else f" ± {error:,.{_decimals(middle)}f} (standard error)"
    return f"{seeds}, {score.last}: {_number(middle)}{spread}"


def commands(lines: Sequence[str]) -> Html:
    """Lines for a terminal, which wrap between options where they are too long."""
    options = (re.split(" (?=--)", line) for line in lines)
    wrapping = (together([element("span", option) for option in own], " ") for own in options)
    return element("pre", *(element("code", line) for line in wrapping), class_="commands")


def _seeds(runs: Sequence[RunDirectory], configs: Sequence[RunConfig], score: Score) -> Html:
    header = ("seed", "frames", "games", score.last, "best game", "mfec", "directory")
    rows = [
        (str(config.seed), *_came_to(run, config, score), _version(run), str(run.path))
        for run, config in zip(runs, configs, strict=True)
    ]
    return table(Grid("Seeds", header, [rows], names=1), texts=("mfec", "directory"))


def _came_to(run: RunDirectory, config: RunConfig, score: Score) -> tuple[str, ...]:
    """Frames, games, the last score, the best of a game."""
    reached = frames_reached(run)
    frames = f"{reached - displacement(config):,}"
    if reached - displacement(config) < config.total_frames:
        frames += f" of {config.total_frames:,}"
    scores = run.episodes()["return"]
    if not scores:
        return frames, "0", "", ""
    return frames, f"{len(scores):,}", _number(_last_score(run, score)), _number(max(scores))


def _last_score(run: RunDirectory, score: Score) -> float:
    """NaN where there is none yet."""
    if not score.has(run):
        return math.nan
    return score.at(run, [score.reached([run]) - displacement(run.read_config())])[0]


def _settings(configs: Sequence[RunConfig]) -> Html:
    """What differs from the defaults, beside them."""
    defaults = _values(_default(configs[0]))
    values = [_values(config) for config in configs]
    rows: list[tuple[str, ...]] = []
    for name, default in defaults.items():
        own = list(dict.fromkeys(_said(each[name]) for each in values))
        if name not in OF_EACH_RUN and own != [_said(default)]:
            rows.append((name, ", ".join(own), _said(default)))
    if not rows:
        return element("p", "All settings are the defaults.")
    grid = Grid("Settings that differ from the defaults", ("setting", "here", "default"), [rows], names=1)
    return table(grid, texts=("here", "default"))


def _all_settings(run: RunDirectory, *, several: bool) -> Html:
    title = f"All settings{' of the first run' if several else ''} (config.toml)"
    text = run.config_file.read_text(encoding="utf-8")
    box = scrolling(element("pre", element("code", text)), label=title)
    return element("details", element("summary", title), box)


def _default(config: RunConfig) -> RunConfig:
    """The settings of a run of that algorithm in that environment for which nothing was asked."""
    own = config.kind
    return RunConfig(
        config.env, config.total_frames, config.seed, own.defaults(config.env), own.environment, config.algorithm
    )


def _values(config: RunConfig) -> dict[str, Any]:
    return {**settings_of(config), **asdict(config.evaluation)}


def _version(run: RunDirectory) -> str:
    """That of the mfec which began the run."""
    return str(tomllib.loads(run.config_file.read_text(encoding="utf-8"))["mfec"])


def _said(value: object) -> str:
    if value is None:
        return "not given"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return str(value) if value != "" else "none"


def _number(score: float) -> str:
    return "" if math.isnan(score) else f"{score:,.{_decimals(score)}f}"


def _decimals(score: float) -> int:
    return 0 if abs(score) >= 100.0 else 1
