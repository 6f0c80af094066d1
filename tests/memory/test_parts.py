"""Memories in several files: what is read is what was saved, whatever was kept, added, merged, killed or damaged."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mfec import EpisodicMemory
from mfec.checkpoint import CheckpointError
from mfec.memory import parts

from .reference import every_index

DIM = 4
ENTRY = 4 * DIM + 8 + 32  # bytes


@pytest.fixture(autouse=True)
def small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty entries in a file."""
    monkeypatch.setattr(parts, "PART_BYTES", 20 * ENTRY)


class Used:
    """A memory that is written, looked up and moved at random."""

    def __init__(self, seed: int = 0, **options: Any) -> None:
        self.rng = np.random.default_rng(seed)
        self.memory = EpisodicMemory(3, DIM, **{"capacity": 60, "k": 3, **options})

    def go_on(self, n: int = 15) -> None:
        memory, rng = self.memory, self.rng
        known = rng.integers(0, 400, n)
        states = np.sin(known[:, None] * np.arange(1, 1 + DIM)).astype(np.float32)
        memory.write(states, rng.integers(0, 3, n), rng.standard_normal(n), known, rng.integers(0, 99, (n, 2)))
        memory.estimate(rng.standard_normal((2, DIM)), rng.integers(0, 400, 2))

    def move(self, n: int = 3) -> None:
        actions, slots = self.memory.buffers.draw(n, self.rng)
        self.memory.move(
            actions, slots, self.rng.standard_normal((len(slots), DIM)), self.rng.standard_normal(len(slots))
        )

    def shift(self, n: int = 3) -> None:
        actions, slots = self.memory.buffers.draw(n, self.rng)
        self.memory.shift_values(actions, slots, np.ones(len(slots)))

    def filter(self) -> None:
        self.memory.filter(self.rng.random(len(self.memory)) < 0.8)


def assert_equal(one: EpisodicMemory, other: EpisodicMemory) -> None:
    assert one.settings() == other.settings()
    ours, theirs = one.tensors(), other.tensors()
    assert ours.keys() == theirs.keys()
    for name, tensor in ours.items():
        assert tensor.tobytes() == theirs[name].tobytes(), name


def files_of(path: Path) -> list[str]:
    entry = json.loads((path / "manifest.json").read_text())["files"]["memory"]
    return [file["file"] for file in (entry if isinstance(entry, list) else [entry])]


def written(path: Path, before: list[str]) -> int:
    """Bytes of files that were not there before."""
    return sum((path / name).stat().st_size for name in files_of(path) if name not in before)


@every_index
@pytest.mark.parametrize("eviction", ["updated", "used"])
def test_a_memory_that_goes_on_from_its_files_equals_one_that_was_never_saved(
    tmp_path: Path, index: str, eviction: str
) -> None:
    """Saved after every batch, and read again and again; it grows, and then gives up entries."""
    whole, saved = (Used(index=index, eviction=eviction) for _ in range(2))
    for batch in range(30):
        for each in (whole, saved):
            each.go_on()
        saved.memory.save(tmp_path)
        if batch % 4 == 3:
            saved.memory = EpisodicMemory.load(tmp_path)
        assert sorted(files_of(tmp_path)) == sorted(file.name for file in tmp_path.glob("*.safetensors"))
    assert len(files_of(tmp_path)) > 3
    assert_equal(EpisodicMemory.load(tmp_path), whole.memory)
    queries = np.random.default_rng(1).standard_normal((5, DIM))
    assert np.array_equal(saved.memory.estimate(queries).values, whole.memory.estimate(queries).values)


