"""TensorBoard events, where the extra `tensorboard` is installed."""

from __future__ import annotations

import importlib.util
import itertools
import logging
import os
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mfec.callbacks.evaluations import columns_of
from mfec.evaluation import Evaluation
from mfec.interface import Agent, Callback

LOG = logging.getLogger("mfec")
FILES = itertools.count()  # of this process, whose names must differ


class TensorBoard(Callback):
    """Writes rows of progress and evaluations as TensorBoard events; without the extra it does nothing.

    Events are written at once and in this thread. TensorBoard's own writer has a thread, which on a full disk prints a
    traceback and ends the run; here the run is told of it and goes on without events.
    """

    def __init__(self, directory: str | Path) -> None:
        self._directory = Path(directory)
        self._records: Any = None

    def on_start(self, agent: Agent, total_frames: int) -> None:
        """Begin a file of events."""
        if importlib.util.find_spec("tensorboard") is None:
            return
        from tensorboard.compat.proto import event_pb2, summary_pb2
        from tensorboard.summary.writer.record_writer import RecordWriter

        self._event, self._summary = event_pb2.Event, summary_pb2.Summary
        name = f"events.out.tfevents.{int(time.time()):010d}.{socket.gethostname()}.{os.getpid()}.{next(FILES)}"
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            self._records = RecordWriter((self._directory / name).open("wb"))
        except OSError as error:
            self._give_up(error)
        self._add(file_version="brain.Event:2")

    def on_progress(self, agent: Agent, row: dict[str, Any]) -> None:
        """The numbers of the row, under `mfec`."""
        self._write(agent.frames, row, "mfec")

    def on_evaluation(self, agent: Agent, evaluation: Evaluation) -> None:
        """The numbers of the evaluation, under `evaluation`."""
        self._write(agent.frames, columns_of(evaluation), "evaluation")

    def _write(self, frames: int, scalars: Mapping[str, Any], group: str) -> None:
        if self._records is None:
            return
        values = [
            self._summary.Value(tag=f"{group}/{name}", simple_value=float(value))
            for name, value in scalars.items()
            if name != "frames" and value not in ("", None)
        ]
        self._add(step=frames, summary=self._summary(value=values))

    def close(self) -> None:
        """Close the file."""
        if self._records is not None:
            self._records.close()

    def _add(self, **event: Any) -> None:
        if self._records is None:
            return
        try:
            self._records.write(self._event(wall_time=time.time(), **event).SerializeToString())
            self._records.flush()
        except OSError as error:
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        self._records = None
        LOG.warning("cannot write TensorBoard events: %s; the run goes on without them", error)
