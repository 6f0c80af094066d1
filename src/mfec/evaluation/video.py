"""Videos of games, as MP4."""

from __future__ import annotations

import contextlib
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

import gymnasium
import numpy as np

from mfec.files import WriteError, check_writable, whole_file

SMALLEST_SIDE = 400  # pixels; smaller pictures are enlarged by a whole factor


def check_video(path: Path) -> None:
    """Refuse what no video can be written to, before anything is played for it."""
    if path.suffix != ".mp4":
        raise ValueError(f"a video is an .mp4 file, not {path}")
    check_writable(path)


class Video:
    """An MP4 file that grows by one picture a step, and is there when it is closed; where an error comes, it is not."""

    def __init__(self, path: Path, env: gymnasium.Env[Any, Any]) -> None:
        check_video(path)
        self._path = path
        self._fps = float(env.metadata.get("render_fps", 30))
        self._writer: Any = None
        self._draft = Path()
        self._file = contextlib.ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        elif self._writer is not None:
            self._writer.close()
            self._writer = None
            self._file.__exit__(kind, error, trace)

    def add(self, picture: Any) -> None:
        """Add a picture, uint8 (height, width, 3)."""
        frame = np.asarray(picture, np.uint8)
        if frame.ndim != 3 or frame.shape[2] != 3:
            raise ValueError("this environment renders no colour pictures, so there can be no video")
        factor = max(1, -(-SMALLEST_SIDE // min(frame.shape[:2])))
        frame = frame.repeat(factor, axis=0).repeat(factor, axis=1)
        frame = frame[: frame.shape[0] // 2 * 2, : frame.shape[1] // 2 * 2]  # the codec wants even sides
        if self._writer is None:
            self._open(frame.shape[1], frame.shape[0])
        try:
            self._writer.send(np.ascontiguousarray(frame))
        except OSError:  # it names ffmpeg's command, and no reason
            raise self._stopped() from None

    def close(self) -> None:
        """Finish the file, if there was a picture."""
        if self._writer is None:
            return
        self._writer.close()
        self._writer = None
        with self._file, self._draft.open("rb") as file:
            if not _is_whole(file):
                raise self._stopped()

    def _open(self, width: int, height: int) -> None:
        import imageio_ffmpeg

        self._draft = self._file.enter_context(whole_file(self._path))
        self._writer = imageio_ffmpeg.write_frames(
            str(self._draft), (width, height), fps=self._fps, macro_block_size=2, ffmpeg_log_level="quiet"
        )
        self._writer.send(None)

    def _stopped(self) -> WriteError:
        return WriteError(f"cannot write {self._path}: ffmpeg, which encodes it, has stopped; is the disk full?")


def _is_whole(file: BinaryIO) -> bool:
    """Whether an MP4 was finished, which ffmpeg does not say: its parts fill it, and the index, the last, is there."""
    size, end, kinds = file.seek(0, 2), 0, []
    while end < size:
        file.seek(end)
        head = file.read(16)
        length, kind = int.from_bytes(head[:4]), head[4:8]
        kinds.append(kind)
        end += max(8, int.from_bytes(head[8:16]) if length == 1 else length)
    return end == size and b"moov" in kinds