@given(
    st.lists(st.sampled_from(["go_on", "move", "shift", "filter", "save", "load", "elsewhere", "clear"]), max_size=40)
)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_happens_between_two_checkpoints_is_in_the_next(tmp_path: Path, acts: list[str]) -> None:
    """Also of a memory that is saved to two directories in turn, and keys that move."""
    shutil.rmtree(tmp_path)
    used = Used(index="exact", update="step")
    used.go_on(150)
    used.memory.save(tmp_path / "run")
    for act in acts:
        if act == "save":
            used.memory.save(tmp_path / "run")
        elif act == "elsewhere":
            used.memory.save(tmp_path / "other")
            assert_equal(EpisodicMemory.load(tmp_path / "other"), used.memory)
        elif act == "load":
            used.memory.save(tmp_path / "run")
            used.memory = EpisodicMemory.load(tmp_path / "run")
        elif act == "clear":
            used.memory.clear()
        else:
            getattr(used, act)()
    used.memory.save(tmp_path / "run")
    assert_equal(EpisodicMemory.load(tmp_path / "run"), used.memory)


def test_only_what_changed_is_written_also_by_a_process_that_goes_on(tmp_path: Path) -> None:
    used = Used(capacity=1000)
    used.memory.write(np.random.default_rng(1).standard_normal((3000, DIM)), np.arange(3000) % 3, np.zeros(3000))
    used.memory.save(tmp_path)
    columns = 16 * 3000
    before = files_of(tmp_path)
    assert len(before) == 151
    for _ in range(3):
        used.go_on(5)
        used.memory.save(tmp_path)
        assert columns < written(tmp_path, before) < columns + 25 * ENTRY + 2000
        before = files_of(tmp_path)
        used.memory = EpisodicMemory.load(tmp_path)


def test_files_are_merged_so_that_they_stay_few(tmp_path: Path) -> None:
    """However many entries change at a time."""
    for n in (1, 7, 19, 20, 21, 50):
        used = Used(capacity=100)
        for _ in range(200):
            used.go_on(n)
            used.memory.save(tmp_path / str(n))
            on_disk = sum(file.stat().st_size for file in (tmp_path / str(n)).iterdir())
            files = len(files_of(tmp_path / str(n)))
            # Of twenty entries each, at most twice as many as there are, and those that were added last.
            assert (files - 1) * 20 <= 2 * len(used.memory) + 2 * n + 60
            assert on_disk < 3 * len(used.memory) * (ENTRY + 16) + 600 * files + 10_000
        assert_equal(EpisodicMemory.load(tmp_path / str(n)), used.memory)


def test_a_small_memory_is_one_file(tmp_path: Path) -> None:
    used = Used()
    used.go_on(12)
    for _ in range(2):
        used.memory.save(tmp_path)
        assert len(list(tmp_path.iterdir())) == 2


def test_a_copy_of_the_directory_is_a_checkpoint_of_its_own(tmp_path: Path) -> None:
    used = Used()
    used.go_on(100)
    used.memory.save(tmp_path / "run")
    shutil.copytree(tmp_path / "run", tmp_path / "copy")
    used.go_on()
    used.memory.save(tmp_path / "run")
    copied = EpisodicMemory.load(tmp_path / "copy")
    shutil.rmtree(tmp_path / "run")
    copied.save(tmp_path / "copy")
    copied.write(np.ones((1, DIM)), [0], [1.0])
    copied.save(tmp_path / "copy")
    assert_equal(EpisodicMemory.load(tmp_path / "copy"), copied)


def test_where_another_has_saved_meanwhile_all_is_written_again(tmp_path: Path) -> None:
    """Also where files are gone."""
    ours, theirs = Used(), Used(seed=1)
    for each in (ours, theirs, ours, theirs, ours):
        each.go_on(100)
        each.memory.save(tmp_path)
    assert_equal(EpisodicMemory.load(tmp_path), ours.memory)
    (tmp_path / files_of(tmp_path)[0]).unlink()
    ours.go_on()
    ours.memory.save(tmp_path)
    assert_equal(EpisodicMemory.load(tmp_path), ours.memory)


