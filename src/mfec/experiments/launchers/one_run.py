"""One run of a grid in this process: everything that it says goes into its log, and what became of it is returned."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import time
import traceback
from pathlib import Path
from types import FrameType, TracebackType
from typing import Self, TextIO

from rich.console import Console

from mfec.callback import Learner
from mfec.config import RunConfig
from mfec.errors import MfecError
from mfec.experiments.display import LOG as MESSAGES
from mfec.experiments.display import LogTo
from mfec.experiments.launchers import LOG, HowToTrain, State
from mfec.experiments.stopping import Stopped, handled
from mfec.experiments.whole_games import Evaluation

# An orphan of a grid that was killed needs seconds to save; the lock of a node that died, a minute and a half on NFS.
PATIENCE_SECONDS = 120.0


def train_one(config: RunConfig, out: Path, how: HowToTrain) -> tuple[State, str]:
    """Begin the run, or go on with it; what became of it, and the reason if it failed.

    Asked to stop by a signal it saves and stops, so it must be called in the main thread. A directory that cannot be
    made or written to is an `OSError`.
    """
    out.mkdir(parents=True, exist_ok=True)
    with (
        (out / LOG).open("a", buffering=1) as log,
        contextlib.redirect_stdout(log),
        contextlib.redirect_stderr(log),
    ):
        _note(log, f"process {os.getpid()} on {socket.gethostname()}")
        state, reason = _train(config, out, how, log)
        _note(log, f"{state}: {reason}" if reason else state)
    return state, reason


def _train(config: RunConfig, out: Path, how: HowToTrain, log: TextIO) -> tuple[State, str]:
    try:
        # While there is nothing to save, a request to stop is heeded at once; then the training itself listens.
        with handled(_stop):
            from mfec.experiments.train import has_frames_to_keep, train

            train(
                config,
                out,
                resume=True,
                checkpoint_frames=how.checkpoint_frames,
                keep_frames=how.keep_frames and has_frames_to_keep(config),
                frames_limit_gb=how.frames_limit_gb,
                ignore_memory_limit=how.ignore_memory_limit,
                console=Console(file=log, width=200),
                display=LogDisplay(log),
                patience=PATIENCE_SECONDS,
            )
    except Stopped:
        return "stopped", ""
    except KeyboardInterrupt:
        return "stopped at once", ""
    except Exception as error:
        traceback.print_exc(file=log)
        return "failed", in_a_line(error)
    return "finished", ""


class LogDisplay:
    """Writes down what a run says, but no progress: that stands in its tables."""

    def __init__(self, log: TextIO) -> None:
        self._log = log
        self._handler = LogTo(self.say)

    def __enter__(self) -> Self:
        self._level = MESSAGES.level
        MESSAGES.setLevel(logging.INFO)
        MESSAGES.addHandler(self._handler)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        MESSAGES.removeHandler(self._handler)
        MESSAGES.setLevel(self._level)

    def update(self, agent: Learner) -> None:
        """Nothing: see the tables."""

    def evaluated(self, evaluation: Evaluation) -> None:
        """Nothing: see the tables."""

    def say(self, message: str) -> None:
        """A line."""
        self._log.write(f"{message}\n")


def in_a_line(error: BaseException) -> str:
    """What an error says, in one line; with its kind, if it is none for people."""
    said = " ".join(str(error).split())
    for_people = isinstance(error, (MfecError, ImportError, MemoryError, OSError, ValueError))
    return said if said and for_people else f"{type(error).__name__}: {said}".rstrip(": ")


def _stop(number: int, frame: FrameType | None) -> None:
    raise Stopped


def _note(log: TextIO, what: str) -> None:
    log.write(f"-- {time.strftime('%Y-%m-%d %H:%M:%S')}, {what}\n")
