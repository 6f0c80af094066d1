"""Frames of a random policy on disk: collected once, memory-mapped, reused; collecting goes on where it was stopped."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from mfec.config import EnvConfig
from mfec.envs.random_play import RandomPlay
from mfec.errors import MfecError
from mfec.experiments.display import Line, show_time
from mfec.experiments.ram import show_bytes
from mfec.experiments.stopping import Stopped

SAVE_SECONDS = 15.0
TRAINING, HELD_OUT = 10, 11  # what tells their games apart


class FramesError(MfecError):
    """Frames that cannot be collected or used."""


def collect_frames(
    env: str, environment: EnvConfig, frames: int, seed: int, directory: Path, *, console: Console, stop: list[int]
) -> NDArray[np.uint8]:
    """The observations of so many frames under a random policy, a memory map of `directory/frames.npy`.

    What lies there already is used, and added to where it is not complete. `stop`: fills when it is time to stop.
    """
    play = RandomPlay(env, environment, np.random.SeedSequence([seed, TRAINING]))
    space = play.observation_space
    if space.dtype != np.uint8 or space.shape is None or len(space.shape) < 2:
        raise FramesError(f"a VAE is trained on pictures, and {env} shows {space}")
    shape = (max(1, frames // play.frames_each), *space.shape)
    about = {
        "env": env,
        "environment": {name: value for name, value in vars(environment).items() if name != "n_envs"},
        "seed": seed,
        "shape": list(shape),
    }
    file, progress = directory / "frames.npy", directory / "frames.json"
    known = _read(progress)
    if known is not None and known["about"] != about:
        raise FramesError(f"{directory} holds other frames, {known['about']}, where {about} are asked for")
    if known is not None and not file.is_file():
        raise FramesError(f"{file} is missing: remove {progress.name} to collect the frames again")
    if known is None:
        _refuse_full_disk(directory, shape)
        directory.mkdir(parents=True, exist_ok=True)
        stored = np.lib.format.open_memmap(file, mode="w+", dtype=np.uint8, shape=shape)
    else:
        stored = _open(file, shape, "r" if known["done"] == shape[0] else "r+")
        if known["done"] == shape[0]:
            console.print(f"frames: {file}, collected before", highlight=False, markup=False, soft_wrap=True)
            return stored
        play.restore(known["play"])
    _collect(play, stored, known["done"] if known else 0, about, progress, console, stop)
    return _open(file, shape, "r")


def _collect(
    play: RandomPlay,
    stored: NDArray[np.uint8],
    done: int,
    about: dict[str, Any],
    progress: Path,
    console: Console,
    stop: list[int],
) -> None:
    saved_at = time.perf_counter()
    with Line(console) as line:
        while done < len(stored):
            seen = play.look()[: len(stored) - done]
            stored[done : done + len(seen)] = seen
            done += len(seen)
            complete = done == len(stored)
            if complete or stop or time.perf_counter() - saved_at > SAVE_SECONDS:
                stored.flush()  # type: ignore[attr-defined]
                _write(progress, {"about": about, "done": done, "play": None if complete else play.state()})
                saved_at = time.perf_counter()
            speed = line.speed(done, done=complete)
            if speed is not None:
                left = show_time(int((len(stored) - done) / speed)) if speed else "-"
                line.show([f"random policy: {done:,}/{len(stored):,} observations", f"{speed:,.0f}/s", f"left {left}"])
            if stop and not complete:
                raise Stopped


def held_out_frames(env: str, environment: EnvConfig, count: int, seed: int) -> NDArray[np.uint8]:
    """So many observations of games that no training has seen, taken evenly from all parts of games."""
    play = RandomPlay(env, environment, np.random.SeedSequence([seed, HELD_OUT]))
    first = play.look()
    # Games begin together, so the first frames of all lanes are alike: one in ten is taken.
    kept = [first]
    while len(kept) * len(first) < count:
        for _ in range(10):
            seen = play.look()
        kept.append(seen)
    return np.concatenate(kept)[:count]


def _refuse_full_disk(directory: Path, shape: tuple[int, ...]) -> None:
    there = directory
    while not there.exists():
        there = there.parent
    needed, free = int(np.prod(shape, dtype=np.int64)), shutil.disk_usage(there).free
    if needed > free:
        raise FramesError(f"the frames take {show_bytes(needed)}, and {there} has {show_bytes(free)} free")


def _open(file: Path, shape: tuple[int, ...], mode: Any) -> NDArray[np.uint8]:
    try:
        stored = np.load(file, mmap_mode=mode, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise FramesError(f"{file} cannot be read: {error}") from None
    if stored.shape != shape or stored.dtype != np.uint8:
        raise FramesError(f"{file} holds {stored.dtype} {stored.shape}, not uint8 {shape}")
    return stored  # type: ignore[no-any-return]


def _read(progress: Path) -> dict[str, Any] | None:
    if not progress.exists():
        return None
    try:
        known = json.loads(progress.read_text())
        return {"about": known["about"], "done": int(known["done"]), "play": known["play"]}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise FramesError(f"{progress} cannot be read: {error}") from None


def _write(progress: Path, state: dict[str, Any]) -> None:
    draft = progress.with_suffix(".json.draft")
    draft.write_text(json.dumps(state))
    os.replace(draft, progress)
