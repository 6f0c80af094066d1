"""The frames of past episodes that an exported page holds: those that matter most, as many as there is room for."""

from __future__ import annotations

import heapq
from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfec.history.frame_codec import pack_frames, unpack_frames
from mfec.inspector.inspection import Inspection, NotThere

DEAR = 1_000  # bytes; Atari's frames take 130 to 310, those of the Labyrinth 3,700
FEW = 1  # dear frames in a chunk: of 32, most would be nobody's memory, and there is no room for them

Place = tuple[int, int]  # a past episode, and a step or a chunk of its frames
Weight = tuple[int, int, int, int, int]  # the larger one matters more


class MemoryCount:
    """Counts how often the memories of each past step had a say in the estimates of a game."""

    def __init__(self, *, frame_skip: int) -> None:
        self._frame_skip = frame_skip
        # By episode and step: whether it only spoke for actions that were not taken, and how many were nearer.
        self._ranks: dict[int, dict[int, tuple[bool, int]]] = {}
        self._times: Counter[Place] = Counter()

    def count(self, step: dict[str, Any]) -> None:
        """Count those behind one step of the game."""
        for action, estimate in enumerate(step["actions"]):
            for nearer, memory in enumerate(estimate["neighbours"]):
                if memory["episode"] is None or memory["frame"] is None:
                    continue
                then = memory["frame"] // self._frame_skip
                ranks = self._ranks.setdefault(memory["episode"], {})
                rank = action != step["action"], nearer
                ranks[then] = min(rank, ranks.get(then, rank))
                self._times[memory["episode"], then] += 1

    def episodes(self) -> list[int]:
        """All episodes that memories come from, those with the most to say first."""
        return sorted(self._ranks, key=lambda episode: (min(self._ranks[episode].values()), episode))

    def chunks(self, past: dict[str, Any]) -> dict[int, Weight]:
        """What the chunks of frames of an episode matter, the most important one first.

        Those of memories of actions that were taken matter most, the nearest ones before others; then those of other
        actions; then what came after them, for who wants to watch what happened next. Among equals, the more often
        asked.
        """
        if past["picture"] is None:
            return {}
        episode, per_chunk = int(past["episode"]), int(past["picture"]["per_chunk"])
        ranks: dict[int, tuple[int, int]] = {}
        times: Counter[int] = Counter()
        for step, (other, nearer) in self._ranks[episode].items():
            if not _has(past, step):
                continue
            own, after = step // per_chunk, step // per_chunk + 1
            times[own] += self._times[episode, step]
            ranks[own] = min((int(other), nearer), ranks.get(own, (3, nearer)))
            if _has(past, after * per_chunk):
                ranks[after] = min((2 + other, nearer), ranks.get(after, (3, nearer)))
        weights = {chunk: (-tier, -nearer, times[chunk], -episode, -chunk) for chunk, (tier, nearer) in ranks.items()}
        return dict(sorted(weights.items(), key=lambda each: each[1], reverse=True))

    def memories(self, past: dict[str, Any]) -> list[int]:
        """The steps of an episode that are remembered behind this game, and whose frames can be had."""
        return [step for step in self._ranks[int(past["episode"])] if _has(past, step)]


class FrameBudget:
    """Holds chunks of frames up to a number of bytes. Where that is too little, those go that matter least."""

    def __init__(self, nbytes: int) -> None:
        self.left = nbytes
        self._chunks: list[tuple[Weight, Place, int, bytes]] = []  # a heap
        self._gone: Weight | None = None  # the most important one of those that went

    @property
    def full(self) -> bool:
        """Whether there was too little."""
        return self._gone is not None

    def takes(self, weight: Weight) -> bool:
        """Whether there may be room for a chunk that matters so much."""
        return self._gone is None or weight > self._gone

    def put(self, place: Place, weight: Weight, data: bytes, nbytes: int) -> None:
        """Put in a chunk that takes so many bytes."""
        heapq.heappush(self._chunks, (weight, place, nbytes, data))
        self.shrink(nbytes)

    def shrink(self, nbytes: int) -> None:
        """Have so much less room."""
        self.left -= nbytes
        while self.left < 0 and self._chunks:
            weight, _, freed, _ = heapq.heappop(self._chunks)
            self._gone = weight if self._gone is None else max(weight, self._gone)
            self.left += freed

    def chunks(self) -> dict[Place, bytes]:
        """All that have found room, by place."""
        return {place: data for _, place, _, data in sorted(self._chunks)}


def most_important(chunks: dict[int, dict[int, Weight]], most: int) -> dict[int, list[int]]:
    """Of the chunks of several episodes, so many that matter most, by episode."""
    ranked = sorted(((weight, episode, chunk) for episode, own in chunks.items() for chunk, weight in own.items()))
    chosen: dict[int, list[int]] = {}
    for _, episode, chunk in reversed(ranked[max(0, len(ranked) - most) :]):
        chosen.setdefault(episode, []).append(chunk)
    return chosen


class PastFrames:
    """A past episode and its frames; raises NotThere where it was not recorded.

    Args:
        one_by_one: whether pictures that the environment draws for this page come one by one, not in chunks.
    """

    def __init__(self, inspection: Inspection, episode: int, *, one_by_one: bool = False) -> None:
        self.about: dict[str, Any] = inspection.past(episode)
        self._inspection, self.episode = inspection, episode
        self._unpacked: dict[int, NDArray[np.uint8]] = {}
        self._per_chunk, self._small = 1, False
        self.drawn = bool(self.about["drawn"])  # by the environment, for this page alone
        if self.about["picture"] is not None:
            self._per_chunk = int(self.about["picture"]["per_chunk"])
            self._small = not self.drawn and self._per_chunk % FEW == 0 and self._dear()
        if self._small or (self.drawn and one_by_one):
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

    def draw(self, chunks: list[int]) -> dict[int, bytes]:
        """These chunks, drawn and packed. All at once: one after the other, the episode would be played for each."""
        per_chunk, end = int(self.about["picture"]["per_chunk"]), int(self.about["steps"])
        steps = {chunk: range(chunk * per_chunk, min((chunk + 1) * per_chunk, end)) for chunk in chunks}
        frames = self._inspection.draw_past(self.episode, [step for own in steps.values() for step in own])
        return {
            chunk: pack_frames(np.array([frames[step] for step in own]))
            for chunk, own in steps.items()
            if all(step in frames for step in own)
        }

    def _dear(self) -> bool:
        """Whether the first frames that there are take many bytes."""
        first = self.about["available"][0][0] // self._per_chunk if self.about["available"] else 0
        frames = min(self._per_chunk, self.about["steps"] - first * self._per_chunk)
        return len(self._read(first) or b"") > DEAR * int(frames)

    def _read(self, number: int) -> bytes | None:
        try:
            return self._inspection.past_frames(self.episode, number)
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


def _has(past: dict[str, Any], step: int) -> bool:
    """Whether a frame of a past episode can be had."""
    return past["picture"] is not None and any(begin <= step < end for begin, end in past["available"])
