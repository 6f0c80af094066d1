"""Many runs on this machine: what is skipped, what goes on, what fails, and what that does to the others."""

from __future__ import annotations

import io
import os
import signal
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from mfec.algorithms import RunConfig
from mfec.algorithms.baselines.settings import DQNConfig
from mfec.algorithms.mfec import MFECConfig
from mfec.config import EnvConfig, EvaluationConfig
from mfec.experiments.grid import grid_folder
from mfec.experiments.launchers.local import LocalLauncher
from mfec.experiments.lock import LOCK, locked
from mfec.experiments.many_runs import Run, State, TrainingOptions, saved_frames, train_runs
from mfec.experiments.ram import needs_of
from mfec.experiments.train import train
from mfec.history import History
from mfec.run_directory import RunDirectory, RunDirectoryError

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


def train_alone(config: RunConfig, out: Path) -> Path:
    train(config, out, checkpoint_frames=200, console=Console(file=io.StringIO()))
    return out


def states(runs: Sequence[Run]) -> list[State]:
    return [run.state for run in runs]


def watch_until_ended(launcher: LocalLauncher, runs: Sequence[Run], then) -> None:
    """Watch until all runs have ended; as soon as the first has saved something, do that once."""
    launcher.start(runs, Console(quiet=True))
    done = False
    while launcher.busy:
        launcher.watch(0.05)
        if not done and RunDirectory(runs[0].out).has_checkpoint:
            then()
            done = True
    launcher.close()


# -- Again and again --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("config", [LAKE, SEARCHED], ids=["processes", "fleet"])
def test_finished_runs_are_skipped_partial_ones_go_on_and_new_ones_begin(tmp_path, config):
    runs = seeds_of(config, tmp_path, 0, 1, 2)
    finished = RunDirectory(train_alone(runs[0].config, runs[0].out))
    with stopped_after(250):
        train_alone(runs[1].config, runs[1].out)
    before = (finished.checkpoint / "manifest.json").stat().st_mtime_ns
    said = train_here(runs)
    assert states(runs) == ["finished"] * 3
    assert said.splitlines()[0].endswith("/1,800 frames  0/s  runs: 2 waiting, 1 finished")
    assert said.splitlines()[-1].startswith("1,800/1,800 frames")

    assert (finished.checkpoint / "manifest.json").stat().st_mtime_ns == before
    assert not runs[0].log.exists()
    assert "going on from frame 250" in runs[1].log.read_text()
    assert "going on" not in runs[2].log.read_text()
    for run in runs:
        assert outcome(run.out) == outcome(train_alone(run.config, tmp_path / "alone" / run.name))


def test_more_frames_go_on_from_where_the_last_runs_ended(tmp_path):
    [run] = seeds_of(LAKE, tmp_path, 3)
    train_alone(run.config, run.out)
    run.config = replace(run.config, total_frames=900)
    train_here([run])
    assert run.state == "finished"
    assert outcome(run.out) == outcome(train_alone(run.config, tmp_path / "alone"))
    assert saved_frames(RunDirectory(run.out)) == 900


def test_a_finished_run_with_other_settings_is_not_taken_for_this_one(tmp_path):
    [run] = seeds_of(LAKE, tmp_path, 0)
    train_alone(run.config, run.out)
    before = {file: file.read_bytes() for file in run.out.rglob("*") if file.is_file()}
    run.config = replace(LAKE, agent=replace(LAKE.agent, k=3))
    train_here([run])
    assert (run.state, run.reason) == ("failed", f"{run.out} was begun with k = 11, it cannot go on with 3")
    assert {file: file.read_bytes() for file in before} == before


def test_a_last_evaluation_that_a_stop_has_cut_short_is_made(tmp_path):
    [run] = seeds_of(LAKE, tmp_path, 0)
    train_alone(run.config, run.out)  # without any
    run.config = replace(LAKE, evaluation=EvaluationConfig(evaluate_every=600, evaluate_games=1))
    train_here([run])
    assert run.state == "finished"
    assert RunDirectory(run.out).evaluations()["frames"] == [600.0]


def test_without_resume_a_directory_that_holds_a_run_is_the_failure_of_that_run_alone(tmp_path):
    runs = seeds_of(LAKE, tmp_path, 0, 1)
    train_alone(runs[0].config, runs[0].out)
    before = {file: file.read_bytes() for file in runs[0].out.rglob("*") if file.is_file()}
    said = train_here(runs, options=TrainingOptions())
    assert states(runs) == ["failed", "finished"]
    assert f"seed 0 failed: {runs[0].out} already holds a run: --resume goes on with it" in said
    assert {file: file.read_bytes() for file in runs[0].out.rglob("*") if file.is_file()} == before


