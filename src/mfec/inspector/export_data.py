"""The data of an exported page: the responses of the server as JSON by their addresses, in few bytes."""

from __future__ import annotations

import base64
import zlib
from typing import Any

from mfec.inspector.api import as_json

MEMORIES = "memories"  # beside the addresses


class RecordedResponses:
    """Responses by address as JSON, compressed as they come: all steps of a game can be 50 MB of text."""

    def __init__(self) -> None:
        self._compressor = zlib.compressobj(9)
        self._data = bytearray()
        self._begun = False

    def add(self, address: str, response: bytes) -> None:
        """Add a response, which is JSON."""
        head = b"," if self._begun else b"{"
        self._begun = True
        self._data += self._compressor.compress(head + as_json(address) + b":" + response)

    @property
    def nbytes(self) -> int:
        """Bytes in the page so far."""
        self._data += self._compressor.flush(zlib.Z_SYNC_FLUSH)
        return in_base64(len(self._data))

    def finish(self) -> bytes:
        """Everything, as the page takes it."""
        self._data += self._compressor.compress(b"}" if self._begun else b"{}") + self._compressor.flush()
        return bytes(self._data)


class Memories:
    """Every memory once, so that steps can name them by number.

    The same ones vote again and again. Written out, one step of the Labyrinth, 8 actions with 50 neighbours, is longer
    than what zlib looks back at (32 KB), so that 900 steps took 16 MB; with numbers they take 0.3 to 5.
    """

    def __init__(self, *, weighted: bool) -> None:
        """weighted: whether to keep weights. Where all neighbours count the same, the page does not show them."""
        self._weighted = weighted
        self._numbers: dict[bytes, int] = {}

    def shorten(self, step: dict[str, Any]) -> dict[str, Any]:
        """A step whose neighbours are short: the number of a memory, its distance, and its weight if that is kept."""
        actions = [
            {**action, "neighbours": [self._short(**neighbour) for neighbour in action["neighbours"]]}
            for action in step["actions"]
        ]
        return {**step, "actions": actions}

    def as_json(self) -> bytes:
        """All memories, in the order of their numbers."""
        return b"[" + b",".join(self._numbers) + b"]"

    def _short(self, **neighbour: Any) -> tuple[float, ...]:
        # The page shows four digits at most; the others, which nothing can compress, took 2 MB of 14.
        distance, weight = (float(f"{neighbour.pop(name):.5g}") for name in ("distance", "weight"))
        place = [round(number, 2) for number in neighbour["position"]]
        memory = as_json({**neighbour, "value": float(f"{neighbour['value']:.6g}"), "position": place})
        number = self._numbers.setdefault(memory, len(self._numbers))
        return (number, distance, weight) if self._weighted else (number, distance)


def in_base64(nbytes: int) -> int:
    """Characters of that many bytes."""
    return -(-nbytes // 3) * 4


def cost(chunks: list[bytes]) -> int:
    """Bytes, at most, that chunks take in a page.

    They are base64 in JSON, which is compressed, which is base64 again: 1.34 bytes for one, and an address.
    """
    return sum(in_base64(len(chunk) + len(chunk) // 50 + 90) for chunk in chunks)


def as_text(chunk: bytes) -> bytes:
    """A chunk of frames as JSON."""
    return b'"' + base64.b64encode(chunk) + b'"'
