"""Training a grid on this machine: what is skipped, what goes on, what fails, and what that does to the others."""

from __future__ import annotations

import io
import multiprocessing
import os
import signal
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from mfec.config import AgentConfig, DQNConfig, EnvConfig, RunConfig
from mfec.experiments.grid import GridRun
from mfec.experiments.launchers import HowToTrain, Job, State, saved_frames
from mfec.experiments.launchers.local import LocalGPULauncher, LocalLauncher
from mfec.experiments.launchers.room import PROCESS_BYTES, bytes_needed
from mfec.experiments.lock import LOCK, locked
from mfec.experiments.train import train
from mfec.experiments.train_grid import train_grid
from mfec.run_directory import RunDirectory, RunDirectoryError

from .stopping import outcome, stopped_after

LAKE = RunConfig("FrozenLake-v1", 600, agent=AgentConfig(capacity=100, embedding="identity"))
HOW = HowToTrain(checkpoint_frames=200)


def run_of(config: RunConfig, name: str = "mfec") -> GridRun:
    return GridRun(config, Path(config.env.rpartition(":")[2].replace("/", "-"), name, f"seed-{config.seed}"))


def seeds_of(config: RunConfig, *seeds: int) -> list[GridRun]:
    return [run_of(replace(config, seed=seed)) for seed in seeds]


def train_here(runs: Sequence[GridRun], out: Path, *, jobs: int = 2) -> tuple[dict[str, Job], str]:
    """Every job by its run's name, and what was said."""
    said = io.StringIO()
    done = train_grid(runs, out, LocalLauncher(jobs=jobs, how=HOW), console=Console(file=said, width=200))
    return {job.run.name: job for job in done}, said.getvalue()


def train_alone(run: GridRun, out: Path) -> Path:
    place = out / run.place
    train(run.config, place, checkpoint_frames=200, console=Console(file=io.StringIO()))
    return place


def states(jobs: dict[str, Job]) -> list[State]:
    return [job.state for job in jobs.values()]


# -- Again and again --------------------------------------------------------------------------------------------------


def test_finished_runs_are_skipped_partial_ones_go_on_and_new_ones_begin(tmp_path):
    runs = seeds_of(LAKE, 0, 1, 2)
    finished = RunDirectory(train_alone(runs[0], tmp_path / "grid"))
    with stopped_after(250):
        train_alone(runs[1], tmp_path / "grid")
    before = (finished.checkpoint / "manifest.json").stat().st_mtime_ns
    jobs, said = train_here(runs, tmp_path / "grid")
    assert states(jobs) == ["finished"] * 3
    assert said.splitlines()[0].endswith("/1,800 frames  0/s  runs: 2 waiting, 1 finished")
    assert said.splitlines()[-1].startswith("1,800/1,800 frames")

    assert (finished.checkpoint / "manifest.json").stat().st_mtime_ns == before
    assert not (finished.path / "log.txt").exists()
    assert "going on from frame 250" in (tmp_path / "grid" / runs[1].place / "log.txt").read_text()
    assert "going on" not in (tmp_path / "grid" / runs[2].place / "log.txt").read_text()
    for run in runs:
        assert outcome(tmp_path / "grid" / run.place) == outcome(train_alone(run, tmp_path / "alone"))


def test_more_frames_go_on_from_where_the_last_grid_ended(tmp_path):
    [run] = seeds_of(LAKE, 3)
    train_alone(run, tmp_path / "grid")
    longer = replace(run, config=replace(run.config, total_frames=900))
    jobs, _ = train_here([longer], tmp_path / "grid")
    assert states(jobs) == ["finished"]
    assert outcome(tmp_path / "grid" / run.place) == outcome(train_alone(longer, tmp_path / "alone"))
    assert saved_frames(RunDirectory(tmp_path / "grid" / run.place)) == 900


def test_a_finished_run_with_other_settings_is_not_taken_for_this_one(tmp_path):
    [run] = seeds_of(LAKE, 0)
    place = train_alone(run, tmp_path)
    before = {file: file.read_bytes() for file in place.rglob("*") if file.is_file()}
    other = replace(run, config=replace(LAKE, agent=replace(LAKE.agent, k=3)))
    jobs, _ = train_here([other], tmp_path)
    [job] = jobs.values()
    assert (job.state, job.reason) == ("failed", f"{place} was begun with k = 11, it cannot go on with 3")
    assert {file: file.read_bytes() for file in place.rglob("*") if file.is_file()} == before


