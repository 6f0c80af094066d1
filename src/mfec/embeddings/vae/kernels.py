"""Triton kernels for the convolutions of a VAE, whose few maps leave a general library's kernels mostly idle.

Every layer here joins a *big* map, (n, height, width, cb), and a *small* one, (n, rows, columns, cs), by a square
kernel of stride 2: the pixel (y, x) of the small one sees the pixels (2y .. 2y+size-1, 2x .. 2x+size-1) of the big one.
So three kernels serve convolutions and reverse convolutions, forwards and backwards: `gather` (from big to small),
`spread` (from small to big) and `weigh` (the gradient of the weights). Weights lie as (size, size, cb, cs).
"""

from __future__ import annotations

import triton
import triton.language as tl

HALF_LOG_TWO_PI = tl.constexpr(0.9189385332046727)


@triton.jit
def gather(
    big, frames_at, weights, bias, active, out, sums, rows,
    SCALE: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    CB: tl.constexpr, CS: tl.constexpr, SIZE: tl.constexpr, BACKWARD: tl.constexpr, FRAMES: tl.constexpr,
    BLOCK: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """The small map: a convolution, or the gradient before a reverse convolution."""
    m = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = m < rows
    corner = _corner(m, inside, frames_at, HEIGHT, WIDTH, ROWS, COLUMNS, CB, FRAMES)
    c = tl.arange(0, CS)
    total = tl.zeros((BLOCK, CS), tl.float32)
    for start in range(0, SIZE * SIZE * CB, BLOCK_K):
        k = start + tl.arange(0, BLOCK_K)
        known = k < SIZE * SIZE * CB
        offset = k // (SIZE * CB) * (WIDTH * CB) + k % (SIZE * CB)  # a row of the patch lies in one piece
        patch = tl.load(big + corner[:, None] + offset[None, :], inside[:, None] & known[None, :], 0)
        weight = tl.load(weights + k[:, None] * CS + c[None, :], known[:, None], 0.0)
        total = tl.dot(patch.to(weight.dtype), weight, total)
    place = m[:, None] * CS + c[None, :]
    _finish(total * SCALE, place, inside, c, bias, active, out, sums, tl.program_id(0), CS, BACKWARD)


@triton.jit
def spread(
    small, weights, bias, active, out, sums, pictures,
    HEIGHT: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    CB: tl.constexpr, CS: tl.constexpr, SIZE: tl.constexpr, BACKWARD: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The big map: a reverse convolution, or the gradient before a convolution.

    Only the kernel's places of a pixel's parity reach it. So each of the four parities is a kernel of stride 1, with
    its own programs.
    """
    total, pixel, inside = _spread(
        small, weights, pictures, tl.program_id(0), tl.program_id(1),
        HEIGHT, WIDTH, ROWS, COLUMNS, CB, CS, SIZE, BLOCK,
    )  # fmt: skip
    c = tl.arange(0, CB)
    program = tl.program_id(0) * 4 + tl.program_id(1)
    _finish(total, pixel[:, None] * CB + c[None, :], inside, c, bias, active, out, sums, program, CB, BACKWARD)


@triton.jit
def spread_and_compare(
    small, weights, bias, picture_weights, picture_bias, frames, frames_at, out, sums, pictures, log_smallest,
    HEIGHT: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    CB: tl.constexpr, CS: tl.constexpr, SIZE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """The last two layers, the correction cost, and its gradient before the last reverse convolution, in one go.

    The map with the most pixels then never leaves the chip. `sums`, (programs, 4, cb): gradients of the mean's and of
    the log-standard-deviation's weights, of this layer's bias, and then cost and gradients of the two biases.
    """
    total, pixel, inside = _spread(
        small, weights, pictures, tl.program_id(0), tl.program_id(1),
        HEIGHT, WIDTH, ROWS, COLUMNS, CB, CS, SIZE, BLOCK,
    )  # fmt: skip
    c = tl.arange(0, CB)
    maps = tl.maximum(total + tl.load(bias + c)[None, :], 0.0)
    to_mean, to_log_std = tl.load(picture_weights + c), tl.load(picture_weights + CB + c)
    mean = tl.sum(maps * to_mean[None, :], 1) + tl.load(picture_bias)
    raw = tl.sum(maps * to_log_std[None, :], 1) + tl.load(picture_bias + 1)
    log_std = tl.maximum(raw, log_smallest)
    frame = tl.load(frames_at + pixel // (HEIGHT * WIDTH), inside, 0)
    seen = tl.load(frames + frame * (HEIGHT * WIDTH) + pixel % (HEIGHT * WIDTH), inside, 0).to(tl.float32) / 255.0
    off = (seen - mean) * tl.exp(-log_std)
    cost = tl.where(inside, 0.5 * off * off + log_std + HALF_LOG_TWO_PI, 0.0)
    of_mean = tl.where(inside, -off * tl.exp(-log_std) / pictures, 0.0)
    of_log_std = tl.where(inside & (raw >= log_smallest), (1.0 - off * off) / pictures, 0.0)
    gradient = of_mean[:, None] * to_mean[None, :] + of_log_std[:, None] * to_log_std[None, :]
    gradient = tl.where(maps > 0.0, gradient, 0.0)
    tl.store(out + pixel[:, None] * CB + c[None, :], gradient.to(out.dtype.element_ty), inside[:, None])
    own = sums + (tl.program_id(0) * 4 + tl.program_id(1)) * (4 * CB)
    tl.store(own + c, tl.sum(maps * of_mean[:, None], 0))
    tl.store(own + CB + c, tl.sum(maps * of_log_std[:, None], 0))
    tl.store(own + 2 * CB + c, tl.sum(gradient, 0))
    scalars = tl.where(c == 0, tl.sum(cost, 0), tl.where(c == 1, tl.sum(of_mean, 0), tl.sum(of_log_std, 0)))
    tl.store(own + 3 * CB + c, scalars, c < 3)


@triton.jit
def weigh(
    big, frames_at, small, partial, rows,
    SCALE: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    CB: tl.constexpr, CS: tl.constexpr, SIZE: tl.constexpr, FRAMES: tl.constexpr,
    BLOCKS: tl.constexpr, BLOCK: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """The gradient of the weights, from the big map and the small one; the one that comes later is a gradient.

    Each program takes some blocks of rows and writes its sums to `partial`, (splits, size * size * cb, cs). They are
    added in order, so the result is the same every time.
    """
    k = tl.program_id(0) * BLOCK_K + tl.arange(0, BLOCK_K)
    known = k < SIZE * SIZE * CB
    offset = k // (SIZE * CB) * (WIDTH * CB) + k % (SIZE * CB)
    c = tl.arange(0, CS)
    total = tl.zeros((BLOCK_K, CS), tl.float32)
    for step in range(BLOCKS):
        m = (tl.program_id(1) * BLOCKS + step) * BLOCK + tl.arange(0, BLOCK)
        inside = m < rows
        corner = _corner(m, inside, frames_at, HEIGHT, WIDTH, ROWS, COLUMNS, CB, FRAMES)
        patch = tl.load(big + corner[:, None] + offset[None, :], inside[:, None] & known[None, :], 0)
        other = tl.load(small + m[:, None] * CS + c[None, :], inside[:, None], 0.0)
        total = tl.dot(tl.trans(patch.to(other.dtype)), other, total)
    place = (tl.program_id(1) * (SIZE * SIZE * CB) + k)[:, None] * CS + c[None, :]
    tl.store(partial + place, total * SCALE, known[:, None])


@triton.jit
def _corner(
    m, inside, frames_at,
    HEIGHT: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    CB: tl.constexpr, FRAMES: tl.constexpr,
):  # fmt: skip
    """Where the patch of the small map's pixel m begins in the big map; `frames_at` has the frames of the minibatch."""
    picture = m // (ROWS * COLUMNS)
    if FRAMES:
        picture = tl.load(frames_at + picture, inside, 0)
    y, x = m // COLUMNS % ROWS, m % COLUMNS
    return ((picture * HEIGHT + 2 * y) * WIDTH + 2 * x) * CB


@triton.jit
def _spread(
    small, weights, pictures, block, parity,
    HEIGHT: tl.constexpr, WIDTH: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    CB: tl.constexpr, CS: tl.constexpr, SIZE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    odd_y, odd_x = parity // 2, parity % 2
    half_height, half_width = (HEIGHT - odd_y + 1) // 2, (WIDTH - odd_x + 1) // 2
    m = block * BLOCK + tl.arange(0, BLOCK)
    inside = m < pictures * half_height * half_width
    picture = m // (half_height * half_width)
    y, x = m // half_width % half_height, m % half_width
    total = tl.zeros((BLOCK, CB), tl.float32)
    # A kernel of odd size has one place more of the even parity; loops must have a length that is known beforehand.
    MORE: tl.constexpr = (SIZE + 1) // 2
    LESS: tl.constexpr = SIZE // 2
    if parity == 0:
        total = _places(
            total, small, weights, picture, y, x, inside, odd_y, odd_x, MORE, MORE, ROWS, COLUMNS, CB, CS, SIZE
        )
    elif parity == 1:
        total = _places(
            total, small, weights, picture, y, x, inside, odd_y, odd_x, MORE, LESS, ROWS, COLUMNS, CB, CS, SIZE
        )
    elif parity == 2:
        total = _places(
            total, small, weights, picture, y, x, inside, odd_y, odd_x, LESS, MORE, ROWS, COLUMNS, CB, CS, SIZE
        )
    else:
        total = _places(
            total, small, weights, picture, y, x, inside, odd_y, odd_x, LESS, LESS, ROWS, COLUMNS, CB, CS, SIZE
        )
    pixel = (picture * HEIGHT + 2 * y + odd_y) * WIDTH + 2 * x + odd_x
    return total, pixel, inside


@triton.jit
def _places(
    total, small, weights, picture, y, x, inside, odd_y, odd_x, DOWN: tl.constexpr, ACROSS: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, CB: tl.constexpr, CS: tl.constexpr, SIZE: tl.constexpr,
):  # fmt: skip
    """Add the products with the kernel's places of one parity."""
    cs, cb = tl.arange(0, CS), tl.arange(0, CB)
    for step in range(DOWN * ACROSS):
        j, i = step // ACROSS, step % ACROSS
        row, column = y - j, x - i
        reached = inside & (row >= 0) & (row < ROWS) & (column >= 0) & (column < COLUMNS)
        at = ((picture * ROWS + row) * COLUMNS + column) * CS
        values = tl.load(small + at[:, None] + cs[None, :], reached[:, None], 0.0)
        kernel = ((odd_y + 2 * j) * SIZE + odd_x + 2 * i) * (CB * CS)
        weight = tl.load(weights + kernel + cb[None, :] * CS + cs[:, None])
        total = tl.dot(values, weight, total)
    return total


@triton.jit
def _finish(total, place, inside, c, bias, active, out, sums, program, C: tl.constexpr, BACKWARD: tl.constexpr):
    """Forwards: add the bias and apply the ReLU. Backwards: apply its gradient, and sum the gradient of the bias."""
    if BACKWARD:
        passed = tl.load(active + place, inside[:, None], 0.0) > 0.0
        total = tl.where(passed, total, 0.0)
        tl.store(sums + program * C + c, tl.sum(total, 0))
    else:
        total = tl.maximum(total + tl.load(bias + c)[None, :], 0.0)
    tl.store(out + place, total.to(out.dtype.element_ty), inside[:, None])
