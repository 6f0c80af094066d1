"""A grid on Ray: workers and whole nodes are lost in the middle of runs, which end as if nothing had happened."""

from __future__ import annotations

import io
import os
import re
import shlex
import signal
import socket
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from mfec.algorithms import RunConfig
from mfec.algorithms.mfec import MFECConfig
from mfec.cli import main
from mfec.experiments.grid import Choices, expand, read_experiment
from mfec.experiments.launchers.ray import RayLauncher, _train_task
from mfec.experiments.lock import LOCK
from mfec.experiments.many_runs import Run, TrainingOptions, saved_frames
from mfec.experiments.train import train
from mfec.run_directory import RunDirectory

from ..waiting import PATIENCE
from .conftest import Start
from .stopping import ask_to_stop, games_of, outcome, wait_for

TOKEN = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "0123456789abcdef" * 4, "RAY_USAGE_STATS_ENABLED": "0"}
FRAMES, EVERY = 10_000, 1000  # of a run, and between its checkpoints
GRID = ["reproduce", "match_rates", "--games", "qbert", "--total-frames", str(FRAMES), "--no-video"]
PLACE = Path("qbert", "mfec_random_projection")
# Ray waits half a minute before it believes that a node is gone; here some seconds.
SOON = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 500, "health_check_failure_threshold": 4}

SMALL = {"object_store_memory": 80_000_000}


@pytest.fixture(scope="module")
def environment() -> Iterator[None]:
    """What Ray must be told before it is imported: the token of the cluster."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in TOKEN.items():
            patch.setenv(name, value)
        pytest.importorskip("ray")
        yield


@pytest.fixture(scope="module")
def cluster(environment: None) -> Iterator[Any]:
    """A cluster of one node with one CPU, on this machine; a test may add others."""
    from ray.cluster_utils import Cluster

    cluster = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 1, "include_dashboard": False, "_system_config": SOON, **SMALL},
    )
    yield cluster
    cluster.shutdown()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The runs of three seeds, one after the other in this process."""
    out = tmp_path_factory.mktemp("undisturbed")
    for run in expand(read_experiment("match_rates"), Choices(games=("qbert",), seeds=3, total_frames=FRAMES)):
        train(run.config, out / run.place, console=Console(file=io.StringIO()))
    return out


@dataclass(frozen=True)
class Loss:
    """A run that is to lose its worker, and the frames that it had saved before."""

    run: RunDirectory
    worker: int
    saved: int


def worker_of(run: RunDirectory) -> int:
    """The process that has locked the run's directory; 0 while there is none."""
    words = (run.path / LOCK).read_text().split() if (run.path / LOCK).exists() else []
    return int(words[1]) if words else 0


def raylet_of(worker: int) -> int:
    """The process that started a worker, which is there once on every node; 0 where it has ended."""
    try:
        return int(re.findall(r"PPid:\s+(\d+)", Path(f"/proc/{worker}/status").read_text())[0])
    except (OSError, IndexError):
        return 0


# -- Faults -----------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not Path("/proc").exists(), reason="whose worker a process is stands in /proc")
def test_runs_survive_the_loss_of_a_node_and_of_a_worker(tmp_path, cluster, undisturbed, start_python: Start):
    node = cluster.add_node(num_cpus=1, **SMALL)
    raylets = {each: each.all_processes["raylet"][0].process.pid for each in (cluster.head_node, node)}
    runs = [RunDirectory(tmp_path / PLACE / f"seed-{seed}") for seed in range(3)]
    process = start_python(
        "-m", "mfec", *GRID, "--seeds", "3", "--out", str(tmp_path), "--checkpoint-frames", str(EVERY),
        "--launcher", "ray", "--ray-address", cluster.address,
    )  # fmt: skip

    def half_way(where: Any) -> Loss:
        """Wait for a run that has a worker there and has saved something, but not much."""
        found: list[Loss] = []

        def look() -> bool:
            for run in runs:
                loss = Loss(run, worker_of(run), saved_frames(run))
                if 0 < loss.saved <= FRAMES // 2 and raylet_of(loss.worker) == raylets[where]:
                    found.append(loss)
            return bool(found)

        wait_for(look, process)
        assert found, process.communicate()
        return found[0]

    with_node = half_way(node)
    cluster.remove_node(node, allow_graceful=False)
    alone = half_way(cluster.head_node)
    os.kill(alone.worker, signal.SIGKILL)
    said, error = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, said + error
    assert "30,000/30,000 frames" in said
    assert "(raylet)" not in said + error  # what Ray thinks about it is kept elsewhere

    for lost in (with_node, alone):
        assert raylet_of(lost.worker) not in raylets.values()  # it is gone,
        began, rest = (lost.run.path / "log.txt").read_text().split(f"process {lost.worker} on ")
        assert "finished" not in began + rest.partition("\n-- ")[0]  # and was in the middle of the run,
        went_on = [int(number.replace(",", "")) for number in re.findall(r"going on from frame ([\d,]+)", rest)]
        assert went_on  # which another one went on with
        assert all(lost.saved <= frames < FRAMES and frames % EVERY == 0 for frames in went_on)
    for run in runs:
        assert (run.path / "log.txt").read_text().rstrip().endswith(", finished")
        assert outcome(run.path) == outcome(undisturbed / run.path.relative_to(tmp_path))


