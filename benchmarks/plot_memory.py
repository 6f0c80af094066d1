"""Cost of a step's memory work against entries, from the JSON of memory.py.

python benchmarks/plot_memory.py results/benchmarks/memory_9_actions.json --out docs/images/memory.png
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt

SHOWN = {
    "cells": ("mfec, cells", "C0", "o-"),
    "exact": ("mfec, exact", "C0", "o--"),
    "usearch": ("usearch", "C1", "s-"),
    "hnswlib": ("hnswlib", "C2", "^-"),
    "FAISS HNSW": ("FAISS HNSW (cannot delete)", "C4", "v:"),
    "FAISS IVF-Flat": ("FAISS IVF-Flat", "C6", "p-"),
    "FAISS IVF-SQ8": ("FAISS IVF-SQ8", "C7", "h-"),
    "FAISS IVF-PQ, fast scan": ("FAISS IVF-PQ (cannot delete)", "C8", "<:"),
    "ScaNN": ("ScaNN (cannot delete)", "C9", ">:"),
    "FAISS flat": ("FAISS flat (exact)", "C3", "D--"),
    "k-d tree": ("k-d tree, rebuilt (exact)", "C5", "x--"),
}


def main() -> None:
    """Draw one line for each index."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("json", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    results = json.loads(options.json.read_text())["results"]
    figure, axes = plt.subplots(figsize=(9.0, 4.5), layout="constrained")
    for name, (label, colour, style) in SHOWN.items():
        points = [
            (result["entries"], row["step_ms"]) for result in results for row in result["rows"] if row["name"] == name
        ]
        if points:
            axes.loglog(*zip(*points, strict=True), style, color=colour, label=label)
    axes.set_xlabel("entries for each action")
    axes.set_ylabel("milliseconds a step")
    axes.set_title(f"Look-up of {results[0]['actions']} actions and one write, {results[0]['game']}, 2 cores")
    axes.grid(alpha=0.3, which="both")
    axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.01, 1.0))
    figure.savefig(options.out, dpi=150)


if __name__ == "__main__":
    main()
