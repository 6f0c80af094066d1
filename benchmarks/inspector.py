"""How long a step of the inspector takes to be on the screen, in a browser, and what an exported game costs.

An agent learns Q*bert for a while and keeps its frames. Then its memory is filled up with memories near those it has,
of the same episodes, until every action has `--entries`. `mfec inspect` serves it, and chromium looks at it:

- keys: an arrow key, time and again; what comes next has been fetched while the last step was looked at;
- jumps: a click anywhere on the timeline, where nothing has been fetched before.

A step counts as shown when its frame, all values and every remembered frame in view are drawn (the page says so), and
the next frame of the screen has come. The table has percentiles over all of them. Needs Debian's chromium.

    python benchmarks/inspector.py --json inspector.json
    python benchmarks/inspector.py --exports CartPole-v1 Taxi-v4 --frames 40000     # exports of other games alone
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import Page, sync_playwright
from rich.console import Console
from rich.table import Table

from mfec import MFEC
from mfec.algorithms import RunConfig
from mfec.algorithms.mfec import MFECConfig
from mfec.cli import main as mfec
from mfec.experiments.train import train
from mfec.run_directory import RunDirectory

GAME = "qbert"
WATCH = """() => {
    window.times = []
    let began = null
    const begin = () => { began = performance.now() }
    document.addEventListener("pointerdown", begin, true)
    document.addEventListener("keydown", begin, true)
    document.addEventListener("inspector:shown", () => {
        const since = began
        began = null
        if (since !== null) requestAnimationFrame(() => window.times.push(performance.now() - since))
    })
}"""


def main() -> None:
    """Print the table, and write it as JSON if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--entries", type=int, default=100_000, help="memories of each action")
    parser.add_argument("--frames", type=int, default=300_000, help="that the agent learns from")
    parser.add_argument("--steps", type=int, default=200, help="of each kind")
    parser.add_argument("--no-frames", action="store_true", help="without kept frames: episodes are played again")
    parser.add_argument("--exports", nargs="+", metavar="ENV", help="only export a game of a run in each of these")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.exports:
        show_exports([export_of(env, options.frames) for env in options.exports], options.json)
        return
    with tempfile.TemporaryDirectory() as name:
        run = make_run(Path(name) / "run", options.frames, options.entries, keep_frames=not options.no_frames)
        rows = measure(run, options.steps)
        export = measure_export(run, Path(name) / "game.html")
    show(rows, options.entries)
    Console().print(f"export of that game: {export['megabytes']} MB, {export['seconds']} s")
    if options.json:
        options.json.write_text(
            json.dumps({"entries": options.entries, "rows": rows, "export": export}, indent=1) + "\n"
        )


def make_run(out: Path, frames: int, entries: int, *, keep_frames: bool) -> RunDirectory:
    """A run of Q*bert with so many memories of each action, those it has not made being near those it has."""
    config = RunConfig(GAME, frames, agent=MFECConfig(capacity=entries))
    run = train(config, out, keep_frames=keep_frames)
    agent = MFEC.load(run.checkpoint)
    rng = np.random.default_rng(0)
    for action in range(agent.n_actions):
        while (missing := entries - int(agent.memory.sizes[action])) > 0:
            actions, drawn = agent.memory.sample(20_000, rng)
            own = np.flatnonzero(actions == action)
            chosen = rng.choice(own if len(own) else len(actions), min(missing, 20_000))
            near = drawn.states[chosen] + rng.normal(0.0, drawn.states.std() / 20, (len(chosen), agent.memory.dim))
            keys = rng.integers(0, 2**63, (len(chosen), 2)).astype(np.uint64)
            agent.memory.write(near, np.full(len(chosen), action), drawn.values[chosen], keys, drawn.origins[chosen])
    agent.save(run.checkpoint)
    return run


