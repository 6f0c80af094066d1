"""Runs in processes of their own, and VAEs small enough to be trained in seconds."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from .stopping import HELD, UNTIL_A_SIGNAL

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start_python() -> Iterator[Start]:
    """Starts Python in a process group of its own, as a shell on a terminal does."""
    started = []

    def start(*arguments: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},  # on few cores more threads of torch hold up the runs
        )
        started.append(process)
        return process

    yield start
    for process in started:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
        process.wait()


@pytest.fixture
def start(start_python: Start) -> Start:
    """Starts `mfec train`."""
    return lambda *arguments: start_python("-m", "mfec", "train", *arguments)


@pytest.fixture
def held(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Callable[[int], contextlib.AbstractContextManager[None]]:
    """`held:Cart-v0` and `held:Lake-v0`, a cart pole and a lake: processes that are started inside `held(step)` wait in
    this step until they hear a signal."""
    folder = tmp_path_factory.mktemp("held")
    (folder / "held.py").write_text(HELD)
    (folder / "until_a_signal.py").write_text(UNTIL_A_SIGNAL)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)

    @contextlib.contextmanager
    def at(step: int) -> Iterator[None]:
        with monkeypatch.context() as patch:
            patch.setenv("HOLD_AT", str(step))
            yield

    return at


# A load of a ROM takes 0.1 seconds, and every environment has its own; a step takes some milliseconds.
FEW = {"mfec.envs.random_play.N_ENVS": 3, "mfec.embeddings.vae.training.CHUNK": 10, "mfec.cli.vae.SHOWN_FRAMES": 40}
SMALL = f"""if True:
    import sys
    import mfec.cli.vae, mfec.envs.random_play, mfec.embeddings.vae.training, mfec.experiments.vae
    {"; ".join(f"{name} = {value}" for name, value in FEW.items())}
    mfec.experiments.vae.SAVE_SECONDS = 0.0
    from mfec.cli import main

    Trainer = mfec.embeddings.vae.training.Trainer
    finish_chunk = Trainer.finish_chunk

    def finish_or_wait(trainer):
        if trainer.chunks == 2:
            wait_for_a_signal()
        return finish_chunk(trainer)

    Trainer.finish_chunk = finish_or_wait
"""


@pytest.fixture(scope="module")
def small(one_thread: None) -> Iterator[None]:
    """A random policy in few environments, chunks of few steps, pictures of few frames, torch in one thread."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in FEW.items():
            patch.setattr(name, value)
        yield


@pytest.fixture
def start_small(small: None, start_python: Start) -> Start:
    """Starts a program in a process that is `small` too; trainings there save after every chunk, and wait in their
    third one until they hear a signal."""
    return lambda program, *arguments: start_python("-c", UNTIL_A_SIGNAL + SMALL + program, *arguments)


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory of its own."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
