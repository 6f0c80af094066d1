"""Byte codes of states: a quarter of the bytes, and distances in whole numbers, which do not depend on any order.

Codes lie in blocks of 16 rows, four numbers of each row side by side: (blocks, parts, 16 groups, 16 rows, 4 numbers),
64 numbers in a part. So one instruction multiplies and adds four numbers of each of 16 rows.
"""

from __future__ import annotations

import sys

import numba
import numpy as np
from numpy.typing import NDArray

from mfec.compiling import njit
from mfec.memory.neighbours.instructions import prefetch, scale_difference, subtract_dots_of_halves, subtract_twice_dots

BLOCK = 16  # rows
GROUPS, GROUP = 16, 4
PART = GROUPS * GROUP  # numbers; a code is padded to whole parts
PART_BYTES = BLOCK * PART
LEVELS = 255
MIDDLE = 128  # subtracted from a query's codes, since the instruction multiplies unsigned by signed bytes
SAMPLE = 4096  # states that a code book is made from

assert sys.byteorder == "little", "codes are packed for little-endian processors"


def parts_of(dim: int) -> int:
    """Parts in the code of a state of `dim` numbers."""
    return -(-dim // PART)


def empty_blocks(shape: tuple[int, ...], dim: int) -> NDArray[np.uint8]:
    """Blocks of codes that are all zero."""
    return np.zeros((*shape, parts_of(dim), GROUPS, BLOCK, GROUP), np.uint8)


def all_entries(sizes: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Actions and slots of all entries of buffers of these sizes, buffer by buffer."""
    actions = np.repeat(np.arange(len(sizes)), sizes)
    return actions, np.concatenate([np.arange(size) for size in sizes])


def fit_code_book(sample: NDArray[np.float32], outside: float) -> tuple[NDArray[np.float64], float]:
    """Lowest coded number in each dimension and the step between codes, fitted to the bulk of a sample (n, dim).

    A share `outside` of the sample lies below the coded range of a dimension, and as much above it. A state outside
    the range gets the code of the nearest point inside, which never lengthens a distance. A range that covered every
    outlier would be too coarse to tell neighbours apart.
    """
    low, high = np.quantile(sample.astype(np.float64), (outside, 1.0 - outside), axis=0)
    return low, float((high - low).max()) / LEVELS or 1.0


@njit(nogil=True)
def encode(state, low, scale, code):
    """Code a state into `code`, uint8 (parts * 64,)."""
    for j in range(len(state)):
        code[j] = int(min(max((state[j] - low[j]) / scale + 0.5, 0.0), float(LEVELS)))


@njit(nogil=True)
def put_code(blocks, norms, row, code):
    """Write a code into a row of blocks, and its part of every squared distance, a^2 - 256 a, into `norms`."""
    norm = np.int32(0)
    for j in range(len(code)):
        number = np.int32(code[j])
        blocks[row // BLOCK, j // PART, j % PART // GROUP, row % BLOCK, j % GROUP] = code[j]
        norm += number * number - 2 * MIDDLE * number
    norms[row] = norm


@njit(nogil=True)
def get_code(blocks, row, code):
    """Read the code in a row of blocks into `code`."""
    for j in range(len(code)):
        code[j] = blocks[row // BLOCK, j // PART, j % PART // GROUP, row % BLOCK, j % GROUP]


@njit(nogil=True)
def put_codes(blocks, norms, rows, codes):
    """Write codes, uint8 (n, width), into rows of blocks."""
    for i in range(len(rows)):
        put_code(blocks, norms, rows[i], codes[i])


@njit(nogil=True)
def get_codes(blocks, rows, width):
    """The codes, uint8 (n, width), in rows of blocks."""
    codes = np.empty((len(rows), width), np.uint8)
    for i in range(len(rows)):
        get_code(blocks, rows[i], codes[i])
    return codes


@njit(nogil=True)
def copy_code(blocks, norms, source, target):
    """Copy a row of blocks, whole or half codes, over another one."""
    for part in range(blocks.shape[1]):
        for line in range(blocks.shape[2]):
            for j in range(GROUP):
                number = blocks[source // BLOCK, part, line, source % BLOCK, j]
                blocks[target // BLOCK, part, line, target % BLOCK, j] = number
    norms[target] = norms[source]


@njit(nogil=True)
def shift_query(code, query):
    """Write the query of a code, int8 (parts * 64,), for `measure_blocks`; returns its part of a squared distance."""
    norm = np.int32(0)
    for j in range(len(code)):
        query[j] = np.int8(np.int16(code[j]) - np.int16(MIDDLE))
        norm += np.int32(code[j]) * np.int32(code[j])
    return norm


@numba.njit(inline="always")
def measure_blocks(blocks, norms, block, n, query, query_norm, distances, at):
    """Squared distances, in steps of the scale, from a query to the rows of n blocks: `distances[at : at + 16 * n]`."""
    size = blocks.shape[1] * PART_BYTES
    address = blocks.ctypes.data + block * size
    out = distances.ctypes.data + 4 * at
    subtract_twice_dots(norms.ctypes.data + 4 * BLOCK * block, query_norm, address, size, n, query.ctypes.data, out)
    for part in range(1, blocks.shape[1]):
        place = address + part * PART_BYTES
        subtract_twice_dots(out, np.int32(0), place, size, n, query.ctypes.data + part * PART, out)


@njit(nogil=True)
def squared_distance(state, query):
    """Squared distance of two states, summed in 64 bits."""
    total = 0.0
    for j in range(len(query)):
        step = np.float64(state[j]) - np.float64(query[j])  # numba's float() of a float32 is a float32
        total += step * step
    return total


@numba.njit(inline="always")
def fetch_state(states, slot):
    """Start loading a state into the cache."""
    size = states.shape[1] * states.itemsize
    for line in range(states.ctypes.data + slot * size, states.ctypes.data + (slot + 1) * size, 64):
        prefetch(line)


@njit(nogil=True)
def measure_rows(blocks, norms, begin, end, query, query_norm, distances):
    """Squared distances to rows begin..end, in whole blocks; returns the place of row `begin` in `distances`."""
    first = begin // BLOCK
    measure_blocks(blocks, norms, first, (end + BLOCK - 1) // BLOCK - first, query, query_norm, distances, 0)
    return begin % BLOCK


# -- Half codes: the difference between a state and the centre of its cell, 4 bits a number ---------------------------

HALF_LINES = GROUPS // 2
HALF_BYTES = PART_BYTES // 2
ZERO = 8  # the half code of no difference
COARSEST_STEP = 64  # codes to a step of half codes, at most: squared distances then fit 32 bits


def empty_half_blocks(n: int, dim: int) -> NDArray[np.uint8]:
    """Blocks of half codes that are all zero."""
    return np.zeros((n, parts_of(dim), HALF_LINES, BLOCK, GROUP), np.uint8)


@njit(nogil=True)
def put_half_code(blocks, norms, row, code, centre, step):
    """Write the half code of a code in the cell with this centre into a row of half blocks, and its squared norm."""
    norm = np.int32(0)
    half = np.empty(PART, np.int32)
    for part in range(blocks.shape[1]):
        for j in range(PART):
            away = np.int32(code[part * PART + j]) - np.int32(centre[part * PART + j])
            half[j] = min(max((away + ZERO * step + step // 2) // step, 0), 15)
            norm += half[j] * half[j]
        for j in range(PART // 2):
            both = half[j] | (half[j + PART // 2] << 4)
            blocks[row // BLOCK, part, j // GROUP, row % BLOCK, j % GROUP] = both
    norms[row] = norm


@njit(nogil=True)
def half_query(code, centre, step, query):
    """Write the query of a code, int8 (parts * 64,), for the cell with this centre; returns its part of a distance.

    A query is in halves of a step. They are computed in units of 2**-16, since a division does not vectorise. A number
    that does not fit 8 bits is clipped in the query, but counts in full in the returned part.
    """
    unit = np.int32(2 * 65536 // step)
    norm = np.int32(0)
    for part in range(0, len(code), PART):
        at = code.ctypes.data + part, centre.ctypes.data + part, query.ctypes.data + part
        norm += scale_difference(at[0], at[1], unit, np.int32(2 * ZERO), at[2])
    return np.int32(norm >> np.int32(2))


@numba.njit(inline="always")
def measure_half_blocks(blocks, norms, block, n, query, query_norm, distances):
    """Squared distances, in steps of a half code, from a query to the rows of n blocks."""
    size = blocks.shape[1] * HALF_BYTES
    address = blocks.ctypes.data + block * size
    out = distances.ctypes.data
    subtract_dots_of_halves(norms.ctypes.data + 4 * BLOCK * block, query_norm, address, size, n, query.ctypes.data, out)
    for part in range(1, blocks.shape[1]):
        place = address + part * HALF_BYTES
        subtract_dots_of_halves(out, np.int32(0), place, size, n, query.ctypes.data + part * PART, out)


@numba.njit(inline="always")
def fetch_half_block(blocks, norms, block):
    """Start loading a block of half codes into the cache."""
    size = blocks.shape[1] * HALF_BYTES
    prefetch(norms.ctypes.data + 4 * BLOCK * block)
    for line in range(blocks.ctypes.data + block * size, blocks.ctypes.data + (block + 1) * size, 64):
        prefetch(line)
