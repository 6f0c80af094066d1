"""Small run directories, written by hand."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from mfec.algorithms import RunConfig
from mfec.algorithms import algorithm as algorithm_named
from mfec.config import EvaluationConfig
from mfec.run_directory import EVALUATIONS, PROGRESS, RunDirectory

Games = Sequence[tuple[int, float]]  # when each ended, and its score


def mfec(env: str = "qbert", *, seed: int = 0, **settings: object) -> RunConfig:
    """Settings of a run of MFEC with random projections, or with other settings of its agent."""
    agent = replace(algorithm_named("mfec").defaults(env), **{"embedding": "random_projection", **settings})
    return RunConfig(env, 10_000_000, seed, agent)


def vae(env: str = "qbert", *, seed: int = 0, **settings: object) -> RunConfig:
    """Settings of a run whose encoder was ready."""
    return mfec(env, seed=seed, embedding="vae", vae=env, **settings)


def baseline(algorithm: str, env: str = "qbert", *, seed: int = 0) -> RunConfig:
    """The published settings of another algorithm."""
    kind = algorithm_named(algorithm)
    return RunConfig(env, 10_000_000, seed, kind.defaults(env), kind.environment, algorithm)


def write_run(path: Path, config: RunConfig, games: Games, progress: Sequence[dict[str, float]] = ()) -> RunDirectory:
    """A run whose games ended at these frames with these scores, and some rows of its progress."""
    run = RunDirectory(path)
    run.create(config)
    with run.episodes_file.open("a") as file:
        file.writelines(f"{frames},{number},{score!r},10\n" for number, (frames, score) in enumerate(games, start=1))
    columns = run.progress_columns(list(dict.fromkeys([*PROGRESS, *(name for row in progress for name in row)])))
    with run.progress_file.open("a") as file:
        file.writelines(",".join(str(row.get(name, "")) for name in columns) + "\n" for row in progress)
    return run


def evaluated(config: RunConfig, *, every: int = 200_000, games: int = 30, epsilon: float = 0.0) -> RunConfig:
    """The same run, evaluated while it trains."""
    return replace(config, evaluation=EvaluationConfig(every, games, epsilon))


def write_evaluations(run: RunDirectory, evaluations: Games) -> RunDirectory:
    """Evaluations of a run at these frames with these mean scores; what else is said of them is nobody's score."""
    games = run.read_config().evaluation.evaluate_games
    rows = [(frames, games, repr(score), 77.0, -1000.0, 99999.0, 640.0) for frames, score in evaluations]
    lines = [",".join(map(str, row)) for row in [EVALUATIONS, *rows]]
    run.evaluations_file.write_text("\n".join(lines) + "\n")
    return run


def write_evaluated(
    path: Path, config: RunConfig, evaluations: Games, *, every: int = 200_000, games: int = 30, epsilon: float = 0.0
) -> RunDirectory:
    """A run with these evaluations, whose games in training were all worth 1."""
    last = max(frames for frames, _ in evaluations)
    trained = [(end, 1.0) for end in range(last // 50, last + 1, last // 50)]
    own = evaluated(config, every=every, games=games, epsilon=epsilon)
    return write_evaluations(write_run(path, own, trained, [{"frames": last}]), evaluations)


def read_csv(file: Path) -> list[dict[str, str]]:
    """The rows of a table."""
    with file.open(newline="") as lines:
        return list(csv.DictReader(lines))
