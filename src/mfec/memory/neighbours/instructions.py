"""Instructions that numba does not offer: dot products of bytes, prefetching memory, and words between threads."""

from __future__ import annotations

import platform
from collections.abc import Callable
from typing import Any

from llvmlite import binding, ir
from numba import config
from numba.core import cgutils, types
from numba.extending import intrinsic

ROWS, GROUPS = 16, 16
SUMS = 4  # independent sums, so that no addition waits for the one before
LONG, WHOLE, SHORT, BYTE = ir.IntType(64), ir.IntType(32), ir.IntType(16), ir.IntType(8)
LANES = ir.VectorType(WHOLE, ROWS)  # of a 512-bit register
BYTES = ir.VectorType(BYTE, ROWS)
PAIRS = ir.VectorType(SHORT, 2 * ROWS)
DOTS = (types.uintp, types.int32, types.uintp, types.intp, types.intp, types.uintp, types.uintp)
DOT_OF_BYTES = "llvm.x86.avx512.vpdpbusd.512"


def _subtract_twice_dots(
    typing_context: Any, start: Any, added: Any, rows: Any, stride: Any, n: Any, query: Any, out: Any
) -> Any:
    """out[r] = start[r] + added - 2 * dot(rows[:, r], query) for n blocks of 16 rows of 64 bytes.

    start, rows, query and out are addresses; `stride` is that from block to block of rows.
    rows: uint8 (16 groups, 16 rows, 4) a block; query: int8 (64,); start, out: int32 (n * 16,).
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        _subtract_dots(builder, arguments, lambda rows: _lines(builder, rows, GROUPS), 2)
        return context.get_dummy_value()

    return types.void(*DOTS), generate


subtract_twice_dots: Any = intrinsic(_subtract_twice_dots)


def _subtract_dots_of_halves(
    typing_context: Any, start: Any, added: Any, rows: Any, stride: Any, n: Any, query: Any, out: Any
) -> Any:
    """out[r] = start[r] + added - dot(rows[:, r], query) for n blocks of 16 rows of 64 numbers of 4 bits.

    As above, but rows: uint8 (8, 16 rows, 4), numbers 0 to 31 in the low halves of the bytes, 32 to 63 in the high.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        four, low = ir.Constant(LANES, [4] * ROWS), ir.Constant(LANES, [0x0F0F0F0F] * ROWS)

        def lines(rows: Any) -> list[Any]:
            bytes_ = _lines(builder, rows, GROUPS // 2)
            return [builder.and_(line, low) for line in bytes_] + [
                builder.and_(builder.lshr(line, four), low) for line in bytes_
            ]

        _subtract_dots(builder, arguments, lines, 1)
        return context.get_dummy_value()

    return types.void(*DOTS), generate


subtract_dots_of_halves: Any = intrinsic(_subtract_dots_of_halves)


def _scale_difference(typing_context: Any, code: Any, centre: Any, unit: Any, middle: Any, out: Any) -> Any:
    """out[j] = (code[j] - centre[j]) * unit / 2**16 + middle, rounded, as int8 of 64 bytes each.

    All but `unit` and `middle` are addresses. A number that does not fit is clipped. Returns the sum of the squares of
    all 64, as they were before.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        code, centre, unit, middle, out = arguments
        half, sixteen = ir.Constant(LANES, [2**15] * ROWS), ir.Constant(LANES, [16] * ROWS)
        unit, middle = _spread(builder, unit), _spread(builder, middle)
        squares = ir.Constant(LANES, [0] * ROWS)
        for place in range(0, 4 * ROWS, ROWS):
            numbers, means = (
                builder.zext(_bytes(builder, address, place, load=True), LANES) for address in (code, centre)
            )
            scaled = builder.add(builder.mul(builder.sub(numbers, means), unit), half)
            number = builder.add(builder.ashr(scaled, sixteen), middle)
            squares = builder.add(squares, builder.mul(number, number))
            for sign, end in (("<", 127), (">", -128)):
                limit = ir.Constant(LANES, [end] * ROWS)
                number = builder.select(builder.icmp_signed(sign, number, limit), number, limit)
            builder.store(builder.trunc(number, BYTES), _bytes(builder, out, place), align=1)
        return builder.call(_function(builder, "llvm.vector.reduce.add.v16i32", WHOLE, [LANES]), [squares])

    address = types.uintp
    return types.int32(address, address, types.int32, types.int32, address), generate


scale_difference: Any = intrinsic(_scale_difference)


def _prefetch(typing_context: Any, address: Any) -> Any:
    """Start loading the cache line at an address; a processor that cannot does nothing."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = BYTE.as_pointer()
        function = _function(builder, "llvm.prefetch.p0", ir.VoidType(), [pointer, WHOLE, WHOLE, WHOLE])
        read, keep, data = (ir.Constant(WHOLE, option) for option in (0, 3, 1))
        builder.call(function, [builder.inttoptr(arguments[0], pointer), read, keep, data])
        return context.get_dummy_value()

    return types.void(types.uintp), generate


prefetch: Any = intrinsic(_prefetch)


def _load_number(typing_context: Any, address: Any) -> Any:
    """The int64 at an address, as another thread has left it, and all that it wrote before."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load_atomic(_number(builder, arguments[0]), "seq_cst", 8)

    return types.int64(types.uintp), generate


load_number: Any = intrinsic(_load_number)


def _store_number(typing_context: Any, address: Any, number: Any) -> Any:
    """Write an int64 to an address, after all that was written before."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.store_atomic(arguments[1], _number(builder, arguments[0]), "seq_cst", 8)
        return context.get_dummy_value()

    return types.void(types.uintp, types.int64), generate


store_number: Any = intrinsic(_store_number)


def _add_to_number(typing_context: Any, address: Any, number: Any) -> Any:
    """Add to the int64 at an address, whatever other threads do; returns what was there before."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.atomic_rmw("add", _number(builder, arguments[0]), arguments[1], "seq_cst")

    return types.int64(types.uintp, types.int64), generate


add_to_number: Any = intrinsic(_add_to_number)


def _pause(typing_context: Any) -> Any:
    """Wait for some nanoseconds, as a loop should that waits for another thread."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        if platform.machine() in ("x86_64", "AMD64"):
            builder.call(_function(builder, "llvm.x86.sse2.pause", ir.VoidType(), []), [])
        return context.get_dummy_value()

    return types.void(), generate


pause: Any = intrinsic(_pause)


def _any_within(typing_context: Any, numbers: Any, limit: Any) -> Any:
    """Whether any of 16 numbers, int32 (16,), is at most `limit`; `numbers` is an address."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        line = _line(builder, arguments[0])
        within = builder.icmp_signed("<=", line, _spread(builder, arguments[1]))
        return builder.icmp_unsigned("!=", builder.bitcast(within, SHORT), ir.Constant(SHORT, 0))

    return types.boolean(types.uintp, types.int32), generate


any_within: Any = intrinsic(_any_within)


def _number(builder: Any, address: Any) -> Any:
    return builder.inttoptr(address, LONG.as_pointer())


def _line(builder: Any, address: Any) -> Any:
    return builder.load(builder.inttoptr(address, LANES.as_pointer()), align=4)


def _bytes(builder: Any, address: Any, place: int, load: bool = False) -> Any:
    pointer = builder.inttoptr(builder.add(address, ir.Constant(LONG, place)), BYTES.as_pointer())
    return builder.load(pointer, align=1) if load else pointer


def _lines(builder: Any, address: Any, n: int) -> list[Any]:
    return [_line(builder, builder.add(address, ir.Constant(LONG, 4 * ROWS * place))) for place in range(n)]


def _subtract_dots(builder: Any, arguments: Any, lines_of: Callable[[Any], list[Any]], times: int) -> None:
    start, added, rows, stride, n, query, out = arguments
    numbers = builder.inttoptr(query, WHOLE.as_pointer())
    # Read once for all blocks: a compiler must assume that what is written changes the query.
    queries = [builder.load(builder.gep(numbers, [ir.Constant(LONG, group)]), align=1) for group in range(GROUPS)]
    queries, added = [_spread(builder, four) for four in queries], _spread(builder, added)
    add_dots = _add_dots_of_bytes if _has_dots_of_bytes() else _add_dots
    with cgutils.for_range(builder, n) as loop:
        at = builder.mul(loop.index, ir.Constant(LONG, 4 * ROWS))
        dots = [ir.Constant(LANES, [0] * ROWS)] * SUMS
        for group, line in enumerate(lines_of(builder.add(rows, builder.mul(loop.index, stride)))):
            dots[group % SUMS] = add_dots(builder, dots[group % SUMS], line, queries[group])
        result = builder.add(_line(builder, builder.add(start, at)), added)
        dot = builder.add(builder.add(dots[0], dots[1]), builder.add(dots[2], dots[3]))
        for _ in range(times):
            result = builder.sub(result, dot)
        builder.store(result, builder.inttoptr(builder.add(out, at), LANES.as_pointer()), align=4)


def _has_dots_of_bytes() -> bool:
    """Whether numba compiles for a processor with AVX-512 VNNI."""
    asked_for = getattr(config, "CPU_FEATURES", None)
    if asked_for is not None:
        return "+avx512vnni" in asked_for
    return bool(getattr(config, "ENABLE_AVX", True) and binding.get_host_cpu_features().get("avx512vnni"))


def _add_dots_of_bytes(builder: Any, dots: Any, line: Any, four: Any) -> Any:
    return builder.call(_function(builder, DOT_OF_BYTES, LANES, [LANES, LANES, LANES]), [dots, line, four])


def _add_dots(builder: Any, dots: Any, line: Any, four: Any) -> Any:
    """The same on any processor: numbers 0 and 2 of each row, then 1 and 3, as pairs of 16 bits."""
    low, eight = ir.Constant(PAIRS, [255] * 2 * ROWS), ir.Constant(PAIRS, [8] * 2 * ROWS)
    rows, query = builder.bitcast(line, PAIRS), builder.bitcast(four, PAIRS)
    even = builder.ashr(builder.shl(query, eight), eight)
    dots = _add_pairs(builder, dots, builder.and_(rows, low), even)
    return _add_pairs(builder, dots, builder.lshr(rows, eight), builder.ashr(query, eight))


def _add_pairs(builder: Any, dots: Any, rows: Any, query: Any) -> Any:
    wide = ir.VectorType(WHOLE, 2 * ROWS)
    products = builder.mul(builder.sext(rows, wide), builder.sext(query, wide))
    for first in (0, 1):
        places = ir.Constant(LANES, list(range(first, 2 * ROWS, 2)))
        dots = builder.add(dots, builder.shuffle_vector(products, ir.Constant(wide, ir.Undefined), places))
    return dots


def _spread(builder: Any, number: Any) -> Any:
    """A vector of one number."""
    nothing = ir.Constant(LANES, ir.Undefined)
    first = builder.insert_element(nothing, number, ir.Constant(WHOLE, 0))
    return builder.shuffle_vector(first, nothing, ir.Constant(LANES, [0] * ROWS))


def _function(builder: Any, name: str, result: Any, arguments: list[Any]) -> Any:
    return builder.module.globals.get(name) or ir.Function(builder.module, ir.FunctionType(result, arguments), name)