@pytest.mark.parametrize("text", [None, "", "{}", '{"state": {}}', '{"state": {"frames": null}}', "[1]"])
def test_a_checkpoint_that_cannot_be_read_has_no_frames(tmp_path, text):
    (tmp_path / "checkpoint").mkdir()
    if text is not None:
        (tmp_path / "checkpoint" / "manifest.json").write_text(text)
    assert saved_frames(RunDirectory(tmp_path)) == 0


@pytest.mark.parametrize("algorithm", ["mfec", "dqn"])
def test_frames_of_any_learner_are_found_in_its_checkpoint(tmp_path, algorithm):
    quick = DQNConfig(replay_start=50, replay_capacity=100)
    config = RunConfig("CartPole-v1", 200, agent=AgentConfig(capacity=100), algorithm=algorithm, dqn=quick)
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
def failing(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Job]]:
    """A grid with a run that breaks, one that cannot be made, one that cannot fit, and one that is all right.

    The first cannot even be made in this process, where its memory is to be looked at: here are no such variables.
    """
    out = tmp_path_factory.mktemp("failing")
    (out / "broken_lake.py").write_text(BROKEN)
    runs = [
        run_of(replace(LAKE, env="broken_lake:Broken-v0")),
        run_of(replace(LAKE, env="NoSuchLake-v1")),
        run_of(replace(LAKE, agent=replace(LAKE.agent, capacity=10**12)), "mfec_large"),
        run_of(LAKE),
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(out), prepend=os.pathsep)
        patch.syspath_prepend(str(out))
        patch.delenv("OMP_NUM_THREADS", raising=False)
        return out, train_here(runs, out)[0]


def test_a_run_that_fails_does_not_stop_the_others(failing):
    _, jobs = failing
    assert states(jobs) == ["failed", "failed", "failed", "finished"]


def test_the_log_of_a_run_that_breaks_has_everything_with_the_traceback(failing):
    _, jobs = failing
    job = next(iter(jobs.values()))
    assert job.reason == "LookupError: the ice is broken"
    log = job.log.read_text()
    assert 'raise LookupError("the ice is broken")' in log
    assert log.count("Traceback") == 1
    assert log.splitlines()[-1].endswith("failed: LookupError: the ice is broken")


def test_a_run_has_one_thread_of_each_kind_and_what_is_no_python_is_in_its_log(failing):
    _, jobs = failing
    assert "threads: 1 1\n" in next(iter(jobs.values())).log.read_text()


def test_bad_settings_fail_with_their_sentence(failing):
    _, jobs = failing
    _, unknown, large, _ = jobs.values()
    assert unknown.reason.startswith("unknown environment 'NoSuchLake-v1'; did you mean 'FrozenLake-v1'?")
    assert "needs" in large.reason
    assert large.reason.endswith("or --ignore-memory-limit to start all the same")
    assert large.log.read_text().splitlines()[-1].endswith(large.reason)


def test_a_run_whose_process_is_killed_fails_and_its_log_says_so(tmp_path):
    long, short = run_of(replace(LAKE, total_frames=10**7), "long"), run_of(LAKE)
    jobs = [Job(run, tmp_path / run.place) for run in (long, short)]
    launcher = LocalLauncher(jobs=2, how=HOW)
    launcher.start(jobs)
    killed = False
    while not all(job.ended for job in jobs):
        launcher.watch(0.05)
        if not killed and RunDirectory(jobs[0].out).has_checkpoint:
            os.kill(int((jobs[0].out / LOCK).read_text().split()[1]), signal.SIGKILL)
            killed = True
    launcher.close()
    assert [(job.state, job.reason) for job in jobs] == [
        ("failed", "its process ended with status -9"), ("finished", "")
    ]  # fmt: skip
    assert jobs[0].log.read_text().splitlines()[-1] == "its process ended with status -9"


def test_a_run_whose_process_hangs_at_its_end_keeps_no_other_from_beginning(tmp_path, monkeypatch, hanging_carts):
    monkeypatch.setattr("mfec.experiments.leaving.EXIT_SECONDS", 0.5)
    cart = replace(LAKE, env=hanging_carts, agent=replace(LAKE.agent, embedding="auto"))
    jobs, said = train_here([run_of(cart), run_of(LAKE)], tmp_path / "grid", jobs=1)
    assert states(jobs) == ["finished", "finished"]
    assert f"{run_of(cart).name}: its process did not exit" in said


# -- Memory -----------------------------------------------------------------------------------------------------------


