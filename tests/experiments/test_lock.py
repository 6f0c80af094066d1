"""A folder for one process at a time: who holds it is named, and who has died is no obstacle."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mfec.experiments.lock import LOCK, locked
from mfec.run_directory import RunDirectoryError

from ..waiting import PATIENCE

Holder = Callable[..., int]


@pytest.fixture
def start_holder() -> Iterator[Holder]:
    """Starts a process that locks a folder, and does something then; returns when it has the lock."""
    started = []

    def start(folder: Path, then: Callable[[], Any] = lambda: time.sleep(PATIENCE)) -> int:
        ready, ours = os.pipe()
        child = os.fork()
        if child == 0:
            with locked(folder, patience=PATIENCE):
                os.write(ours, b"x")
                then()
            os._exit(0)
        started.append(child)
        assert os.read(ready, 1) == b"x"
        return child

    yield start
    for child in started:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def refused(folder: Path) -> str:
    with pytest.raises(RunDirectoryError) as error, locked(folder):
        pass
    return str(error.value)


def test_a_second_process_is_refused_and_told_of_the_first(tmp_path, start_holder):
    holder = start_holder(tmp_path)
    assert refused(tmp_path) == (
        f"cannot begin a run in {tmp_path}: it is in use by process {holder} on {socket.gethostname()}"
    )
    with locked(tmp_path / "below"), locked(tmp_path / "beside"):  # other folders are other locks
        assert (tmp_path / LOCK).read_text() == f"process {holder} on {socket.gethostname()}\n"


def test_so_is_this_process_itself(tmp_path):
    with locked(tmp_path):
        assert f"in use by process {os.getpid()} on " in refused(tmp_path)
    with locked(tmp_path):
        pass


def test_a_process_that_was_killed_is_no_obstacle(tmp_path, start_holder):
    os.kill(start_holder(tmp_path), signal.SIGKILL)
    with locked(tmp_path, patience=PATIENCE):
        assert (tmp_path / LOCK).read_text().startswith(f"process {os.getpid()} on ")
        assert "in use by" in refused(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_nor_is_a_child_that_it_had_forked(tmp_path, start_holder):
    """An environment may play in processes of its own, which can outlive the one that trained."""
    ready, ours = os.pipe()

    def fork() -> None:
        child = os.fork()
        if child == 0:
            os.write(ours, str(os.getpid()).encode())
        time.sleep(PATIENCE)

    holder = start_holder(tmp_path, fork)
    orphan = int(os.read(ready, 100))
    os.kill(holder, signal.SIGKILL)
    try:
        with locked(tmp_path, patience=PATIENCE):
            os.kill(orphan, 0)  # it is still there
    finally:
        os.kill(orphan, signal.SIGKILL)


def test_a_forked_child_that_ends_unlocks_nothing(tmp_path):
    with locked(tmp_path):
        child = os.fork()
        if child == 0:
            with pytest.raises(SystemExit), locked(tmp_path / "other"):
                raise SystemExit
            os._exit(0)
        os.waitpid(child, 0)
        assert "in use by" in refused(tmp_path)


def test_who_waits_gets_the_folder_when_it_is_left(tmp_path, start_holder):
    """The one who leaves it removes the file that the other waits for."""
    holder = start_holder(tmp_path / "run", lambda: time.sleep(0.3))
    with locked(tmp_path / "run", patience=PATIENCE):
        assert f"process {os.getpid()} on " in refused(tmp_path / "run")
        assert str(holder) not in (tmp_path / "run" / LOCK).read_text()


def test_a_folder_is_made_and_goes_again_if_it_stays_empty(tmp_path):
    with locked(tmp_path / "new" / "run"):
        assert (tmp_path / "new" / "run" / LOCK).exists()
    assert list(tmp_path.iterdir()) == []
    with locked(tmp_path / "new" / "run"):
        (tmp_path / "new" / "file").touch()
    assert [file.name for file in (tmp_path / "new").iterdir()] == ["file"]
    (tmp_path / "mine").mkdir()
    with locked(tmp_path / "mine"):
        pass
    assert (tmp_path / "mine").is_dir()


def test_a_folder_that_cannot_be_is_a_sentence(tmp_path):
    (tmp_path / "taken").touch()
    for folder in (tmp_path / "taken", tmp_path / "taken" / "below"):
        assert refused(folder).startswith(f"cannot begin a run in {folder}: ")


# -- A file system without locks --------------------------------------------------------------------------------------


@pytest.fixture
def without_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(*_: Any) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", flock)


@pytest.mark.usefixtures("without_locks")
def test_without_locks_a_living_process_is_refused_all_the_same(tmp_path):
    with locked(tmp_path):
        assert f"in use by process {os.getpid()} on " in refused(tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("without_locks")
def test_without_locks_a_process_of_this_machine_that_has_died_is_no_obstacle(tmp_path):
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    for left in (f"process {child} on {socket.gethostname()}\n", "", "of another program"):
        (tmp_path / LOCK).write_text(left)
        with locked(tmp_path):
            assert (tmp_path / LOCK).read_text() == f"process {os.getpid()} on {socket.gethostname()}\n"


@pytest.mark.usefixtures("without_locks")
def test_without_locks_nobody_knows_of_another_machine(tmp_path):
    (tmp_path / LOCK).write_text("process 1 on elsewhere\n")
    said = refused(tmp_path)
    assert "in use by process 1 on elsewhere" in said
    assert f"remove {tmp_path / LOCK}" in said