def measure_export(run: RunDirectory, file: Path) -> dict[str, Any]:
    """Seconds, also of the processor alone, and megabytes of the page of a greedy game, which is played for it."""
    began, worked = time.perf_counter(), time.process_time()
    assert mfec(["inspect", str(run.path), "--epsilon", "0", "--export", str(file)]) == 0
    return {
        "megabytes": round(file.stat().st_size / 1e6, 2),
        "seconds": round(time.perf_counter() - began, 1),
        "processor": round(time.process_time() - worked, 1),
    }


def export_of(env: str, frames: int) -> dict[str, Any]:
    """An export of a run in an environment, without kept frames."""
    with tempfile.TemporaryDirectory() as name:
        run = train(RunConfig(env, frames), Path(name) / "run")
        return {"environment": env, "frames": frames, **measure_export(run, Path(name) / "game.html")}


def show_exports(rows: list[dict[str, Any]], file: Path | None) -> None:
    """Print what exports took, and write it if asked to."""
    table = Table(title="export of one game")
    for column in rows[0]:
        table.add_column(column, justify="left" if column == "environment" else "right")
    for row in rows:
        table.add_row(*(f"{value:,}" if isinstance(value, float | int) else value for value in row.values()))
    Console().print(table)
    if file:
        file.write_text(json.dumps(rows, indent=1) + "\n")


def measure(run: RunDirectory, steps: int) -> list[dict[str, Any]]:
    """Milliseconds of steps by keys and by jumps."""
    command = [sys.executable, "-m", "mfec", "inspect", str(run.path), "--port", "0"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as server:
        assert server.stdout is not None
        address = ""
        while not address:
            found = re.search(r"http://\S+", server.stdout.readline())
            address = found[0] if found else ""
        try:
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(
                    executable_path=shutil.which("chromium"), args=["--no-sandbox"] if os.geteuid() == 0 else []
                )
                page = browser.new_page(viewport={"width": 1280, "height": 800})
                page.goto(address)
                page.wait_for_function("() => document.querySelector('#progress').textContent.indexOf('playing') < 0")
                page.wait_for_timeout(1000)
                page.evaluate(WATCH)
                return [_row("keys", _keys(page, steps)), _row("jumps", _jumps(page, steps))]
        finally:
            server.terminate()


def _keys(page: Page, steps: int) -> list[float]:
    for _ in range(steps):
        _and_wait(page, lambda: page.keyboard.press("ArrowRight"))
    return _times(page)


def _jumps(page: Page, steps: int) -> list[float]:
    rng = np.random.default_rng(0)
    box = page.locator("#timeline [role=slider]").bounding_box()
    assert box is not None
    for part in rng.uniform(0.0, 1.0, steps):
        x, y = box["x"] + 1 + part * (box["width"] - 2), box["y"] + box["height"] / 2
        _and_wait(page, lambda x=x, y=y: page.mouse.click(x, y))
    return _times(page)


def _and_wait(page: Page, act: Any) -> None:
    before = page.evaluate("window.times.length")
    act()
    page.wait_for_function("before => window.times.length > before", arg=before, polling=5)


def _times(page: Page) -> list[float]:
    times: list[float] = page.evaluate("window.times.splice(0)")
    return times


def _row(kind: str, times: list[float]) -> dict[str, Any]:
    percentiles = {f"p{part}": round(float(np.percentile(times, part)), 1) for part in (50, 95, 99)}
    return {"kind": kind, "steps": len(times), **percentiles, "most": round(max(times), 1)}


def show(rows: list[dict[str, Any]], entries: int) -> None:
    """Print the table."""
    table = Table(title=f"milliseconds until a step is on the screen; {entries:,} memories of each action")
    for column in ("", "steps", "median", "95th percentile", "99th", "most"):
        table.add_column(column, justify="left" if not column else "right")
    for row in rows:
        table.add_row(row["kind"], *(f"{row[name]:,}" for name in ("steps", "p50", "p95", "p99", "most")))
    Console().print(table)


if __name__ == "__main__":
    main()
