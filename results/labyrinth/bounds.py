"""Play every level of the Labyrinth 100 times by the scripted expert and at random; every score goes into a table.

python results/labyrinth/bounds.py results/labyrinth/bounds.csv
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from mfec.envs.labyrinth import LEVELS, Expert, Labyrinth
from mfec.statistics import mean, standard_error

EPISODES = 100


def main() -> None:
    """Write the table, and print the means."""
    table = Table(title=f"{EPISODES} episodes each")
    for column in ("level", "player", "score", "standard error", "apples", "lemons", "seconds"):
        table.add_column(column, justify="left" if column in ("level", "player") else "right")
    with Path(sys.argv[1]).open("w", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["level", "player", "seed", "score", "apples", "lemons", "frames"])
        for level in LEVELS:
            env = Labyrinth(level)
            random = np.random.default_rng(0)
            players: dict[str, Callable[[], int]] = {
                "expert": Expert(env).act,
                "random": lambda random=random: int(random.integers(8)),  # type: ignore[misc]
            }
            for player, act in players.items():
                episodes = [play(env, act, seed) for seed in range(EPISODES)]
                rows.writerows([level, player, seed, *episode] for seed, episode in enumerate(episodes))
                scores, apples, lemons, frames = zip(*episodes, strict=True)
                shown = f"{mean(scores):.2f}", f"{standard_error(scores):.2f}", f"{mean(apples):.2f}"
                table.add_row(level, player, *shown, f"{mean(lemons):.2f}", f"{mean(frames) / 60:.1f}")
    Console(width=120).print(table)


def play(env: Labyrinth, act: Callable[[], int], seed: int) -> tuple[int, int, int, int]:
    """Score, apples, lemons and frames of an episode."""
    env.reset(seed=seed)
    apples = lemons = 0
    ended = False
    while not ended:
        _, reward, terminated, truncated, _ = env.step(act())
        apples, lemons = apples + max(0, round(reward)), lemons + max(0, round(-reward))
        ended = terminated or truncated
    return apples - lemons, apples, lemons, int(env.players.frames[0])


if __name__ == "__main__":
    main()
