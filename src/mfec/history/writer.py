"""Writes what a run lives through, on a thread of its own: learning hands over a reference and goes on."""

from __future__ import annotations

import contextlib
import os
import queue
import threading
import zlib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from mfec.callback import Steps
from mfec.config import FRAMES_LIMIT_GB
from mfec.history.frame_codec import MOST_FRAMES, pack_frames, pictures_of
from mfec.history.records import Record, append, cut, scan

SEGMENTS = 32  # files that the frames are spread over; where there are too many, whole files go
STEPS_IN_RECORD = 512  # of actions and rewards
WAITING = 16  # batches on their way to the thread; then learning waits for it


def steps_file(directory: Path) -> Path:
    """The file of all actions and rewards."""
    return directory / "steps.bin"


def frame_files(directory: Path) -> list[Path]:
    """The files of kept frames, oldest first."""
    return sorted(directory.glob("frames-*.bin"))


@dataclass
class _Segment:
    """A file of frames, and the episodes in it."""

    file: Path
    size: int = 0
    episodes: set[int] = field(default_factory=set)


@dataclass
class _Told:
    """Steps of an episode whose actions and rewards are not written yet."""

    record: Record
    actions: list[NDArray[np.int64]]
    rewards: list[NDArray[np.float64]]
    lost_life: list[NDArray[np.bool_]]


