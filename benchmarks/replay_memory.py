"""What replay of Atari costs: memory of a million steps, and how quickly minibatches are drawn from it.

Frames are random bytes, 84x84, in stacks of four, so that no page of memory is shared or left out. One table: our
buffer, really filled, beside Stable-Baselines3's, which keeps whole stacks; that one is filled as far as
`--peer-steps`, and what a million steps need is computed from its arrays.

    python benchmarks/replay_memory.py --json replay_memory.json
"""

from __future__ import annotations

import argparse
import gc
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces
from rich.console import Console
from rich.table import Table
from stable_baselines3.common.buffers import ReplayBuffer

from mfec.algorithms.baselines.replay import FrameReplay, PrioritisedReplay

STACKS = spaces.Box(0, 255, (4, 84, 84), np.uint8)
ACTIONS = spaces.Discrete(6)
MILLION = 1_000_000
BATCH = 32
EPISODE = 500  # steps; nothing ends by a time limit
COLUMNS = (
    "",
    "steps",
    "GB for a million",
    "bytes a step",
    "resident, measured",
    "of ours",
    "us to add",
    "draws a second",
)


def main() -> None:
    """Print the table, and write it as JSON if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=MILLION, help="steps that our buffer is filled with")
    parser.add_argument("--peer-steps", type=int, default=40_000, help="steps that all buffers are compared at")
    parser.add_argument("--seconds", type=float, default=5.0, help="for drawing minibatches from each")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    few = options.peer_steps
    rows = [measure(name, make, few, options.seconds) for name, make in BUFFERS.items()]
    rows += [measure(name, BUFFERS[name], options.steps, options.seconds) for name in OURS if options.steps != few]
    show(rows)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")


def plain(steps: int) -> FrameReplay:
    """Our buffer with uniform draws."""
    return FrameReplay(steps, STACKS, ACTIONS, "cpu", seed=np.random.SeedSequence(0))


def prioritised(steps: int) -> PrioritisedReplay:
    """Our buffer with draws by priority."""
    return PrioritisedReplay(steps, STACKS, ACTIONS, "cpu", seed=np.random.SeedSequence(0), alpha=0.6)


def peer(steps: int) -> ReplayBuffer:
    """Stable-Baselines3's buffer as it comes."""
    return ReplayBuffer(steps, STACKS, ACTIONS, "cpu")


def frugal_peer(steps: int) -> ReplayBuffer:
    """The same with each stack kept once; it cannot learn through time limits then."""
    return ReplayBuffer(steps, STACKS, ACTIONS, "cpu", optimize_memory_usage=True, handle_timeout_termination=False)


OURS = ("mfec", "mfec, prioritised")
BUFFERS: dict[str, Callable[[int], ReplayBuffer]] = {
    "mfec": plain,
    "mfec, prioritised": prioritised,
    "Stable-Baselines3": peer,
    "Stable-Baselines3, optimize_memory_usage": frugal_peer,
}


def measure(name: str, make: Callable[[int], ReplayBuffer], steps: int, seconds: float) -> dict[str, Any]:
    """Fill a buffer to the last step, then draw from it."""
    gc.collect()
    before = resident_bytes()
    replay = make(steps)
    adding = fill(replay, steps)
    measured = (resident_bytes() - before) / steps
    assert replay.full
    draw = draws_of(replay)
    draw()
    began, drawn = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        draw()
        drawn += BATCH
    return {
        "name": name,
        "steps": steps,
        "bytes_per_step": array_bytes(replay) / steps,
        "resident_bytes_per_step": measured,
        "add_us": 1e6 * adding / steps,
        "draws_per_second": drawn / (time.perf_counter() - began),
    }


def fill(replay: ReplayBuffer, steps: int) -> float:
    """Put random frames in; the seconds that the buffer itself took."""
    seconds, action, reward, infos = 0.0, np.zeros(1, np.int64), np.ones(1, np.float32), [{}]
    for step, (stack, following) in enumerate(stacks(steps)):
        done = np.array([step % EPISODE == EPISODE - 1])
        began = time.perf_counter()
        replay.add(stack, following, action, reward, done, infos)
        seconds += time.perf_counter() - began
    return seconds


def stacks(steps: int, chunk: int = 1000) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Observations and what follows them, (1, 4, 84, 84), each one frame further: views of frames that are new."""
    rng = np.random.default_rng(0)
    frames = np.zeros((4, 84, 84), np.uint8)
    for begin in range(0, steps, chunk):
        n = min(chunk, steps - begin)
        new = np.frombuffer(rng.bytes(n * 84 * 84), np.uint8).reshape(n, 84, 84)
        frames = np.concatenate([frames[-4:], new])
        for step in range(n):
            yield frames[None, step : step + 4], frames[None, step + 1 : step + 5]


def draws_of(replay: ReplayBuffer) -> Callable[[], Any]:
    """A minibatch as training draws it; priorities change with every one."""
    if not isinstance(replay, PrioritisedReplay):
        return lambda: replay.sample(BATCH)
    rng = np.random.default_rng(1)

    def draw() -> None:
        replay.update(replay.draw(BATCH, 0.5).items, rng.normal(size=BATCH))

    return draw


def array_bytes(replay: ReplayBuffer) -> int:
    """Bytes of the arrays."""
    if isinstance(replay, FrameReplay):
        return replay.nbytes
    return sum(value.nbytes for value in vars(replay).values() if isinstance(value, np.ndarray))


def resident_bytes() -> int:
    """Memory of this process that is its own, as the system counts it."""
    with open("/proc/self/status") as status:
        return next(1024 * int(line.split()[1]) for line in status if line.startswith("RssAnon"))


def show(rows: list[dict[str, Any]]) -> None:
    """Print the table."""
    table = Table(title="a replay buffer of 84x84 frames in stacks of 4, full")
    for column in COLUMNS:
        table.add_column(column, justify="right" if column else "left")
    ours = rows[0]["bytes_per_step"]
    for row in rows:
        size = row["bytes_per_step"]
        table.add_row(
            row["name"],
            f"{row['steps']:,}",
            f"{MILLION * size / 1e9:.2f}",
            f"{size:,.0f}",
            f"{row['resident_bytes_per_step']:,.0f}",
            f"{size / ours:.2f}",
            f"{row['add_us']:.0f}",
            f"{row['draws_per_second']:,.0f}",
        )
    Console(width=150).print(table)


if __name__ == "__main__":
    main()
