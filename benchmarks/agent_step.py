"""What an agent step costs beside a bare emulator step: the same game, in turns, in one run.

Two tables. In a real run the agent learns from nothing, and is measured as its largest action buffer passes each size.
In the worst case every buffer holds that many states of real play under identities that no observation has, so that
not one look-up is an exact match and each step searches every buffer in full.

    python benchmarks/agent_step.py --game qbert --json agent_step.json
    python benchmarks/agent_step.py --game ms_pacman --entries 100000 --cases "worst case" --n-envs 1
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from mfec import MFEC, make_atari
from mfec.callbacks import Callback
from mfec.envs.environments import make_environments
from recorded_states import recorded_states

BLOCK = 250  # agent steps in one turn
COLUMNS = (
    "largest buffer", "all entries", "exact", "index", "bare emulator", "agent", "look-up", "write", "agent / bare",
)  # fmt: skip


def main() -> None:
    """Print the table, and write it as JSON if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--game", default="qbert")
    parser.add_argument("--entries", type=int, nargs="+", default=[5_000, 10_000, 20_000])
    parser.add_argument("--index", default="auto", choices=("exact", "cells", "auto"))
    parser.add_argument("--n-envs", type=int, default=1)
    parser.add_argument("--cases", nargs="+", default=["real run", "worst case"], choices=("real run", "worst case"))
    parser.add_argument("--turns", type=int, default=12, help="turns of 250 steps for both")
    parser.add_argument("--json", help="write the figures to this file")
    options = parser.parse_args()

    cases = {"real run": real_run, "worst case": worst_case}
    results = {name: list(cases[name](options)) for name in options.cases}
    for title, rows in results.items():
        envs = f"{options.n_envs} environment{'s' * (options.n_envs > 1)}"
        table = Table(title=f"{options.game}, {title}, {envs}, {os.cpu_count()} cores: milliseconds a step")
        for column in COLUMNS:
            table.add_column(column, justify="right")
        for row in rows:
            numbers = (f"{row[name]:.3f}" for name in ("bare_ms", "agent_ms", "lookup_ms", "write_ms"))
            sizes = f"{row['largest_buffer']:,}", f"{row['entries']:,}", f"{row['exact']:.0%}"
            table.add_row(*sizes, row["index"], *numbers, f"{row['ratio']:.2f}")
        Console().print(table)
    if options.json:
        with open(options.json, "w") as file:
            settings = {"game": options.game, "n_envs": options.n_envs, "cores": os.cpu_count()}
            json.dump({**settings, **results}, file, indent=1)


def real_run(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Measurements of an agent that learns from nothing."""
    agent = MFEC(games(options), index=options.index, seed=0)
    for size in options.entries:
        while agent.memory.sizes.max() < size - 50 * options.turns:  # a turn adds some dozen entries to a buffer
            agent.learn(agent.frames + 4 * BLOCK)
        yield measure(agent, options)


def worst_case(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Measurements of an agent whose buffers were filled with states of real play that it will never match."""
    rng = np.random.default_rng(1)
    for size in options.entries:
        agent = MFEC(games(options), index=options.index, seed=0)
        agent.learn(40 * BLOCK)  # an index knows what is looked up before it is set
        states = np.array(recorded_states(options.game, size * agent.n_actions))
        for action in range(agent.n_actions):
            returns = rng.integers(0, 1000, size)
            agent.memory.write(states[action :: agent.n_actions], np.full(size, action), returns, np.arange(size))
        yield measure(agent, options)


def games(options: argparse.Namespace) -> Any:
    """The game, or several of them side by side."""
    return make_atari(options.game, n_envs=options.n_envs if options.n_envs > 1 else None)


def measure(agent: MFEC, options: argparse.Namespace) -> dict[str, Any]:
    """Median milliseconds of both over the turns, and the median of the turns' ratios."""
    bare = make_environments(games(options), np.random.SeedSequence(0))
    bare.begin(np.ones(bare.n, np.bool_))
    rng = np.random.default_rng(1)
    agent.learn(agent.frames + 4 * BLOCK)  # compiles, and begins the games
    agent_ms, bare_ms, lookup_ms, write_ms, exact = [], [], [], [], []
    for _ in range(options.turns):
        began = time.perf_counter()
        for actions in rng.integers(agent.n_actions, size=(BLOCK // bare.n, bare.n)):
            for group, own in enumerate(bare.groups):
                bare.send(group, actions[own])
            ended = np.concatenate([bare.receive(group).ended for group in range(len(bare.groups))])
            if ended.any():
                bare.begin(ended)
        bare_ms.append(1000 * (time.perf_counter() - began) / BLOCK)
        rows = Rows(agent)
        began = time.perf_counter()
        agent.learn(agent.frames + 4 * BLOCK, rows)
        agent_ms.append(1000 * (time.perf_counter() - began) / BLOCK)
        lookup_ms.append(rows.mean("lookup_ms"))
        write_ms.append(rows.mean("write_ms"))
        exact.append(rows.mean("exact_match_rate"))
    return {
        "largest_buffer": int(agent.memory.sizes.max()),
        "entries": len(agent.memory),
        "exact": statistics.fmean(exact),
        "index": agent.memory.active_index,
        "recall": agent.memory.measured_recall,
        "bare_ms": statistics.median(bare_ms),
        "agent_ms": statistics.median(agent_ms),
        "lookup_ms": statistics.median(lookup_ms),
        "write_ms": statistics.fmean(write_ms),
        "ratio": statistics.median(a / b for a, b in zip(agent_ms, bare_ms, strict=True)),
    }


class Rows(Callback):
    """What an agent logs from now on."""

    def __init__(self, agent: MFEC) -> None:
        agent.begin_row()
        self._rows: list[dict[str, Any]] = []
        self._frames = [agent.frames]

    def on_progress(self, agent: MFEC, row: dict[str, Any]) -> None:
        """Keep the row."""
        self._rows.append(row)
        self._frames.append(row["frames"])

    def mean(self, name: str) -> float:
        """The mean over all steps: a row counts by its frames."""
        return float(np.average([row[name] for row in self._rows], weights=np.diff(self._frames)))


if __name__ == "__main__":
    main()
