"""What a memory of a hundred million states an action would read, from how reads grow, and how shards would share them.

    python results/scale/measure.py            # measures, and writes growth.csv and shards.csv beside this file
    python results/scale/measure.py --tables   # prints docs/scale.md's tables from them

States are those of real play (`benchmarks/recorded_states.py`, Ms. Pac-Man) in one buffer, in the order in which they
came; queries come from games that are not among them. Cells are those of the index `cells`; a search reads the nearest
of them, as many as hold 99% of the 11 nearest neighbours of all queries together.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from mfec.memory.neighbours.cells import CellIndex
from mfec.memory.neighbours.division import divide

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1] / "benchmarks"))

from recorded_states import recorded_states  # noqa: E402

K, RECALL = 11, 0.99
QUERIES = 200
ENTRIES = [10_000, 30_000, 100_000, 300_000, 1_000_000, 2_400_000]
SHARDS = [4, 16, 64]
FAR = 100_000_000  # entries an action
ACTIONS = 18
Row = dict[str, Any]


def main() -> None:
    """Measure, or print what was measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", action="store_true", help="print the tables of what was measured before")
    parser.add_argument("--entries", type=int, nargs="+", default=ENTRIES)
    options = parser.parse_args()
    if not options.tables:
        pool = recorded_states("ms_pacman", max(options.entries) + 50 * QUERIES)
        queries = np.array(pool[-50 * QUERIES :: 50])
        _write(HERE / "growth.csv", growth(pool, queries, options.entries))
        _write(HERE / "shards.csv", shards(pool, queries, max(options.entries)))
    show_growth(_read(HERE / "growth.csv"))
    show_shards(_read(HERE / "shards.csv"))


class Cells:
    """The cells of the first so many states, and what queries read of them."""

    def __init__(self, states: NDArray[np.float32], queries: NDArray[np.float32]) -> None:
        n = len(states)
        index = CellIndex((1, *states.shape), np.arange(n)[None])
        index.put(np.zeros(n, np.int64), np.arange(n), states)
        kept, book = index.tensors(), index.settings()["book"]
        low, scale = kept["lows"][book], index.settings()["scales"][book]
        self.centres = kept["centres"][:, : states.shape[1]].astype(np.float32)
        self.cell_of = kept["cell_of"]
        self.sizes = np.bincount(self.cell_of, minlength=len(self.centres))
        asked = np.clip(np.rint((queries - low) / scale), 0, 255).astype(np.float32)
        # |c|^2 - 2 c q orders centres by their distance.
        distances = np.square(self.centres).sum(1) - 2.0 * asked @ self.centres.T
        self.order = np.argsort(distances, axis=1, kind="stable")

    def reads(self, neighbours: NDArray[np.int64]) -> int:
        """Cells to read, nearest first, for the wanted share of these neighbours of the queries, (n, K)."""
        places = np.empty_like(self.order)
        np.put_along_axis(places, self.order, np.arange(self.order.shape[1])[None], axis=1)
        needed = np.sort(np.take_along_axis(places, self.cell_of[neighbours], axis=1).ravel())
        return int(needed[int(np.ceil(RECALL * len(needed))) - 1]) + 1


def growth(pool: NDArray[np.float32], queries: NDArray[np.float32], entries: list[int]) -> Iterator[Row]:
    """How many entries a search reads, by how many there are."""
    for n in entries:
        states = np.array(pool[:n])
        cells = Cells(states, queries)
        reads = cells.reads(_nearest(states, queries))
        read = cells.sizes[cells.order[:, :reads]].sum(1).mean()
        yield {
            "entries": n, "cells": len(cells.sizes), "cells_read": reads,
            "entries_read": round(float(read)), "share": round(float(read) / n, 5),
        }  # fmt: skip


