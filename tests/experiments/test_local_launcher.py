"""Many runs on this machine: what is skipped, what goes on, what fails, and what that does to the others."""

from __future__ import annotations

import io
import os
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from mfec.algorithms import RunConfig
from mfec.algorithms.mfec import MFECConfig
from mfec.config import EnvConfig, EvaluationConfig
from mfec.experiments.grid import grid_folder
from mfec.experiments.launchers.local import LocalLauncher
from mfec.experiments.lock import locked
from mfec.experiments.many_runs import Run, State, TrainingOptions, look_at, saved_frames, train_runs
from mfec.experiments.ram import needs_of
from mfec.experiments.train import train
from mfec.history import History
from mfec.run_directory import RunDirectory, RunDirectoryError

from ..waiting import wait_until
from .stopping import outcome, stopped_after

LAKE = RunConfig("FrozenLake-v1", 600, agent=MFECConfig(capacity=100, embedding="identity"))
SEARCHED = replace(LAKE, agent=replace(LAKE.agent, index="cuda"))  # as on a GPU, but on the CPU
OPTIONS = TrainingOptions(resume=True, checkpoint_frames=200)


def seeds_of(config: RunConfig, out: Path, *seeds: int) -> list[Run]:
    return [Run(f"seed {seed}", replace(config, seed=seed), out / f"seed-{seed}") for seed in seeds]


def train_here(runs: Sequence[Run], *, jobs: int = 2, options: TrainingOptions = OPTIONS) -> str:
    """What was said."""
    said = io.StringIO()
    train_runs(runs, LocalLauncher(jobs=jobs, options=options), console=Console(file=said, width=200))
    return said.getvalue()


def train_alone(config: RunConfig, out: Path, *, keep_frames: bool = False) -> Path:
    train(config, out, checkpoint_frames=200, keep_frames=keep_frames, console=Console(file=io.StringIO()))
    return out


def states(runs: Sequence[Run]) -> list[State]:
    return [run.state for run in runs]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run LAKE, trained alone."""
    return train_alone(LAKE, tmp_path_factory.mktemp("finished") / "run")


# -- Again and again --------------------------------------------------------------------------------------------------


def test_finished_runs_are_skipped_partial_ones_go_on_and_new_ones_begin(tmp_path, finished):
    """Those that share a device come first; frames are kept where there are some."""
    qbert = replace(SEARCHED, env="qbert", total_frames=800, environment=EnvConfig(max_frames=300))
    qbert = replace(qbert, agent=replace(qbert.agent, embedding="auto"))
    new, old, partial = runs = [
        Run("new", replace(LAKE, seed=1), tmp_path / "new"),
        Run("old", LAKE, tmp_path / "old"),
        Run("partial", qbert, tmp_path / "partial"),
    ]
    shutil.copytree(finished, old.out)
    before = (old.out / "checkpoint" / "manifest.json").stat().st_mtime_ns
    with stopped_after(110):
        train_alone(qbert, partial.out, keep_frames=True)
    said = train_here(runs, options=replace(OPTIONS, keep_frames=True))
    assert states(runs) == ["finished"] * 3
    assert said.splitlines()[0].endswith("/2,000 frames  0/s  runs: 2 waiting, 1 finished")
    assert said.splitlines()[-1].startswith("2,000/2,000 frames")

    assert (old.out / "checkpoint" / "manifest.json").stat().st_mtime_ns == before
    assert not old.log.exists()
    assert "going on from frame 440" in partial.log.read_text()
    assert "going on" not in new.log.read_text()
    assert outcome(new.out) == outcome(train_alone(new.config, tmp_path / "alone" / "new"))
    assert outcome(partial.out) == outcome(train_alone(qbert, tmp_path / "alone" / "partial", keep_frames=True))
    assert {run.name for run in runs if History(run.out / "history").with_frames} == {"partial"}
    ended, begun = partial.out / "checkpoint" / "manifest.json", new.out / "config.toml"
    assert ended.stat().st_mtime_ns < begun.stat().st_mtime_ns


@pytest.mark.parametrize(("change", "state"), [
    ({}, "finished"),
    ({"total_frames": 900}, "waiting"),
    ({"agent": replace(LAKE.agent, k=3)}, "waiting"),  # it says itself that it cannot go on
    ({"evaluation": EvaluationConfig(evaluate_every=600, evaluate_games=1)}, "waiting"),  # a stop has cut the last one
])  # fmt: skip
def test_a_run_is_finished_if_it_is_this_one_with_all_it_was_asked_for(finished, change, state):
    run = Run("run", replace(LAKE, **change), finished)
    look_at(run, resume=True)
    assert run.state == state


@pytest.mark.parametrize("text", [None, "", "{}", '{"state": {}}', '{"state": {"frames": null}}', "[1]"])
def test_a_checkpoint_that_cannot_be_read_has_no_frames(tmp_path, text):
    (tmp_path / "checkpoint").mkdir()
    if text is not None:
        (tmp_path / "checkpoint" / "manifest.json").write_text(text)
    assert saved_frames(RunDirectory(tmp_path)) == 0


# -- Failures ---------------------------------------------------------------------------------------------------------


# None of them can be made in the process of the launcher, which looks at their memory: there is no MFEC_THREADS.
LAKES = """
import os, signal, threading, time
import gymnasium
from gymnasium.envs.toy_text import FrozenLakeEnv
from mfec.terminal import LOG

