"""What the paper has and a report has not, and the commands that make it."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mfec.command_line import arguments_of
from mfec.config import EvaluationConfig, folder_of
from mfec.figures.lines import TITLES, Line, label_of, settings_of
from mfec.figures.scores import Score

Kind = tuple[str, str]  # an algorithm and its embedding

LEVELS = [env for env in TITLES if env.startswith("labyrinth_")]
GAMES = [env for env in TITLES if env not in LEVELS]
IN_LEVELS: list[Kind] = [("mfec", "random_projection"), ("mfec", "vae"), ("a2c", "")]
IN_GAMES: list[Kind] = [*IN_LEVELS[:2], ("dqn", ""), ("prioritised_dqn", ""), *IN_LEVELS[2:]]


@dataclass(frozen=True)
class Missing:
    """Lines of the paper's Figure 1 that are not there, and the command that makes them."""

    titles: list[str]  # of environments
    labels: list[str]  # of algorithms; empty where all are missing
    command: str


def missing_curves(lines: Sequence[Line]) -> list[Missing]:
    """What the paper's Figure 1 has besides these, environments that miss the same taken together."""
    there = {(line.env, line.algorithm, line.embedding) for line in lines}
    groups: dict[tuple[Kind, ...], list[str]] = {}
    for env in TITLES:
        kinds = _kinds(env)
        absent = tuple(kind for kind in kinds if (env, *kind) not in there)
        if absent:
            groups.setdefault(() if len(absent) == len(kinds) else absent, []).append(env)
    return [
        Missing([TITLES[env] for env in envs], [label_of(*kind) for kind in absent], _figure1(envs, absent))
        for absent, envs in groups.items()
    ]


def reproduce_command(experiment: str, envs: Collection[str], options: Sequence[str] = ()) -> str:
    """The command that runs an experiment in those of the environments that the paper has."""
    parts = ["mfec", "reproduce", experiment]
    for option, names in (("--games", GAMES), ("--levels", LEVELS)):
        own = [env for env in names if env in envs]
        if own:
            parts += [option, *(["all"] if own == names and len(own) > 1 else own)]
    return shlex.join([*parts, *options])


def command_for(experiment: str, lines: Sequence[Line], *, algorithm: str | None = None) -> str:
    """One that makes what figures of that experiment lack: the paper's runs, in its environments.

    In others, the first run of these lines (of that algorithm) goes on with ten times its frames, or one is begun.
    """
    envs = [line.env for line in lines]
    if set(envs) & set(TITLES):
        return reproduce_command(experiment, envs)
    own = next((line for line in lines if algorithm in (None, line.algorithm)), None)
    if own is None:
        return shlex.join(["mfec", "train", envs[0], "--out", f"runs/{folder_of(envs[0])}-{algorithm}"])
    longer = replace(own.config, total_frames=10 * own.config.total_frames)
    return shlex.join(["mfec", *arguments_of(longer), "--resume", "--out", str(own.runs[0].path)])


def command_for_scores(score: Score, lines: Sequence[Line]) -> str:
    """One that makes scores for Figure 1 where there are none.

    Where a run must be evaluated for them, it is the first of these lines once more: what is over is not evaluated.
    """
    if not score.option:
        return command_for("figure1", lines)
    config = replace(lines[0].config, evaluation=EvaluationConfig())
    place = f"runs/{folder_of(config.env)}-evaluated"
    return shlex.join(["mfec", *arguments_of(config), *score.option.split(), "--out", place])


def command_for_figure2(lines: Sequence[Line]) -> str:
    """One that makes runs with several k: the paper's, in its environments, or else another run of the first line."""
    envs = {line.env for line in lines}
    ours = [line.config for line in lines if "k" in settings_of(line.config)]
    if envs & set(TITLES) or not ours:
        return reproduce_command("figure2", envs)
    k = 3 if settings_of(ours[0])["k"] != 3 else 11
    settings: Any = ours[0].agent
    other = replace(ours[0], agent=replace(settings, k=k))
    return shlex.join(["mfec", *arguments_of(other), "--out", f"runs/{folder_of(other.env)}-k-{k}"])


def _kinds(env: str) -> list[Kind]:
    return IN_LEVELS if env in LEVELS else IN_GAMES


def _figure1(envs: list[str], absent: tuple[Kind, ...]) -> str:
    options = []
    if absent:
        embeddings = [embedding for _, embedding in absent if embedding]
        options += ["--algorithms", *dict.fromkeys(algorithm for algorithm, _ in absent)]
        options += ["--embeddings", *embeddings] if len(embeddings) == 1 else []
    return reproduce_command("figure1", envs, options)
