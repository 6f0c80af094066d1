"""Writes the episodes of a run on a thread of its own: learning hands over a reference and goes on."""

from __future__ import annotations

import contextlib
import queue
import sqlite3
import threading
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfec.config import FRAMES_LIMIT_GB
from mfec.history.database import SCHEMA, database_file, open_database
from mfec.history.frame_codec import MOST_FRAMES, pack_frames, pictures_of
from mfec.interface import Steps

WAITING = 16  # batches on their way to the thread; then learning waits for it
BATCHES = 16  # in a transaction; about one a second at 4,000 steps a second
ROOM = 1 / 32  # of the limit is freed at a time


class HistoryWriter:
    """Adds every step of a run to the database in one directory.

    Args:
        directory: where the database is; it is made where it is missing.
        picture: shape of the frames to keep, (height, width) or (height, width, 3); None keeps no frames.
        limit_gb: gigabytes of frames. Beyond them, frames of those episodes go that have the fewest memories.
        begun, in_progress: how many episodes the run has begun, and the steps of those that have not ended, by number.
            What was recorded beyond that, after the last checkpoint, did not happen for this run, and is deleted.
    """

    def __init__(
        self,
        directory: Path,
        *,
        picture: tuple[int, ...] | None = None,
        limit_gb: float = FRAMES_LIMIT_GB,
        begun: int = 0,
        in_progress: dict[int, int] | None = None,
    ) -> None:
        self._picture = picture
        self._limit = int(limit_gb * 1e9)
        self._in_progress = set(in_progress or ())
        self._batches: dict[int, list[Steps]] = {}  # by the first environment of their group
        self._uncommitted = 0  # batches
        self._queue: queue.Queue[Any] = queue.Queue(WAITING)
        self._full = threading.Event()
        self._asked_for_room = False
        self.error: sqlite3.Error | None = None
        directory.mkdir(parents=True, exist_ok=True)
        try:
            self._database = open_database(database_file(directory))
            self._database.executescript(SCHEMA)
            self._cut_back(begun, in_progress or {})
            sizes = self._database.execute("SELECT episode, sum(nbytes) FROM frames GROUP BY episode")
            self._frame_bytes: dict[int, int] = dict(sizes)  # by episode
            self._all_frame_bytes = sum(self._frame_bytes.values())
        except sqlite3.Error as error:
            raise OSError(f"{database_file(directory)}: {error}") from error
        self._thread = threading.Thread(target=self._work, name="history", daemon=True)
        self._thread.start()

    def add(self, steps: Steps) -> None:
        """Steps that a group has made."""
        batch = self._batches.setdefault(steps.envs.start, [])
        batch.append(steps)
        if len(batch) == MOST_FRAMES:
            self._hand_over(steps.envs.start)

    @property
    def full(self) -> bool:
        """Whether there are more frames than may be kept, so that `drop` is to be called."""
        return self._full.is_set()

    def drop(self, memories: NDArray[np.int64]) -> None:
        """Make room: drop the frames of episodes with the fewest memories, which are given by number of the episode."""
        self._full.clear()
        self._queue.put(memories)

    def flush(self) -> None:
        """Wait until everything so far is on the disk. The first error ends the history and stands in `error`."""
        for group in self._batches:
            self._hand_over(group)
        done = threading.Event()
        self._queue.put(done)
        done.wait()

    def close(self) -> None:
        """Write what is left, and end the thread."""
        if self._thread.is_alive():
            self.flush()
            self._queue.put(None)
            self._thread.join()
        with contextlib.suppress(sqlite3.Error):
            self._database.close()

    def _hand_over(self, group: int) -> None:
        batch, self._batches[group] = self._batches[group], []
        if batch:
            self._queue.put(batch)

    def _cut_back(self, begun: int, in_progress: dict[int, int]) -> None:
        """Delete what was recorded after the last checkpoint. No row has steps from before and after it, since a
        checkpoint waits until everything is written."""
        for table in ("steps", "frames"):
            self._database.execute(f"DELETE FROM {table} WHERE episode > ?", (begun,))
            own = f"DELETE FROM {table} WHERE episode = ? AND first >= ?"
            self._database.executemany(own, list(in_progress.items()))
        self._database.execute("DELETE FROM episodes WHERE number NOT IN (SELECT episode FROM steps)")
        self._database.commit()

    # -- On the thread ------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        while (task := self._queue.get()) is not None:
            try:
                if self.error is None:
                    self._do(task)
            except sqlite3.Error as error:  # a full disk, most likely: the run goes on without its history
                self.error = error
            if isinstance(task, threading.Event):
                task.set()

    def _do(self, task: Any) -> None:
        if isinstance(task, np.ndarray):
            self._make_room(task)
        elif not isinstance(task, threading.Event):
            self._write(task)
            self._uncommitted += 1
            if self._uncommitted < BATCHES:
                return
        self._database.commit()
        self._uncommitted = 0

    def _write(self, steps: list[Steps]) -> None:
        """A batch of steps of one group: for each environment, the steps of each episode."""
        numbers = np.array([each.numbers for each in steps])
        valid = np.array([each.valid for each in steps])
        ended = np.array([each.ended for each in steps])
        columns = [
            np.array([each.actions for each in steps]).astype("<u2"),
            np.array([each.rewards for each in steps]).astype("<f8"),
            np.array([each.lost_life for each in steps]).astype("u1"),
        ]
        envs = steps[0].envs
        for row, env_id in enumerate(range(envs.start, envs.stop)):
            whose = np.where(valid[:, row], numbers[:, row], -1)
            for part in np.split(np.arange(len(steps)), np.flatnonzero(np.diff(whose)) + 1):
                if whose[part[0]] < 0:
                    continue
                begin = steps[part[0]]
                number, first, over = int(whose[part[0]]), int(begin.at[row]), bool(ended[part[-1], row])
                if first == 0:
                    game = -1 if begin.games is None else begin.games[row]
                    begun = begin.frames + row * begin.frame_skip  # all environments of a run make a step in turn
                    self._insert("episodes", number, env_id, game, begun)
                content = b"".join(column[part, row].tobytes() for column in columns)
                self._insert("steps", number, first, len(part), over, zlib.compress(content))
                (self._in_progress.discard if over else self._in_progress.add)(number)
                if self._picture is not None:
                    observations = np.stack([steps[i].observations[row] for i in part.tolist()])
                    packed = pack_frames(pictures_of(observations, self._picture))
                    self._insert("frames", number, first, len(part), len(packed), packed)
                    self._frame_bytes[number] = self._frame_bytes.get(number, 0) + len(packed)
                    self._all_frame_bytes += len(packed)
        if self._all_frame_bytes > self._limit and not self._asked_for_room:
            self._asked_for_room = True
            self._full.set()

    def _insert(self, table: str, *values: int | bytes) -> None:
        self._database.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(values))})", values)

    def _make_room(self, memories: NDArray[np.int64]) -> None:
        """Delete frames until what is left is within the limit; those of episodes in progress last."""

        def importance(number: int) -> tuple[bool, int, int]:
            counted = number < len(memories) and number not in self._in_progress
            return not counted, int(memories[number]) if counted else 0, number

        for number in sorted(self._frame_bytes, key=importance):
            if self._all_frame_bytes <= self._limit * (1 - ROOM):
                break
            self._database.execute("DELETE FROM frames WHERE episode = ?", (number,))
            self._all_frame_bytes -= self._frame_bytes.pop(number)
        self._asked_for_room = False