@pytest.mark.parametrize("text", [None, "", "{}", '{"state": {}}', '{"state": {"frames": null}}', "[1]"])
def test_a_checkpoint_that_cannot_be_read_has_no_frames(tmp_path, text):
    (tmp_path / "checkpoint").mkdir()
    if text is not None:
        (tmp_path / "checkpoint" / "manifest.json").write_text(text)
    assert saved_frames(RunDirectory(tmp_path)) == 0


@pytest.mark.parametrize("algorithm", ["mfec", "dqn"])
def test_frames_of_any_learner_are_found_in_its_checkpoint(tmp_path, algorithm):
    quick = DQNConfig(replay_start=50, replay_capacity=100)
    settings = {"mfec": MFECConfig(capacity=100), "dqn": quick}
    config = RunConfig("CartPole-v1", 200, agent=settings.get(algorithm), algorithm=algorithm)
    assert saved_frames(train(config, tmp_path / "run")) == 200


# -- Failures ---------------------------------------------------------------------------------------------------------


BROKEN = """
import os
import gymnasium
from gymnasium.envs.toy_text import FrozenLakeEnv

class Broken(FrozenLakeEnv):
    def __init__(self):
        super().__init__()
        os.write(1, f"threads: {os.environ['OMP_NUM_THREADS']} {os.environ['MFEC_THREADS']}\\n".encode())

    def step(self, action):
        raise LookupError("the ice is broken")

gymnasium.register("Broken-v0", entry_point=Broken)
"""


