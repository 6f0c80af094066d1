"""Frames that follow each other, in few bytes: what changed from one to the next, deflated.

Where nearly everything changes, because the player turns, what changes from row to row is less.

On the five Atari games of the paper that is 130 to 310 bytes a frame, and 15 to 20 microseconds to pack one. A browser
can unpack it with what it has (`DecompressionStream`).
"""

from __future__ import annotations

import zlib

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

CHUNK_BYTES = 2**19  # of frames that are packed together, before they are packed
LEVEL = 3  # of deflate; 6 makes them a fifth smaller, in twice the time, which training would feel
BY_FRAME, BY_ROW = 0, 1  # the first byte of what is deflated
TURNING = 0.25  # share of the pixels that change; Atari's games have some hundredths, the Labyrinth nine tenths
MOST_FRAMES = 32  # in a chunk; one of them costs as much to unpack as all


def pack_frames(frames: NDArray[np.uint8]) -> bytes:
    """Frames, uint8 (n, height, ...): the first, then each as its difference (xor) from the one before it; or every row
    as its difference (modulo 256) from the row above it."""
    changed = np.array(frames, np.uint8, order="C")
    changed[1:] ^= frames[:-1]
    way = BY_FRAME
    if len(frames) == 1 or np.count_nonzero(changed[1:]) > TURNING * changed[1:].size:
        changed = np.array(frames, np.uint8, order="C")
        changed[:, 1:] -= frames[:, :-1]
        way = BY_ROW
    packed = zlib.compressobj(LEVEL)
    return packed.compress(bytes([way])) + packed.compress(changed.data) + packed.flush()


def unpack_frames(packed: bytes, shape: tuple[int, ...]) -> NDArray[np.uint8]:
    """Frames, uint8 (n, *shape), that `pack_frames` packed; bytes that it did not pack are a ValueError."""
    try:
        plain = zlib.decompress(packed)
        changed = np.frombuffer(plain, np.uint8, offset=1).reshape(-1, *shape)
    except zlib.error as error:
        raise ValueError(f"these are no packed frames: {error}") from None
    if plain[0] == BY_ROW:
        return np.add.accumulate(changed, axis=1, dtype=np.uint8)
    return np.bitwise_xor.accumulate(changed, axis=0)


def frames_in_chunk(shape: tuple[int, ...]) -> int:
    """How many frames of that shape are packed together."""
    return min(MOST_FRAMES, max(1, CHUNK_BYTES // int(np.prod(shape))))


def picture_shape(space: spaces.Space[object]) -> tuple[int, ...] | None:
    """The shape of the newest picture in an observation, (height, width) or (height, width, 3); None without one."""
    if not isinstance(space, spaces.Box) or space.dtype != np.uint8 or len(space.shape) not in (2, 3):
        return None
    shape = tuple(space.shape)
    if len(shape) == 3 and shape[-1] != 3:
        shape = shape[:2] if shape[-1] == 1 else shape[1:]
    return shape if min(shape[:2]) >= 8 else None  # else a few numbers that happen to be bytes


def pictures_of(observations: NDArray[np.uint8], shape: tuple[int, ...]) -> NDArray[np.uint8]:
    """The newest picture of each observation, (n, *shape), where `picture_shape` has found one."""
    if observations.shape[1:] == shape:
        return observations
    return observations[..., 0] if observations.shape[-1] == 1 else observations[:, -1]
