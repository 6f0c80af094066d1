"""One of many runs, in a process of its own: it says everything into its log and tells what became of it."""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import os
import socket
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from multiprocessing import connection
from multiprocessing.connection import Connection
from pathlib import Path
from types import FrameType
from typing import Any, TextIO

from rich.console import Console

from mfec.algorithms import RunConfig
from mfec.callbacks import Callback, Stopped
from mfec.device import Channel
from mfec.device.service import PipeChannel
from mfec.envs.crashes import EnvironmentCrash, their_traceback
from mfec.errors import MfecError
from mfec.experiments.many_runs import LOG, Run, State, TrainingOptions
from mfec.experiments.stopping import ASK_TO_STOP, handled, hear_at_once, start_unheard
from mfec.interface import Agent
from mfec.terminal import LOG as MESSAGES
from mfec.terminal import LogTo


def start_run(run: Run, options: TrainingOptions, environment: dict[str, str]) -> tuple[Any, Connection[Any, Any]]:
    """A process that trains this run, and the pipe from which it is heard.

    It has one thread for everything that would take more: the runs share the cores already. environment: variables that
    it has beside those of this process.
    """
    context = multiprocessing.get_context("spawn")  # a fork of a process that has a GPU would break
    ours, theirs = context.Pipe()
    process = context.Process(target=_play, args=(theirs, run.config, run.out, options))
    threads = {"OMP_NUM_THREADS": "1", "MFEC_THREADS": "1"}
    with _environment({**threads, **os.environ, **environment}):  # before it imports anything
        start_unheard(process)
    theirs.close()
    return process, ours


def _play(pipe: Connection[Any, Any], config: RunConfig, out: Path, options: TrainingOptions) -> None:
    """What such a process does."""

    def tell(*message: Any) -> None:
        with contextlib.suppress(OSError):  # nobody listens any more
            pipe.send(message)

    os.setpgid(0, 0)  # a terminal's Ctrl-C, which all processes hear, and the parent's word would be two requests
    hear_at_once()
    _stop_when_parent_exits()
    outcome: tuple[State, str]
    try:
        out.mkdir(parents=True, exist_ok=True)
        with (out / LOG).open("a") as log:
            for descriptor in (1, 2):  # also what is not said by Python
                os.dup2(log.fileno(), descriptor)
        device = PipeChannel(pipe, config.agent.device) if config.kind.shares_device(config) else None
        outcome = train_one(config, out, options, device=device, say=lambda message: tell("say", message))
    except OSError as error:
        outcome = "failed", f"cannot begin a run in {out}: {error}"
    tell("ended", *outcome)
    pipe.close()


def train_one(
    config: RunConfig,
    out: Path,
    options: TrainingOptions,
    *,
    device: Channel | None = None,
    say: Callable[[str], None] | None = None,
) -> tuple[State, str]:
    """Train the run in this process; what became of it, and the reason if it failed.

    Asked to stop by a signal it saves and stops, so it must be called in the main thread. A directory that cannot be
    made or written to is an `OSError`. say: is told the run's messages, which are in its log as well.
    """
    out.mkdir(parents=True, exist_ok=True)
    with (
        (out / LOG).open("a", buffering=1) as log,
        contextlib.redirect_stdout(log),
        contextlib.redirect_stderr(log),
    ):
        _note(log, f"process {os.getpid()} on {socket.gethostname()}")
        state, reason = _train(config, out, options, device, _LogDisplay(log, say), log)
        _note(log, f"{state}: {reason}" if reason else state)
    return state, reason


def _train(
    config: RunConfig, out: Path, options: TrainingOptions, device: Channel | None, display: _LogDisplay, log: TextIO
) -> tuple[State, str]:
    try:
        # While there is nothing to save, a request to stop is heeded at once; then the training itself listens.
        with handled(_stop):
            from mfec.experiments.train import has_frames_to_keep, train

            train(
                config,
                out,
                resume=options.resume,
                checkpoint_frames=options.checkpoint_frames,
                keep_frames=options.keep_frames and has_frames_to_keep(config),
                frames_limit_gb=options.frames_limit_gb,
                ignore_memory_limit=options.ignore_memory_limit,
                console=Console(file=log, width=200),
                device=device,
                display=display,
                patience=options.patience,
            )
    except Stopped:
        return "stopped", ""
    except KeyboardInterrupt:
        return "stopped at once", ""
    except EnvironmentCrash as crash:
        print(their_traceback(crash), file=log, end="")
        if os.environ.get("MFEC_TRACEBACK"):
            traceback.print_exc(file=log)
        return "failed", in_a_line(crash)
    except Exception as error:
        traceback.print_exc(file=log)
        return "failed", in_a_line(error)
    return "finished", ""


class _LogDisplay(Callback):
    """Writes down what a run says, but no progress: that stands in its tables."""

    def __init__(self, log: TextIO, say: Callable[[str], None] | None) -> None:
        self._log = log
        self._say = say
        self._handler = LogTo(self.say)
        self._level = MESSAGES.level

    def on_start(self, agent: Agent, total_frames: int) -> None:
        """Listen."""
        MESSAGES.setLevel(logging.INFO)
        MESSAGES.addHandler(self._handler)

    def close(self) -> None:
        """Listen no more."""
        MESSAGES.removeHandler(self._handler)
        MESSAGES.setLevel(self._level)

    def say(self, message: str) -> None:
        """A line."""
        self._log.write(f"{message}\n")
        if self._say:
            self._say(message)


def in_a_line(error: BaseException) -> str:
    """What an error says, in one line; with its kind, if it is none for people."""
    said = " ".join(str(error).split())
    for_people = isinstance(error, (MfecError, ImportError, MemoryError, OSError, ValueError))
    return said if said and for_people else f"{type(error).__name__}: {said}".rstrip(": ")


def _stop_when_parent_exits() -> None:
    """Save and stop where the parent was killed: nobody would know of this process any more."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def wait() -> None:
        connection.wait([parent.sentinel])
        os.kill(os.getpid(), ASK_TO_STOP)

    threading.Thread(target=wait, daemon=True).start()


@contextlib.contextmanager
def _environment(values: dict[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(values)
    try:
        yield
    finally:
        for name in values.keys() - before.keys():
            del os.environ[name]
        os.environ.update(before)


def _stop(number: int, frame: FrameType | None) -> None:
    raise Stopped


def _note(log: TextIO, what: str) -> None:
    log.write(f"-- {time.strftime('%Y-%m-%d %H:%M:%S')}, {what}\n")
