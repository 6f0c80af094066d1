"""The GPU kernels of a look-up, in Triton: projection, a pass over all entries, and the ranking of what is left.

Entries lie in pages of 4096, a page in blocks of 32 entries, a block number by number: the first numbers of its 32
states, then the second ones, and so on. So a thread owns whole entries, reads beside its neighbours, and sums a
distance without talking to anybody.
"""

from __future__ import annotations

import numpy as np
import torch
import triton
import triton.language as tl

from mfec.device.buffers import BLOCK, PAGE
from mfec.device.plan import Plan

SPARE_BLOCKS = 4  # selected beyond k, for distances that the first pass cannot tell apart
MOST_BLOCKS = 32_768  # that one program can select from; larger buffers have larger blocks
SCRATCH_BYTES = 2**28  # for the first pass; what needs more is searched in several goes
PART = 112  # pixels that one program projects
MANY = 8  # queries of one run from which on it is faster to multiply than to subtract and square


def launch_project(observations: torch.Tensor, weights: torch.Tensor, states: torch.Tensor) -> None:
    """Fill states, float32 (n, dim), by observations, uint8 (n, size), times their own matrices at `weights`."""
    n, size = observations.shape
    dim = states.shape[1]
    sums = torch.zeros((n, dim), dtype=torch.float64, device=states.device)
    _project[(n, triton.cdiv(size, PART))](
        observations, weights, sums, size, DIM=dim, DIM_POW2=triton.next_power_of_2(dim), PART=PART, num_warps=4
    )
    states.copy_(sums)


