"""Code is compiled once for a machine, which is said once, and never while somebody plays."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mfec.compiling import SAID

from .waiting import PATIENCE

# Everything that players do, after environments were made; prints how often numba compiled something meanwhile.
PLAY = """
import numpy as np
from gymnasium.vector import AutoresetMode
from numba.core import event

from mfec.envs.labyrinth import LEVELS, Labyrinth, LabyrinthVector


class Count(event.Listener):
    compiled = 0

    def on_start(self, event):
        Count.compiled += 1

    def on_end(self, event):
        pass


event.register("numba:compile", Count())
Labyrinth("labyrinth_forage")
made = Count.compiled
for level in LEVELS:
    env = Labyrinth(level, render_mode="rgb_array", width=31, height=17)
    vector = LabyrinthVector(level, 5, frame_skip=100)
    groups = LabyrinthVector(level, 3, autoreset_mode=AutoresetMode.DISABLED)
    env.reset(seed=0)
    for action in (0, np.int64(1), np.int32(2), np.uint8(3), np.array(4)):
        env.step(action)
        env.render()
    env.restore_state(env.clone_state())
    env.reset()
    vector.reset(seed=0)
    for _ in range(40):
        vector.step(np.full(5, 4))
    groups.reset(seed=0)
    for group, actions in ((0, np.array([1, 2], np.int32)), (1, [3])):
        groups.send(group, actions)
    groups.reset(options={"reset_mask": np.array([True, True, False])})
    groups.receive(1)
    groups.step(np.zeros(3, np.uint8))
print(made, Count.compiled - made)
"""


class Process:
    """A fresh interpreter that keeps compiled code in a directory of its own."""

    def __init__(self, cache: Path) -> None:
        environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache), "MFEC_THREADS": "2"}
        done = subprocess.run(
            [sys.executable, "-c", PLAY], env=environment, capture_output=True, text=True, timeout=PATIENCE
        )
        assert done.returncode == 0, done.stderr
        self.on_making, self.on_playing = map(int, done.stdout.split())
        self.said = done.stderr


@pytest.fixture(scope="module")
def first_and_second(tmp_path_factory: pytest.TempPathFactory) -> tuple[Process, Process]:
    cache = tmp_path_factory.mktemp("numba")
    return Process(cache), Process(cache)


def test_that_code_is_compiled_is_said_once_the_first_time(first_and_second):
    first, _ = first_and_second
    assert first.on_making > 1
    assert first.said.splitlines() == [SAID]


def test_nothing_is_compiled_or_said_the_second_time(first_and_second):
    _, second = first_and_second
    assert second.on_making == 0
    assert second.said == ""


def test_nothing_is_compiled_while_somebody_plays(first_and_second):
    assert [process.on_playing for process in first_and_second] == [0, 0]
