"""What the three ways to treat an episode that a time limit cuts off are worth.

python results/time_limits/measure.py scores.csv      # plays, one process a core, and writes a row for each run
python results/time_limits/measure.py                 # prints the table of the rows that are kept here
"""

from __future__ import annotations

import csv
import itertools
import multiprocessing
import sys
from pathlib import Path
from typing import Any

import gymnasium
from rich.console import Console
from rich.table import Table

from mfec import MFEC
from mfec.statistics import mean

ENVS = ("Taxi-v4", "Acrobot-v1", "CartPole-v1", "MountainCar-v0")
GAMMAS = (1.0, 0.99)
WAYS = ("write", "bootstrap", "skip")
SEEDS = range(3)
FRAMES, GAMES = 100_000, 50
Run = tuple[str, float, Any, int]


def play(run: Run) -> dict[str, Any]:
    """One run: the mean of its last 100 games, and of games that it plays greedily at the end."""
    env, gamma, way, seed = run
    agent = MFEC(env, truncated=way, gamma=gamma, seed=seed, index="exact").learn(FRAMES)
    judge = gymnasium.make(env)
    greedy = mean([score(agent, judge, 10_000 + game) for game in range(GAMES)])
    counts = {"frames": agent.frames, "games": agent.games}
    scores = {"training": mean(list(agent.scores)), "greedy": greedy, "entries": len(agent.memory)}
    return {"env": env, "gamma": gamma, "truncated": way, "seed": seed, **counts, **scores}


def score(agent: MFEC, env: gymnasium.Env[Any, Any], seed: int) -> float:
    """The score of one greedy game."""
    observation, _ = env.reset(seed=seed)
    total, ended = 0.0, False
    while not ended:
        action, _ = agent.predict(observation, deterministic=True)
        observation, reward, terminated, truncated, _ = env.step(int(action))
        total, ended = total + float(reward), terminated or truncated
    return total


def measure(out: Path) -> None:
    """Play all runs and write them down."""
    with multiprocessing.get_context("spawn").Pool() as pool, out.open("w", newline="") as file:
        rows = pool.map(play, itertools.product(ENVS, GAMMAS, WAYS, SEEDS), chunksize=1)
        table = csv.DictWriter(file, rows[0], lineterminator="\n")
        table.writeheader()
        table.writerows(rows)


def show(kept: Path) -> None:
    """A row for each environment and discount: the mean over seeds of training and of greedy games."""
    with kept.open() as file:
        rows = list(csv.DictReader(file))
    table = Table(title=f"mean score of {len(SEEDS)} seeds after {FRAMES:,} steps: last 100 games / greedy")
    for column in ("environment", "gamma", *WAYS):
        table.add_column(column, justify="left" if column == "environment" else "right")
    for env, gamma in itertools.product(ENVS, GAMMAS):
        cells = []
        for way in WAYS:
            own = [row for row in rows if (row["env"], float(row["gamma"]), row["truncated"]) == (env, gamma, way)]
            cells.append(
                " / ".join(f"{mean([float(row[name]) for row in own]):.0f}" for name in ("training", "greedy"))
            )
        table.add_row(env, str(gamma), *cells)
    Console(width=120).print(table)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        measure(Path(sys.argv[1]))
    else:
        show(Path(__file__).parent / "scores.csv")
