"""Neural Episodic Control beside MFEC and DQN on small problems, at equal steps: `small.csv`.

    python -m results.nec.small [--methods NAME ...] [--envs NAME ...] [--seeds N ...]
    python -m results.nec.small --table

A row that is there already is not measured again. After training 50 games are played without exploration.
"""

from __future__ import annotations

import argparse
import csv
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from results.when_it_works.measure import ENVS, greedy, minatar, minigrid

from mfec import MFEC, NEC, Callback
from mfec.recipes import agent_defaults
from mfec.statistics import mean, standard_error

TABLE = Path(__file__).parent / "small.csv"
COLUMNS = ("env", "method", "seed", "steps", "games_trained", "training_last_100", "greedy_mean", "seconds")
SMALL: dict[str, tuple[int, Callable[[], Any]]] = {
    "CartPole": (20_000, ENVS["CartPole"]),
    "MiniGrid Empty 5x5": (10_000, lambda: minigrid("MiniGrid-Empty-5x5-v0")),
    "MinAtar Breakout": (30_000, lambda: minatar("Breakout").env),  # its pictures of bools, as they are
}
VARIANTS: dict[str, dict[str, Any]] = {
    "NEC": {},
    "NEC, nothing learned": {"learning_rate": 0.0, "key_learning_rate": 0.0, "value_learning_rate": 0.0},
    "NEC, alpha 0.1": {"alpha": 0.1},
    "NEC, leave one out": {"leave_one_out": True},
    "NEC, 10 steps": {"n_step": 10},
    "NEC, time limits end returns": {"truncated": "write"},
}
EPSILON = 0.1  # MFEC's in environments of these kinds (`mfec.recipes`)


class Scores(Callback):
    """Of the games of training."""

    def __init__(self) -> None:
        self.scores: list[float] = []

    def on_game(self, agent: Any, game: Any) -> None:
        """One more."""
        self.scores.append(game.score)


def measure(env: str, method: str, seed: int) -> dict[str, Any]:
    """Train, and play without exploration; a row of the table."""
    began, scores, (steps, make) = time.perf_counter(), Scores(), SMALL[env]
    agent = make_agent(method, make(), steps, seed)
    if agent is not None:
        agent.learn(steps, scores)
    rng, n = np.random.default_rng(seed), make().action_space.n
    act = (lambda _: rng.integers(n)) if agent is None else lambda seen: agent.predict(seen, deterministic=True)[0]
    return {
        "env": env, "method": method, "seed": seed, "steps": 0 if agent is None else steps,
        "games_trained": len(scores.scores),
        "training_last_100": round(mean(scores.scores[-100:]), 3) if scores.scores else "",
        "greedy_mean": round(mean(list(greedy(act, make, seed))), 3), "seconds": round(time.perf_counter() - began, 1),
    }  # fmt: skip


def make_agent(method: str, env: Any, steps: int, seed: int) -> Any:
    """An agent that has not learned yet; None for random play."""
    if method == "random":
        return None
    if method == "MFEC, tuned":
        return MFEC(env, **vars(agent_defaults("CartPole-v1", "tuned")), seed=seed)
    if method == "DQN":
        from mfec.algorithms.baselines.baseline import Baseline
        from mfec.algorithms.baselines.settings import DQNConfig, scheduled

        return Baseline(env, scheduled(DQNConfig(), steps), algorithm="dqn", frame_stack=1, seed=seed)
    return NEC(env, epsilon=EPSILON, **VARIANTS[method], seed=seed)


def print_table() -> None:
    """Markdown: greedy play, and in brackets the last 100 games of training."""
    with TABLE.open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    print(f"| | {' | '.join(f'{env}, {steps:,} steps' for env, (steps, _) in SMALL.items())} |")
    print("| --- " * (1 + len(SMALL)) + "|")
    for method in METHODS:
        cells = []
        for env in SMALL:
            own = [row for row in rows if (row["env"], row["method"]) == (env, method)]
            ended, trained = (
                [float(row[name]) for row in own if row[name]] for name in ("greedy_mean", "training_last_100")
            )
            digits = 0 if env == "CartPole" else 2
            last = f" ({mean(trained):.{digits}f})" if trained else ""
            cells.append(f"{mean(ended):.{digits}f} ± {standard_error(ended):.{digits}f}{last}" if ended else "")
        if any(cells):
            print(f"| {method} | {' | '.join(cells)} |")


METHODS = ("random", "DQN", "MFEC, tuned", *VARIANTS)


def main() -> None:
    """Measure what is not there yet, or print what is."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--envs", nargs="+", default=list(SMALL))
    parser.add_argument("--methods", nargs="+", default=list(METHODS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--table", action="store_true")
    given = parser.parse_args()
    if given.table:
        print_table()
        return
    new = not TABLE.exists()
    with TABLE.open("a+", newline="") as stream:
        stream.seek(0)
        done = {(row["env"], row["method"], row["seed"]) for row in csv.DictReader(stream)}
        table = csv.DictWriter(stream, COLUMNS)
        if new:
            table.writeheader()
        for method in given.methods:
            for env in given.envs:
                for seed in given.seeds:
                    if (env, method, str(seed)) not in done:
                        table.writerow(measure(env, method, seed))
                        stream.flush()


if __name__ == "__main__":
    main()
