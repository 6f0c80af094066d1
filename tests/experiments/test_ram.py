"""How large a memory can grow: told before a run starts, refused where it cannot fit."""

from __future__ import annotations

import io
import os
import resource
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from rich.console import Console

from mfec import MFEC, EpisodicMemory
from mfec.algorithms import Footprint, RunConfig
from mfec.algorithms.baselines import A2CConfig
from mfec.algorithms.mfec import MFECConfig
from mfec.algorithms.nec import NECConfig
from mfec.cli import main
from mfec.config import EnvConfig, IndexName
from mfec.experiments.ram import (
    CONTEXT_BYTES,
    DEVICE_SCRATCH,
    PROCESS_BYTES,
    Needs,
    TooLarge,
    footprint_of,
    needs_of,
    physical_ram,
    refuse_what_cannot_fit,
)
from mfec.memory.neighbours.exact import ExactIndex
from mfec.units import show_bytes

from ..waiting import PATIENCE

OVERCOMMIT, MEMINFO = Path("/proc/sys/vm/overcommit_memory"), Path("/proc/meminfo")


class Eight(gymnasium.Env):
    """3 actions, and states of 8 numbers."""

    observation_space = spaces.Box(-1, 1, (8,), np.float32)
    action_space = spaces.Discrete(3)


gymnasium.register("Eight-v0", entry_point=Eight)


def footprint(env: str, capacity: int, frames: int = 10**9, **options: Any) -> Footprint:
    found = footprint_of(RunConfig(env, frames, 0, MFECConfig(capacity=capacity, **options)))
    assert found is not None
    return found


def of_eight(capacity: int, frames: int = 10**9, **options: Any) -> Footprint:
    """For 3 actions and states of 8 numbers."""
    return footprint("Eight-v0", capacity, frames, **options)


def full_memory(capacity: int, index: IndexName) -> EpisodicMemory:
    memory = EpisodicMemory(3, 8, capacity=capacity, index=index)
    n = 3 * capacity
    memory.write(np.random.default_rng(0).standard_normal((n, 8)), np.arange(n) % 3, np.zeros(n))
    assert memory.sizes.tolist() == [capacity] * 3
    return memory


# -- Numbers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("capacity", [1, 16, 100])
@pytest.mark.parametrize("index", ["exact", "cells", "cuda"])
def test_the_report_is_the_size_of_a_full_memory(index, capacity):
    assert of_eight(capacity, index=index).full == full_memory(capacity, index).nbytes


@pytest.mark.parametrize("capacity", [1, 16, 100])
def test_the_report_for_auto_has_room_for_both_of_its_indexes(capacity):
    """They stand side by side during a trial; before and after it one of them is there."""
    exact, cells, auto = (full_memory(capacity, index) for index in ("exact", "cells", "auto"))
    entries = 3 * capacity * EpisodicMemory.bytes_per_entry(8) - 3 * capacity * ExactIndex.bytes_per_entry(8)
    tables = exact.nbytes - 3 * capacity * EpisodicMemory.bytes_per_entry(8)
    assert auto.active_index == "exact"
    assert auto.nbytes == exact.nbytes
    assert of_eight(capacity).full == exact.nbytes + cells.nbytes - entries - tables


def test_a_change_to_cells_is_seen_in_the_bytes_of_a_memory(monkeypatch):
    monkeypatch.setattr("mfec.memory.neighbours.auto.FIRST_TRIAL", 40)
    monkeypatch.setattr("mfec.memory.neighbours.auto.milliseconds", lambda index, *_: float(index.active == "exact"))
    memory = EpisodicMemory(3, 8, capacity=20, index="auto")
    memory.estimate(np.zeros((1024, 8)))  # a trial needs what was looked up
    memory.write(np.random.default_rng(0).standard_normal((60, 8)), np.arange(60) % 3, np.zeros(60))
    assert memory.active_index == "cells"
    assert memory.nbytes == full_memory(20, "cells").nbytes < of_eight(20).full