# -- Stop and go ------------------------------------------------------------------------------------------------------


def test_asked_to_stop_tasks_save_and_another_launcher_goes_on(tmp_path, undisturbed, start_python: Start):
    """On a Ray of its own, of one CPU: one run is asked to save, and one is not begun."""
    arguments = [*GRID, "--seeds", "2", "--out", str(tmp_path), "--jobs", "1"]
    process = start_python("-m", "mfec", *arguments, "--launcher", "ray")
    runs = [RunDirectory(tmp_path / PLACE / f"seed-{seed}") for seed in (0, 1)]
    wait_for(lambda: any(games_of(run.path) > 0 for run in runs), process)
    ask_to_stop(process, "ctrl-c")
    said, error = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130, said + error
    assert "Traceback" not in said + error
    head, _, again = said.partition("stopped, and saved; go on with\n")
    assert head.splitlines()[-1].endswith("runs: 2 stopped")
    assert shlex.split(again) == ["mfec", *arguments, "--launcher", "ray"]
    [saved] = [saved_frames(run) for run in runs if run.exists]
    assert 0 < saved < FRAMES

    assert main(arguments) == 0
    assert any(f"going on from frame {saved:,}" in (run.path / "log.txt").read_text() for run in runs)
    for run in runs:
        assert outcome(run.path) == outcome(undisturbed / run.path.relative_to(tmp_path))


def test_seeds_of_the_command_train_are_tasks_too(tmp_path, cluster, capsys):
    lake = ["train", "FrozenLake-v1", "--total-frames", "600", "--capacity", "100", "--no-video"]
    ray = ["--launcher", "ray", "--ray-address", cluster.address]
    assert main([*lake, *ray, "--seeds", "0", "1", "--out", str(tmp_path / "ray")]) == 0
    assert "1,200/1,200 frames" in capsys.readouterr().out
    assert (tmp_path / "ray" / "curve.png").exists()
    assert main([*lake, "--seed", "1", "--out", str(tmp_path / "alone")]) == 0
    assert outcome(tmp_path / "ray" / "seed-1") == outcome(tmp_path / "alone")


# -- What goes wrong --------------------------------------------------------------------------------------------------


QBERT = RunConfig("qbert", FRAMES, agent=MFECConfig(embedding="random_projection"))


def test_a_run_that_no_node_has_memory_for_fails_with_a_sentence(tmp_path, cluster):
    config = replace(QBERT, total_frames=10**14, agent=replace(QBERT.agent, capacity=10**12))
    run = Run("large", config, tmp_path / "large")
    launcher = RayLauncher(folder=tmp_path, options=TrainingOptions(), address=cluster.address)
    launcher.start([run], Console(quiet=True))
    assert not launcher.busy
    launcher.close()
    assert run.state == "failed"
    assert re.fullmatch(
        r"it can come to need [\d.,e+]+ TB, and no node of the Ray cluster has more than [\d.]+ GB; "
        "--ignore-memory-limit starts it all the same",
        run.reason,
    )


@pytest.mark.parametrize("token", [None, "another"])
def test_a_node_that_does_not_share_the_folder_says_so(tmp_path, token):
    (tmp_path / ".ray").mkdir()
    if token:
        (tmp_path / ".ray" / "token").write_text(token)
    state, reason = _train_task(QBERT, tmp_path / PLACE, TrainingOptions(), tmp_path, "the token", threads=1)
    assert state == "failed"
    assert reason == (
        f"the node {socket.gethostname()} does not see the folder {tmp_path} in which this was begun: "
        "--out must be on a file system that all nodes of the cluster share"
    )
    assert not (tmp_path / PLACE).exists()


def test_a_missing_package_is_an_error_that_names_the_extra(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    assert main([*GRID, "--launcher", "ray", "--out", str(tmp_path / "grid")]) == 1
    assert capsys.readouterr().err == "mfec: the launcher ray needs the extra `ray`: pip install 'mfec[ray]'\n"
    assert not (tmp_path / "grid").exists()
