"""How large the memory of a run, or of many, can grow, and whether that fits in RAM and on the device."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

import numpy as np
from rich.console import Console

from mfec.config import EnvConfig, RunConfig
from mfec.device import free_on_device
from mfec.device.layout import PAGE
from mfec.envs import make_env
from mfec.envs.lanes import Lanes, make_lanes
from mfec.errors import MfecError
from mfec.experiments.embedding import embedding_of_run
from mfec.memory import EpisodicMemory

DEVICE_SLACK = 9 / 8  # states are given room in slabs of an eighth of what there is
DEVICE_SCRATCH = 2**29  # for searches, projections and copies
REPLAY_BESIDE = 31  # bytes of a step in a replay buffer beside its frame: action, reward, flags, priorities


class TooLarge(MfecError):
    """A memory that cannot fit."""


def refuse_what_cannot_fit(
    configs: Sequence[RunConfig], console: Console, *, outs: Sequence[Path] = (), ignore: bool
) -> None:
    """Say how large the memories of these runs can grow; an error if they do not fit, unless told otherwise.

    outs: the directories of the runs, some of which may go on from a checkpoint.
    """
    shapes: dict[tuple[str, EnvConfig], Lanes] = {}
    reports = []
    for config, out in zip_longest(configs, outs):
        key = (config.env, config.environment)
        if key not in shapes:
            shapes[key] = make_lanes(make_env(*key), np.random.SeedSequence(0))
        lanes = shapes[key]
        _, dim = embedding_of_run(config.agent, lanes.observation_space, out)
        reports.append(RamReport.of(int(lanes.action_space.n), dim, config, lanes.frame_skip))
    report = reports[0] if len(reports) == 1 else RamReport.together(reports)
    console.print(report.sentence(), highlight=False, soft_wrap=True)
    report.refuse_what_cannot_fit(ignore)
    if configs[0].agent.device == "cuda":
        needed, free = report.on_device, free_on_device()
        said = f"GPU: states need up to {show_bytes(needed)} in this run, {show_bytes(free)} are free"
        if needed > free and not ignore:
            raise TooLarge(f"{said}: choose a smaller --capacity or fewer runs, or --ignore-memory-limit")
        console.print(said, highlight=False, soft_wrap=True)


def refuse_replay_that_cannot_fit(config: RunConfig, lanes: Lanes, console: Console, *, ignore: bool) -> None:
    """Say how large the replay buffer of a run can grow; an error if it does not fit, unless told otherwise."""
    space = lanes.observation_space
    each = int(np.prod(space.shape or (1,))) * np.dtype(space.dtype).itemsize + REPLAY_BESIDE
    steps = config.total_frames // lanes.frame_skip
    full, in_this_run = (each * min(rows, config.dqn.replay_capacity) for rows in (config.dqn.replay_capacity, steps))
    said = (
        f"replay: {config.dqn.replay_capacity:,} steps need {show_bytes(full)}, {show_bytes(in_this_run)} in this run"
    )
    if in_this_run > physical_ram() and not ignore:
        raise TooLarge(
            f"{said}; this machine has {show_bytes(physical_ram())}: choose a smaller --dqn.replay-capacity, or "
            "--ignore-memory-limit to start all the same"
        )
    console.print(f"{said}; this machine has {show_bytes(physical_ram())}", highlight=False, soft_wrap=True)


@dataclass(frozen=True)
class RamReport:
    """Bytes of a memory when every buffer is full, at the end of the run at most, and of RAM."""

    full: int
    in_this_run: int
    ram: int
    buffers: Mapping[int, int]  # how many there are of each capacity
    on_device: int = 0  # bytes of states that a GPU must hold by the end of the run
    runs: int = 1

    @classmethod
    def of(cls, n_actions: int, dim: int, config: RunConfig, frame_skip: int) -> RamReport:
        """The report for one run."""
        index, capacity = config.agent.resolved_index(), config.agent.capacity
        each = EpisodicMemory.bytes_per_entry(dim, index)
        full = EpisodicMemory.bytes_when_full(n_actions, dim, capacity, index)
        tables = full - n_actions * capacity * each
        entries = min(n_actions * capacity, config.total_frames // frame_skip)
        on_device = 0
        if config.agent.device == "cuda":  # states are not in RAM
            each -= 4 * dim
            full -= n_actions * capacity * 4 * dim
            on_device = int(DEVICE_SLACK * entries * 4 * dim) + n_actions * PAGE * 4 * dim + DEVICE_SCRATCH
        return cls(full, min(full, entries * each + tables), physical_ram(), {capacity: n_actions}, on_device)

    @classmethod
    def together(cls, reports: Sequence[RamReport]) -> RamReport:
        """The report for runs side by side."""
        buffers: Counter[int] = Counter()
        for report in reports:
            buffers.update(report.buffers)
        return cls(
            full=sum(report.full for report in reports),
            in_this_run=sum(report.in_this_run for report in reports),
            ram=reports[0].ram,
            buffers=buffers,
            on_device=sum(report.on_device - DEVICE_SCRATCH for report in reports) + DEVICE_SCRATCH,
            runs=len(reports),
        )

    def sentence(self) -> str:
        """What a run says before it starts."""
        whose = f"{self.runs} runs with together " if self.runs > 1 else ""
        return (
            f"memory: {whose}{self._entries} can grow to {show_bytes(self.full)}, "
            f"at most {show_bytes(self.in_this_run)} of it in this run; this machine has {show_bytes(self.ram)}"
        )

    def refuse_what_cannot_fit(self, ignore: bool) -> None:
        """An error if the memory can grow larger than RAM in this run, unless told otherwise.

        What a full one would take does not matter to a short run: arrays have their full size from the start, but the
        system hands out their pages as entries are written.
        """
        if self.in_this_run > self.ram and not ignore:
            if len(self.buffers) == 1:
                [(capacity, n_actions)] = self.buffers.items()
                what = f"a capacity of {capacity:,} entries for each of {n_actions} actions"
            else:
                what = f"a capacity of {self._entries}"
            raise TooLarge(
                f"{what} {'of all runs ' if self.runs > 1 else ''}needs up to {show_bytes(self.in_this_run)} in this "
                f"run and {show_bytes(self.full)} when full, this machine has {show_bytes(self.ram)}: choose a smaller "
                "--capacity or fewer --total-frames, or --ignore-memory-limit to start all the same"
            )

    @property
    def _entries(self) -> str:
        return " + ".join(f"{n} x {capacity:,}" for capacity, n in self.buffers.items()) + " entries"


def show_bytes(number: float) -> str:
    """A number of bytes for people."""
    for unit in ("B", "kB", "MB", "GB"):
        if number < 1000:
            return f"{number:.3g} {unit}"
        number /= 1000
    return f"{number:,.3g} TB"


def physical_ram() -> int:
    """Bytes of RAM that this process may use: the machine's, or less where a control group says so."""
    ram = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for limit in (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes")):
        try:
            ram = min(ram, int(limit.read_text()))
        except (OSError, ValueError):
            continue
    return ram
