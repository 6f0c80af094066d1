"""Frames of a random policy on disk: collected once, memory-mapped, reused; collecting goes on where it was stopped."""

from __future__ import annotations

import contextlib
import json
import shutil
import time
from pathlib import Path
from typing import Any, Literal

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from rich.console import Console

from mfec.callbacks import Stopped
from mfec.canonical_names import canonical_name
from mfec.config import UNSAID, EnvConfig
from mfec.embeddings import check_pictures
from mfec.envs import make_env
from mfec.envs.environments import make_environments
from mfec.envs.random_play import RandomPlay
from mfec.errors import MfecError
from mfec.experiments.lock import locked
from mfec.files import write_whole
from mfec.terminal import Line
from mfec.toml import flat
from mfec.units import show_bytes, show_time

SAVE_SECONDS = 15.0
TRAINING, HELD_OUT = 10, 11  # what tells their games apart


class FramesError(MfecError):
    """Frames that cannot be collected or used."""


def collect_frames(
    env: str,
    environment: EnvConfig,
    frames: int,
    seed: int,
    directory: Path,
    *,
    console: Console,
    stop: list[int],
    lock: bool = True,
) -> NDArray[np.uint8]:
    """The observations of so many frames under a random policy, a memory map of `directory/frames.npy`.

    What lies there already is used, and added to where it is not complete. `stop`: fills when it is time to stop.
    lock: unless the directory is locked already; frames that are complete are used without.
    """
    play = RandomPlay(env, environment, np.random.SeedSequence([seed, TRAINING]))
    check_pictures(play.observation_space)
    shape = (max(1, frames // play.frames_each), *(play.observation_space.shape or ()))
    about = {
        "env": canonical_name(env),
        "environment": environment.made_with(),
        "seed": seed,
        "shape": list(shape),
    }
    file, progress = directory / "frames.npy", directory / "frames.json"
    complete = progress.exists() and _read(progress, about)[0] == shape[0]
    with locked(directory, "collect frames") if lock and not complete else contextlib.nullcontext():
        if not progress.exists():
            _refuse_full_disk(directory, shape)
            directory.mkdir(parents=True, exist_ok=True)
            stored: NDArray[np.uint8] = np.lib.format.open_memmap(file, mode="w+", dtype=np.uint8, shape=shape)
            done = 0
        else:
            done, then = _read(progress, about)
            if not file.is_file():
                raise FramesError(f"{file} is missing: remove {progress.name} to collect the frames again")
            stored = _open(file, shape, "r" if done == shape[0] else "r+")
            if done == shape[0]:
                console.print(f"frames: {file}, collected before", highlight=False, markup=False, soft_wrap=True)
                return stored
            try:
                play.restore(then)
            except (KeyError, TypeError, ValueError, IndexError) as error:
                raise FramesError(f"{progress} cannot be read: {error!r}") from None
        _collect(play, stored, done, about, progress, console, stop)
    return _open(file, shape, "r")


def delete_frames(directory: Path) -> None:
    """Delete what was collected in a directory; nothing, if nothing was."""
    (directory / "frames.json").unlink(missing_ok=True)  # first: frames alone are no more than a beginning
    (directory / "frames.npy").unlink(missing_ok=True)


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
                state = {"about": about, "done": done, "play": None if complete else play.state()}
                write_whole(progress, json.dumps(state))
                saved_at = time.perf_counter()
            speed = line.speed(done, done=complete)
            if speed is not None:
                left = show_time(int((len(stored) - done) / speed)) if speed else "-"
                line.show([f"random policy: {done:,}/{len(stored):,} observations", f"{speed:,.0f}/s", f"left {left}"])
            if stop and not complete:
                raise Stopped


def observation_space(env: str, environment: EnvConfig) -> spaces.Box | spaces.Discrete[Any]:
    """What the environment shows under these settings; one that cannot be made is an error."""
    one = EnvConfig(**{**vars(environment), "n_envs": 1})
    return make_environments(make_env(env, one), np.random.SeedSequence(0)).observation_space


def held_out_frames(env: str, environment: EnvConfig, count: int, seed: int) -> NDArray[np.uint8]:
    """So many observations of games that no training has seen, taken evenly from all parts of games."""
    play = RandomPlay(env, environment, np.random.SeedSequence([seed, HELD_OUT]))
    first = play.look()
    kept = [first]
    # Frames that follow each other are alike: one in ten is taken.
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


def _open(file: Path, shape: tuple[int, ...], mode: Literal["r", "r+"]) -> NDArray[np.uint8]:
    stored: NDArray[np.uint8]
    try:
        stored = np.lib.format.open_memmap(file, mode="r")  # r+ would fill a truncated file up with zeros
    except (OSError, ValueError) as error:
        raise FramesError(f"{file} cannot be read: {error}") from None
    if stored.shape != shape or stored.dtype != np.uint8:
        raise FramesError(f"{file} holds {stored.dtype} {stored.shape}, not uint8 {shape}")
    return stored if mode == "r" else np.lib.format.open_memmap(file, mode=mode)


def _read(progress: Path, about: dict[str, Any]) -> tuple[int, Any]:
    """How many of the frames that are asked for were collected, and where the random policy was then."""
    try:
        known = json.loads(progress.read_text())
        theirs, done, then = UNSAID | flat(known["about"]), known["done"], known["play"]
        theirs["env"] = canonical_name(theirs["env"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise FramesError(f"{progress} cannot be read: {error}") from None
    for name, value in flat(about).items():
        if theirs.get(name) != value:
            raise FramesError(f"{progress.parent} holds frames of {name} = {theirs.get(name)}, not of {value}")
    if not isinstance(done, int) or not 0 <= done <= about["shape"][0]:
        raise FramesError(f"{progress} cannot be read: it speaks of {done} frames of {about['shape'][0]}")
    return done, then
