"""The GPU kernels of a look-up, in Triton: projection, a pass over all entries, and the ranking of what is left.

A page has 4096 entries in blocks of 32. A block lies number by number: the first numbers of its 32 states, then the
second ones, and so on. So a thread owns whole entries, reads addresses beside those of the next thread, and sums a
distance without exchanging anything.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

import torch
import triton
import triton.language as tl

from mfec.device.channel import Network
from mfec.device.layout import BLOCK, PAGE

SPARE_BLOCKS = 4  # selected beyond k, because the first pass rounds distances
MOST_BLOCKS = 32_768  # that one program can select from; larger buffers have larger blocks
THIN = 1024  # minima of which one program keeps the smallest, where there are many
PART = 112  # pixels that one program projects
# Each number is split into two of 16 bits: three products of those are right to 2 in 100,000, and faster than three of
# 19 bits (1.8 ms against 2.4 ms for 32 states and 18 million entries). The interpreter does not know them.
PRECISION = "tf32x3" if os.environ.get("TRITON_INTERPRET") == "1" else "bf16x3"
MANY = 16  # queries of one run from which matrix units are faster


@dataclass(frozen=True)
class SearchShape:
    """Everything that the launches of a search depend on; searches of equal shape share one recording."""

    chunks: int
    width: int  # queries in a chunk
    jobs: int
    pairs: int
    pages: int  # of the largest buffer
    k: int
    dim: int
    size: int  # numbers in an observation, 0 where states are given

    @property
    def grain(self) -> int:
        """Entries whose smallest distance the first pass keeps."""
        grain = BLOCK
        while self.pages * (PAGE // grain) > MOST_BLOCKS:
            grain *= 2
        return grain

    @property
    def scratch_bytes(self) -> int:
        """Memory that the first pass fills."""
        return 4 * self.jobs * self.width * self.pages * (PAGE // self.grain)


def search(
    shape: SearchShape,
    inputs: torch.Tensor,
    numbers: torch.Tensor,
    states: torch.Tensor,
    found: torch.Tensor,
    network: Network | None = None,
) -> None:
    """Fill states, float32 (chunks x width, dim), and found, float64 (pairs, 2 k + 3).

    inputs: observations, uint8 (chunks x width, size), or states; numbers: int64, jobs, pairs and the address of each
    row's projection, as in `Plan`. A row of `found` holds k + 1 squared distances, as many slots, and 1 if unsure.
    network: what makes states of observations, if no projection does.
    """
    device, dim, width = inputs.device, shape.dim, shape.width
    jobs, pairs = numbers[: 4 * shape.jobs], numbers[4 * shape.jobs :]
    if network is not None:
        with torch.no_grad():
            states.copy_(network(inputs))
    elif shape.size:
        sums = torch.zeros((len(inputs), dim), dtype=torch.float64, device=device)
        _project[(len(inputs), triton.cdiv(shape.size, PART))](
            inputs, pairs[4 * shape.pairs :], sums, shape.size,
            DIM=dim, DIM_POW2=triton.next_power_of_2(dim), PART=PART, num_warps=4,
        )  # fmt: skip
        states.copy_(sums)
    else:
        states.copy_(inputs)
    if shape.pairs == 0:
        return
    queries = states.view(-1, width, dim).transpose(1, 2).contiguous()
    grain, keep = shape.grain, triton.next_power_of_2(shape.k + SPARE_BLOCKS)
    row = shape.pages * (PAGE // grain)  # minima of one query and buffer
    minima = torch.empty((shape.jobs, width, row), device=device)
    many = width >= MANY and dim >= 16 and dim & (dim - 1) == 0
    lengths = queries
    if many:
        middles = queries.mean(2, keepdim=True)
        centred = queries - middles
        lengths = (centred * centred).sum(1)
        _scan_many[(shape.pages, shape.jobs)](
            jobs, centred, middles, lengths, minima, row,
            DIM=dim, QUERIES=width, ROWS=max(64, grain), GRAIN=grain, PRECISION=PRECISION, num_warps=2, num_stages=3,
        )  # fmt: skip
    else:
        rows, warps, most = (1024, 4, 2) if width > 4 else (1024, 8, 8)
        unroll = next(step for step in (8, 4, 2, 1) if step <= most and dim % step == 0)
        _scan[(shape.pages, shape.jobs)](
            jobs, queries, minima, row,
            DIM=dim, UNROLL=unroll, QUERIES=width, ROWS=max(rows, grain), GRAIN=grain, num_warps=warps,
        )  # fmt: skip
    blocks = torch.empty((shape.pairs, keep), dtype=torch.int32, device=device)
    left, numbered = minima, blocks  # all minima, whose places are their blocks' numbers
    parts = triton.cdiv(row, THIN)
    thinned = parts > 1 and keep < THIN // 2
    if thinned:
        left = torch.empty((shape.pairs, parts * keep), device=device)
        numbered = torch.empty((shape.pairs, parts * keep), dtype=torch.int32, device=device)
        _thin[(shape.pairs, parts)](
            jobs, pairs, minima, row, left, numbered, parts,
            KEEP=keep, GRAIN=grain, N=THIN, num_warps=4,
        )  # fmt: skip
    n = triton.next_power_of_2(parts * keep if thinned else row)
    _rank[(shape.pairs,)](
        jobs, pairs, queries, left, numbered, parts * keep if thinned else row, blocks, lengths, found,
        K=shape.k, DIM=dim, QUERIES=width, KEEP=keep, GRAIN=grain, N=n, MANY=many, THINNED=thinned,
        num_warps=min(16, max(4, n // 1024)),
        enable_fp_fusion=False,  # so that distances have the same bits as on the CPU
    )  # fmt: skip


def read_rows(addresses: torch.Tensor, rows: torch.Tensor) -> None:
    """Copy the entries at these addresses, int64 (n,), into rows, float32 (n, dim); zeros where an address is 0."""
    _rows[(len(rows),)](addresses, rows, DIM=rows.shape[1], POW2=_pow2(rows), WHAT="read", num_warps=2)


def write_rows(addresses: torch.Tensor, rows: torch.Tensor) -> None:
    """Copy rows, float32 (n, dim), to entries; no address but 0, which is of none, may come twice."""
    _rows[(len(rows),)](addresses, rows, DIM=rows.shape[1], POW2=_pow2(rows), WHAT="write", num_warps=2)


def add_rows(addresses: torch.Tensor, rows: torch.Tensor) -> None:
    """Add rows, float32 (n, dim), to entries; what is for the same entry adds up. An address of 0 is of none."""
    _rows[(len(rows),)](addresses, rows, DIM=rows.shape[1], POW2=_pow2(rows), WHAT="add", num_warps=2)


def _pow2(rows: torch.Tensor) -> int:
    return int(triton.next_power_of_2(rows.shape[1]))


@triton.jit
def _rows(addresses, rows, DIM: tl.constexpr, POW2: tl.constexpr, WHAT: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    address = tl.load(addresses + row)
    numbers = tl.arange(0, POW2)
    own = rows + row * DIM + numbers
    entry = address.to(tl.pointer_type(tl.float32)) + numbers * 32
    there = (numbers < DIM) & (address != 0)
    if WHAT == "read":
        tl.store(own, tl.load(entry, mask=there, other=0.0), mask=numbers < DIM)
    elif WHAT == "write":
        tl.store(entry, tl.load(own, mask=there, other=0.0), mask=there)
    else:
        tl.atomic_add(entry, tl.load(own, mask=there, other=0.0), mask=there)


@triton.jit
def _project(observations, weights, sums, size, DIM: tl.constexpr, DIM_POW2: tl.constexpr, PART: tl.constexpr):
    """Add a part of an observation's projection: sums (n, dim) += observations (n, size) A.

    Weights are multiples of 2**-20 and observations are bytes, so the sums are exact in float64, in any order.
    """
    row = tl.program_id(0).to(tl.int64)
    part = tl.program_id(1)
    address = tl.load(weights + row)
    if address != 0:  # else the row is unused
        matrix = address.to(tl.pointer_type(tl.float32))
        columns = tl.arange(0, DIM_POW2)
        total = tl.zeros([DIM_POW2], tl.float64)
        for step in range(0, PART, 16):
            pixels = part * PART + step + tl.arange(0, 16)
            inputs = tl.load(observations + row * size + pixels, mask=pixels < size, other=0).to(tl.float64)
            inside = (pixels < size)[:, None] & (columns < DIM)[None, :]
            mixed = tl.load(matrix + pixels[:, None] * DIM + columns[None, :], mask=inside, other=0.0).to(tl.float64)
            total += tl.sum(inputs[:, None] * mixed, axis=0)
        tl.atomic_add(sums + row * DIM + columns, total, mask=columns < DIM)


@triton.jit
def _scan(
    jobs, queries, minima, row_of_minima,
    DIM: tl.constexpr, UNROLL: tl.constexpr, QUERIES: tl.constexpr, ROWS: tl.constexpr, GRAIN: tl.constexpr,
):  # fmt: skip
    """First pass: the smallest distance of every GRAIN entries of a page to each query of the job's chunk.

    queries: float32 (chunks, dim, QUERIES); minima: float32 (jobs, QUERIES, row_of_minima).
    """
    page = tl.program_id(0)
    job = tl.program_id(1).to(tl.int64)
    entries = tl.load(jobs + job * 4 + 1) - page * 4096
    if entries > 0:
        table = tl.load(jobs + job * 4).to(tl.pointer_type(tl.int64))
        states = tl.multiple_of(tl.load(table + page).to(tl.pointer_type(tl.float32)), 16)
        rows = tl.arange(0, ROWS)[None, :]
        columns = tl.arange(0, QUERIES)[:, None]
        inside = (rows // 32) * (32 * DIM) + rows % 32
        query = queries + tl.load(jobs + job * 4 + 2) * (DIM * QUERIES) + columns
        for part in range(4096 // ROWS):
            first = part * ROWS
            if first < entries:
                distance = tl.zeros([QUERIES, ROWS], tl.float32)
                here = states + first * DIM + inside
                for numbers in range(0, DIM, UNROLL):
                    for number in tl.static_range(UNROLL):
                        stored = tl.load(here + (numbers + number) * 32)
                        wanted = tl.load(query + (numbers + number) * QUERIES)
                        step = stored - wanted
                        distance += step * step
                distance = tl.where(first + rows < entries, distance, float("inf"))
                smallest = tl.min(tl.reshape(distance, [QUERIES, ROWS // GRAIN, GRAIN]), axis=2)
                at = page * (4096 // GRAIN) + first // GRAIN + tl.arange(0, ROWS // GRAIN)[None, :]
                tl.store(minima + (job * QUERIES + columns) * row_of_minima + at, smallest)


@triton.jit
def _scan_many(
    jobs, queries, middles, lengths, minima, row_of_minima,
    DIM: tl.constexpr, QUERIES: tl.constexpr, ROWS: tl.constexpr, GRAIN: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """The first pass for many queries, by matrix products: |x|^2 - 2 x q + |q|^2.

    The middle of the chunk's queries is subtracted from everything. Rounding is relative to |x| |q| here, so `_rank`
    allows for more of it. queries: less the middle; middles: (chunks, dim); lengths: |q|^2, (chunks, QUERIES).
    """
    page = tl.program_id(0)
    job = tl.program_id(1).to(tl.int64)
    entries = tl.load(jobs + job * 4 + 1) - page * 4096
    if entries > 0:
        table = tl.load(jobs + job * 4).to(tl.pointer_type(tl.int64))
        states = tl.multiple_of(tl.load(table + page).to(tl.pointer_type(tl.float32)), 16)
        columns = tl.arange(0, QUERIES)
        numbers = tl.arange(0, DIM)
        rows = tl.arange(0, ROWS)
        inside = numbers[:, None] * 32 + ((rows // 32) * (32 * DIM) + rows % 32)[None, :]
        chunk = tl.load(jobs + job * 4 + 2)
        query = tl.load(queries + chunk * (DIM * QUERIES) + numbers[None, :] * QUERIES + columns[:, None])
        length = tl.load(lengths + chunk * QUERIES + columns)
        middle = tl.load(middles + chunk * DIM + numbers)
        for part in range(4096 // ROWS):
            first = part * ROWS
            stored = tl.load(states + first * DIM + inside) - middle[:, None]
            product = tl.dot(query, stored, input_precision=PRECISION)
            distance = tl.sum(stored * stored, axis=0)[None, :] - 2.0 * product + length[:, None]
            # Infinity less infinity is NaN: the distance of that entry is unknown. -1 makes `_rank` unsure.
            distance = tl.where(distance == distance, tl.maximum(distance, 0.0), -1.0)
            distance = tl.where((first + rows < entries)[None, :], distance, float("inf"))
            smallest = tl.min(tl.reshape(distance, [QUERIES, ROWS // GRAIN, GRAIN]), axis=2)
            at = page * (4096 // GRAIN) + first // GRAIN + tl.arange(0, ROWS // GRAIN)[None, :]
            tl.store(minima + (job * QUERIES + columns[:, None]) * row_of_minima + at, smallest)


@triton.jit
def _thin(
    jobs, pairs, minima, row_of_minima, left, numbered, parts,
    KEEP: tl.constexpr, GRAIN: tl.constexpr, N: tl.constexpr,
):  # fmt: skip
    """Between the passes: the KEEP smallest of every N minima, and their places. All parts at once take a fraction of
    the time in which one program selects from all minima."""
    pair = tl.program_id(0).to(tl.int64)
    part = tl.program_id(1)
    job = tl.load(pairs + pair * 4)
    if job >= 0:
        entries = tl.load(jobs + job * 4 + 1)
        numbers = part * N + tl.arange(0, N)
        own = minima + tl.load(pairs + pair * 4 + 1) * row_of_minima
        there = (numbers < row_of_minima) & (numbers * GRAIN < entries)
        values = tl.load(own + numbers, mask=there, other=float("inf"))
        kept = (pair * parts + part) * KEEP
        for selected in range(KEEP):
            least, at = tl.min(values, axis=0, return_indices=True)
            tl.store(left + kept + selected, least)
            tl.store(numbered + kept + selected, part * N + at)
            values = tl.where(numbers == part * N + at, float("inf"), values)


@triton.jit
def _rank(
    jobs, pairs, queries, minima, numbered, row_of_minima, blocks, lengths, found,
    K: tl.constexpr, DIM: tl.constexpr, QUERIES: tl.constexpr, KEEP: tl.constexpr, GRAIN: tl.constexpr,
    N: tl.constexpr, MANY: tl.constexpr, THINNED: tl.constexpr,
):  # fmt: skip
    """Second pass: the K + 1 nearest entries of the KEEP blocks with the smallest minima, by distances in float64.

    A distance is summed in the order of its numbers, so its bits do not depend on the other queries. THINNED: minima
    are those of each pair that `_thin` kept, of the blocks `numbered`.
    """
    pair = tl.program_id(0).to(tl.int64)
    job = tl.load(pairs + pair * 4)
    if job >= 0:  # else the pair is unused
        place_of_minima = tl.load(pairs + pair * 4 + 1)
        table = tl.load(jobs + job * 4).to(tl.pointer_type(tl.int64))
        entries = tl.load(jobs + job * 4 + 1)
        chunk = tl.load(jobs + job * 4 + 2)
        numbers = tl.arange(0, N)
        if THINNED:
            own = minima + pair * row_of_minima
            left = tl.load(own + numbers, mask=numbers < row_of_minima, other=float("inf"))
        else:
            own = minima + place_of_minima * row_of_minima
            left = tl.load(own + numbers, mask=numbers * GRAIN < entries, other=float("inf"))
        kth = float("inf")
        last = float("inf")
        unknown = tl.min(left, axis=0) < 0.0
        read = 0
        for selected in range(KEEP):
            last, block = tl.min(left, axis=0, return_indices=True)
            read += (last < float("inf")).to(tl.int32)
            kth = tl.where(selected == K - 1, last, kth)
            tl.store(blocks + pair * KEEP + selected, tl.where(last < float("inf"), block, -1))
            left = tl.where(numbers == block, float("inf"), left)
        tl.debug_barrier()  # threads read blocks that other threads wrote

        place = tl.arange(0, KEEP * GRAIN)
        block = tl.load(blocks + pair * KEEP + place // GRAIN)
        if THINNED:
            block = tl.load(numbered + pair * row_of_minima + block, mask=block >= 0, other=-1)
        row = block * GRAIN + place % GRAIN
        there = (block >= 0) & (row < entries)
        page = tl.load(table + row // 4096, mask=there, other=0).to(tl.pointer_type(tl.float32))
        states = page + (row % 4096 // 32) * (32 * DIM) + row % 32
        query = queries + chunk * (DIM * QUERIES) + place_of_minima % QUERIES
        distance = tl.zeros([KEEP * GRAIN], tl.float64)
        for number in range(DIM):
            stored = tl.load(states + number * 32, mask=there, other=0.0).to(tl.float64)
            step = stored - tl.load(query + number * QUERIES).to(tl.float64)
            distance += step * step
        distance = tl.where(there, distance, float("inf"))
        answer = found + pair * (2 * K + 3)
        for i in range(K + 1):
            least, at = tl.min(distance, axis=0, return_indices=True)
            slot = tl.min(tl.where(place == at, row, 2147483647), axis=0)
            tl.store(answer + i, least)
            tl.store(answer + K + 1 + i, slot.to(tl.float64))
            distance = tl.where(place == at, float("inf"), distance)

        # A block that was not selected may hold a neighbour if its minimum is within the rounding of the first pass:
        # 4 in a million of a sum of 64 squares; with products, as much of |x|^2 + |q|^2, where |x| <= |q| + distance.
        limit = kth * (1.0 + 1e-6 + 2e-7 * DIM) + 1e-30
        if MANY:
            length = tl.load(lengths + chunk * QUERIES + place_of_minima % QUERIES)
            limit = kth + (6e-5 + 4e-7 * DIM) * (3.0 * length + 2.0 * kth) + 1e-30
        # A block is unread if it was not selected, or if its minimum is infinite in float32.
        doubt = unknown | ((read < tl.cdiv(entries, GRAIN)) & ~(last > limit))
        tl.store(answer + 2 * K + 2, tl.where(doubt, 1.0, 0.0).to(tl.float64))