@pytest.mark.skipif(not MEMINFO.exists(), reason="needs /proc")
def test_a_full_memory_takes_from_the_system_what_was_announced():
    """Nearly, when what was freed along the way has gone back to the system."""
    program = """if True:
        import ctypes
        from pathlib import Path
        import numpy as np
        from mfec import EpisodicMemory

        def resident():
            ctypes.CDLL(None).malloc_trim(0)
            lines = Path("/proc/self/status").read_text().splitlines()
            return 1024 * int(next(line for line in lines if line.startswith("VmRSS:")).split()[1])

        def fill(capacity):
            memory = EpisodicMemory(4, 64, capacity=capacity, index="cells")
            rng = np.random.default_rng(0)
            for _ in range(0, 4 * capacity + 4000, 1000):
                states = rng.standard_normal((1000, 64), np.float32)
                memory.write(states, np.arange(1000) % 4, np.zeros(1000))
                memory.estimate(states[:2] + np.float32(0.01))
            return memory

        fill(2000)  # compiled now, and threads are running
        before = resident()
        memory = fill(20_000)
        assert memory.sizes.tolist() == [20_000] * 4
        print((resident() - before) / EpisodicMemory.bytes_when_full(4, 64, 20_000, "cells"))
    """
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE)
    assert ended.returncode == 0, ended.stderr
    assert 0.9 < float(ended.stdout) < 1.2


@pytest.mark.parametrize(("env", "frames", "index"), [
    ("FrozenLake-v1", 300, "exact"), ("FrozenLake-v1", 300, "cells"), ("FrozenLake-v1", 300, "cuda"),
    ("qbert", 400, "auto"),
])  # fmt: skip
def test_no_run_grows_beyond_what_was_announced_for_it(env, frames, index):
    announced = footprint(env, 5000, frames, index=index)
    agent = MFEC(env, capacity=5000, index=index, seed=0).learn(frames)
    assert 0 < agent.memory.nbytes <= announced.in_this_run < announced.full


def test_a_long_run_grows_no_further_than_full():
    assert of_eight(100, 10**9).in_this_run == of_eight(100).full
    assert of_eight(10**6, 4000).in_this_run < of_eight(10**6).in_this_run


def test_a_run_writes_one_entry_a_step_and_not_one_a_frame():
    short, long = (footprint("qbert", 10**6, frames, index="exact").in_this_run for frames in (4000, 8000))
    assert long - short == 1000 * EpisodicMemory.bytes_per_entry(64, "exact")


@pytest.mark.skipif(not MEMINFO.exists(), reason="needs /proc")
def test_ram_is_what_the_system_says_or_less():
    total = next(line for line in MEMINFO.read_text().splitlines() if line.startswith("MemTotal:"))
    assert 0 < physical_ram() <= 1024 * int(total.split()[1])


def test_what_cannot_fit_is_refused(monkeypatch):
    config, quiet = RunConfig("Eight-v0", 4000, agent=MFECConfig(capacity=10**6)), Console(file=io.StringIO())
    needed = of_eight(10**6, 4000).in_this_run
    monkeypatch.setattr("mfec.experiments.ram.physical_ram", lambda: needed)
    refuse_what_cannot_fit(config, quiet, ignore=False)
    monkeypatch.setattr("mfec.experiments.ram.physical_ram", lambda: needed - 1)
    refuse_what_cannot_fit(config, quiet, ignore=True)
    with pytest.raises(TooLarge, match=r"smaller --capacity or fewer --total-frames, or --ignore-memory-limit"):
        refuse_what_cannot_fit(config, quiet, ignore=False)


@pytest.mark.parametrize(("number", "text"), [
    (0, "0 B"), (999, "999 B"), (1000, "1 kB"), (51_100_000, "51.1 MB"), (2.21e9, "2.21 GB"), (3.5e12, "3.5 TB"),
])  # fmt: skip
def test_bytes_are_shown_for_people(number, text):
    assert show_bytes(number) == text


# -- Processes and GPUs -----------------------------------------------------------------------------------------------


