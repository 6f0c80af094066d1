"""Reads what a run has lived through: its episodes, by number."""

from __future__ import annotations

import contextlib
import zlib
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mfec.history.frame_codec import unpack_frames
from mfec.history.records import Place, Record, scan
from mfec.history.writer import frame_files, steps_file


@dataclass
class PastEpisode:
    """An episode of a run, as far as it was recorded."""

    number: int  # from 1, as they began
    lane: int
    game: int  # how many games the lane had begun before; -1 where games cannot be brought back
    begun: int  # frames of the run when it began
    ended: bool = False
    actions: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))  # (steps,), from 0
    rewards: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))  # (steps,)
    lost_life: NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, np.bool_))  # (steps,)
    whole: bool = True  # no step is missing

    def __len__(self) -> int:
        return len(self.actions)


class History:
    """The episodes of a run, read from the directory that a `HistoryWriter` wrote.

    Damaged or missing parts are as if they had not been recorded.
    """

    def __init__(self, directory: Path) -> None:
        self._steps: dict[int, list[tuple[Record, Place]]] = {}
        self._frames: dict[int, list[tuple[Record, Place]]] = {}
        self.frames_bytes = 0
        file = steps_file(directory)
        for record, place in scan(file) if file.is_file() else ():
            self._steps.setdefault(record.episode, []).append((record, place))
        for file in frame_files(directory):
            with contextlib.suppress(FileNotFoundError):  # a run that goes on may have dropped it
                for record, place in scan(file):
                    self._frames.setdefault(record.episode, []).append((record, place))
                    self.frames_bytes += place.length

    def __len__(self) -> int:
        return len(self._steps)

    def __contains__(self, number: int) -> bool:
        return number in self._steps

    @property
    def with_frames(self) -> int:
        """Of how many episodes frames were kept, wholly or in part."""
        return len(self._frames)

    def begun(self, number: int) -> int | None:
        """Frames of the run when an episode began; None where it was not recorded."""
        return self._steps[number][0][0].begun if number in self._steps else None

    def episode(self, number: int) -> PastEpisode:
        """An episode by its number; a KeyError where it was not recorded."""
        first, _ = self._steps[number][0]
        episode = PastEpisode(number, first.lane, first.game, first.begun)
        actions, rewards, lost_life = [], [], []
        at = 0
        for record, place in self._steps[number]:
            try:
                content = zlib.decompress(place.read())
            except (OSError, ValueError, zlib.error):
                content = b""
            if record.first != at or len(content) != 11 * record.count:
                episode.whole = False
                break
            actions.append(np.frombuffer(content, "<u2", record.count))
            rewards.append(np.frombuffer(content, "<f8", record.count, 2 * record.count))
            lost_life.append(np.frombuffer(content, "u1", record.count, 10 * record.count))
            at, episode.ended = record.end, record.ended
        if actions:
            episode.actions = np.concatenate(actions).astype(np.int64)
            episode.rewards = np.concatenate(rewards).astype(np.float64)
            episode.lost_life = np.concatenate(lost_life).astype(np.bool_)
        return episode

    def kept(self, number: int) -> list[tuple[int, int]]:
        """The steps of an episode whose frames were kept, as ranges (first, end)."""
        ranges: list[tuple[int, int]] = []
        for record, _ in sorted(self._frames.get(number, ()), key=lambda each: each[0].first):
            if ranges and ranges[-1][1] == record.first:
                ranges[-1] = ranges[-1][0], record.end
            else:
                ranges.append((record.first, record.end))
        return ranges

    def frames(self, number: int, step: int, shape: tuple[int, ...]) -> tuple[int, NDArray[np.uint8]] | None:
        """The kept frames, uint8 (n, *shape), that were packed with that step's, and the step of the first one."""
        for record, place in self._frames.get(number, ()):
            if record.first <= step < record.end:
                try:
                    frames = unpack_frames(place.read(), shape)
                except (OSError, ValueError):
                    return None
                return (record.first, frames) if len(frames) == record.count else None
        return None
