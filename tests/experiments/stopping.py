"""Runs that are stopped at a chosen moment, and what equal runs have in common."""

from __future__ import annotations

import contextlib
import hashlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mfec.callbacks import CallbackList, Stopped
from mfec.checkpoint import read_checkpoint
from mfec.interface import Agent
from mfec.run_directory import RunDirectory

from ..waiting import wait_until

CLOCKS = {"seconds", "steps_per_second", "lookup_ms", "write_ms", "recall"}  # recall is checked when there is time


def outcome(out: Path) -> tuple[str, list[list[str]], dict[str, Any], dict[tuple[str, str], str]]:
    """What two equal runs have in common: games, progress without the clocks, and the whole agent, bit for bit."""
    run = RunDirectory(out)
    lines = [line.split(",") for line in run.progress_file.read_text().splitlines()]
    progress = [[text for name, text in zip(lines[0], line, strict=True) if name not in CLOCKS] for line in lines]
    state, tensors = read_checkpoint(run.checkpoint, kind="agent")
    del state["tally"]["lookup_seconds"], state["tally"]["write_seconds"]
    digests = {
        (file, name): hashlib.sha256(tensor.tobytes()).hexdigest()
        for file, own in tensors.items()
        for name, tensor in own.items()
    }
    return run.episodes_file.read_text(), progress, state, digests


@contextlib.contextmanager
def stopped_after(steps: int) -> Iterator[None]:
    """The run inside is asked to stop in the middle of this step, and does."""
    left = steps
    on_step = CallbackList.on_step

    def ask_to_stop(callbacks: CallbackList, agent: Agent) -> bool:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGTERM)
        return on_step(callbacks, agent)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CallbackList, "on_step", ask_to_stop)
        with pytest.raises(Stopped):
            yield


# What is to be stopped in the middle must not have ended by then, however late a busy machine comes to ask.
UNTIL_A_SIGNAL = """
import os, signal

heard, tell = os.pipe()
os.set_blocking(tell, False)
signal.set_wakeup_fd(tell)

def wait_for_a_signal():
    os.read(heard, 1)
"""
HELD = """
import os
import gymnasium
from gymnasium.envs.classic_control import CartPoleEnv
from gymnasium.envs.toy_text import FrozenLakeEnv

HOLD_AT = int(os.environ.get("HOLD_AT", 0))
if HOLD_AT:
    from until_a_signal import wait_for_a_signal

class Held(gymnasium.Wrapper):
    steps = 0  # of all environments of this process

    def step(self, action):
        Held.steps += 1
        if Held.steps == HOLD_AT:
            wait_for_a_signal()
        return super().step(action)

gymnasium.register("Cart-v0", entry_point=lambda **given: Held(CartPoleEnv(**given)), max_episode_steps=500)
gymnasium.register("Lake-v0", entry_point=lambda **given: Held(FrozenLakeEnv(**given)), max_episode_steps=100)
"""


def ask_to_stop(process: subprocess.Popen[str], way: str) -> None:
    """Ask a command, which leads a process group, as `ctrl-c`, a plain `kill` or `timeout` would."""
    if way == "ctrl-c":
        os.killpg(process.pid, signal.SIGINT)
    else:
        process.send_signal(signal.SIGTERM)
    if way == "timeout":
        time.sleep(0.005)
        os.killpg(process.pid, signal.SIGTERM)


def wait_for(condition: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    """Wait until the condition holds or the process has ended."""
    wait_until(lambda: condition() or process.poll() is not None, "a run")


def games_of(out: Path) -> int:
    """Rows of `episodes.csv`, which need not be there yet."""
    file = out / "episodes.csv"
    return file.read_bytes().count(b"\n") - 1 if file.exists() else 0