def test_what_a_run_can_come_to_need_grows_with_what_it_can_remember():
    lake = RunConfig("FrozenLake-v1", 600, agent=MFECConfig(capacity=100, embedding="identity"))
    assert 0 < needs_of(lake).ram - PROCESS_BYTES < 10**7
    qbert = RunConfig("qbert", 10_000_000, agent=MFECConfig(embedding="random_projection"))
    assert 2_500_000 * 306 < needs_of(qbert).ram < 2 * 2_500_000 * 600
    full = replace(qbert, total_frames=10**9)  # all six buffers
    assert 6_000_000 * 306 < needs_of(full).ram < 2 * 6_000_000 * 600
    assert needs_of(replace(qbert, environment=EnvConfig(n_envs=64))) == needs_of(qbert)
    replay = needs_of(RunConfig("qbert", 10_000_000, algorithm="dqn")).ram - PROCESS_BYTES
    assert 2 * 1_000_000 * 84 * 84 < replay < 2 * 1_000_000 * 84 * 85
    assert needs_of(RunConfig("qbert", 10_000_000, algorithm="a2c")) == Needs(PROCESS_BYTES)
    assert needs_of(replace(qbert, env="NoSuchLake-v1")) == Needs()


def test_on_a_gpu_states_are_counted_there_and_not_in_ram():
    here, there = (
        RunConfig("FrozenLake-v1", 2000, 0, MFECConfig(capacity=1000, index="cuda", device=device))
        for device in ("cpu", "cuda")
    )
    cpu, gpu = footprint_of(here), footprint_of(there)
    assert cpu is not None
    assert gpu is not None
    assert cpu.full - gpu.full == 4 * 1000 * 4
    assert cpu.in_this_run - gpu.in_this_run == 2000 * 4
    assert needs_of(here).device == 0
    assert 2000 * 4 <= needs_of(there).device == gpu.on_device


def test_a_process_that_computes_on_a_gpu_needs_room_there_beside_what_it_keeps():
    """The keys of all steps, as long as the dictionaries are not full of them; and the keys of full ones."""
    runs = [
        RunConfig("FrozenLake-v1", frames, 0, NECConfig(capacity=10**5, device="cuda"), algorithm="nec")
        for frames in (2 * 10**5, 10**9)
    ]
    for run, entries in zip(runs, (2 * 10**5, 4 * 10**5), strict=True):
        keys = needs_of(run).device - CONTEXT_BYTES
        assert entries * 64 * 4 < keys < 1.2 * entries * 64 * 4 + 10**7
    here = replace(runs[0], agent=NECConfig(capacity=10**5))
    assert needs_of(here).device == 0
    assert needs_of(here).ram > needs_of(runs[0]).ram
    a2c = RunConfig("qbert", 10**6, 0, A2CConfig(device="cuda"), algorithm="a2c")
    assert needs_of(a2c) == Needs(PROCESS_BYTES, CONTEXT_BYTES)


def test_what_cannot_fit_on_the_gpu_is_refused_with_figures(monkeypatch):
    config = RunConfig("qbert", 4 * 10**6, 0, MFECConfig(capacity=10**6, device="cuda"))
    needed = needs_of(config).device + DEVICE_SCRATCH
    states = 10**6 * 64 * 4  # as many as there are steps
    assert states < needed < 1.2 * states + 10**9
    monkeypatch.setattr("mfec.experiments.ram.physical_ram", lambda: 10**15)

    def refusal(free: int, ignore: bool = False) -> str:
        """What is said of the run when it is to start."""
        said = io.StringIO()
        refuse_what_cannot_fit(config, Console(file=said, width=40), ignore=ignore, free=free)
        return said.getvalue()

    assert refusal(needed).splitlines()[1].startswith(f"GPU: states need up to {show_bytes(needed)} in this run, ")
    figures = rf"GPU: states need up to {show_bytes(needed)} in this run, {show_bytes(needed - 1)} are free: "
    with pytest.raises(TooLarge, match=figures + "choose a smaller --capacity, or --ignore-memory-limit"):
        refusal(needed - 1)
    assert "GPU: states need up to" in refusal(needed - 1, ignore=True)


# -- The command ------------------------------------------------------------------------------------------------------