def shards(pool: NDArray[np.float32], queries: NDArray[np.float32], n: int) -> Iterator[Row]:
    """How many shards a search asks, and how much the busiest of them reads beside the mean of all."""
    states = np.array(pool[:n])
    cells = Cells(states, queries)
    reads = cells.reads(_nearest(states, queries))
    rng = np.random.default_rng(0)
    for number in SHARDS:
        by_region = _parts(cells.centres.astype(np.uint8), number)
        for way, of_cell in (("entry", None), ("region", by_region)):
            work = np.zeros((len(queries), number))
            for query, order in enumerate(cells.order[:, :reads]):
                if of_cell is None:  # every shard has its part of every cell
                    work[query] = rng.multinomial(cells.sizes[order].sum(), np.full(number, 1 / number))
                else:
                    np.add.at(work[query], of_cell[order], cells.sizes[order])
            held = np.full(number, n / number) if of_cell is None else np.bincount(of_cell, cells.sizes, number)
            yield {
                "entries": n, "shards": number, "divided_by": way,
                "asked": round(float((work > 0).sum(1).mean()), 2),
                "slowest_of_a_search": round(float(work.max(1).mean()), 1),
                "reads": round(float(work.sum(1).mean()), 1),
                "busiest_of_all": round(float(work.sum(0).max() / work.sum(0).mean()), 3),
                "largest": round(float(held.max() / held.mean()), 3),
            }  # fmt: skip


def show_growth(rows: list[Row]) -> None:
    """Reads by entries, and what their growth comes to far beyond."""
    table = Table(title=f"one buffer: entries read for {RECALL:.0%} of the {K} nearest")
    for column in ("entries", "cells read", "entries read", "share"):
        table.add_column(column, justify="right")
    for row in rows:
        read = f"{int(row['entries_read']):,}"
        share = f"{float(row['share']):.2%}"
        table.add_row(f"{int(row['entries']):,}", f"{int(row['cells_read']):,}", read, share)
    Console(width=100).print(table)
    n, read = np.log(np.array([(int(row["entries"]), int(row["entries_read"])) for row in rows], float)).T
    for name, some in (("all", slice(None)), ("the last three", slice(-3, None))):
        slope, offset = np.polyfit(n[some], read[some], 1)
        far = np.exp(offset + slope * np.log(FAR))
        print(f"{name}: reads grow with the entries to the power of {slope:.2f}; at {FAR:,} entries {far:,.0f}")


def show_shards(rows: list[Row]) -> None:
    """What shards do for a search."""
    table = Table(title=f"{int(rows[0]['entries']):,} entries, in shards")
    for column in rows[0]:
        table.add_column(column.replace("_", " "), justify="right")
    for row in rows:
        table.add_row(*map(str, row.values()))
    Console(width=140).print(table)


def _nearest(states: NDArray[np.float32], queries: NDArray[np.float32]) -> NDArray[np.int64]:
    """The K nearest states of each query, by brute force."""
    norms = np.square(states).sum(1)
    found = [np.argpartition(norms - 2.0 * states @ query, K)[:K] for query in queries]
    return np.array(found)


def _parts(codes: NDArray[np.uint8], number: int) -> NDArray[np.int64]:
    """A part for each code, in so many parts, a power of two, of codes that lie together."""
    if number == 1:
        return np.zeros(len(codes), np.int64)
    side, means = np.empty(len(codes), np.bool_), np.empty((2, codes.shape[1]), np.uint8)
    divide(codes, np.arange(len(codes)), side, means)
    parts = np.empty(len(codes), np.int64)
    parts[~side], parts[side] = _parts(codes[~side], number // 2), number // 2 + _parts(codes[side], number // 2)
    return parts


def _write(path: Path, rows: Iterator[Row]) -> None:
    with path.open("w", newline="") as file:
        table = None
        for row in rows:
            if table is None:
                table = csv.DictWriter(file, row, lineterminator="\n")
                table.writeheader()
            table.writerow(row)
            file.flush()
            print(row, flush=True)


def _read(path: Path) -> list[Row]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


if __name__ == "__main__":
    main()
