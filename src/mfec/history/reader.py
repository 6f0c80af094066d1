"""Reads the past episodes of a run, by number."""

from __future__ import annotations

import sqlite3
import threading
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfec.history.database import SCHEMA, database_file, open_database
from mfec.history.frame_codec import unpack_frames


@dataclass
class PastEpisode:
    """An episode of a run, as far as it was recorded."""

    number: int  # from 1, as they began
    env_id: int
    game: int  # how many games the environment had begun before; -1 where games cannot be brought back
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
        self._lock = threading.Lock()
        file = database_file(directory)
        self._database = open_database(file if file.is_file() else ":memory:")
        if not file.is_file():
            self._database.executescript(SCHEMA)
        self._begun: dict[int, int] = dict(self._rows("SELECT number, begun FROM episodes"))
        sizes = self._rows("SELECT sum(nbytes) FROM frames GROUP BY episode")
        self.with_frames = len(sizes)  # episodes of which frames were kept, wholly or in part
        self.frames_bytes = sum(nbytes for (nbytes,) in sizes)

    def __len__(self) -> int:
        return len(self._begun)

    def __contains__(self, number: int) -> bool:
        return number in self._begun

    def begun(self, number: int) -> int | None:
        """Frames of the run when an episode began; None where it was not recorded."""
        return self._begun.get(number)

    def episode(self, number: int) -> PastEpisode:
        """An episode by its number; a KeyError where it was not recorded."""
        found = self._rows("SELECT number, environment, game, begun FROM episodes WHERE number = ?", number)
        if not found:
            raise KeyError(number)
        episode = PastEpisode(*found[0])
        parts = []
        at = 0
        query = "SELECT first, count, ended, content FROM steps WHERE episode = ? ORDER BY first"
        for first, count, ended, packed in self._rows(query, number):
            try:
                content = zlib.decompress(packed)
            except zlib.error:
                content = b""
            if first != at or len(content) != 11 * count:
                episode.whole = False
                break
            parts.append((content, count))
            at, episode.ended = first + count, bool(ended)
        if parts:
            columns = (("<u2", 0), ("<f8", 2), ("u1", 10))  # type, and bytes of a step before it
            episode.actions, episode.rewards, episode.lost_life = (
                np.concatenate([np.frombuffer(content, kind, n, before * n) for content, n in parts]).astype(own)
                for (kind, before), own in zip(columns, (np.int64, np.float64, np.bool_), strict=True)
            )
        return episode

    def kept(self, number: int) -> list[tuple[int, int]]:
        """The steps of an episode whose frames were kept, as ranges (first, end)."""
        ranges: list[tuple[int, int]] = []
        for first, count in self._rows("SELECT first, count FROM frames WHERE episode = ? ORDER BY first", number):
            if ranges and ranges[-1][1] == first:
                ranges[-1] = ranges[-1][0], first + count
            else:
                ranges.append((first, first + count))
        return ranges

    def frames(self, number: int, step: int, shape: tuple[int, ...]) -> tuple[int, NDArray[np.uint8]] | None:
        """The kept frames, uint8 (n, *shape), that were packed with that step's, and the step of the first one."""
        query = "SELECT first, count, content FROM frames WHERE episode = ? AND first <= ? ORDER BY first DESC LIMIT 1"
        for first, count, packed in self._rows(query, number, step):
            if step < first + count:
                try:
                    frames = unpack_frames(packed, shape)
                except ValueError:
                    return None
                return (first, frames) if len(frames) == count else None
        return None

    def _rows(self, query: str, *values: int) -> list[Any]:
        """All rows at once, so that a run that goes on is not kept from writing; none where the file is damaged."""
        with self._lock:
            try:
                return self._database.execute(query, values).fetchall()
            except sqlite3.DatabaseError:
                return []
