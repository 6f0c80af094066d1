"""Exact search on a GPU: how near one look-up comes to reading every entry once, and to plain torch.

    python benchmarks/cuda_memory.py --json results/benchmarks/cuda_memory.json

Needs a GPU with room for 18 million states (5 GB, 15 GB with the reference). Times are of whole look-ups, from states
on the host to slots on the host; "device" is the part that the GPU is at work.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from mfec.device.engine import Engine, Request, Run

DIM = 64
SCALE = 4000.0  # about the spread of projected Atari frames


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entries", type=int, default=1_000_000, help="in each of 18 buffers")
    parser.add_argument("--fleet-entries", type=int, default=100_000, help="in each of 25 x 9 buffers")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    engine = Engine(given.device)
    rng = np.random.default_rng(0)
    bandwidth = copy_bandwidth(engine.device)
    report: dict[str, Any] = {
        "device": torch.cuda.get_device_name() if given.device == "cuda" else given.device,
        "torch": torch.__version__,
        "kernels": "triton" if engine.triton else "torch",
        "copy_terabytes_per_second": round(bandwidth / 1e12, 3),
        "rows": [],
    }
    if given.device == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    big = [filled_run(engine, 18, given.entries, rng)]
    raw = 18 * given.entries * DIM * 4
    for k, batch in ((11, 1), (11, 8), (11, 32), (11, 64), (50, 1), (50, 8), (50, 32)):
        report["rows"].append(measure(f"1 run, 18 x {given.entries:,}", engine, big, batch, k, bandwidth, rng))
    if given.device == "cuda":
        report["peak_over_raw_vectors"] = round(torch.cuda.max_memory_allocated() / raw, 3)
        print(f"peak GPU memory: {report['peak_over_raw_vectors']} times the raw vectors")
    report["wrong_neighbours"] = wrong_neighbours(engine, big[0], rng)
    report["near_duplicates_in_order"] = near_duplicates(engine, rng)
    for row in report["rows"]:
        row["torch_ms"] = plain_torch_ms(big, row["states"], row["k"], rng)
    del big
    fleet = [filled_run(engine, 9, given.fleet_entries, rng) for _ in range(25)]
    row = measure(f"25 runs, 9 x {given.fleet_entries:,}", engine, fleet, 1, 11, bandwidth, rng)
    report["rows"].append({**row, "torch_ms": plain_torch_ms(fleet, 1, 11, rng)})
    for row in report["rows"]:
        row["torch_over_ours"] = round(row["torch_ms"] / row["milliseconds"], 2)
    show(report)
    if given.json:
        given.json.parent.mkdir(parents=True, exist_ok=True)
        given.json.write_text(json.dumps(report, indent=1) + "\n")


def filled_run(engine: Engine, n_actions: int, entries: int, rng: np.random.Generator) -> Run:
    """A run whose buffers are full of random states."""
    run = engine.add_run(n_actions, entries, DIM)
    slots = np.arange(entries)
    for action in range(n_actions):
        states = SCALE * rng.standard_normal((entries, DIM), np.float32)
        run.buffers.store(np.full(entries, action), slots, states)
    return run


def measure(
    name: str, engine: Engine, runs: list[Run], batch: int, k: int, bandwidth: float, rng: np.random.Generator
) -> dict[str, Any]:
    """Look up `batch` new states of every run in all of its buffers."""
    requests = [requests_of(runs, batch, k, rng) for _ in range(8)]
    whole = milliseconds(lambda i: engine.look_up(requests[i % 8]), engine.device)
    kernels = device_milliseconds(lambda i: engine.look_up(requests[i % 8]), engine.device)
    size = sum(int(run.buffers.sizes.sum()) for run in runs) * DIM * 4
    return {
        "memory": name,
        "k": k,
        "states": batch * len(runs),
        "milliseconds": round(whole, 4),
        "device_milliseconds": round(kernels, 4),
        "states_per_second": round(1000.0 * batch * len(runs) / whole),
        "share_of_copy_bandwidth": round(size / (whole / 1000.0) / bandwidth, 3),
        "share_on_device": round(size / (kernels / 1000.0) / bandwidth, 3),
    }


def requests_of(runs: list[Run], batch: int, k: int, rng: np.random.Generator) -> list[Request]:
    """One request of new states for each run."""
    return [
        Request(
            run,
            SCALE * rng.standard_normal((batch, DIM), np.float32),
            np.ones((batch, run.buffers.n_actions), np.bool_),
            k,
        )
        for run in runs
    ]


def plain_torch_ms(runs: list[Run], batch: int, k: int, rng: np.random.Generator) -> float:
    """The same look-ups by a matrix product and `topk`, over copies that lie as torch likes them."""
    device = runs[0].buffers.device
    stored = torch.stack([run.buffers.entries(a) for run in runs for a in range(run.buffers.n_actions)])
    norms = (stored**2).sum(2)
    each = batch // len(runs) if len(runs) > 1 else batch
    each = max(1, each)
    n_actions = runs[0].buffers.n_actions

    def search(_: int) -> None:
        asked = SCALE * torch.randn((len(runs), each, DIM), device=device)
        asked = asked.repeat_interleave(n_actions, dim=0)
        squared = norms[:, None] - 2.0 * torch.bmm(asked, stored.transpose(1, 2))
        torch.topk(squared, k, dim=2, largest=False).indices.cpu()

    return round(milliseconds(search, device, repeats=10), 4)


def wrong_neighbours(engine: Engine, run: Run, rng: np.random.Generator) -> int:
    """Neighbours that are not those of a float64 search, over 64 states and all actions; ties do not count."""
    request = requests_of([run], 64, 11, rng)[0]
    found = engine.look_up([request])[0]
    wrong = 0
    for action in range(run.buffers.n_actions):
        stored = run.buffers.entries(action).double()
        for row in range(64):
            asked = torch.from_numpy(request.inputs[row]).to(stored).double()
            truth = torch.topk(((stored - asked) ** 2).sum(1), 11, largest=False).values.cpu().numpy()
            wrong += int((np.abs(found.squared[row, action, :11] / truth - 1.0) > 1e-12).sum())
    return wrong


def near_duplicates(engine: Engine, rng: np.random.Generator) -> bool:
    """Whether states at distances of 1e-5, 2e-5, ... from a state of norm 40 are found in that order."""
    run = engine.add_run(1, 100_000, DIM)
    states = rng.standard_normal((100_000, DIM)).astype(np.float32) * 5.0
    asked = np.zeros(DIM, np.float32)
    asked[:16] = 10.0  # norm 40
    near = np.repeat(asked[None], 11, axis=0)
    near[:, 40] = 1e-5 * np.arange(1, 12)
    slots = rng.choice(100_000, 11, replace=False)
    states[slots] = near
    run.buffers.store(np.zeros(100_000, np.int64), np.arange(100_000), states)
    found = engine.look_up([Request(run, asked[None], np.ones((1, 1), np.bool_), 11)])[0]
    return bool((found.slots[0, 0, :11] == slots).all())


def copy_bandwidth(device: torch.device) -> float:
    """Bytes per second of a copy on the device, read and written ones together."""
    source = torch.empty(2**30 if device.type == "cuda" else 2**26, dtype=torch.float32, device=device)
    target = torch.empty_like(source)
    return 2 * source.nbytes / (device_milliseconds(lambda _: target.copy_(source), device) / 1000.0)


def milliseconds(do: Callable[[int], object], device: torch.device, repeats: int = 50) -> float:
    """Median wall-clock time."""
    for i in range(5):
        do(i)
    taken = []
    for i in range(repeats):
        _wait(device)
        began = time.perf_counter()
        do(i)
        _wait(device)
        taken.append(1000.0 * (time.perf_counter() - began))
    return statistics.median(taken)


def device_milliseconds(do: Callable[[int], object], device: torch.device, repeats: int = 20) -> float:
    """Median time that the device is at work, by its own profiler's kernel times."""
    if device.type == "cpu":
        return milliseconds(do, device, repeats)
    from torch.profiler import ProfilerActivity, profile

    do(0)
    _wait(device)
    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        for i in range(repeats):
            do(i)
        _wait(device)
    return sum(event.self_device_time_total for event in seen.key_averages()) / 1000.0 / repeats


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def show(report: dict[str, Any]) -> None:
    """Print the table."""
    table = Table(title=f"{report['device']}, copy {report['copy_terabytes_per_second']} TB/s, {report['kernels']}")
    names = {
        "memory": "memory", "states": "states", "k": "k", "milliseconds": "ms", "device_milliseconds": "device ms",
        "states_per_second": "states/s", "share_of_copy_bandwidth": "of copy", "share_on_device": "of copy, device",
        "torch_ms": "torch ms", "torch_over_ours": "torch / ours",
    }  # fmt: skip
    for title in names.values():
        table.add_column(title, justify="right")
    for row in report["rows"]:
        table.add_row(*(str(row[name]) for name in names))
    Console(width=140).print(table)
    print(f"wrong neighbours: {report['wrong_neighbours']}; near duplicates in order: "
          f"{report['near_duplicates_in_order']}")  # fmt: skip


if __name__ == "__main__":
    main()
