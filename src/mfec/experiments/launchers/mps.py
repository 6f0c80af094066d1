"""NVIDIA's Multi-Process Service (MPS), for runs that each have a context of their own on one GPU.

Without it their processes take turns: ten runs whose networks learn on an H200 made 2,200 agent steps a second
together, and 7,000 under MPS. A launcher starts a daemon of its own for them and ends it with them; where the user runs
one already, the runs find that one by themselves. A fault of the GPU in one process ends all that share it so; their
runs go on from their checkpoints.

A daemon outlives a launcher that is killed, since the runs that save then still need it. The next launcher that starts
a daemon ends it: a launcher locks the folder of its own, and that of the killed one is locked no more.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from mfec.errors import MfecError
from mfec.experiments.lock import LOCK, locked

CONTROL = "nvidia-cuda-mps-control"  # starts the daemon, and hands it what it reads
PIPES, LOGS = "CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY"
VISIBLE = "CUDA_VISIBLE_DEVICES"
DEFAULT = Path("/tmp/nvidia-mps")  # where a process looks for a daemon unless told otherwise
ROOT, PREFIX = Path("/tmp"), "mfec-mps-"  # not TMPDIR, which may be long: a socket's path has at most 107 characters
MOST_CLIENTS = 48  # processes that a daemon lets on a GPU; what comes later fails
ANSWER_SECONDS = 20.0  # that the daemon is given to begin, to answer, to end
GLANCE_SECONDS = 0.05


class MPSError(MfecError):
    """There is no daemon, and why."""


@contextlib.contextmanager
def shared_gpu() -> Iterator[dict[str, str]]:
    """What the environment of processes must hold so that they share the GPU, as long as this is open.

    Nothing where the user's own daemon serves them. Close it after they have ended.
    """
    if PIPES in os.environ or (DEFAULT.exists() and _answers({})):
        yield {}
        return
    if not shutil.which(CONTROL):
        raise MPSError(f"{CONTROL} is not on the PATH")
    _end_leftovers()
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=ROOT))
    with locked(folder, "start MPS"):
        try:
            yield _start(folder)
        finally:
            _end(folder)


def _start(folder: Path) -> dict[str, str]:
    environment = _environment(folder)
    for each in environment.values():
        Path(each).mkdir()
    _control(environment, "-d")
    until = time.monotonic() + ANSWER_SECONDS
    while not _answers(environment):  # one that cannot open its socket ends only after it was started
        if time.monotonic() >= until:
            raise MPSError("its daemon has started and does not answer")
        time.sleep(GLANCE_SECONDS)
    # The daemon has only the GPUs that are visible here, and those whom it serves count them from 0.
    return {**environment, VISIBLE: "0"} if VISIBLE in os.environ else environment


def _end(folder: Path) -> None:
    """Ask the daemon in this folder to quit, kill it if it does not, and remove the folder."""
    try:
        if _daemon(folder):
            with contextlib.suppress(MPSError):
                _control(_environment(folder), told="quit")
        until = time.monotonic() + ANSWER_SECONDS
        while _daemon(folder) and time.monotonic() < until:
            time.sleep(GLANCE_SECONDS)
    finally:
        if process := _daemon(folder):
            with contextlib.suppress(OSError):
                os.killpg(os.getpgid(process), signal.SIGKILL)  # its servers, too; it is in no group of ours
        shutil.rmtree(folder, ignore_errors=True)


def _end_leftovers() -> None:
    """End the daemons of launchers that were killed."""
    for folder in ROOT.glob(f"{PREFIX}*"):
        with contextlib.suppress(MfecError, OSError):  # in use, or just removed
            if folder.lstat().st_uid == os.getuid() and (folder / LOCK).exists():
                with locked(folder, "end MPS"):
                    _end(folder)


def _environment(folder: Path) -> dict[str, str]:
    return {PIPES: str(folder / "pipe"), LOGS: str(folder / "log")}


def _daemon(folder: Path) -> int | None:
    """The daemon in this folder while it runs; its number alone could be another process's by now."""
    try:
        process = int((folder / "pipe" / f"{CONTROL}.pid").read_text())
        return process if CONTROL.encode() in Path(f"/proc/{process}/cmdline").read_bytes() else None
    except (OSError, ValueError):
        return None


def _answers(environment: dict[str, str]) -> bool:
    try:
        _control(environment, told="get_server_list")
    except MPSError:
        return False
    return True


def _control(environment: dict[str, str], *options: str, told: str = "") -> None:
    """Start a daemon (-d), or tell one something; an error where that does not go well."""
    with tempfile.TemporaryFile("w+") as file:  # a pipe would stay open as long as a daemon that has inherited it
        try:
            status = subprocess.run(
                [CONTROL, *options], input=f"{told}\n", text=True, stdout=file, stderr=file, timeout=ANSWER_SECONDS,
                env={**os.environ, **environment}, start_new_session=True,  # Ctrl-C is not for the daemon
            ).returncode  # fmt: skip
        except subprocess.TimeoutExpired:
            raise MPSError(f"{CONTROL} did not answer within {ANSWER_SECONDS:.0f} seconds") from None
        except OSError as error:
            raise MPSError(f"{CONTROL} cannot be started: {error.strerror}") from None
        file.seek(0)
        said = " ".join(file.read().split())
    if status or "Cannot find MPS control daemon" in said:  # some versions say that and end with status 0
        raise MPSError(f"{CONTROL} says: {said}" if said else f"{CONTROL} ended with status {status}")
