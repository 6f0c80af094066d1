"""Which frames of the past had a say in a game, and how much: what an exported page should hold first."""

from __future__ import annotations

import heapq
from collections import Counter
from typing import Any

Place = tuple[int, int]  # a past episode, and a step or a chunk of its frames
Weight = tuple[int, int, int, int, int]  # the larger one matters more


class VoteCount:
    """Counts the memories behind the estimates of a game."""

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


class Room:
    """Room for chunks of frames. Where there is too little, those go that matter least."""

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


def _has(past: dict[str, Any], step: int) -> bool:
    """Whether a frame of a past episode can be had."""
    return past["picture"] is not None and any(begin <= step < end for begin, end in past["available"])