def test_runs_side_by_side_do_not_come_to_need_more_memory_than_there_is(tmp_path, monkeypatch):
    """Three are asked for at a time, and two fit."""
    config = replace(LAKE, total_frames=100)
    monkeypatch.setattr("mfec.experiments.launchers.local.physical_ram", lambda: int(2.9 * bytes_needed(config)))
    jobs = [Job(run, tmp_path / run.place) for run in seeds_of(config, 0, 1, 2)]
    launcher = LocalLauncher(jobs=3, how=HOW)
    launcher.start(jobs)
    at_a_time, said = [], []
    while not all(job.ended for job in jobs):
        said += launcher.watch(0.02)
        at_a_time.append(sum(job.state == "running" for job in jobs))
    assert [job.state for job in jobs] == ["finished"] * 3
    assert max(at_a_time) == 2
    assert len(said) == 1
    assert said[0].startswith("3 runs side by side can come to need ")
    assert said[0].endswith(": 2 at a time, though --jobs is 3")


def test_what_a_run_can_come_to_need_grows_with_what_it_can_remember():
    lake = bytes_needed(LAKE) - PROCESS_BYTES
    assert 0 < lake < 10**7
    qbert = RunConfig("qbert", 10_000_000, agent=AgentConfig(embedding="random_projection"))
    assert 2 * 2_500_000 * 256 < bytes_needed(qbert) < 2 * 2_500_000 * 600
    full = replace(qbert, total_frames=10**9)  # all six buffers
    assert 2 * 6_000_000 * 256 < bytes_needed(full) < 2 * 6_000_000 * 600
    assert bytes_needed(replace(qbert, environment=EnvConfig(n_envs=64))) == bytes_needed(qbert)
    replay = bytes_needed(replace(qbert, algorithm="dqn")) - PROCESS_BYTES
    assert 2 * 1_000_000 * 84 * 84 < replay < 2 * 1_000_000 * 84 * 85
    assert bytes_needed(replace(qbert, algorithm="a2c")) == PROCESS_BYTES
    assert bytes_needed(replace(qbert, env="NoSuchLake-v1")) == 0


@pytest.mark.parametrize("jobs", [0, -1])
def test_a_senseless_number_of_jobs_is_refused(tmp_path, jobs):
    for make in (LocalLauncher, lambda **given: LocalGPULauncher(**given, log=tmp_path / "log")):
        with pytest.raises(ValueError, match=f"jobs must be at least 1, not {jobs}"):
            make(jobs=jobs, how=HOW)
    with pytest.raises(ValueError, match="checkpoint_frames must be at least 1, not 0"):
        HowToTrain(checkpoint_frames=0)
    with pytest.raises(ValueError, match="the limit of kept frames must be above 0 gigabytes, not 0"):
        HowToTrain(frames_limit_gb=0)


# -- One at a time in a folder ----------------------------------------------------------------------------------------


def test_two_grids_do_not_work_in_the_same_folder(tmp_path):
    with locked(tmp_path), pytest.raises(RunDirectoryError, match=rf"in use by process {os.getpid()} on "):
        train_here(seeds_of(LAKE, 0), tmp_path)
    assert not (tmp_path / "grid.toml").exists()


def test_a_folder_that_cannot_be_is_refused_in_a_sentence(tmp_path):
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(RunDirectoryError, match="cannot begin a grid in "):
        train_here(seeds_of(LAKE, 0), tmp_path / "file" / "grid")


# -- Fleets -----------------------------------------------------------------------------------------------------------


SEARCHED = replace(LAKE, agent=replace(LAKE.agent, index="cuda"))  # as on a GPU, but on the CPU


def train_in_fleets(runs: Sequence[GridRun], out: Path, jobs: int) -> dict[str, Job]:
    launcher = LocalGPULauncher(jobs=jobs, how=HOW, log=out / ".grid" / "fleets.txt")
    done = train_grid(runs, out, launcher, console=Console(file=io.StringIO()))
    return {job.run.name: job for job in done}


