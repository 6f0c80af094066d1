"""What an agent step costs beside a bare emulator step: the same game, in turns, in one run.

Two tables. In a real run the agent learns from nothing, and is measured as its largest action buffer passes each size.
In the worst case every buffer holds that many states of real play under identities that no observation has, so that
not one look-up is an exact match and each step searches every buffer in full.

    python benchmarks/agent_step.py --game qbert --json agent_step.json
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Iterator

import numpy as np
from rich.console import Console
from rich.table import Table

from mfec import MFEC, make_atari
from mfec.callback import Tally

BLOCK = 250  # agent steps in one turn


def main() -> None:
    """Print the table, and write it as JSON if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--game", default="qbert")
    parser.add_argument("--entries", type=int, nargs="+", default=[5_000, 10_000, 20_000])
    parser.add_argument("--turns", type=int, default=12, help="turns of 250 steps for both")
    parser.add_argument("--json", help="write the figures to this file")
    options = parser.parse_args()

    results = {
        "real run": list(real_run(options.game, options.entries, options.turns)),
        "worst case": list(worst_case(options.game, options.entries, options.turns)),
    }
    for title, rows in results.items():
        table = Table(title=f"{options.game}, {title}, {os.cpu_count()} cores: milliseconds a step")
        for column in ("largest buffer", "all entries", "exact", "bare emulator", "agent", "look-up", "agent / bare"):
            table.add_column(column, justify="right")
        for row in rows:
            numbers = (f"{row[name]:.3f}" for name in ("bare_ms", "agent_ms", "lookup_ms"))
            sizes = f"{row['largest_buffer']:,}", f"{row['entries']:,}", f"{row['exact']:.0%}"
            table.add_row(*sizes, *numbers, f"{row['ratio']:.2f}")
        Console().print(table)
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"game": options.game, "cores": os.cpu_count(), **results}, file, indent=1)


def real_run(game: str, sizes: list[int], turns: int) -> Iterator[dict[str, float]]:
    """Measurements of an agent that learns from nothing."""
    agent = MFEC(make_atari(game), seed=0)
    for size in sizes:
        while agent.memory.sizes.max() < size - 50 * turns:  # a turn adds some dozen entries to a buffer
            agent.learn(agent.frames + 4 * BLOCK)
        yield measure(game, agent, turns)


def worst_case(game: str, sizes: list[int], turns: int) -> Iterator[dict[str, float]]:
    """Measurements of an agent whose buffers were filled with states that it will never match."""
    states = real_states(game, max(sizes))
    rng = np.random.default_rng(1)
    for size in sizes:
        agent = MFEC(make_atari(game), seed=0)
        for action in range(agent.n_actions):
            returns = rng.integers(0, 1000, size)
            agent.memory.write(states[:size], np.full(size, action), returns, np.arange(size))
        yield measure(game, agent, turns)


def real_states(game: str, number: int) -> np.ndarray:
    """States of a random policy's play."""
    env = make_atari(game)
    phi = MFEC(env, seed=0).embedding
    rng = np.random.default_rng(0)
    states: list[np.ndarray] = []
    ended = True
    while len(states) < number:
        if ended:
            env.reset(seed=len(states))
        observation, _, terminated, truncated, _ = env.step(rng.integers(env.action_space.n))
        ended = terminated or truncated
        states.append(phi(observation[None])[0])
    return np.array(states)


def measure(game: str, agent: MFEC, turns: int) -> dict[str, float]:
    """Median milliseconds of both over the turns, and the median of the turns' ratios."""
    bare = make_atari(game)
    bare.reset(seed=0)
    rng = np.random.default_rng(1)
    agent.learn(agent.frames + 4 * BLOCK)  # compiles, and begins the games
    agent_ms, bare_ms, lookup_ms = [], [], []
    exact = 0
    for _ in range(turns):
        began = time.perf_counter()
        for action in rng.integers(agent.n_actions, size=BLOCK):
            _, _, terminated, truncated, _ = bare.step(action)
            if terminated or truncated:
                bare.reset()
        bare_ms.append(1000 * (time.perf_counter() - began) / BLOCK)
        agent.tally = Tally()
        began = time.perf_counter()
        agent.learn(agent.frames + 4 * BLOCK)
        agent_ms.append(1000 * (time.perf_counter() - began) / BLOCK)
        lookup_ms.append(1000 * agent.tally.lookup_seconds / BLOCK)
        exact += agent.tally.exact
    return {
        "largest_buffer": int(agent.memory.sizes.max()),
        "entries": len(agent.memory),
        "exact": exact / (turns * BLOCK * agent.n_actions),
        "bare_ms": statistics.median(bare_ms),
        "agent_ms": statistics.median(agent_ms),
        "lookup_ms": statistics.median(lookup_ms),
        "ratio": statistics.median(a / b for a, b in zip(agent_ms, bare_ms, strict=True)),
    }


if __name__ == "__main__":
    main()