def too_large_for_this_machine() -> int:
    """A capacity for which qbert's memory needs a fifth more than this machine has, yet none of its arrays does."""
    return int(1.2 * physical_ram() / EpisodicMemory.bytes_when_full(6, 64, 2**20) * 2**20)


@pytest.mark.parametrize("index", ["cells", "auto"])
def test_a_run_says_before_it_starts_how_large_its_memory_can_grow(tmp_path, capsys, index):
    arguments = ["--total-frames", "20", "--capacity", "123456", "--no-video", "--out", str(tmp_path)]
    arguments += [] if index == "auto" else ["--index", index]
    assert main(["train", "FrozenLake-v1", *arguments]) == 0
    first = capsys.readouterr().out.splitlines()[0]
    full = show_bytes(EpisodicMemory.bytes_when_full(4, 1, 123_456, index))
    assert first.startswith(f"memory: 4 x 123,456 entries can grow to {full}, at most ")
    assert first.endswith(f"this machine has {show_bytes(physical_ram())}")


def test_a_capacity_that_cannot_fit_is_refused_before_anything_is_written(tmp_path, capsys):
    capacity = too_large_for_this_machine()
    arguments = ["--capacity", str(capacity), "--total-frames", str(10**12), "--out", str(tmp_path / "run")]
    assert main(["train", "qbert", *arguments]) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"mfec: memory: 6 x {capacity:,} entries need up to ")
    assert "--ignore-memory-limit" in error
    assert error.count("\n") == 1
    assert not (tmp_path / "run").exists()


@pytest.mark.skipif(
    OVERCOMMIT.exists() and OVERCOMMIT.read_text().strip() == "2", reason="this system promises no more than it has"
)
def test_a_short_run_starts_though_a_full_memory_would_not_fit(tmp_path, capsys):
    """Pages are handed out as entries are written, so a short run needs little of them."""
    capacity = too_large_for_this_machine()
    arguments = ["--capacity", str(capacity), "--total-frames", "40", "--no-video"]
    assert main(["train", "qbert", *arguments, "--out", str(tmp_path / "run")]) == 0
    full = show_bytes(EpisodicMemory.bytes_when_full(6, 64, capacity, "auto"))
    assert f"6 x {capacity:,} entries can grow to {full}, at most " in capsys.readouterr().out
    assert MFEC.load(tmp_path / "run" / "checkpoint").frames == 40


@pytest.mark.skipif(not MEMINFO.exists(), reason="needs /proc")
def test_a_game_of_18_actions_takes_no_more_than_its_entries_need():
    """7 GB when it is full, a capacity of the paper's: an array that is filled when it is made would show."""

    def resident() -> int:
        lines = Path("/proc/self/status").read_text().splitlines()
        return 1024 * int(next(line for line in lines if line.startswith("VmRSS:")).split()[1])

    before = resident()
    memories = [EpisodicMemory(18, 64, capacity=1_000_000, index=index) for index in ("exact", "cells", "auto")]
    assert resident() - before < 50_000_000
    assert all(len(memory) == 0 for memory in memories)


def test_memory_that_the_system_refuses_is_a_sentence(tmp_path):
    def limit_memory() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (6 * 10**9, 6 * 10**9))

    command = [sys.executable, "-m", "mfec", "train", "qbert", "--capacity", "10000000", "--total-frames", "400"]
    command += ["--ignore-memory-limit", "--out", str(tmp_path / "run")]
    few_threads = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "MFEC_THREADS": "1"}
    ended = subprocess.run(
        command, capture_output=True, text=True, preexec_fn=limit_memory, env=few_threads, timeout=PATIENCE
    )
    assert ended.returncode == 1
    assert ended.stderr.startswith("mfec: ")
    assert "allocate" in ended.stderr
    assert ended.stderr.count("\n") == 1


def test_more_entries_than_the_memory_can_count_are_a_sentence(tmp_path, capsys):
    arguments = ["--capacity", str(10**12), "--total-frames", "400", "--ignore-memory-limit"]
    assert main(["train", "FrozenLake-v1", *arguments, "--out", str(tmp_path / "run")]) == 1
    assert "capacity must be below" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
