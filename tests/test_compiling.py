"""Code is compiled once for a machine and its sources, which is said once, and never while somebody plays."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import mfec
from mfec.compiling import SAID

from .waiting import PATIENCE

SOURCE = Path(mfec.__file__).parent

pytestmark = pytest.mark.slow(reason="compiles in processes that begin without a cache")

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


# -- The first steps --------------------------------------------------------------------------------------------------

# A memory in its first two episodes; prints what numba compiled, a line for each part.
BEGIN = """
import numpy as np
from numba.core import event

from mfec.memory import EpisodicMemory


class Names(event.Listener):
    compiled = []

    def on_start(self, event):
        Names.compiled.append(event.data["dispatcher"].py_func.__qualname__)

    def on_end(self, event):
        pass


event.register("numba:compile", Names())
memory = EpisodicMemory(2, 64, capacity=100, k=11)
states = np.random.default_rng(0).standard_normal((30, 64)).astype(np.float32)
for part in (lambda: memory.estimate(states[:1]), lambda: memory.write(states, np.arange(30) % 2, np.ones(30)),
             lambda: memory.estimate(states[:1] + 1)):
    Names.compiled.clear()
    part()
    print(*Names.compiled)
"""


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> list[list[str]]:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path_factory.mktemp("numba"))}
    done = subprocess.run(
        [sys.executable, "-c", BEGIN], env=environment, capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stderr
    return [line.split() for line in done.stdout.splitlines()]


def test_a_search_is_compiled_when_there_is_something_to_search(begun):
    assert [("_search_pairs" in part, "write_rows" in part) for part in begun] == [
        (False, False), (False, True), (True, False),
    ]  # fmt: skip


def test_no_texts_are_compiled(begun):
    """Assigning a row of an array makes numba compile how its error about shapes is put together, for a second."""
    assert not [name for part in begun for name in part if "unicode" in name]


# -- After an edit ----------------------------------------------------------------------------------------------------

# Compiled functions that are made of more than their own file: `enter_all` of a function in `identities`, `_free` of
# a number in `levels`, in which nothing is compiled. Prints what they make of it and how often numba compiled.
RUN = """
import numpy as np
from numba.core import event

from mfec.envs.labyrinth.physics import _free
from mfec.memory.compiled import enter_all


class Count(event.Listener):
    compiled = 0

    def on_start(self, event):
        Count.compiled += 1

    def on_end(self, event):
        pass


event.register("numba:compile", Count())
buckets = np.zeros((1, 4), np.int32)
enter_all(buckets, np.zeros((1, 1, 2), np.uint64), np.zeros(1, np.int64), np.zeros(1, np.int64))
print(buckets.sum(), _free(60.0, 0.0, np.array([[-1.0, -1.0, 1.0, 1.0]])), Count.compiled > 0)
"""


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package, to be edited."""
    copy = tmp_path_factory.mktemp("checkout")
    shutil.copytree(SOURCE, copy / "mfec", ignore=shutil.ignore_patterns("__pycache__"))
    return copy


def run(checkout: Path) -> list[str]:
    """Run it in a fresh interpreter, which keeps compiled code where numba does by itself: beside the sources."""
    environment = {**os.environ, "PYTHONPATH": str(checkout), "PYTHONDONTWRITEBYTECODE": "1", "NUMBA_CACHE_DIR": ""}
    done = subprocess.run(
        [sys.executable, "-c", RUN], env=environment, capture_output=True, text=True, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def edit(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert text.count(old) == 1
    file.write_text(text.replace(old, new))


def test_nobody_runs_what_was_compiled_of_yesterday_s_sources(checkout):
    package = checkout / "mfec"
    assert run(checkout) == ["1", "True", "True"]
    kept = {file.name for file in package.rglob("*.nb?")}
    edit(package / "memory" / "identities.py", "buckets[bucket] = slot + 1", "buckets[bucket] = slot + 7")
    edit(package / "envs" / "labyrinth" / "levels.py", "PLAYER = 15.0", "PLAYER = 90.0")
    assert run(checkout) == ["7", "False", "True"]
    edit(package / "memory" / "eviction.py", "QUEUE_LENGTH = 4096", "QUEUE_LENGTH = 4095")  # nothing to them
    assert run(checkout) == ["7", "False", "False"]
    assert {file.name for file in package.rglob("*.nb?")} == kept  # old code is written over, and does not pile up


def test_all_that_is_kept_on_disk_is_kept_by_all_its_sources():
    """But for functions that use nothing of another module: numba's own rule will do for them."""
    kept = {file.name for file in SOURCE.rglob("*.py") if "njit(cache=True" in file.read_text()}
    assert kept == {"compiling.py"}, "take mfec.compiling.njit instead"
