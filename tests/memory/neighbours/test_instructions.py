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

from mfec.memory.neighbours.instructions import (
    any_within,
    prefetch,
    scale_difference,
    subtract_dots_of_halves,
    subtract_twice_dots,
)

UNITS = (2**17, 2**17 // 7, 2**11)  # of steps of half codes: 1, 7 and 64


@numba.njit
def dots(start, added, rows, query, out):
    n = len(out) // 16
    subtract_twice_dots(start.ctypes.data, added, rows.ctypes.data, 1024, n, query.ctypes.data, out.ctypes.data)


@numba.njit
def dots_of_halves(start, added, rows, query, out):
    n = len(out) // 16
    subtract_dots_of_halves(start.ctypes.data, added, rows.ctypes.data, 512, n, query.ctypes.data, out.ctypes.data)


@numba.njit
def scaled(code, centre, unit, middle, out):
    return scale_difference(code.ctypes.data, centre.ctypes.data, unit, middle, out.ctypes.data)


@numba.njit
def within(numbers, limit):
    return any_within(numbers.ctypes.data, limit)


@numba.njit
def fetch(numbers):
    prefetch(numbers.ctypes.data)
    return numbers[0]


def extremes_and_random(rng: np.random.Generator) -> list[tuple[np.ndarray, np.ndarray]]:
    """Rows and queries; the first ones reach the largest sums of either sign."""
    rows = [np.full(2048, 255, np.uint8), np.full(2048, 255, np.uint8), np.zeros(2048, np.uint8)]
    queries = [np.full(64, -128, np.int8), np.full(64, 127, np.int8), np.full(64, -1, np.int8)]
    rows += [rng.integers(0, 256, 2048, np.uint8) for _ in range(5)]
    rows.append(np.repeat(np.array([255, 0], np.uint8), 64)[np.arange(2048) % 128])  # the largest differences
    queries += [rng.integers(-128, 128, 64).astype(np.int8) for _ in range(6)]
    return list(zip(rows, queries, strict=True))


def computed() -> dict[str, list[list[int]]]:
    """What this process computes."""
    rng = np.random.default_rng(0)
    answers: dict[str, list[list[int]]] = {"bytes": [], "halves": [], "within": [], "scaled": []}
    out, scaled_out = np.empty(32, np.int32), np.empty(64, np.int8)
    for rows, query in extremes_and_random(rng):
        start = rng.integers(-(2**20), 2**20, 32).astype(np.int32)
        dots(start, np.int32(1000), rows, query, out)
        answers["bytes"].append(out.tolist())
        dots_of_halves(start, np.int32(-77), rows[:1024].copy(), query, out)
        answers["halves"].append(out.tolist())
        answers["within"].append([int(within(out[:16], np.int32(limit))) for limit in limits_near(out[:16])])
        for unit in UNITS:
            total = scaled(rows[:64], rows[64:128], np.int32(unit), np.int32(16), scaled_out)
            answers["scaled"].append([total, *scaled_out.tolist()])
    return answers


def limits_near(numbers: np.ndarray) -> list[int]:
    """Just below the smallest of them, and at it; and the largest number that there is."""
    smallest = int(numbers.min())
    return [smallest - 1, smallest, 2**31 - 1]


def expected() -> dict[str, list[list[int]]]:
    """The same in plain numpy."""
    rng = np.random.default_rng(0)
    answers: dict[str, list[list[int]]] = {"bytes": [], "halves": [], "within": [], "scaled": []}
    for rows, query in extremes_and_random(rng):
        start = rng.integers(-(2**20), 2**20, 32)
        whole = rows.reshape(2, 16, 16, 4).transpose(0, 2, 1, 3).reshape(32, 64).astype(np.int64)
        packed = rows[:1024].reshape(2, 8, 16, 4).transpose(0, 2, 1, 3).reshape(32, 32).astype(np.int64)
        halves = np.concatenate([packed & 15, packed >> 4], axis=1)
        answers["bytes"].append((start + 1000 - 2 * whole @ query.astype(np.int64)).tolist())
        answers["halves"].append((start - 77 - halves @ query.astype(np.int64)).tolist())
        answers["within"].append([0, 1, 1])
        away = rows[:64].astype(np.int64) - rows[64:128]
        for unit in UNITS:
            numbers = (away * unit + 32768) // 65536 + 16
            answers["scaled"].append([int((numbers**2).sum()), *np.clip(numbers, -128, 127).tolist()])
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
