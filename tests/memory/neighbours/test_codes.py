"""Byte codes and half codes against plain integer arithmetic."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from mfec.memory.neighbours.codes import (
    BLOCK,
    COARSEST_STEP,
    LEVELS,
    PART,
    all_entries,
    copy_code,
    empty_blocks,
    empty_half_blocks,
    encode,
    fit_code_book,
    half_query,
    measure_blocks,
    measure_half_blocks,
    measure_rows,
    parts_of,
    put_code,
    put_half_code,
    shift_query,
    squared_distance,
)

DIMS = (1, 3, 64, 65, 130)
STEPS = (1, 2, 3, 15, COARSEST_STEP)
UNTOUCHED = -7

Codes = NDArray[np.uint8]
Integers = NDArray[np.int64]


def some_codes(rng: np.random.Generator, n: int, dim: int) -> Codes:
    """Random codes, the largest and the smallest among them, with zeros up to whole parts."""
    codes = np.zeros((n, parts_of(dim) * PART), np.uint8)
    codes[:, :dim] = rng.integers(0, 256, (n, dim))
    codes[0, :dim], codes[-1, :dim] = LEVELS, 0
    return codes


def in_blocks(codes: Codes) -> tuple[Codes, NDArray[np.int32]]:
    blocks = empty_blocks((-(-len(codes) // BLOCK),), codes.shape[1])
    norms = np.zeros(len(blocks) * BLOCK, np.int32)
    for row, code in enumerate(codes):
        put_code(blocks, norms, row, code)
    return blocks, norms


def in_half_blocks(codes: Codes, centre: Codes, step: int) -> tuple[Codes, NDArray[np.int32]]:
    blocks = empty_half_blocks(-(-len(codes) // BLOCK), codes.shape[1])
    norms = np.zeros(len(blocks) * BLOCK, np.int32)
    for row, code in enumerate(codes):
        put_half_code(blocks, norms, row, code, centre, step)
    return blocks, norms


def rows_of(blocks: Codes) -> Codes:
    """Blocks as one line for each row."""
    return blocks.transpose(0, 3, 1, 2, 4).reshape(len(blocks) * BLOCK, -1)


def rows_of_halves(blocks: Codes) -> Codes:
    """The numbers of half blocks, one line for each row: of each part, low halves first."""
    packed = rows_of(blocks).reshape(len(blocks) * BLOCK, blocks.shape[1], PART // 2)
    return np.concatenate([packed & 15, packed >> 4], axis=2).reshape(len(packed), -1)


def half_codes(codes: Codes, centre: Codes, step: int) -> Integers:
    """Differences from the centre in whole steps, rounded up in the middle, 8 for none, cut to 4 bits."""
    away = codes.astype(np.int64) - centre.astype(np.int64)
    return np.clip((away + step // 2) // step + 8, 0, 15)


# -- Byte codes -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dim", DIMS)
def test_codes_are_laid_out_in_blocks(dim: int) -> None:
    codes = some_codes(np.random.default_rng(dim), 37, dim)
    blocks, _ = in_blocks(codes)
    assert blocks.shape == (3, parts_of(dim), 16, 16, 4)
    assert (rows_of(blocks)[:37] == codes).all()
    assert not rows_of(blocks)[37:].any()


@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize(("first", "n"), [(0, 1), (1, 1), (0, 3), (1, 2), (2, 0)])
def test_blocks_are_measured(dim: int, first: int, n: int) -> None:
    rng = np.random.default_rng(dim)
    codes = some_codes(rng, 3 * BLOCK, dim)
    blocks, norms = in_blocks(codes)
    query, measured = np.empty(codes.shape[1], np.int8), slice(BLOCK, (1 + n) * BLOCK)
    for code in (*some_codes(rng, 4, dim), codes[5]):
        norm = shift_query(code, query)
        distances = np.full(5 * BLOCK, UNTOUCHED, np.int32)
        measure_blocks(blocks, norms, first, n, query, norm, distances, BLOCK)
        steps = codes[first * BLOCK : (first + n) * BLOCK].astype(np.int64) - code.astype(np.int64)
        assert distances[measured].tolist() == (steps**2).sum(axis=1).tolist()
        assert (np.delete(distances, measured) == UNTOUCHED).all()


@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize(("begin", "end"), [(0, 1), (0, 16), (0, 50), (3, 9), (15, 17), (16, 32), (31, 50), (7, 7)])
def test_rows_are_measured_in_whole_blocks(dim: int, begin: int, end: int) -> None:
    rng = np.random.default_rng(dim)
    codes = some_codes(rng, 50, dim)
    blocks, norms = in_blocks(codes)
    code, query = some_codes(rng, 3, dim)[1], np.empty(codes.shape[1], np.int8)
    norm = shift_query(code, query)
    distances = np.full(5 * BLOCK, UNTOUCHED, np.int32)
    at = measure_rows(blocks, norms, begin, end, query, norm, distances)
    true = ((codes.astype(np.int64) - code.astype(np.int64)) ** 2).sum(axis=1)
    assert distances[at : at + end - begin].tolist() == true[begin:end].tolist()
    measured = -(-(at + end - begin) // BLOCK) * BLOCK
    assert (distances[measured:] == UNTOUCHED).all()


def test_a_row_can_be_written_again() -> None:
    rng = np.random.default_rng(0)
    codes, others = some_codes(rng, 20, 65), some_codes(rng, 20, 65)
    blocks, norms = in_blocks(codes)
    put_code(blocks, norms, 17, others[3])
    again, norms_again = in_blocks(np.concatenate([codes[:17], others[3:4], codes[18:]]))
    assert (blocks == again).all()
    assert (norms == norms_again).all()


# -- Half codes -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize("step", STEPS)
def test_half_codes_are_laid_out_in_blocks(dim: int, step: int) -> None:
    rng = np.random.default_rng(dim)
    codes, centre = some_codes(rng, 21, dim), some_codes(rng, 3, dim)[1]
    blocks, norms = in_half_blocks(codes, centre, step)
    expected = half_codes(codes, centre, step)
    assert (rows_of_halves(blocks)[:21] == expected).all()
    assert not rows_of_halves(blocks)[21:].any()
    assert norms[:21].tolist() == (expected**2).sum(axis=1).tolist()


@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize(("first", "n"), [(0, 1), (2, 1), (0, 3), (1, 2)])
def test_half_blocks_are_measured(dim: int, step: int, first: int, n: int) -> None:
    rng = np.random.default_rng(dim)
    codes, centre = some_codes(rng, 3 * BLOCK, dim), some_codes(rng, 3, dim)[1]
    blocks, norms = in_half_blocks(codes, centre, step)
    query, distances = np.empty(codes.shape[1], np.int8), np.empty(n * BLOCK, np.int32)
    for code in (*some_codes(rng, 4, dim), codes[5], centre):
        norm = half_query(code, centre, step, query)
        away = code.astype(np.int64) - centre.astype(np.int64)
        unclipped = ((away * (2 * 65536 // step) + 32768) // 65536) + 16
        halves_of_a_step = np.clip(unclipped, -128, 127)
        assert query.tolist() == halves_of_a_step.tolist()
        assert norm == (unclipped**2).sum() // 4  # a query that is far away stays far away
        measure_half_blocks(blocks, norms, first, n, query, norm, distances)
        rows = half_codes(codes[first * BLOCK : (first + n) * BLOCK], centre, step)
        products = (rows * halves_of_a_step).sum(axis=1)
        assert distances.tolist() == ((rows**2).sum(axis=1) - products + norm).tolist()
        assert (distances >= 0).all()
        if (halves_of_a_step == unclipped).all():  # the square of rows - query / 2, rounded down
            assert distances.tolist() == (((2 * rows - unclipped) ** 2).sum(axis=1) // 4).tolist()


@pytest.mark.parametrize("dim", DIMS)
def test_half_codes_measure_what_codes_do(dim: int) -> None:
    """Within their range, rows are off by half a step in each number, queries by a quarter and a thousandth of that."""
    rng = np.random.default_rng(dim)
    width, step = parts_of(dim) * PART, 5
    centre = np.zeros(width, np.uint8)
    codes = np.zeros((BLOCK, width), np.uint8)
    centre[:dim] = 128
    codes[:, :dim] = rng.integers(128 - 7 * step, 128 + 7 * step, (BLOCK, dim))
    blocks, norms = in_half_blocks(codes, centre, step)
    query, distances = np.empty(width, np.int8), np.empty(BLOCK, np.int32)
    for spread in (0, 30, 120):
        code = np.zeros(width, np.uint8)
        code[:dim] = rng.integers(128 - spread, 129 + spread, dim)
        measure_half_blocks(blocks, norms, 0, 1, query, half_query(code, centre, step, query), distances)
        true = np.sqrt(((codes.astype(np.float64) - code) ** 2).sum(axis=1)) / step
        assert (distances >= 0).all()
        # The distance itself is rounded down, by less than 1 in the square.
        assert (np.sqrt(distances + 1.0) >= true - 0.76 * dim**0.5).all()
        assert (np.sqrt(distances) <= true + 0.76 * dim**0.5).all()


@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize(("source", "target"), [(0, 31), (18, 3), (5, 6), (9, 9)])
def test_a_row_of_half_codes_is_copied(dim: int, source: int, target: int) -> None:
    rng = np.random.default_rng(dim)
    codes, centre = some_codes(rng, 32, dim), some_codes(rng, 3, dim)[1]
    blocks, norms = in_half_blocks(codes, centre, 9)
    copy_code(blocks, norms, source, target)
    codes[target] = codes[source]
    again, norms_again = in_half_blocks(codes, centre, 9)
    assert (blocks == again).all()
    assert (norms == norms_again).all()


# -- From states to codes ---------------------------------------------------------------------------------------------

numbers = st.floats(-(2.0**60), 2.0**60, width=32)
pairs = st.tuples(numbers, numbers)


@given(
    st.lists(pairs, min_size=1, max_size=20), st.lists(pairs, min_size=2, max_size=2), st.integers(-40, 40),
)  # fmt: skip
@settings(max_examples=100)
def test_codes_are_in_range_and_never_lengthen_a_distance(
    sample: list[tuple[float, float]], states: list[tuple[float, float]], power: int
) -> None:
    """A coded distance exceeds the true one by rounding at most: half a step in each number at either end."""
    low, scale = fit_code_book(np.array(sample, np.float32), 0.01)
    scale *= 2.0**power
    codes = np.zeros((2, 64), np.uint8)
    for state, code in zip(np.array(states, np.float32), codes, strict=True):
        encode(state, low, scale, code)
        exactly = np.clip((state.astype(np.float64) - low) / scale, 0, LEVELS)
        assert (np.abs(code[:2] - exactly) <= 0.5 + 1e-9).all()
        assert not code[2:].any()
    steps = np.abs(codes[0, :2].astype(np.int64) - codes[1, :2])
    true = np.abs(np.subtract(*np.array(states, np.float32).astype(np.float64))) / scale
    assert (steps <= true * (1 + 1e-9) + 1 + 1e-9).all()


def test_outliers_are_coded_as_the_ends_of_the_range() -> None:
    code = np.zeros(64, np.uint8)
    encode(np.array([-1e30, 1e30, 9.9, 12.6], np.float32), np.full(4, 10.0), 1.0, code)
    assert code[:4].tolist() == [0, 255, 0, 3]


def test_a_code_book_covers_the_bulk_and_not_the_outliers() -> None:
    sample = np.random.default_rng(0).random((1000, 3)).astype(np.float32) * [1, 10, 0.1]
    sample[:5] = 1e9
    low, scale = fit_code_book(sample, 0.01)
    assert ((low >= 0) & (low < [0.05, 0.5, 0.005])).all()
    assert 9.5 / LEVELS < scale < 10 / LEVELS


def test_a_code_book_of_one_point_has_steps_of_1() -> None:
    low, scale = fit_code_book(np.full((7, 2), 3.5, np.float32), 0.01)
    assert (low.tolist(), scale) == ([3.5, 3.5], 1.0)


def test_a_squared_distance_is_summed_in_64_bits() -> None:
    state, query = np.array([1e-9, 3e20, 0.0], np.float32), np.array([1.0, 0.0, 0.0], np.float32)
    assert squared_distance(state, query) == (float(state[0]) - 1.0) ** 2 + float(state[1]) ** 2


@pytest.mark.parametrize(("dim", "parts"), [(1, 1), (64, 1), (65, 2), (128, 2), (130, 3)])
def test_parts_of_a_code(dim: int, parts: int) -> None:
    assert parts_of(dim) == parts


def test_all_entries_are_named_buffer_by_buffer() -> None:
    actions, slots = all_entries(np.array([2, 0, 3]))
    assert actions.tolist() == [0, 0, 2, 2, 2]
    assert slots.tolist() == [0, 1, 0, 1, 2]
