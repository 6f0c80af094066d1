"""Would an approximate index have chosen the same actions? A trained agent's memory, searched both ways.

The agent plays on from its checkpoint without learning. In every second state that it sees, the actions of highest
value under the exact index and under cells are compared; the states between set the cells, as look-ups do in training.

    python benchmarks/policy.py runs/ms_pacman --steps 4000 --json policy.json
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from mfec import MFEC, make_env
from mfec.embeddings import Embedding
from mfec.memory import EpisodicMemory
from mfec.memory.identities import array_keys
from mfec.run_directory import find_runs

EPSILON = 0.05  # of play, so that not all of it is known by heart


def main() -> None:
    """Print the table, and write it as JSON if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    table = Table(title="the action of highest value, cells against exact search")
    columns = ("run", "entries", "states compared", "look-ups searched", "recall", "same action")
    for column in columns:
        table.add_column(column, justify="right")
    rows = []
    for run in find_runs(options.runs):
        config = run.read_config()
        row = compare(MFEC.load(run.checkpoint), config.env, options.steps)
        rows.append({"run": f"{config.env} seed {config.seed}", **row})
        shares = (f"{row[name]:.4f}" for name in ("searched", "recall", "same"))
        searched, recall, same = shares
        table.add_row(rows[-1]["run"], f"{row['entries']:,}", f"{row['states']:,}", searched, recall, same)
    Console().print(table)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


def compare(agent: MFEC, env: str, steps: int) -> dict[str, float]:
    """Agreement of the two indexes over the same entries, in the states of the agent's own play."""
    exact = copy_of(agent.memory, "exact", [])
    states, keys = play(agent.embedding, exact, env, steps)
    cells = copy_of(agent.memory, "cells", [(states[i : i + 1], keys[i : i + 1]) for i in range(0, steps, 2)])
    same = searched = 0
    found: list[float] = []
    compared = range(1, steps, 2)
    for i in compared:
        one = exact.estimate(states[i : i + 1], keys[i : i + 1], mark_used=False)
        other = cells.estimate(states[i : i + 1], keys[i : i + 1], mark_used=False)
        same += np.array_equal(*(np.flatnonzero(e.values[0] == e.values[0].max()) for e in (one, other)))
        for action in np.flatnonzero(~one.exact[0]).tolist():
            searched += 1
            true = exact.neighbours(states[i], action).distances
            found.append(float(np.mean(cells.neighbours(states[i], action).distances <= true[-1])))
    return {
        "entries": len(exact),
        "states": len(compared),
        "searched": searched / (len(compared) * exact.n_actions),
        "recall": float(np.mean(found)),
        "same": same / len(compared),
    }


def play(embedding: Embedding, memory: EpisodicMemory, name: str, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """States and identities of play by the memory's estimates."""
    env = make_env(name)
    rng = np.random.default_rng(0)
    observation, _ = env.reset(seed=123)
    states, keys = [], []
    for _ in range(steps):
        states.append(embedding(observation[None])[0])
        keys.append(array_keys(observation[None])[0])
        values = memory.estimate(states[-1][None], keys[-1][None], mark_used=False).values[0]
        action = rng.integers(memory.n_actions) if rng.random() < EPSILON else values.argmax()
        observation, _, terminated, truncated, _ = env.step(action)
        if terminated or truncated:
            observation, _ = env.reset()
    return np.array(states), np.array(keys)


def copy_of(memory: EpisodicMemory, index: str, lookups: list[tuple[np.ndarray, np.ndarray]]) -> EpisodicMemory:
    """The same entries under another index, written in their order, half of them after some look-ups."""
    tensors = memory.tensors()
    actions = np.repeat(np.arange(memory.n_actions), memory.sizes)
    order = np.argsort(tensors["entry_ids"])
    copy = EpisodicMemory(
        memory.n_actions, memory.dim, capacity=memory.capacity, k=memory.k, kernel=memory.kernel, index=index,
        few_neighbours=memory.few_neighbours,
    )  # fmt: skip
    for half in np.array_split(order, 2):
        copy.write(tensors["states"][half], actions[half], tensors["values"][half], tensors["keys"][half])
        for state, key in lookups:
            copy.estimate(state, key)
    return copy


if __name__ == "__main__":
    main()
