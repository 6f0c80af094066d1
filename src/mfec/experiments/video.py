"""Videos of games, as MP4."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

SMALLEST_SIDE = 400  # pixels; smaller pictures are enlarged by a whole factor


class Video:
    """An MP4 file that grows by one picture a step."""

    def __init__(self, path: Path, env: gymnasium.Env[Any, Any]) -> None:
        if path.suffix != ".mp4":
            raise ValueError(f"a video is an .mp4 file, not {path}")
        self._path = path
        self._fps = float(env.metadata.get("render_fps", 30))
        self._writer: Any = None

    def add(self, picture: Any) -> None:
        """Add a picture, uint8 (height, width, 3)."""
        frame = np.asarray(picture, np.uint8)
        if frame.ndim != 3 or frame.shape[2] != 3:
            raise ValueError("this environment renders no colour pictures, so there can be no video")
        factor = max(1, -(-SMALLEST_SIDE // min(frame.shape[:2])))
        frame = frame.repeat(factor, axis=0).repeat(factor, axis=1)
        frame = frame[: frame.shape[0] // 2 * 2, : frame.shape[1] // 2 * 2]  # the codec wants even sides
        if self._writer is None:
            import imageio_ffmpeg

            self._path.parent.mkdir(parents=True, exist_ok=True)
            size = frame.shape[1], frame.shape[0]
            self._writer = imageio_ffmpeg.write_frames(str(self._path), size, fps=self._fps, macro_block_size=2)
            self._writer.send(None)
        self._writer.send(np.ascontiguousarray(frame))

    def close(self) -> None:
        """Finish the file."""
        if self._writer is not None:
            self._writer.close()
