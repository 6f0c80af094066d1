"""A fleet: each run is the run that it would be alone, and one that fails or is killed does not stop the others."""

from __future__ import annotations

import io
import multiprocessing
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from rich.console import Console

from mfec import MFEC
from mfec.algorithms import RunConfig
from mfec.algorithms.mfec import MFECConfig
from mfec.cli import main
from mfec.config import EnvConfig
from mfec.experiments.launchers.local import LocalLauncher
from mfec.experiments.lock import LOCK
from mfec.experiments.many_runs import Run, TrainingOptions, train_runs
from mfec.experiments.train import train
from mfec.files import is_running
from mfec.run_directory import RunDirectory

from ..waiting import PATIENCE, wait_until
from .conftest import Start
from .stopping import games_of, outcome, wait_for

pytestmark = pytest.mark.usefixtures("one_thread")  # as the process that owns the device has it

SEARCHED = MFECConfig(index="cuda", capacity=60)
ATARI = EnvConfig(n_envs=2, max_frames=200)
QBERT = RunConfig("qbert", 800, 0, replace(SEARCHED, embedding="random_projection", kernel="inverse"), ATARI)
CART = RunConfig("CartPole-v1", 450, 0, SEARCHED)
QUIET = Console(file=io.StringIO())

CARTS = """
import os, signal
import gymnasium
from gymnasium.envs.classic_control import CartPoleEnv
from mfec.terminal import LOG

class Cart(CartPoleEnv):
    steps = 0

    def __init__(self, fault, **given):
        super().__init__(**given)
        self.fault = fault

    def step(self, action):
        Cart.steps += 1
        if Cart.steps == 200:
            if self.fault == "killed" and "FAULTS" in os.environ:
                os.kill(os.getpid(), signal.SIGKILL)
            LOG.warning("the pole bends")
        return super().step(action)

for fault in ("killed", "bends"):
    gymnasium.register(f"{fault}-v0", entry_point=Cart, kwargs={"fault": fault}, max_episode_steps=500)
"""


@pytest.fixture(scope="module", autouse=True)
def _carts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """`carts:killed-v0` ends its process in step 200, `carts:bends-v0` says something there."""
    folder = tmp_path_factory.mktemp("carts")
    (folder / "carts.py").write_text(CARTS)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        patch.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)
        yield


def train_alone(config: RunConfig, out: Path, *, resume: bool = False) -> Path:
    train(config, out, resume=resume, checkpoint_frames=150, console=QUIET)
    return out


def launcher() -> LocalLauncher:
    return LocalLauncher(jobs=3, options=TrainingOptions(checkpoint_frames=150))


# -- Equal runs -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    """Two games at a time, a cart pole, and another one that is killed."""
    out = tmp_path_factory.mktemp("fleet")
    configs = {"qbert": QBERT, "cart": CART, "killed": replace(CART, env="carts:killed-v0")}
    runs = {name: Run(name, config, out / name) for name, config in configs.items()}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FAULTS", "1")
        train_runs(list(runs.values()), launcher(), console=QUIET)
    return runs


def test_a_run_in_a_fleet_is_the_run_alone_bit_for_bit_though_another_is_killed(fleet, tmp_path):
    assert [run.state for run in fleet.values()] == ["finished", "finished", "failed"]
    assert fleet["killed"].reason == "its process ended with status -9"
    for name in ("qbert", "cart"):
        run, alone = RunDirectory(fleet[name].out), RunDirectory(train_alone(fleet[name].config, tmp_path / name))
        assert outcome(run.path) == outcome(alone.path)
        assert run.read_config() == alone.read_config()
        assert games_of(run.path) >= 2
        assert len(MFEC.load(run.checkpoint).memory) > 60


def test_a_run_in_a_fleet_plays_the_games_that_exact_search_plays(fleet, tmp_path):
    exact = replace(QBERT, agent=replace(QBERT.agent, index="exact"))
    ours, theirs = outcome(fleet["qbert"].out), outcome(train_alone(exact, tmp_path))
    assert (ours[0], ours[3]) == (theirs[0], theirs[3])


def test_a_run_that_was_killed_in_a_fleet_goes_on_alone_with_exact_search_as_if_it_had_not(fleet):
    killed = fleet["killed"]
    assert MFEC.load(killed.out / "checkpoint").frames == 150
    exact = replace(killed.config, agent=replace(SEARCHED, index="exact"))
    ours, theirs = outcome(train_alone(exact, killed.out, resume=True)), outcome(fleet["cart"].out)
    assert (ours[0], ours[3]) == (theirs[0], theirs[3])


# -- Ends -------------------------------------------------------------------------------------------------------------


def test_output_that_cannot_be_written_ends_the_fleet_and_its_runs_save(tmp_path):
    """They are served until they have."""

    class Full(io.StringIO):
        def write(self, text: str) -> int:
            if text.startswith("endless: the pole bends"):
                raise OSError("no space left on device")
            return len(text)

    run = Run("endless", replace(CART, env="carts:bends-v0", total_frames=10**7), tmp_path / "run")
    with pytest.raises(OSError, match="no space left"):
        train_runs([run], launcher(), console=Console(file=Full(), width=200))
    assert run.state == "stopped"
    assert MFEC.load(run.out / "checkpoint").frames >= 200
    assert multiprocessing.active_children() == []


def test_asked_to_stop_before_it_has_begun_a_fleet_stops_all_the_same(tmp_path):
    run = Run("endless", replace(CART, total_frames=10**7), tmp_path / "run")
    asked = launcher()
    asked.start([run], QUIET)
    asked.watch(0.0)
    assert run.state == "running"
    asked.close()
    assert run.state == "stopped"
    assert multiprocessing.active_children() == []


def test_a_run_whose_owner_was_killed_ends_by_itself(tmp_path, start: Start):
    command = ["CartPole-v1", "--index", "cuda", "--seeds", "0", "--total-frames", str(10**7), "--out", str(tmp_path)]
    process = start(*command)
    wait_for(lambda: games_of(tmp_path / "seed-0") > 0, process)
    run = int((tmp_path / "seed-0" / LOCK).read_text().split()[1])
    process.kill()
    process.communicate(timeout=PATIENCE)
    wait_until(lambda: not is_running(run), "the end of the run")


# -- What cannot start ------------------------------------------------------------------------------------------------


def test_the_runs_of_a_fleet_share_one_device(tmp_path):
    configs = [replace(CART, agent=replace(SEARCHED, device=device)) for device in ("cpu", "cuda")]
    runs = [Run(config.agent.device, config, tmp_path / config.agent.device) for config in configs]
    with pytest.raises(ValueError, match="the runs of a fleet share one device, not cpu, cuda"):
        train_runs(runs, launcher(), console=QUIET)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize("seeds", [[], ["--seeds", "0", "1"]], ids=["alone", "fleet"])
def test_without_a_gpu_the_device_is_refused_in_a_sentence(tmp_path, capsys, seeds):
    assert main(["train", "FrozenLake-v1", "--device", "cuda", *seeds, "--out", str(tmp_path / "run")]) == 1
    error = capsys.readouterr().err
    assert error.startswith("mfec: device 'cuda' needs an NVIDIA GPU, and torch ")
    assert error.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_without_torch_the_device_names_what_is_missing(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    for seeds in ([], ["--seeds", "0", "1"]):
        assert main(["train", "CartPole-v1", "--index", "cuda", *seeds, "--out", str(tmp_path / "run")]) == 1
        assert capsys.readouterr().err == "mfec: the device needs the extra `torch`: pip install 'mfec[torch]'\n"
    assert not (tmp_path / "run").exists()