def test_read_while_it_is_replaced_the_memory_is_one_of_the_two(tmp_path: Path, monkeypatch: Any) -> None:
    used = Used()
    used.go_on(100)
    used.memory.save(tmp_path)
    before = EpisodicMemory.load(tmp_path)
    again = used.memory.parts.__class__._put_part

    def replace_first(self: Any, number: int, part: Any) -> None:
        if number == 1:
            used.memory.clear()
            used.go_on(90)
            used.memory.save(tmp_path)
        again(self, number, part)

    monkeypatch.setattr(parts.Parts, "_put_part", replace_first)
    assert_equal(EpisodicMemory.load(tmp_path), before)


# -- Saving that does not come to its end -----------------------------------------------------------------------------


@pytest.mark.parametrize("failing", ["replace", "fsync"])
@pytest.mark.parametrize("calls_before", range(8))
def test_a_checkpoint_that_fails_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str, calls_before: int
) -> None:
    """At any of its files; the next one has all that this one should have had."""
    used = Used()
    used.go_on(100)
    used.memory.save(tmp_path)
    before = EpisodicMemory.load(tmp_path)
    used.go_on(50)
    left, real = calls_before, getattr(os, failing)

    def full(*arguments: Any) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise OSError(28, "No space left on device")
        real(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(os, failing, full)
        try:
            used.memory.save(tmp_path)
            saved = True
        except CheckpointError:
            saved = False
    assert_equal(EpisodicMemory.load(tmp_path), used.memory if saved else before)
    used.go_on(5)
    used.memory.save(tmp_path)
    assert_equal(EpisodicMemory.load(tmp_path), used.memory)


def test_killed_at_any_call_the_old_checkpoint_stands_or_the_new_one(tmp_path: Path) -> None:
    """In the middle of a new file, of one that merges others, and while old ones are removed."""
    used = Used()
    used.go_on(100)
    used.memory.save(tmp_path / "run")
    for round_ in range(25):
        used.memory = EpisodicMemory.load(tmp_path / "run")
        before = EpisodicMemory.load(tmp_path / "run")
        used.go_on(7 + round_)
        child = os.fork()
        if child == 0:
            die_at(random.Random(round_).randrange(30))
            used.memory.save(tmp_path / "run")
            os._exit(0)
        _, status = os.waitpid(child, 0)
        assert status in (0, signal.SIGKILL)
        stands = EpisodicMemory.load(tmp_path / "run")
        assert stands.settings()["tick"] in (before.settings()["tick"], used.memory.settings()["tick"])
        assert_equal(stands, before if stands.settings()["tick"] == before.settings()["tick"] else used.memory)


def die_at(calls: int) -> None:
    """Kill this process in place of one of its calls that change the disk."""
    left = calls

    def dying(real: Any) -> Any:
        def call(*arguments: Any, **options: Any) -> Any:
            nonlocal left
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            left -= 1
            return real(*arguments, **options)

        return call

    for name in ("replace", "fsync", "unlink"):
        setattr(os, name, dying(getattr(os, name)))


# -- Damage -----------------------------------------------------------------------------------------------------------


def test_a_damaged_or_missing_file_is_named(tmp_path: Path) -> None:
    used = Used()
    used.go_on(100)
    used.memory.save(tmp_path)
    names = files_of(tmp_path)
    assert len(names) > 3
    for name in names:
        good = (tmp_path / name).read_bytes()
        for bad in (good[:-1], good[:50] + bytes([good[50] ^ 1]) + good[51:], b""):
            (tmp_path / name).write_bytes(bad)
            with pytest.raises(CheckpointError, match=f"{name} is damaged"):
                EpisodicMemory.load(tmp_path)
        (tmp_path / name).unlink()
        with pytest.raises(CheckpointError, match=f"{name} is missing"):
            EpisodicMemory.load(tmp_path)
        (tmp_path / name).write_bytes(good)
    assert_equal(EpisodicMemory.load(tmp_path), used.memory)
