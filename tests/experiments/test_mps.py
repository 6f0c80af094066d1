"""Runs that share a GPU through MPS: whose daemon serves them, what is said without one, and that none stays behind.

There is no GPU here: the control of the daemon is a program that does as NVIDIA's does, and the runs say what they see.
"""

from __future__ import annotations

import contextlib
import io
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from mfec.algorithms import RunConfig, algorithm
from mfec.config import Settings
from mfec.experiments.launchers import mps
from mfec.experiments.launchers.local import LocalLauncher
from mfec.experiments.launchers.mps import CONTROL, LOGS, PIPES, VISIBLE, shared_gpu
from mfec.experiments.lock import LOCK
from mfec.experiments.many_runs import Run, TrainingOptions, train_runs
from mfec.experiments.ram import CONTEXT_BYTES, DEVICE_SCRATCH

from ..waiting import PATIENCE, wait_until
from .conftest import Start

# Its daemon keeps the output that it inherits, and its pid file goes when it quits.
FAKE = f"""#!/bin/sh
pid="${{{PIPES}:-$FAKE_DEFAULT}}/{CONTROL}.pid"
if [ "$1" = -d ]; then
    echo "started" >> "$FAKE_RECORD"
    [ "$FAKE_FAULT" = fails ] && echo "no device" && exit 1
    [ "$FAKE_FAULT" = "ends at once" ] && exit 0
    [ -d "${LOGS}" ] || exit 3
    (while :; do sleep 1; done) &
    echo $! > "$pid"
    exit 0
fi
read told
echo "$told" >> "$FAKE_RECORD"
if ! kill -0 "$(cat "$pid")" 2> /dev/null; then echo "Cannot find MPS control daemon process"; exit 0; fi
if [ "$told" = quit ]; then
    [ "$FAKE_FAULT" = hangs ] && exec sleep 3600
    kill -9 "$(cat "$pid")"
    rm "$pid"
fi
"""

# An algorithm of another package: its runs do not need what they say that they compute on, and end with what they see.
SEES = f"""
import os, pathlib, signal
from mfec.algorithms import Algorithm
from mfec.errors import MfecError

class Sees(Algorithm):
    name, label = "sees", "Sees"

    def make(self, env, config, *, out=None, device=None):
        pipes = os.environ.get("{PIPES}")
        there = bool(pipes) and pathlib.Path(pipes, "{CONTROL}.pid").exists()
        if config.seed >= 100:
            (out / "begun").touch()
            signal.pause()  # until it is asked to stop
        raise MfecError(f"{{pipes}} {{there}}")
"""
ROOT = mps.ROOT
ALL_AT_ONCE = TrainingOptions(ignore_memory_limit=True)


