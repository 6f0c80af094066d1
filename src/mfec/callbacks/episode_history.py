"""What happened in every episode: actions, rewards, lost lives, and frames if they are to be kept."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from mfec.config import FRAMES_LIMIT_GB
from mfec.history import HistoryWriter
from mfec.interface import Callback, Steps
from mfec.run_directory import RunDirectoryError

LOG = logging.getLogger("mfec")


class EpisodeHistory(Callback):
    """Writes the episodes of MFEC into a directory, which `mfec inspect` reads.

    Args:
        picture: the shape of frames that are to be kept; None keeps none.
        limit_gb: gigabytes of frames; beyond them, those of episodes that the memory has the least of go.
    """

    def __init__(
        self, directory: str | Path, *, picture: tuple[int, ...] | None = None, limit_gb: float = FRAMES_LIMIT_GB
    ) -> None:
        self._directory, self._picture, self._limit_gb = Path(directory), picture, limit_gb
        self._writer: HistoryWriter | None = None
        self._lost = False  # and that was said

    def on_start(self, agent: Any, total_frames: int) -> None:
        """Write on from what the agent knows of; what was written after it goes."""
        try:
            self._writer = HistoryWriter(
                self._directory,
                picture=self._picture,
                limit_gb=self._limit_gb,
                begun=agent.games_begun,
                in_progress=agent.games_in_progress,
            )
        except OSError as error:
            raise RunDirectoryError(f"cannot write the history of {self._directory.parent}: {error}") from None

    def on_steps(self, agent: Any, steps: Steps) -> None:
        """Hand the steps over."""
        assert self._writer is not None
        self._writer.add(steps)
        if self._writer.full:
            self._writer.drop(agent.memory.buffers.entries_of_episodes())

    def flush(self) -> None:
        """Bring the episodes to the disk; where that fails the run goes on without them."""
        if self._writer is None or self._lost:
            return
        self._writer.flush()
        if self._writer.error is not None:
            self._lost = True
            LOG.warning("cannot write the history: %s; the run goes on without it", self._writer.error)

    def close(self) -> None:
        """Close the files."""
        if self._writer is not None:
            self._writer.close()