class HistoryWriter:
    """Adds every step of a run to the files of one directory.

    Args:
        directory: where the files are; it is made where it is missing.
        picture: shape of the frames to keep, (height, width) or (height, width, 3); None keeps no frames.
        limit_gb: gigabytes of frames. Beyond them, those files go whose episodes have the fewest memories.
        begun, in_progress: how many episodes the run has begun, and the steps of those that have not ended, by number.
            What the files tell beyond that is of a time that did not happen, and goes.
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
        self._directory = directory
        self._picture = picture
        self._limit = int(limit_gb * 1e9)
        self._batches: dict[int, list[Steps]] = {}  # by the first lane of their group
        self._queue: queue.Queue[Any] = queue.Queue(WAITING)
        self._full = threading.Event()
        self._told: dict[int, _Told] = {}  # by lane
        self.error: OSError | None = None
        directory.mkdir(parents=True, exist_ok=True)
        self._segments = _cut_back(directory, begun, in_progress or {})
        # Number and first frame of the episode in each lane.
        self._begun = {record.lane: (record.episode, record.begun) for record in _last_records(directory)}
        self._steps: BinaryIO = steps_file(directory).open("ab")
        self._frames: BinaryIO | None = None
        self._thread = threading.Thread(target=self._work, name="history", daemon=True)
        self._thread.start()

    def add(self, steps: Steps) -> None:
        """Steps that a group has made."""
        batch = self._batches.setdefault(steps.lanes.start, [])
        batch.append(steps)
        if len(batch) == MOST_FRAMES:
            self._hand_over(steps.lanes.start)

    @property
    def full(self) -> bool:
        """Whether there are more frames than may be kept, so that `drop` is to be called."""
        return self._full.is_set()

    def drop(self, memories: NDArray[np.int64]) -> None:
        """Make room: drop files of frames whose episodes have the fewest memories; by number of the episode."""
        self._full.clear()
        self._queue.put(memories)

    def flush(self) -> None:
        """Wait until everything so far is in the files. What went wrong stands in `error`, once and for all."""
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
        for stream in (self._steps, self._frames):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()

    def _hand_over(self, group: int) -> None:
        batch, self._batches[group] = self._batches[group], []
        if batch:
            self._queue.put(batch)

    # -- On the thread ------------------------------------------------------------------------------------------------

    def _work(self) -> None:
        while (task := self._queue.get()) is not None:
            try:
                if self.error is None:
                    self._do(task)
            except OSError as error:  # a full disk, most likely: the run goes on without its history
                self.error = error
            if isinstance(task, threading.Event):
                task.set()

    def _do(self, task: Any) -> None:
        if isinstance(task, threading.Event):
            for lane in list(self._told):
                self._write_steps(lane)
            for stream in (self._steps, self._frames):
                if stream is not None:
                    stream.flush()
                    os.fsync(stream.fileno())
        elif isinstance(task, np.ndarray):
            self._make_room(task)
        else:
            self._take(task)

    def _take(self, steps: list[Steps]) -> None:
        """A batch of steps of one group: for each lane, the steps of each episode."""
        numbers = np.array([each.numbers for each in steps])
        valid = np.array([each.valid for each in steps])
        actions, rewards = np.array([each.actions for each in steps]), np.array([each.rewards for each in steps])
        ended, lost_life = np.array([each.ended for each in steps]), np.array([each.lost_life for each in steps])
        lanes = steps[0].lanes
        for row, lane in enumerate(range(lanes.start, lanes.stop)):
            whose = np.where(valid[:, row], numbers[:, row], -1)
            for part in np.split(np.arange(len(steps)), np.flatnonzero(np.diff(whose)) + 1):
                if whose[part[0]] < 0:
                    continue
                record = self._record(lane, row, steps[part[0]], len(part), bool(ended[part[-1], row]))
                self._tell(record, actions[part, row], rewards[part, row], lost_life[part, row])
                if self._picture is not None:
                    self._keep(record, np.stack([steps[i].observations[row] for i in part.tolist()]))

    def _record(self, lane: int, row: int, steps: Steps, count: int, ended: bool) -> Record:
        number, at = steps.numbers[row], steps.at[row]
        if self._begun.get(lane, (0, 0))[0] != number:  # all lanes of a run make a step in turn
            self._begun[lane] = number, steps.frames + row * steps.frame_skip
        game = -1 if steps.games is None else steps.games[row]
        return Record(number, lane, game, self._begun[lane][1], at, count, ended)

    def _tell(
        self,
        record: Record,
        actions: NDArray[np.int64],
        rewards: NDArray[np.float64],
        lost_life: NDArray[np.bool_],
    ) -> None:
        told = self._told.get(record.lane)
        if told is None:
            told = self._told[record.lane] = _Told(record, [], [], [])
        else:
            told.record = replace(told.record, count=told.record.count + record.count, ended=record.ended)
        told.actions.append(actions)
        told.rewards.append(rewards)
        told.lost_life.append(lost_life)
        if record.ended or told.record.count >= STEPS_IN_RECORD:
            self._write_steps(record.lane)

    def _write_steps(self, lane: int) -> None:
        told = self._told.pop(lane)
        columns: list[tuple[Any, str]] = [(told.actions, "<u2"), (told.rewards, "<f8"), (told.lost_life, "u1")]
        content = b"".join(np.concatenate(parts).astype(kind).tobytes() for parts, kind in columns)
        append(self._steps, told.record, zlib.compress(content))

    def _keep(self, record: Record, observations: NDArray[np.uint8]) -> None:
        assert self._picture is not None
        if self._frames is None or self._segments[-1].size * SEGMENTS >= self._limit:
            if self._frames is not None:
                self._frames.close()
            last = int(self._segments[-1].file.stem.rpartition("-")[2]) if self._segments else 0
            self._segments.append(_Segment(self._directory / f"frames-{last + 1:06}.bin"))
            self._frames = self._segments[-1].file.open("ab")
            if sum(segment.size for segment in self._segments) * (SEGMENTS + 1) > self._limit * SEGMENTS:
                self._full.set()
        segment = self._segments[-1]
        segment.size += append(self._frames, record, pack_frames(pictures_of(observations, self._picture)))
        segment.episodes.add(record.episode)

    def _make_room(self, memories: NDArray[np.int64]) -> None:
        """Drop files of frames until what is left, with the file that is being written, is within the limit."""
        rest = self._segments[:-1]

        def votes(segment: _Segment) -> int:
            return int(sum(memories[episode] for episode in segment.episodes if episode < len(memories)))

        allowed = self._limit * (SEGMENTS - 1) // SEGMENTS
        for segment in sorted(rest, key=votes):
            if sum(each.size for each in self._segments) <= allowed:
                break
            segment.file.unlink(missing_ok=True)
            self._segments.remove(segment)


def _cut_back(directory: Path, begun: int, in_progress: dict[int, int]) -> list[_Segment]:
    """Drop what was written after the last checkpoint; returns the files of frames that are left.

    Everything is written in the order in which it happened, and a checkpoint waits for it: so the records from before
    come first, and none of them is about both times.
    """

    def happened(record: Record) -> bool:
        return record.episode <= begun and record.end <= in_progress.get(record.episode, record.end)

    segments = []
    over = False
    for file in [steps_file(directory), *frame_files(directory)]:
        if not file.exists():
            continue
        own, keep, segment = False, 0, _Segment(file)
        for record, place in scan(file):
            own = own or not happened(record)
            if not own:
                keep += 1
                segment.size = place.offset + place.length
                segment.episodes.add(record.episode)
        if file == steps_file(directory):
            cut(file, keep)
        elif over or not keep:
            file.unlink()
        else:
            cut(file, keep)
            segments.append(segment)
            over = own
    return segments


def _last_records(directory: Path) -> list[Record]:
    """The last record of each lane."""
    file = steps_file(directory)
    last = {record.lane: record for record, _ in scan(file)} if file.exists() else {}
    return [record for record in last.values() if not record.ended]