@pytest.fixture(scope="module")
def failing(tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    """A run that breaks, one that cannot be made, one that cannot fit, and one that is all right.

    The first cannot even be made in this process, where its memory is to be looked at: here are no such variables.
    """
    out = tmp_path_factory.mktemp("failing")
    (out / "broken_lake.py").write_text(BROKEN)
    runs = [
        Run("broken", replace(LAKE, env="broken_lake:Broken-v0"), out / "broken"),
        Run("unknown", replace(LAKE, env="NoSuchLake-v1"), out / "unknown"),
        Run("large", replace(LAKE, agent=replace(LAKE.agent, capacity=10**12)), out / "large"),
        Run("good", LAKE, out / "good"),
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(out), prepend=os.pathsep)
        patch.syspath_prepend(str(out))
        for name in ("OMP_NUM_THREADS", "MFEC_THREADS"):
            patch.delenv(name, raising=False)
        train_here(runs)
    return runs


def test_a_run_that_fails_does_not_stop_the_others(failing):
    assert states(failing) == ["failed", "failed", "failed", "finished"]


def test_the_log_of_a_run_that_breaks_has_everything_with_the_traceback(failing):
    run = failing[0]
    assert run.reason == "LookupError: the ice is broken"
    log = run.log.read_text()
    assert 'raise LookupError("the ice is broken")' in log
    assert log.count("Traceback") == 1
    assert log.splitlines()[-1].endswith("failed: LookupError: the ice is broken")


def test_a_run_has_one_thread_of_each_kind_and_what_is_no_python_is_in_its_log(failing):
    assert "threads: 1 1\n" in failing[0].log.read_text()


def test_bad_settings_fail_with_their_sentence(failing):
    _, unknown, large, _ = failing
    assert unknown.reason.startswith("unknown environment 'NoSuchLake-v1'; did you mean 'FrozenLake-v1'?")
    assert "entries need up to" in large.reason
    assert large.reason.endswith("or --ignore-memory-limit to start all the same")
    assert large.log.read_text().splitlines()[-1].endswith(large.reason)


@pytest.mark.parametrize("config", [LAKE, SEARCHED], ids=["processes", "fleet"])
def test_a_run_whose_process_is_killed_fails_and_its_log_says_so(tmp_path, config):
    runs = seeds_of(config, tmp_path, 0, 1)
    runs[0].config = replace(config, total_frames=10**7)
    launcher = LocalLauncher(jobs=2, options=OPTIONS)
    watch_until_ended(launcher, runs, lambda: os.kill(int((runs[0].out / LOCK).read_text().split()[1]), signal.SIGKILL))
    assert [(run.state, run.reason) for run in runs] == [
        ("failed", "its process ended with status -9"), ("finished", "")
    ]  # fmt: skip
    assert runs[0].log.read_text().splitlines()[-1] == "its process ended with status -9"


@pytest.mark.parametrize("config", [LAKE, SEARCHED], ids=["processes", "fleet"])
def test_a_run_whose_process_hangs_at_its_end_is_finished_and_keeps_no_other_from_beginning(
    tmp_path, monkeypatch, hanging_carts, config
):
    monkeypatch.setattr("mfec.experiments.launchers.local.EXIT_SECONDS", 0.5)
    runs = seeds_of(config, tmp_path / "runs", 0, 1)
    runs[0].config = replace(config, env=hanging_carts, agent=replace(config.agent, embedding="auto"))
    said = train_here(runs, jobs=1)
    assert states(runs) == ["finished", "finished"]
    assert "seed 0: its process did not exit" in said


def test_what_a_run_logs_is_said_with_its_name(tmp_path, monkeypatch):
    """Such as a change of the neighbour index; here, a checkpoint that cannot be written."""
    (tmp_path / "sitecustomize.py").write_text(
        "import mfec.agent\n"
        "from mfec.checkpoint import CheckpointError\n"
        "save, failed = mfec.agent.MFEC.save, []\n"
        "def fail_once(agent, path):\n"
        "    if not failed:\n"
        "        failed.append(1)\n"
        "        raise CheckpointError('the disk is full')\n"
        "    return save(agent, path)\n"
        "mfec.agent.MFEC.save = fail_once\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    [run] = seeds_of(LAKE, tmp_path, 0)
    assert "seed 0: the disk is full\n" in train_here([run])
    assert "the disk is full\n" in run.log.read_text()
    assert run.state == "finished"


# -- Memory -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("config", [LAKE, SEARCHED], ids=["processes", "fleet"])
def test_runs_side_by_side_do_not_come_to_need_more_memory_than_there_is(tmp_path, monkeypatch, config):
    """Three are asked for at a time, and two fit."""
    config = replace(config, total_frames=100)
    monkeypatch.setattr("mfec.experiments.launchers.local.physical_ram", lambda: int(2.9 * needs_of(config).ram))
    runs = seeds_of(config, tmp_path, 0, 1, 2)
    launcher = LocalLauncher(jobs=3, options=OPTIONS)
    launcher.start(runs, Console(quiet=True))
    at_a_time, said = [], []
    while launcher.busy:
        said += launcher.watch(0.02)
        at_a_time.append(sum(run.state == "running" for run in runs))
    launcher.close()
    assert states(runs) == ["finished"] * 3
    assert max(at_a_time) == 2
    assert len(said) == 1
    assert said[0].startswith("3 runs side by side can come to need ")
    assert said[0].endswith(": 2 at a time, though 3 may run")


def test_a_run_of_a_fleet_that_cannot_fit_at_all_is_refused_and_the_others_begin(tmp_path):
    runs = seeds_of(SEARCHED, tmp_path, 0, 1)
    runs[0].config = replace(SEARCHED, total_frames=10**14, agent=replace(SEARCHED.agent, capacity=10**12))
    train_here(runs)
    assert states(runs) == ["failed", "finished"]
    assert runs[0].reason.startswith("memory: 4 x 1,000,000,000,000 entries need up to ")
    assert not runs[0].out.exists()


@pytest.mark.parametrize("jobs", [0, -1])
def test_senseless_options_are_refused(jobs):
    with pytest.raises(ValueError, match=f"jobs must be at least 1, not {jobs}"):
        LocalLauncher(jobs=jobs, options=OPTIONS)
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


# -- Runs of all kinds ------------------------------------------------------------------------------------------------


def test_runs_that_share_a_device_come_first_and_frames_are_kept_where_there_are_some(tmp_path):
    """A run without pictures, or of a baseline, is trained all the same."""
    qbert = replace(SEARCHED, env="qbert", total_frames=1200, agent=replace(SEARCHED.agent, embedding="auto"))
    qbert = replace(qbert, environment=EnvConfig(max_frames=400))
    dqn = replace(qbert, algorithm="dqn", agent=DQNConfig(replay_capacity=100))
    runs = [
        Run(name, config, tmp_path / name)
        for name, config in (("dqn", dqn), ("lake", LAKE), ("qbert", qbert), ("searched", SEARCHED))
    ]
    train_here(runs, options=replace(OPTIONS, keep_frames=True, frames_limit_gb=0.5))
    assert [(run.state, run.reason) for run in runs] == [("finished", "")] * 4
    kept = {run.name for run in runs if History(run.out / "history").with_frames}
    assert kept == {"qbert"}
    ends = {run.name: (run.out / "checkpoint" / "manifest.json").stat().st_mtime_ns for run in runs}
    begins = {run.name: (run.out / "config.toml").stat().st_mtime_ns for run in runs}
    assert max(ends["qbert"], ends["searched"]) < min(begins["dqn"], begins["lake"])


def test_asked_to_stop_the_runs_of_a_fleet_save_and_those_that_wait_do_not_begin(tmp_path):
    runs = seeds_of(replace(SEARCHED, total_frames=10**7), tmp_path, 0, 1)
    launcher = LocalLauncher(jobs=1, options=OPTIONS)
    watch_until_ended(launcher, runs, launcher.stop)
    assert states(runs) == ["stopped", "stopped"]
    assert saved_frames(RunDirectory(runs[0].out)) > 0
    assert not runs[1].out.exists()
    assert runs[0].log.read_text().splitlines()[-1].endswith(", stopped")
