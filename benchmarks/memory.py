"""What an agent step's memory work costs: estimates for all actions, then one write into a full buffer.

States are recorded from real play first (recorded_states.py). One table for each number of entries: our indexes and
the peers, on the same states and the same queries, with the recall that was measured. A peer with a graph is set to the
least effort that finds 98% of the neighbours.

    pip install faiss-cpu scann usearch hnswlib scikit-learn
    python benchmarks/memory.py --json memory.json
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from mfec.memory import EpisodicMemory
from peers import PEERS, FaissFlat, FaissHnsw, KdTree, Peer
from recorded_states import recorded_states

GAMES = {6: "qbert", 9: "ms_pacman", 18: "ms_pacman"}  # 18 actions: Ms. Pac-Man's states in twice as many buffers
HELD_OUT = 8_000  # the last of them, which only queries come from
K = 11
RECALL = 0.98
EPISODE = 250  # states written together
WRITTEN = 8192  # states to time a write by: two of our queues of entries to evict
COLUMNS = ("", "recall", "step ms", "look-up", "write", "FAISS flat / this", "bytes an entry")


def main() -> None:
    """Print the tables, and write them as JSON if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--entries", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--actions", type=int, nargs="+", default=[6, 9, 18], choices=sorted(GAMES))
    parser.add_argument("--states", type=int, default=2_500_000, help="recorded of each game")
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument(
        "--churn", type=int, nargs="*", default=[10_000, 100_000], help="entries at which to replace all"
    )
    parser.add_argument("--peer-entries", type=int, default=1_000_000, help="above, peers hold one action's buffer")
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    results = []
    for n_actions in options.actions:
        for entries in options.entries:
            if n_actions * entries * 420 > 0.6 * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"):
                print(f"{n_actions} x {entries:,} entries do not fit this machine's memory")
                continue
            rows = measure(n_actions, entries, options)
            results.append({"actions": n_actions, "entries": entries, "game": GAMES[n_actions], "rows": rows})
            show(results[-1])
            if options.json:
                options.json.write_text(
                    json.dumps({"cores": os.cpu_count(), "k": K, "results": results}, indent=1) + "\n"
                )


