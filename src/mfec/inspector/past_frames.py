"""Frames of a past episode for a file: in small chunks where they are large, and no more than there is room for."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfec.history.frame_codec import pack_frames, unpack_frames
from mfec.inspector.inspection import Inspection, NotThere

DEAR = 1_000  # bytes; Atari's frames take 130 to 310, those of the Labyrinth 3,700
FEW = 1  # dear frames in a chunk: of 32, most would be nobody's memory, and there is no room for them


class PastFrames:
    """A past episode and its frames; raises NotThere where it was not recorded."""

    def __init__(self, inspection: Inspection, episode: int) -> None:
        self.about: dict[str, Any] = inspection.past(episode)
        self._inspection, self._episode = inspection, episode
        self._unpacked: dict[int, NDArray[np.uint8]] = {}
        self._per_chunk, self._small = 1, False
        if self.about["picture"] is not None:
            self._per_chunk = int(self.about["picture"]["per_chunk"])
            self._small = self._per_chunk % FEW == 0 and self._dear()
        if self._small:
            self.about["picture"] = {**self.about["picture"], "per_chunk": FEW}

    def chunk(self, number: int) -> bytes | None:
        """A chunk of frames, packed; None where some of them are missing."""
        if not self._small:
            return self._read(number)
        whole = number * FEW // self._per_chunk
        if whole not in self._unpacked:
            packed = self._read(whole)
            if packed is None:
                return None
            self._unpacked[whole] = unpack_frames(packed, tuple(self.about["picture"]["shape"]))
        first = number * FEW - whole * self._per_chunk
        return pack_frames(self._unpacked[whole][first : first + FEW])

    def _dear(self) -> bool:
        """Whether the first frames that there are take many bytes."""
        first = self.about["available"][0][0] // self._per_chunk if self.about["available"] else 0
        frames = min(self._per_chunk, self.about["steps"] - first * self._per_chunk)
        return len(self._read(first) or b"") > DEAR * int(frames)

    def _read(self, number: int) -> bytes | None:
        try:
            return self._inspection.past_frames(self._episode, number)
        except NotThere:
            return None


def cut(past: dict[str, Any], chunks: list[int]) -> dict[str, Any]:
    """A past episode that has only the frames of these chunks."""
    if past["picture"] is None:
        return past
    per_chunk = int(past["picture"]["per_chunk"])
    ranges: list[list[int]] = []
    for begin, end in past["available"]:
        for chunk in sorted(chunks):
            first, last = max(begin, chunk * per_chunk), min(end, (chunk + 1) * per_chunk)
            if first < last and ranges and ranges[-1][1] == first:
                ranges[-1][1] = last
            elif first < last:
                ranges.append([first, last])
    if ranges == past["available"]:
        return past
    note = f"{'Not all' if ranges else 'None'} of its frames are in this file."
    return {**past, "available": ranges, "note": f"{past['note']} {note}".strip()}