def test_fleets_follow_each_other_and_a_run_in_one_is_the_run_alone(tmp_path):
    runs = [*seeds_of(SEARCHED, 0, 1), run_of(replace(SEARCHED, env="NoSuchLake-v1"))]
    with stopped_after(250):
        train_alone(runs[1], tmp_path / "grid")
    jobs = train_in_fleets(runs, tmp_path / "grid", jobs=2)
    assert states(jobs) == ["finished", "finished", "failed"]
    for run in runs[:2]:
        assert outcome(tmp_path / "grid" / run.place) == outcome(train_alone(run, tmp_path / "alone"))
    first, second, unknown = jobs.values()
    assert "-- finished" in first.log.read_text()
    assert "going on from frame 250" in second.log.read_text()
    assert unknown.reason.startswith("unknown environment 'NoSuchLake-v1'")
    assert unknown.reason in unknown.log.read_text()
    said = (tmp_path / "grid" / ".grid" / "fleets.txt").read_text()
    assert "runs: 2 finished" in said


def watch_until(launcher: LocalGPULauncher, jobs: Sequence[Job], then) -> None:
    """Watch until all jobs have ended; as soon as the first has saved something, do that once."""
    launcher.start(jobs)
    done = False
    while not all(job.ended for job in jobs):
        launcher.watch(0.05)
        if not done and RunDirectory(jobs[0].out).has_checkpoint:
            then()
            done = True
    launcher.close()


def test_a_fleet_whose_process_hangs_at_its_end_keeps_no_other_from_beginning(tmp_path, monkeypatch, hanging_carts):
    """Here it is the process of the fleet that has the environment's thread, and not that of the run."""
    monkeypatch.setattr("mfec.experiments.leaving.EXIT_SECONDS", 0.5)
    cart = replace(SEARCHED, env=hanging_carts, agent=replace(SEARCHED.agent, embedding="auto"))
    runs = [run_of(cart), run_of(SEARCHED)]
    launcher = LocalGPULauncher(jobs=1, how=HOW, log=tmp_path / ".grid" / "fleets.txt")
    said = io.StringIO()
    done = train_grid(runs, tmp_path, launcher, console=Console(file=said, width=200))
    assert [job.state for job in done] == ["finished", "finished"]
    assert f"{runs[0].name}: its process did not exit" in said.getvalue()


@pytest.mark.parametrize("launcher", ["processes", "fleets"])
def test_frames_are_kept_where_there_are_some(tmp_path, launcher):
    """A run without pictures, or of a baseline, is trained all the same."""
    small = DQNConfig(replay_capacity=100)
    qbert = replace(SEARCHED, env="qbert", total_frames=1200, agent=replace(SEARCHED.agent, embedding="auto"))
    qbert = replace(qbert, environment=EnvConfig(max_frames=400))
    runs = [run_of(qbert), run_of(SEARCHED), run_of(replace(qbert, algorithm="dqn", dqn=small), "dqn")]
    how = HowToTrain(keep_frames=True, frames_limit_gb=0.5)
    kinds = {
        "processes": lambda: LocalLauncher(jobs=2, how=how),
        "fleets": lambda: LocalGPULauncher(jobs=2, how=how, log=tmp_path / ".grid" / "fleets.txt"),
    }
    jobs = train_grid(runs, tmp_path, kinds[launcher](), console=Console(file=io.StringIO()))
    assert [(job.state, job.reason) for job in jobs] == [("finished", "")] * 3
    kept = [any((job.out / "history").glob("frames*")) for job in jobs]
    assert kept == [True, False, False]


def test_asked_to_stop_the_runs_of_a_fleet_save_and_those_that_wait_do_not_begin(tmp_path):
    runs = seeds_of(replace(SEARCHED, total_frames=10**7), 0, 1)
    jobs = [Job(run, tmp_path / run.place) for run in runs]
    launcher = LocalGPULauncher(jobs=1, how=HOW, log=tmp_path / "fleets.txt")
    watch_until(launcher, jobs, launcher.stop)
    assert [job.state for job in jobs] == ["stopped", "stopped"]
    assert saved_frames(RunDirectory(jobs[0].out)) > 0
    assert not jobs[1].out.exists()
    assert jobs[0].log.read_text().splitlines()[-1] == "-- stopped"


def test_a_fleet_whose_process_is_killed_fails_and_the_next_one_begins(tmp_path):
    runs = [run_of(replace(SEARCHED, total_frames=10**7), "long"), run_of(SEARCHED)]
    jobs = [Job(run, tmp_path / run.place) for run in runs]
    launcher = LocalGPULauncher(jobs=1, how=HOW, log=tmp_path / "fleets.txt")
    watch_until(launcher, jobs, lambda: [process.kill() for process in multiprocessing.active_children()])
    assert [job.state for job in jobs] == ["failed", "finished"]
    assert jobs[0].reason == f"the process of the fleet ended with status -9; see {tmp_path / 'fleets.txt'}"