def measure(n_actions: int, entries: int, options: argparse.Namespace) -> list[dict[str, Any]]:
    """All rows of one table."""
    pool = recorded_states(GAMES[n_actions], options.states)
    queries = np.array(pool[-HELD_OUT:])
    streams = [Stream(pool[:-HELD_OUT], action, n_actions, entries) for action in range(n_actions)]
    states = np.stack([stream.take(entries) for stream in streams])
    truth = true_distances(states, queries[:: HELD_OUT // 100])
    rows = []
    for index in ("exact", "cells"):
        if index == "exact" and entries > 100_000:
            continue
        rows += measure_ours(index, states, streams, queries, truth, options)
    if options.no_peers:
        return rows
    few = n_actions if n_actions * entries <= options.peer_entries else 1
    for kind in PEERS:
        if entries > 100_000 and kind in (KdTree, FaissHnsw):
            continue
        if row := measure_peer(kind, states[:few], n_actions, queries, truth[:, :few], options.steps):
            rows.append(row)
    if entries <= 100_000:
        rows += measure_ours("cells", states, None, queries, truth, options, "cells, again")
    flat = next(row["step_ms"] for row in rows if row["name"] == FaissFlat.name)
    return [{**row, "flat_ratio": flat / row["step_ms"]} for row in rows]


class Stream:
    """Real states in the order of play, for one action: every action begins elsewhere, and takes what is far apart."""

    def __init__(self, pool: np.ndarray, action: int, n_actions: int, entries: int) -> None:
        self._pool, self._at = pool, action * len(pool) // n_actions
        self._stride = max(1, len(pool) // (5 * entries))  # three replacements and the first fill, from all of play

    def take(self, n: int) -> np.ndarray:
        """The next n states."""
        rows = (self._at + self._stride * np.arange(n)) % len(self._pool)
        self._at += self._stride * n
        return np.array(self._pool[np.sort(rows)])


def measure_ours(
    index: str, states: np.ndarray, streams: list[Stream] | None, queries: np.ndarray, truth: np.ndarray,
    options: argparse.Namespace, name: str = "",
) -> list[dict[str, Any]]:  # fmt: skip
    """Our memory, filled, and again after everything in it was replaced three times."""
    n_actions, entries, dim = states.shape
    identity = 0

    def write(memory: EpisodicMemory, action: int, rows: np.ndarray) -> None:
        nonlocal identity
        keys = np.stack([np.arange(identity, identity + len(rows)), np.full(len(rows), 7)], axis=1).astype(np.uint64)
        identity += len(rows)
        # Keys of real identities are spread evenly: these are multiplied to be so, too.
        keys *= np.uint64(0x9E3779B97F4A7C15)
        memory.write(rows, np.full(len(rows), action), np.zeros(len(rows)), keys)

    def filled(states: np.ndarray) -> EpisodicMemory:
        memory = EpisodicMemory(n_actions, dim, capacity=entries, k=K, index=index)
        for action in range(n_actions):
            write(memory, action, states[action, : entries // 2])
        look_up(memory, queries)  # as in training: the index knows what is looked up before it is set
        for action in range(n_actions):
            write(memory, action, states[action, entries // 2 :])
        return memory

    before = resident_bytes()
    began = time.perf_counter()
    memory = filled(states)
    size = (resident_bytes() - before) / (n_actions * entries)
    print(f"{index}: filled in {time.perf_counter() - began:.0f} s", flush=True)
    written = [states[action, :WRITTEN] for action in range(n_actions)]

    def row(name: str, memory: EpisodicMemory, truth: np.ndarray, times: dict[str, float]) -> dict[str, Any]:
        near = [[memory.neighbours(q, a).distances for a in range(n_actions)] for q in queries[:: HELD_OUT // 100]]
        recall = float(np.mean(np.array(near) ** 2 <= truth[:, :, -1:] * (1 + 1e-12)))
        return {"name": name, "recall": recall, "deletes": True, "bytes": size, **times}

    first = row(name or index, memory, truth, time_lookups([memory], queries, options.steps)[0])
    rows = [with_writes(first, lambda action, some: write(memory, action, some), written)]
    if streams is None or entries not in options.churn or index == "exact":
        return rows
    for done in range(0, 3 * entries, EPISODE):
        for action in range(n_actions):
            write(memory, action, streams[action].take(min(EPISODE, 3 * entries - done)))
        if done % (40 * EPISODE) == 0:
            look_up(memory, queries)
    now = memory.tensors()["states"].reshape(n_actions, entries, dim)
    fresh = filled(now)
    truth = true_distances(now, queries[:: HELD_OUT // 100])
    # In turns, since the speed of a shared machine changes within minutes.
    times, fresh_times = time_lookups([memory, fresh], queries, options.steps)
    for label, each, taken in (("all replaced 3 times", memory, times), ("these entries afresh", fresh, fresh_times)):
        rows.append(
            with_writes(
                row(f"{index}, {label}", each, truth, taken),
                lambda action, some, each=each: write(each, action, some),  # type: ignore[misc]
                written,
            )
        )
    return rows


def with_writes(
    row: dict[str, Any], write: Callable[[int, np.ndarray], None], states: list[np.ndarray]
) -> dict[str, Any]:
    """The row with the time of a write, from whole episodes and whole queues of entries to evict."""
    began = time.perf_counter()
    for at in range(0, WRITTEN, EPISODE):
        write(0, states[0][at : at + EPISODE])
    row["write_ms"] = 1000 * (time.perf_counter() - began) / len(states[0])
    return {**row, "step_ms": row["lookup_ms"] + row["write_ms"]}


def time_lookups(memories: list[EpisodicMemory], queries: np.ndarray, steps: int) -> list[dict[str, float]]:
    """Median milliseconds of a look-up on consecutive states of play, the memories in turns of 50."""
    taken: list[list[float]] = [[] for _ in memories]
    for begin in range(0, steps, 50):
        for memory, times in zip(memories, taken, strict=True):
            for i in range(begin, begin + 50):
                query = queries[i * 8 % len(queries)][None]  # eight games side by side: this follows one of them
                began = time.perf_counter()
                memory.estimate(query)
                times.append(1000 * (time.perf_counter() - began))
    return [{"lookup_ms": statistics.median(times)} for times in taken]


def look_up(memory: EpisodicMemory, queries: np.ndarray) -> None:
    """Look some queries up, spread over all of them."""
    memory.estimate(queries[:: HELD_OUT // 1000])


def measure_peer(
    kind: type[Peer], states: np.ndarray, n_actions: int, queries: np.ndarray, truth: np.ndarray, steps: int
) -> dict[str, Any] | None:
    """A peer at the least effort that reaches the recall; its look-up is scaled to all actions."""
    gc.collect()
    before = resident_bytes()
    try:
        peer = kind(states, K)  # type: ignore[call-arg]
    except ImportError as error:
        print(f"{kind.name} is not installed: {error}")
        return None
    size = (resident_bytes() - before) / (states.shape[0] * states.shape[1])
    for effort in peer.efforts:
        peer.set_effort(effort)
        recall = float(np.mean([found(states, query, peer.search(query)) <= true[:, -1:]
                                for query, true in zip(queries[:: HELD_OUT // 100], truth, strict=True)]))  # fmt: skip
        if recall >= RECALL:
            break
    few = len(states)
    slow = kind is KdTree
    times = time_steps(peer.search, peer.write, queries, few, max(4, steps // 100) if slow else steps)
    times["lookup_ms"] *= n_actions / few
    times["step_ms"] = times["lookup_ms"] + times["write_ms"]
    return {"name": kind.name, "recall": recall, "deletes": kind.deletes, "effort": effort, "bytes": size, **times}


def time_steps(
    search: Callable[[np.ndarray], Any], write: Callable[[int, np.ndarray], None], queries: np.ndarray,
    n_actions: int, steps: int,
) -> dict[str, float]:  # fmt: skip
    """Medians over steps on consecutive states of play, each looked up and then written."""
    lookups, writes = [], []
    for i in range(steps + 2):
        query = queries[i * 8 % len(queries)]  # eight games were played side by side: this follows one of them
        began = time.perf_counter()
        search(query)
        looked_up = time.perf_counter()
        write(i % n_actions, query)
        writes.append(1000 * (time.perf_counter() - looked_up))
        lookups.append(1000 * (looked_up - began))
    lookup, written = statistics.median(lookups[2:]), statistics.fmean(writes[2:])
    return {"lookup_ms": lookup, "write_ms": written, "step_ms": lookup + written}


def found(states: np.ndarray, query: np.ndarray, entries: np.ndarray) -> np.ndarray:
    """Squared distances of the entries that a peer has found, (n_actions, k)."""
    near = np.take_along_axis(states, entries.astype(np.int64)[:, :, None], axis=1)
    return np.asarray(((near.astype(np.float64) - query) ** 2).sum(axis=2))


def true_distances(states: np.ndarray, queries: np.ndarray) -> np.ndarray:
    """Squared distances of the k nearest, (queries, n_actions, k), by full scans."""
    nearest = np.empty((len(queries), len(states), K))
    for action, buffer in enumerate(states):
        norms = np.einsum("ij,ij->i", buffer, buffer)
        rough = norms - 2 * queries @ buffer.T
        some = np.argpartition(rough, 4 * K, axis=1)[:, : 4 * K]
        for i, query in enumerate(queries):
            exact = ((buffer[some[i]].astype(np.float64) - query) ** 2).sum(axis=1)
            nearest[i, action] = np.sort(exact)[:K]
    return nearest


def resident_bytes() -> int:
    """Memory of this process that is its own, as the system counts it."""
    with open("/proc/self/status") as status:
        return next(1024 * int(line.split()[1]) for line in status if line.startswith("RssAnon"))


def show(result: dict[str, Any]) -> None:
    """Print one table."""
    title = f"{result['actions']} actions x {result['entries']:,} entries, {result['game']}, {os.cpu_count()} cores"
    table = Table(title=title)
    for column in COLUMNS:
        table.add_column(column, justify="left" if not column else "right")
    for row in result["rows"]:
        times = (f"{row[name]:.3f}" for name in ("step_ms", "lookup_ms", "write_ms"))
        ratio = f"{row['flat_ratio']:.1f}" if "flat_ratio" in row else ""
        name = row["name"] + ("" if row["deletes"] else " (cannot delete)")
        size = f"{row['bytes']:.0f}" if result["entries"] >= 100_000 else ""  # below, the system's pages blur it
        table.add_row(name, f"{row['recall']:.4f}", *times, ratio, size)
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