@pytest.fixture(autouse=True)
def _sees(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The algorithm `sees`, here and in the processes of runs."""
    place = tmp_path / "site"
    (place / "sees-1.dist-info").mkdir(parents=True)
    (place / "sees.py").write_text(SEES)
    (place / "sees-1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: sees\nVersion: 1\n")
    (place / "sees-1.dist-info" / "entry_points.txt").write_text("[mfec.algorithms]\nsees = sees:Sees\n")
    monkeypatch.syspath_prepend(place)
    monkeypatch.setenv("PYTHONPATH", str(place), prepend=os.pathsep)
    algorithm.cache_clear()
    yield
    algorithm.cache_clear()
    sys.modules.pop("sees", None)


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where daemons of launchers are here; nobody else's is seen."""
    folder = tmp_path / "daemons"
    folder.mkdir()
    monkeypatch.setattr(mps, "ROOT", folder)
    monkeypatch.setattr(mps, "DEFAULT", tmp_path / "default")
    monkeypatch.delenv(PIPES, raising=False)
    monkeypatch.delenv(LOGS, raising=False)
    monkeypatch.delenv(VISIBLE, raising=False)
    yield folder
    for file in tmp_path.glob(f"**/{CONTROL}.pid"):
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(file.read_text()), signal.SIGKILL)


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What the control on the PATH was told, line by line."""
    record, program = tmp_path / "told.txt", tmp_path / "bin" / CONTROL
    program.parent.mkdir()
    program.write_text(FAKE)
    program.chmod(0o755)
    record.touch()
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)
    monkeypatch.setenv("FAKE_RECORD", str(record))
    monkeypatch.setenv("FAKE_DEFAULT", str(mps.DEFAULT))
    monkeypatch.delenv("FAKE_FAULT", raising=False)
    return record


def runs_in(out: Path, *seeds: int, device: str = "cuda") -> list[Run]:
    config = RunConfig("FrozenLake-v1", 600, agent=Settings(device=device), algorithm="sees")
    return [Run(f"seed {seed}", replace(config, seed=seed), out / f"seed-{seed}") for seed in seeds]


def train_here(runs: Sequence[Run], *, jobs: int = 2) -> str:
    """What was said."""
    said = io.StringIO()
    train_runs(runs, LocalLauncher(jobs=jobs, options=ALL_AT_ONCE), console=Console(file=said, width=300))
    return said.getvalue()


def pid_in(folder: Path) -> int:
    return int((folder / "pipe" / f"{CONTROL}.pid").read_text())


def runs_still(process: int) -> bool:
    """One that has ended, and that nobody has waited for, has no command line."""
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes() != b""
    except OSError:
        return False


# -- Whose daemon -----------------------------------------------------------------------------------------------------


def test_several_runs_find_a_daemon_that_begins_and_ends_with_them(tmp_path, told, place, monkeypatch):
    """One more than run at a time; the environment of this process stays as it is."""
    monkeypatch.setenv(LOGS, "/of/the/user")
    before = dict(os.environ)
    runs = runs_in(tmp_path, 0, 1, 2)
    assert "take turns" not in train_here(runs)
    assert dict(os.environ) == before
    [seen] = {run.reason for run in runs}
    pipes, there = seen.split()
    assert Path(pipes).is_relative_to(place)
    assert there == "True"
    assert told.read_text().split() == ["started", "get_server_list", "quit"]
    assert list(place.iterdir()) == []


@pytest.mark.parametrize(("seeds", "jobs", "device"), [((0,), 2, "cuda"), ((0, 1), 1, "cuda"), ((0, 1), 2, "cpu")])
def test_runs_with_nobody_beside_them_on_a_gpu_get_no_daemon(tmp_path, told, seeds, jobs, device):
    runs = runs_in(tmp_path, *seeds, device=device)
    assert "take turns" not in train_here(runs, jobs=jobs)
    assert {run.reason for run in runs} == {"None False"}
    assert told.read_text() == ""


def test_a_daemon_that_the_environment_names_is_left_alone(tmp_path, told, monkeypatch):
    monkeypatch.setenv(PIPES, "/of/the/user")
    runs = runs_in(tmp_path, 0, 1)
    assert "take turns" not in train_here(runs)
    assert {run.reason for run in runs} == {"/of/the/user False"}
    assert told.read_text() == ""


@pytest.mark.parametrize("answers", [True, False])
def test_a_daemon_where_everybody_looks_is_left_alone_if_it_answers(tmp_path, told, answers):
    pipes = mps.DEFAULT
    pipes.mkdir()
    if answers:
        theirs = {**os.environ, PIPES: str(pipes), LOGS: str(pipes)}
        subprocess.run([CONTROL, "-d"], env=theirs, stdout=subprocess.DEVNULL, check=True)
    with shared_gpu() as environment:
        assert (environment == {}) == answers
    if answers:
        assert runs_still(int((pipes / f"{CONTROL}.pid").read_text()))
        assert told.read_text().split() == ["started", "get_server_list"]


def test_paths_of_sockets_are_short_wherever_temporary_files_go(tmp_path, told, monkeypatch):
    monkeypatch.setattr(mps, "ROOT", ROOT)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with shared_gpu() as environment:
        assert len(f"{environment[PIPES]}/control_privileged") < 60
        assert pid_in(Path(environment[PIPES]).parent)
    assert not Path(environment[PIPES]).parent.exists()


def test_the_gpu_that_is_visible_to_the_daemon_is_the_first_of_its_runs(told, monkeypatch):
    """Of one that is not there they would find nothing."""
    with shared_gpu() as environment:
        assert VISIBLE not in environment
    monkeypatch.setenv(VISIBLE, "2")
    with shared_gpu() as environment:
        assert environment[VISIBLE] == "0"
    assert os.environ[VISIBLE] == "2"


# -- Without one ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("fault", "why"), [
    ("is missing", f"{CONTROL} is not on the PATH"),
    ("fails", f"{CONTROL} says: no device"),
    ("ends at once", ""),
])  # fmt: skip
def test_without_a_daemon_runs_go_on_and_one_sentence_says_what_that_means(
    tmp_path, told, place, monkeypatch, fault, why
):
    monkeypatch.setenv("FAKE_FAULT", fault)
    if fault == "is missing":
        monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    if fault == "ends at once":
        monkeypatch.setattr(mps, "ANSWER_SECONDS", 1.0)
    runs = runs_in(tmp_path, 0, 1, 2)
    said = train_here(runs)
    assert said.count("the runs take turns on the GPU, at about a third of their speed under NVIDIA's MPS: ") == 1
    assert why in said
    assert {run.reason for run in runs} == {"None False"}
    assert list(place.iterdir()) == []


# -- Ends -------------------------------------------------------------------------------------------------------------

PROGRAM = """
import sys
from pathlib import Path
from rich.console import Console
from mfec.algorithms import RunConfig
from mfec.config import Settings
from mfec.experiments.launchers import mps
from mfec.experiments.launchers.local import LocalLauncher
from mfec.experiments.many_runs import Run, TrainingOptions, train_runs

