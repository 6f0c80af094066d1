"""TensorBoard events, where the extra `tensorboard` is installed."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Any


class TensorBoard:
    """Writes scalars as TensorBoard events; without the extra it does nothing."""

    def __init__(self, directory: Path) -> None:
        self._writer: Any = None
        if importlib.util.find_spec("tensorboard") is None:
            return
        from tensorboard.compat.proto import event_pb2, summary_pb2
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        self._event, self._summary = event_pb2.Event, summary_pb2.Summary
        self._writer = EventFileWriter(str(directory))

    def write(self, frames: int, scalars: Mapping[str, Any]) -> None:
        """One event for each number, at this frame."""
        if self._writer is None:
            return
        values = [
            self._summary.Value(tag=f"mfec/{name}", simple_value=float(value))
            for name, value in scalars.items()
            if name != "frames" and value != ""
        ]
        self._writer.add_event(self._event(step=frames, summary=self._summary(value=values)))

    def close(self) -> None:
        """Flush and close."""
        if self._writer is not None:
            self._writer.close()
