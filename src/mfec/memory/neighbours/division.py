"""Codes divided in two: what a cell that is full does, and a region of cells.

All arithmetic is in whole numbers, and nothing depends on the order of the codes, so the same codes are divided in the
same way on every machine, also after a run was stopped and its rows were laid out anew.
"""

from __future__ import annotations

import numpy as np

from mfec.compiling import njit

ROUNDS = 4  # of k-means; more moved the share of found neighbours by less than its noise
SMALLEST_SHARE = 8  # a part has an eighth of the codes, at least
RANKS = 2**36  # of entries or cells, at most


@njit(nogil=True)
def divide(codes, ranks, side, centres):
    """Divide codes, uint8 (n, width), in two by k-means: those whose `side`, bool (n,), is True, and the others.

    ranks: int64 (n,), all different, decide between equals. The mean codes of both parts are written into `centres`.
    """
    n = len(codes)
    mean_code(codes, centres[0])
    keys = np.empty(n, np.int64)
    farthest = 0
    for i in range(n):
        keys[i] = _distance(codes[i], centres[0]) * RANKS + ranks[i]
        if keys[i] > keys[farthest]:
            farthest = i
    # Begin with the half that is nearer to the code that is farthest from the mean. That code itself may be alone.
    for i in range(n):
        keys[i] = _distance(codes[i], codes[farthest]) * RANKS + ranks[i]
    _divide_at_median(keys, side)
    for _ in range(ROUNDS):
        _mean_codes(codes, side, centres)
        for i in range(n):
            keys[i] = (_distance(codes[i], centres[0]) - _distance(codes[i], centres[1])) * RANKS + ranks[i]
        larger = 0
        for i in range(n):
            side[i] = keys[i] >= RANKS
            larger += side[i]
        if min(larger, n - larger) < max(1, n // SMALLEST_SHARE):
            _divide_at_median(keys, side)
    _mean_codes(codes, side, centres)


@njit(nogil=True)
def mean_code(codes, mean):
    """Write the mean of codes, uint8 (n, width), into `mean`."""
    sums = np.zeros(codes.shape[1], np.int64)
    for i in range(len(codes)):
        for j in range(codes.shape[1]):
            sums[j] += codes[i, j]
    for j in range(codes.shape[1]):
        mean[j] = (2 * sums[j] + len(codes)) // (2 * len(codes))


@njit(nogil=True)
def _mean_codes(codes, side, means):
    mean_code(codes[~side], means[0])
    mean_code(codes[side], means[1])


@njit(nogil=True)
def _divide_at_median(keys, side):
    middle = np.sort(keys)[len(keys) // 2]
    for i in range(len(keys)):
        side[i] = keys[i] >= middle


@njit(nogil=True)
def _distance(code, other):
    total = np.int32(0)
    for j in range(len(code)):
        away = np.int32(code[j]) - np.int32(other[j])
        total += away * away
    return np.int64(total)