mps.ROOT, mps.DEFAULT, out = map(Path, sys.argv[1:])
config = RunConfig("FrozenLake-v1", 600, 100, Settings(device="cuda"), algorithm="sees")
launcher = LocalLauncher(jobs=2, options=TrainingOptions(ignore_memory_limit=True))
train_runs([Run(name, config, out / name) for name in ("a", "b")], launcher, console=Console(quiet=True))
"""


@pytest.fixture
def launched(tmp_path: Path, told: Path, place: Path, start_python: Start) -> tuple[subprocess.Popen[str], Path]:
    """A process with a launcher whose runs have begun, and the folder of its daemon."""
    process = start_python("-c", PROGRAM, str(place), str(mps.DEFAULT), str(tmp_path))
    begun = [tmp_path / name / "begun" for name in ("a", "b")]
    wait_until(lambda: all(file.exists() for file in begun) or process.poll() is not None, "the runs")
    [folder] = place.iterdir()
    assert runs_still(pid_in(folder))
    return process, folder


def test_ctrl_c_ends_the_daemon_after_the_runs(launched, place):
    process, folder = launched
    daemon = pid_in(folder)
    os.killpg(process.pid, signal.SIGINT)
    process.communicate(timeout=PATIENCE)
    assert not runs_still(daemon)
    assert list(place.iterdir()) == []


def test_a_launcher_ends_the_daemon_of_one_that_was_killed(launched, place):
    process, folder = launched
    daemon = pid_in(folder)
    process.kill()
    process.communicate(timeout=PATIENCE)
    assert runs_still(daemon)
    with shared_gpu() as environment:
        assert not runs_still(daemon)
        assert list(place.iterdir()) == [Path(environment[PIPES]).parent]


def test_a_launcher_leaves_the_daemon_of_another_alone(told):
    with shared_gpu() as first:
        with shared_gpu() as second:
            assert first != second
        assert runs_still(pid_in(Path(first[PIPES]).parent))


def test_a_process_that_has_got_the_number_of_a_daemon_is_not_ended(told, place):
    left = place / f"{mps.PREFIX}left"
    (left / "pipe").mkdir(parents=True)
    (left / LOCK).touch()
    with subprocess.Popen(["sleep", "3600"]) as other:
        (left / "pipe" / f"{CONTROL}.pid").write_text(str(other.pid))
        with shared_gpu():
            assert not left.exists()
        assert other.poll() is None
        other.kill()


def test_a_daemon_that_does_not_quit_is_killed(told, place, monkeypatch):
    monkeypatch.setenv("FAKE_FAULT", "hangs")
    with shared_gpu() as environment:
        daemon = pid_in(Path(environment[PIPES]).parent)
        monkeypatch.setattr(mps, "ANSWER_SECONDS", 0.5)
    wait_until(lambda: not runs_still(daemon), "the end of the daemon")
    assert list(place.iterdir()) == []


def test_an_error_ends_the_daemon_too(tmp_path, told, place):
    class Full(io.StringIO):
        def write(self, text: str) -> int:
            if (tmp_path / "seed-100" / "begun").exists():
                raise OSError("no space left on device")
            return len(text)

    runs = runs_in(tmp_path, 100, 101)
    launcher = LocalLauncher(jobs=2, options=ALL_AT_ONCE)
    with pytest.raises(OSError, match="no space left"):
        train_runs(runs, launcher, console=Console(file=Full(), width=200))
    assert {run.state for run in runs} == {"stopped"}
    assert told.read_text().split()[-1] == "quit"
    assert list(place.iterdir()) == []


# -- How many at a time -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", ["memory", "clients"])
def test_as_many_begin_as_the_gpu_takes(tmp_path, told, monkeypatch, limit):
    """Of three that are asked for two fit, or are let in."""
    if limit == "clients":
        monkeypatch.setattr("mfec.experiments.launchers.local.MOST_CLIENTS", 2)
    free = int((2.5 if limit == "memory" else 9.0) * CONTEXT_BYTES) + DEVICE_SCRATCH
    monkeypatch.setattr("mfec.experiments.launchers.local.free_on_device", lambda: free)
    monkeypatch.setattr("mfec.experiments.launchers.local.physical_ram", lambda: 10**15)
    runs = runs_in(tmp_path, 100, 101, 102)
    launcher = LocalLauncher(jobs=3, options=TrainingOptions())
    with contextlib.closing(launcher):
        launcher.start(runs, Console(quiet=True))
        said = [*launcher.watch(0.0), *launcher.watch(0.0)]
        assert [run.state for run in runs] == ["running", "running", "waiting"]
        assert len(said) == (limit == "memory")
        assert all("3 runs side by side can come to need " in each and " of the GPU" in each for each in said)
