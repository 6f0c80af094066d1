"""Runs on Ray: workers and whole nodes are lost in the middle of runs, which end as if nothing had happened."""

from __future__ import annotations

import io
import os
import re
import signal
import socket
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from mfec.algorithms import RunConfig
from mfec.algorithms.mfec import MFECConfig
from mfec.cli import main
from mfec.experiments.launchers.ray import RayLauncher, _train_task
from mfec.experiments.lock import LOCK
from mfec.experiments.many_runs import Run, TrainingOptions, saved_frames
from mfec.experiments.train import train
from mfec.run_directory import RunDirectory

from ..waiting import PATIENCE, wait_until
from .conftest import Start
from .stopping import ask_to_stop, games_of, outcome, wait_for

TOKEN = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "0123456789abcdef" * 4, "RAY_USAGE_STATS_ENABLED": "0"}
# Ray waits half a minute before it believes that a node is gone; here some seconds.
SOON = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 500, "health_check_failure_threshold": 4}
SMALL = {"object_store_memory": 80_000_000}

# A cart pole whose first process stays in step 250 for ever.
CARTS = f"""
import pathlib, time
import gymnasium
from gymnasium.envs.classic_control import CartPoleEnv

class Cart(CartPoleEnv):
    steps = 0

    def __init__(self, waits, **given):
        super().__init__(**given)
        self.waits = pathlib.Path(waits)

    def step(self, action):
        Cart.steps += 1
        if Cart.steps == 250 and not self.waits.exists():
            self.waits.touch()
            time.sleep({PATIENCE})
        return super().step(action)

for seed in (0, 1):
    waits = pathlib.Path(__file__).with_name(f"waits-{{seed}}")
    gymnasium.register(f"Cart{{seed}}-v0", entry_point=Cart, kwargs={{"waits": waits}}, max_episode_steps=500)
"""
CART = RunConfig("CartPole-v1", 450, agent=MFECConfig(capacity=60))


@pytest.fixture(scope="module")
def carts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the module `waiting_carts`."""
    folder = tmp_path_factory.mktemp("carts")
    (folder / "waiting_carts.py").write_text(CARTS)
    return folder


@pytest.fixture(scope="module")
def environment(carts: Path) -> Iterator[None]:
    """What Ray must be told before it is imported: the token of the cluster, and where its workers find the carts."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in TOKEN.items():
            patch.setenv(name, value)
        patch.setenv("PYTHONPATH", str(carts), prepend=os.pathsep)
        patch.syspath_prepend(carts)
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


def worker_of(run: Run) -> int:
    """The process that has locked the run's directory."""
    return int((run.out / LOCK).read_text().split()[1])


def raylet_of(worker: int) -> int:
    """The process that started a worker, which is there once on every node; 0 where it has ended."""
    try:
        return int(re.findall(r"PPid:\s+(\d+)", Path(f"/proc/{worker}/status").read_text())[0])
    except (OSError, IndexError):
        return 0


