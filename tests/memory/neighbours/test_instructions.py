"""Dot products of bytes, on processors with an instruction for them and without."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import numba
import numpy as np
import pytest

from mfec.memory.neighbours.instructions import any_within, prefetch, subtract_dots_of_halves, subtract_twice_dots


@numba.njit
def dots(start, added, rows, query, out):
    subtract_twice_dots(start.ctypes.data, added, rows.ctypes.data, query.ctypes.data, out.ctypes.data)


@numba.njit
def dots_of_halves(start, added, rows, query, out):
    subtract_dots_of_halves(start.ctypes.data, added, rows.ctypes.data, query.ctypes.data, out.ctypes.data)


@numba.njit
def within(numbers, limit):
    return any_within(numbers.ctypes.data, limit)


@numba.njit
def fetch(numbers):
    prefetch(numbers.ctypes.data)
    return numbers[0]


def extremes_and_random(rng: np.random.Generator) -> list[tuple[np.ndarray, np.ndarray]]:
    """Rows and queries; the first ones reach the largest sums of either sign."""
    rows = [np.full(1024, 255, np.uint8), np.full(1024, 255, np.uint8), np.zeros(1024, np.uint8)]
    queries = [np.full(64, -128, np.int8), np.full(64, 127, np.int8), np.full(64, -1, np.int8)]
    rows += [rng.integers(0, 256, 1024, np.uint8) for _ in range(5)]
    queries += [rng.integers(-128, 128, 64).astype(np.int8) for _ in range(5)]
    return list(zip(rows, queries, strict=True))


def computed() -> dict[str, list[list[int]]]:
    """What this process computes."""
    rng = np.random.default_rng(0)
    answers: dict[str, list[list[int]]] = {"bytes": [], "halves": [], "within": []}
    out = np.empty(16, np.int32)
    for rows, query in extremes_and_random(rng):
        start = rng.integers(-(2**20), 2**20, 16).astype(np.int32)
        dots(start, np.int32(1000), rows, query, out)
        answers["bytes"].append(out.tolist())
        dots_of_halves(start, np.int32(-77), rows[:512].copy(), query, out)
        answers["halves"].append(out.tolist())
        answers["within"].append([int(within(out, np.int32(limit))) for limit in limits_near(out)])
    return answers


def limits_near(numbers: np.ndarray) -> list[int]:
    """Just below the smallest of them, and at it; and the largest number that there is."""
    smallest = int(numbers.min())
    return [smallest - 1, smallest, 2**31 - 1]


def expected() -> dict[str, list[list[int]]]:
    """The same in plain numpy."""
    rng = np.random.default_rng(0)
    answers: dict[str, list[list[int]]] = {"bytes": [], "halves": [], "within": []}
    for rows, query in extremes_and_random(rng):
        start = rng.integers(-(2**20), 2**20, 16)
        whole = rows.reshape(16, 16, 4).transpose(1, 0, 2).reshape(16, 64).astype(np.int64)
        packed = rows[:512].reshape(8, 16, 4).transpose(1, 0, 2).reshape(16, 32).astype(np.int64)
        halves = np.concatenate([packed & 15, packed >> 4], axis=1)
        answers["bytes"].append((start + 1000 - 2 * whole @ query.astype(np.int64)).tolist())
        answers["halves"].append((start - 77 - halves @ query.astype(np.int64)).tolist())
        answers["within"].append([0, 1, 1])
    return answers


def test_dots_of_bytes_and_of_halves() -> None:
    assert computed() == expected()


def test_a_request_for_memory_changes_nothing() -> None:
    assert fetch(np.array([5, 6])) == 5


# -- Without the instruction ------------------------------------------------------------------------------------------


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the settings name processors of this family")
def test_processors_without_the_instruction_compute_the_same(tmp_path: Path) -> None:
    old = {"NUMBA_CPU_NAME": "x86-64-v2", "NUMBA_CPU_FEATURES": ""}
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), **old}
    done = subprocess.run([sys.executable, __file__], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-1000:]
    assert json.loads(done.stdout) == expected()


if __name__ == "__main__":
    print(json.dumps(computed()))