class Lake(FrozenLakeEnv):
    def __init__(self, fault, **given):
        super().__init__(**given)
        os.write(1, f"threads: {os.environ['OMP_NUM_THREADS']} {os.environ['MFEC_THREADS']}\\n".encode())
        self.fault = fault
        if fault == "hangs":
            threading.Thread(target=time.sleep, args=(3600,)).start()

    def reset(self, **given):
        if self.fault == "hangs":
            LOG.warning("the ice is thin")
        return super().reset(**given)

    def step(self, action):
        if self.fault == "breaks":
            raise LookupError("the ice is broken")
        if self.fault == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        return super().step(action)

for fault in ("hangs", "breaks", "killed"):
    gymnasium.register(f"Lake-{fault}-v0", entry_point=Lake, kwargs={"fault": fault}, max_episode_steps=100)
"""


@pytest.fixture(scope="module")
def troubled(tmp_path_factory: pytest.TempPathFactory, finished: Path) -> tuple[dict[str, Run], str]:
    """Runs that something is wrong with, one after the other, and what was said."""
    out = tmp_path_factory.mktemp("troubled")
    (out / "lakes.py").write_text(LAKES)
    shutil.copytree(finished, out / "taken")
    large = replace(SEARCHED, total_frames=10**14, agent=replace(SEARCHED.agent, capacity=10**12))
    configs = {"taken": LAKE, "large": large}
    configs |= {name: replace(LAKE, env=f"lakes:Lake-{name}-v0") for name in ("hangs", "breaks", "killed")}
    runs = {name: Run(name, config, out / name) for name, config in configs.items()}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mfec.experiments.launchers.local.EXIT_SECONDS", 0.5)
        patch.syspath_prepend(str(out))
        patch.setenv("PYTHONPATH", str(out), prepend=os.pathsep)
        patch.setenv("OMP_NUM_THREADS", "3")
        patch.delenv("MFEC_THREADS", raising=False)
        said = train_here(list(runs.values()), jobs=1, options=TrainingOptions(checkpoint_frames=200))
        assert "MFEC_THREADS" not in os.environ
    return runs, said


def test_a_run_that_breaks_fails_and_its_log_has_the_traceback(troubled):
    run = troubled[0]["breaks"]
    assert run.state == "failed"
    assert "raised LookupError: the ice is broken (lakes.py, line " in run.reason
    log = run.log.read_text()
    assert 'raise LookupError("the ice is broken")' in log
    assert log.count("Traceback") == 1
    assert log.splitlines()[-1].endswith(f"failed: {run.reason}")


def test_a_run_whose_process_is_killed_fails_and_its_log_says_so(troubled):
    run = troubled[0]["killed"]
    assert (run.state, run.reason) == ("failed", "its process ended with status -9")
    assert run.log.read_text().splitlines()[-1] == "its process ended with status -9"


def test_a_run_whose_process_hangs_at_its_end_is_finished_and_keeps_no_other_from_beginning(troubled):
    runs, said = troubled
    assert runs["hangs"].state == "finished"
    assert "hangs: its process did not exit" in said


def test_what_a_run_logs_is_said_with_its_name(troubled):
    runs, said = troubled
    assert "hangs: the ice is thin\n" in said
    assert "the ice is thin\n" in runs["hangs"].log.read_text()


def test_a_run_has_one_thread_of_each_kind_unless_the_user_has_set_others(troubled):
    """And what is not said by Python is in its log, too."""
    assert "threads: 3 1\n" in troubled[0]["breaks"].log.read_text()


def test_without_resume_a_directory_that_holds_a_run_is_the_failure_of_that_run_alone(troubled, finished):
    runs, said = troubled
    run = runs["taken"]
    assert run.state == "failed"
    assert f"taken failed: {run.out} already holds a run: --resume goes on with it" in said
    before = {file.relative_to(finished): file.read_bytes() for file in finished.rglob("*") if file.is_file()}
    assert {file.relative_to(run.out): file.read_bytes() for file in run.out.rglob("*") if file.is_file()} == before


def test_a_run_that_cannot_fit_is_refused_with_a_sentence(troubled):
    run = troubled[0]["large"]
    assert run.state == "failed"
    assert run.reason.startswith("memory: 4 x 1,000,000,000,000 entries need up to ")
    assert run.reason.endswith("or --ignore-memory-limit to start all the same")
    assert not run.out.exists()


# -- Room, and stopping -----------------------------------------------------------------------------------------------


def test_runs_begin_as_memory_goes_and_asked_to_stop_they_save_and_no_other_begins(tmp_path, monkeypatch):
    """Three are asked for at a time, and two fit."""
    endless = replace(LAKE, total_frames=10**7)
    monkeypatch.setattr("mfec.experiments.launchers.local.physical_ram", lambda: int(2.9 * needs_of(endless).ram))
    runs = seeds_of(endless, tmp_path, 0, 1, 2)
    launcher = LocalLauncher(jobs=3, options=OPTIONS)
    launcher.start(runs, Console(quiet=True))
    said: list[str] = []

    def watch() -> None:
        said.extend(launcher.watch(0.05))

    wait_until(lambda: RunDirectory(runs[0].out).has_checkpoint or not launcher.busy, "a checkpoint", between=watch)
    assert states(runs) == ["running", "running", "waiting"]
    assert len(said) == 1
    assert said[0].startswith("3 runs side by side can come to need ")
    assert said[0].endswith(": 2 at a time, though 3 may run")
    launcher.stop()
    wait_until(lambda: not launcher.busy, "the end of all runs", between=watch)
    launcher.close()
    assert states(runs) == ["stopped"] * 3
    assert saved_frames(RunDirectory(runs[0].out)) > 0
    assert runs[0].log.read_text().splitlines()[-1].endswith(", stopped")
    assert not runs[2].out.exists()


def test_senseless_options_are_refused():
    with pytest.raises(ValueError, match="jobs must be at least 1, not 0"):
        LocalLauncher(jobs=0, options=OPTIONS)
    with pytest.raises(ValueError, match="checkpoint_frames must be at least 1, not 0"):
        TrainingOptions(checkpoint_frames=0)
    with pytest.raises(ValueError, match="the limit of kept frames must be above 0 gigabytes, not 0"):
        TrainingOptions(frames_limit_gb=0)


# -- One at a time in a folder ----------------------------------------------------------------------------------------


def test_two_grids_do_not_work_in_the_same_folder(tmp_path):
    with (
        locked(tmp_path),
        pytest.raises(RunDirectoryError, match=rf"in use by process {os.getpid()} on "),
        grid_folder(tmp_path, "asked"),
    ):
        pass
    assert not (tmp_path / "grid.toml").exists()


def test_a_folder_that_cannot_be_is_refused_in_a_sentence(tmp_path):
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(RunDirectoryError, match="cannot begin a grid in "), grid_folder(tmp_path / "file" / "grid", ""):
        pass