# -- Faults -----------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not Path("/proc").exists(), reason="whose worker a process is stands in /proc")
def test_runs_survive_the_loss_of_a_node_and_of_a_worker(tmp_path, carts, cluster, capfd):
    """One that no node has memory for fails, and is no loss to them."""
    node = cluster.add_node(num_cpus=1, **SMALL)
    raylets = {each.all_processes["raylet"][0].process.pid: each for each in (cluster.head_node, node)}
    runs = [
        Run(f"seed {seed}", replace(CART, env=f"waiting_carts:Cart{seed}-v0"), tmp_path / str(seed)) for seed in (0, 1)
    ]
    large = Run("large", replace(CART, total_frames=10**14, agent=MFECConfig(capacity=10**12)), tmp_path / "large")
    launcher = RayLauncher(folder=tmp_path, options=TrainingOptions(checkpoint_frames=150), address=cluster.address)
    launcher.start([large, *runs], Console(quiet=True))
    assert large.state == "failed"
    assert "and no node of the Ray cluster has more than " in large.reason
    assert not large.out.exists()

    def watch() -> None:
        launcher.watch(0.1)

    def all_wait() -> bool:
        waiting = all((carts / f"waits-{seed}").exists() for seed in (0, 1))
        return not launcher.busy or (waiting and all(run.state == "running" for run in runs))

    wait_until(all_wait, "two runs that wait", between=watch)
    workers = [worker_of(run) for run in runs]
    assert [saved_frames(RunDirectory(run.out)) for run in runs] == [150, 150]
    nodes = [raylets[raylet_of(worker)] for worker in workers]
    assert set(nodes) == {cluster.head_node, node}
    cluster.remove_node(node, allow_graceful=False)
    os.kill(workers[nodes.index(cluster.head_node)], signal.SIGKILL)
    wait_until(lambda: not launcher.busy, "the end of the runs", between=watch)
    launcher.close()
    assert [(run.state, run.reason) for run in runs] == [("finished", "")] * 2
    assert "(raylet)" not in "".join(capfd.readouterr())  # what Ray thinks about it is kept elsewhere
    train(CART, tmp_path / "alone", checkpoint_frames=150, console=Console(file=io.StringIO()))
    for run, worker in zip(runs, workers, strict=True):
        assert raylet_of(worker) not in raylets
        assert "going on from frame 150\n" in run.log.read_text()
        assert outcome(run.out) == outcome(tmp_path / "alone")


# -- Stop and go ------------------------------------------------------------------------------------------------------


def test_asked_to_stop_tasks_save_and_can_go_on_without_ray(tmp_path, environment, start: Start, held):
    """On a Ray of its own, of one CPU: one run is asked to save, and one is not begun."""
    lake = ["held:Lake-v0", "--total-frames", "900", "--capacity", "300", "--no-video"]
    arguments = [*lake, "--seeds", "0", "1", "--jobs", "1", "--launcher", "ray", "--out", str(tmp_path / "runs")]
    with held(400):
        process = start(*arguments)
    runs = [RunDirectory(tmp_path / "runs" / f"seed-{seed}") for seed in (0, 1)]
    wait_for(lambda: any(games_of(run.path) >= 3 for run in runs), process)
    ask_to_stop(process, "ctrl-c")
    said, error = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130, said + error
    assert "Traceback" not in said + error
    head, _, again = said.partition("stopped, and saved; go on with\n")
    assert head.splitlines()[-1].endswith("runs: 2 stopped")
    assert "--launcher ray" in again
    [run] = [run for run in runs if run.exists]
    saved = saved_frames(run)
    assert 0 < saved <= 400

    alone = ["train", *lake, "--seed", run.path.name.removeprefix("seed-")]
    assert main([*alone, "--out", str(run.path), "--resume"]) == 0
    assert main([*alone, "--out", str(tmp_path / "alone")]) == 0
    assert outcome(run.path) == outcome(tmp_path / "alone")


# -- What goes wrong --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("token", [None, "another"])
def test_a_node_that_does_not_share_the_folder_says_so(tmp_path, token):
    (tmp_path / ".ray").mkdir()
    if token:
        (tmp_path / ".ray" / "token").write_text(token)
    state, reason = _train_task(CART, tmp_path / "run", TrainingOptions(), tmp_path, "the token", threads=1)
    assert state == "failed"
    assert reason == (
        f"the node {socket.gethostname()} does not see the folder {tmp_path} in which this was begun: "
        "--out must be on a file system that all nodes of the cluster share"
    )
    assert not (tmp_path / "run").exists()


def test_a_missing_package_is_an_error_that_names_the_extra(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    assert main(["reproduce", "match_rates", "--launcher", "ray", "--out", str(tmp_path / "grid")]) == 1
    assert capsys.readouterr().err == "mfec: the launcher ray needs the extra `ray`: pip install 'mfec[ray]'\n"
    assert not (tmp_path / "grid").exists()
