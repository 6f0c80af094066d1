"""How much RAM, and memory of a GPU, a run can come to need, and whether that fits."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from rich.console import Console

from mfec.algorithms import Footprint, RunConfig
from mfec.config import EnvConfig
from mfec.device import free_on_device
from mfec.envs import make_env
from mfec.errors import MfecError
from mfec.units import show_bytes

DEVICE_SCRATCH = 2**29  # of a GPU, for searches, projections and copies
PROCESS_BYTES = 600_000_000  # a process at its first frames: 330 MB, with a VAE 530, with a network that learns 580
CONTEXT_BYTES = 600_000_000  # of a GPU: a process that computes there, before it keeps anything


class TooLarge(MfecError):
    """A memory that cannot fit."""


@dataclass(frozen=True)
class Needs:
    """The most bytes that a run in a process of its own can take until its last frame."""

    ram: int = 0
    device: int = 0
    """Of a GPU, which it shares with others."""


def needs_of(config: RunConfig, out: Path | None = None) -> Needs:
    """What a run can come to need; nothing if it cannot even begin: it says itself why.

    out: where the run is, if it has begun.
    """
    try:
        own = footprint_of(config, out)
    except Exception:  # an environment may raise anything
        return Needs()
    context = CONTEXT_BYTES if config.kind.owns_context(config) else 0
    if own is None:
        return Needs(PROCESS_BYTES, context)
    return Needs(PROCESS_BYTES + own.in_this_run + own.for_checkpoint, context + own.on_device)


def footprint_of(config: RunConfig, out: Path | None = None) -> Footprint | None:
    """What a run keeps; None where that is next to nothing."""
    env = _env(config.env, config.kind.environment_of_agent(config, n_envs=1))
    return config.kind.footprint(config, env, out=out)


def refuse_what_cannot_fit(
    config: RunConfig, console: Console, *, out: Path | None = None, ignore: bool, free: int | None = None
) -> None:
    """Say how large what a run keeps can grow; an error if it does not fit, unless told otherwise.

    What it would take when full does not matter to a short run: arrays have their full size from the start, but the
    system hands out their pages as they are written.

    out: the directory of the run, which may go on from a checkpoint; free: bytes of the GPU, where they are known.
    """
    own = footprint_of(config, out)
    if own is None:
        return
    full, now, ram = show_bytes(own.full), show_bytes(own.in_this_run), show_bytes(physical_ram())
    if own.in_this_run > physical_ram() and not ignore:
        raise TooLarge(
            f"{own.what}: {own.rows} need up to {now} in this run and {full} when full, this machine has {ram}: choose "
            f"a smaller {own.option} or fewer --total-frames, or --ignore-memory-limit to start all the same"
        )
    said = f"{own.what}: {own.rows} can grow to {full}, at most {now} of it in this run; this machine has {ram}"
    console.print(said, highlight=False, soft_wrap=not console.is_terminal)
    if own.on_device:
        needed, free = own.on_device + DEVICE_SCRATCH, free_on_device() if free is None else free
        said = f"GPU: states need up to {show_bytes(needed)} in this run, {show_bytes(free)} are free"
        if needed > free and not ignore:
            raise TooLarge(f"{said}: choose a smaller {own.option}, or --ignore-memory-limit")
        console.print(said, highlight=False, soft_wrap=not console.is_terminal)


@cache
def _env(name: str, environment: EnvConfig) -> Any:
    return make_env(name, environment)


def physical_ram() -> int:
    """Bytes of RAM that this process may use: the machine's, or less where a control group says so."""
    ram = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for limit in (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes")):
        try:
            ram = min(ram, int(limit.read_text()))
        except (OSError, ValueError):
            continue
    return ram
