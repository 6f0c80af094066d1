"""Checkpoints while an agent learns, and one in the end."""

from __future__ import annotations

import logging
from pathlib import Path

from mfec.checkpoint import CheckpointError
from mfec.config import CHECKPOINT_FRAMES
from mfec.interface import Agent, Callback

LOG = logging.getLogger("mfec")


class Checkpoints(Callback):
    """Saves the agent to one directory every so many frames, and when `learn` ends.

    On the way a full disk is a warning, since the run may still find room to finish; in the end it is an error.
    """

    def __init__(self, path: str | Path, *, every_frames: int = CHECKPOINT_FRAMES) -> None:
        if every_frames < 1:
            raise ValueError(f"a checkpoint comes every frame or less often, not every {every_frames}")
        self._path, self._every = Path(path), every_frames
        self._frames = 0

    def on_start(self, agent: Agent, total_frames: int) -> None:
        """Count from here."""
        self._frames = agent.frames

    def on_step(self, agent: Agent) -> None:
        """Save, if it is time to."""
        before, self._frames = self._frames, agent.frames
        if self._frames // self._every > before // self._every:
            try:
                self._save(agent)
            except CheckpointError as error:
                LOG.warning("%s", error)

    def on_end(self, agent: Agent) -> None:
        """Save."""
        self._save(agent)

    def _save(self, agent: Agent) -> None:
        self.callbacks.flush()
        agent.save(self._path)