def search(
    queries: torch.Tensor, jobs: torch.Tensor, pairs: torch.Tensor, found: torch.Tensor, k: int, plan: Plan
) -> None:
    """Fill `found`, float64 (pairs x (2 k + 3)): k + 1 squared distances, as many slots, and a doubt, for each pair.

    queries: float32 (chunks, dim, width); jobs, pairs: those of the plan, on the device.
    """
    _, dim, width = queries.shape
    grain = BLOCK
    while -(-plan.largest // PAGE) * (PAGE // grain) > MOST_BLOCKS:
        grain *= 2
    row = -(-plan.largest // PAGE) * (PAGE // grain)  # minima of one query and buffer
    keep = triton.next_power_of_2(k + SPARE_BLOCKS)
    blocks_pow2 = triton.next_power_of_2(row)
    many = width >= MANY
    unroll = next(step for step in ((2, 1) if many else (8, 4, 2, 1)) if dim % step == 0)
    lengths = queries
    if many:
        middles = queries.mean(2, keepdim=True)
        centred = queries - middles
        lengths = (centred * centred).sum(1)
    blocks = torch.empty((len(plan.pairs), keep), dtype=torch.int32, device=queries.device)
    most = max(1, SCRATCH_BYTES // (4 * width * row))
    minima = torch.empty((min(most, len(plan.jobs)), width, row), device=queries.device)
    for first in range(0, len(plan.jobs), most):
        last = min(first + most, len(plan.jobs))
        grid = (-(-plan.largest // PAGE), last - first)
        if many:
            _scan_many[grid](
                jobs, centred, middles, lengths, minima, row, first,
                DIM=dim, UNROLL=unroll, QUERIES=width, ROWS=512, GRAIN=grain, num_warps=4,
            )  # fmt: skip
        else:
            _scan[grid](
                jobs, queries, minima, row, first,
                DIM=dim, UNROLL=unroll, QUERIES=width, ROWS=1024, GRAIN=grain, num_warps=8,
            )  # fmt: skip
        begin, end = np.searchsorted(plan.pairs[:, 0], [first, last]).tolist()
        _rank[(end - begin,)](
            jobs, pairs, queries, minima, row, first, begin, blocks, lengths, found,
            K=k, DIM=dim, QUERIES=width, KEEP=keep, GRAIN=grain, N=blocks_pow2, MANY=many,
            num_warps=min(16, max(4, blocks_pow2 // 1024)),
        )  # fmt: skip


@triton.jit
def _project(observations, weights, sums, size, DIM: tl.constexpr, DIM_POW2: tl.constexpr, PART: tl.constexpr):
    """Add a part of an observation's projection: sums (n, dim) += observations (n, size) A.

    Weights are multiples of 2**-20 and observations bytes: the sums are exact in float64, in whatever order.
    """
    row = tl.program_id(0).to(tl.int64)
    part = tl.program_id(1)
    matrix = tl.load(weights + row).to(tl.pointer_type(tl.float32))
    columns = tl.arange(0, DIM_POW2)
    total = tl.zeros([DIM_POW2], tl.float64)
    for step in range(0, PART, 16):
        pixels = part * PART + step + tl.arange(0, 16)
        seen = tl.load(observations + row * size + pixels, mask=pixels < size, other=0).to(tl.float64)
        inside = (pixels < size)[:, None] & (columns < DIM)[None, :]
        mixed = tl.load(matrix + pixels[:, None] * DIM + columns[None, :], mask=inside, other=0.0).to(tl.float64)
        total += tl.sum(seen[:, None] * mixed, axis=0)
    tl.atomic_add(sums + row * DIM + columns, total, mask=columns < DIM)


@triton.jit(do_not_specialize=["first_job"])
def _scan(
    jobs, queries, minima, row_of_minima, first_job,
    DIM: tl.constexpr, UNROLL: tl.constexpr, QUERIES: tl.constexpr, ROWS: tl.constexpr, GRAIN: tl.constexpr,
):  # fmt: skip
    """First pass: the smallest distance of every GRAIN entries of a page to each query of the job's chunk.

    queries: float32 (chunks, dim, QUERIES); minima: float32 (jobs, QUERIES, row_of_minima).
    """
    page = tl.program_id(0)
    turn = tl.program_id(1).to(tl.int64)
    job = turn + first_job
    entries = tl.load(jobs + job * 4 + 1) - page * 4096
    if entries > 0:
        table = tl.load(jobs + job * 4).to(tl.pointer_type(tl.int64))
        states = tl.multiple_of(tl.load(table + page).to(tl.pointer_type(tl.float32)), 16)
        rows = tl.arange(0, ROWS)[None, :]
        lanes = tl.arange(0, QUERIES)[:, None]
        inside = (rows // 32) * (32 * DIM) + rows % 32
        asked = queries + tl.load(jobs + job * 4 + 2) * (DIM * QUERIES) + lanes
        for part in range(4096 // ROWS):
            first = part * ROWS
            if first < entries:
                distance = tl.zeros([QUERIES, ROWS], tl.float32)
                here = states + first * DIM + inside
                for numbers in range(0, DIM, UNROLL):
                    for number in tl.static_range(UNROLL):
                        stored = tl.load(here + (numbers + number) * 32)
                        wanted = tl.load(asked + (numbers + number) * QUERIES)
                        step = stored - wanted
                        distance += step * step
                distance = tl.where(first + rows < entries, distance, float("inf"))
                smallest = tl.min(tl.reshape(distance, [QUERIES, ROWS // GRAIN, GRAIN]), axis=2)
                at = page * (4096 // GRAIN) + first // GRAIN + tl.arange(0, ROWS // GRAIN)[None, :]
                tl.store(minima + (turn * QUERIES + lanes) * row_of_minima + at, smallest)


@triton.jit(do_not_specialize=["first_job"])
def _scan_many(
    jobs, queries, middles, lengths, minima, row_of_minima, first_job,
    DIM: tl.constexpr, UNROLL: tl.constexpr, QUERIES: tl.constexpr, ROWS: tl.constexpr, GRAIN: tl.constexpr,
):  # fmt: skip
    """The first pass for many queries: |x|^2 - 2 x q + |q|^2, one multiplication for each number instead of two steps.

    Everything is taken from the middle of the chunk's queries. Rounding is relative to |x| |q| here, so that `_rank`
    allows for more of it. queries: from the middle; middles: (chunks, dim); lengths: |q|^2, (chunks, QUERIES).
    """
    page = tl.program_id(0)
    turn = tl.program_id(1).to(tl.int64)
    job = turn + first_job
    entries = tl.load(jobs + job * 4 + 1) - page * 4096
    if entries > 0:
        table = tl.load(jobs + job * 4).to(tl.pointer_type(tl.int64))
        states = tl.multiple_of(tl.load(table + page).to(tl.pointer_type(tl.float32)), 16)
        rows = tl.arange(0, ROWS)[None, :]
        lanes = tl.arange(0, QUERIES)[:, None]
        inside = (rows // 32) * (32 * DIM) + rows % 32
        chunk = tl.load(jobs + job * 4 + 2)
        asked = queries + chunk * (DIM * QUERIES) + lanes
        middle = middles + chunk * DIM
        length = tl.load(lengths + chunk * QUERIES + lanes)
        for part in range(4096 // ROWS):
            first = part * ROWS
            if first < entries:
                product = tl.zeros([QUERIES, ROWS], tl.float32)
                norm = tl.zeros([1, ROWS], tl.float32)
                here = states + first * DIM + inside
                for numbers in range(0, DIM, UNROLL):
                    for number in tl.static_range(UNROLL):
                        stored = tl.load(here + (numbers + number) * 32) - tl.load(middle + numbers + number)
                        product += stored * tl.load(asked + (numbers + number) * QUERIES)
                        norm += stored * stored
                distance = tl.maximum(norm - 2.0 * product + length, 0.0)
                distance = tl.where(first + rows < entries, distance, float("inf"))
                smallest = tl.min(tl.reshape(distance, [QUERIES, ROWS // GRAIN, GRAIN]), axis=2)
                at = page * (4096 // GRAIN) + first // GRAIN + tl.arange(0, ROWS // GRAIN)[None, :]
                tl.store(minima + (turn * QUERIES + lanes) * row_of_minima + at, smallest)


@triton.jit(do_not_specialize=["first_job", "first_pair"])
def _rank(
    jobs, pairs, queries, minima, row_of_minima, first_job, first_pair, blocks, lengths, found,
    K: tl.constexpr, DIM: tl.constexpr, QUERIES: tl.constexpr, KEEP: tl.constexpr, GRAIN: tl.constexpr,
    N: tl.constexpr, MANY: tl.constexpr,
):  # fmt: skip
    """Second pass: the K + 1 nearest entries of the KEEP blocks with the smallest minima, by distances in float64.

    A distance is summed in the order of its numbers, so that it has the same bits in whatever company it is computed.
    """
    pair = tl.program_id(0).to(tl.int64) + first_pair
    job = tl.load(pairs + pair * 4)
    place_of_minima = tl.load(pairs + pair * 4 + 1)
    table = tl.load(jobs + job * 4).to(tl.pointer_type(tl.int64))
    entries = tl.load(jobs + job * 4 + 1)
    chunk = tl.load(jobs + job * 4 + 2)
    numbers = tl.arange(0, N)
    own = minima + (place_of_minima - first_job * QUERIES) * row_of_minima
    left = tl.load(own + numbers, mask=numbers * GRAIN < entries, other=float("inf"))
    kth = float("inf")
    last = float("inf")
    for selected in range(KEEP):
        last, block = tl.min(left, axis=0, return_indices=True)
        kth = tl.where(selected == K - 1, last, kth)
        tl.store(blocks + pair * KEEP + selected, tl.where(last < float("inf"), block, -1))
        left = tl.where(numbers == block, float("inf"), left)
    tl.debug_barrier()  # the blocks are read by other threads than wrote them

    place = tl.arange(0, KEEP * GRAIN)
    block = tl.load(blocks + pair * KEEP + place // GRAIN)
    row = block * GRAIN + place % GRAIN
    there = (block >= 0) & (row < entries)
    page = tl.load(table + row // 4096, mask=there, other=0).to(tl.pointer_type(tl.float32))
    states = page + (row % 4096 // 32) * (32 * DIM) + row % 32
    asked = queries + chunk * (DIM * QUERIES) + place_of_minima % QUERIES
    distance = tl.zeros([KEEP * GRAIN], tl.float64)
    for number in range(DIM):
        stored = tl.load(states + number * 32, mask=there, other=0.0).to(tl.float64)
        step = stored - tl.load(asked + number * QUERIES).to(tl.float64)
        distance += step * step
    distance = tl.where(there, distance, float("inf"))
    answer = found + pair * (2 * K + 3)
    for i in range(K + 1):
        least, at = tl.min(distance, axis=0, return_indices=True)
        slot = tl.min(tl.where(place == at, row, 2147483647), axis=0)
        tl.store(answer + i, least)
        tl.store(answer + K + 1 + i, slot.to(tl.float64))
        distance = tl.where(place == at, float("inf"), distance)

    # A block that was not selected may hold a neighbour if its minimum is within what the first pass rounds off:
    # 4 in a million of a sum of 64 squares; with products, that much of |x|^2 + |q|^2, where |x| <= |q| + distance.
    limit = kth * (1.0 + 1e-6 + 2e-7 * DIM) + 1e-30
    if MANY:
        length = tl.load(lengths + chunk * QUERIES + place_of_minima % QUERIES)
        limit = kth + (1e-6 + 4e-7 * DIM) * (3.0 * length + 2.0 * kth) + 1e-30
    tl.store(answer + 2 * K + 2, tl.where((last <= limit) & (last < float("inf")), 1.0, 0.0).to(tl.float64))
