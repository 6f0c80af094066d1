"""A fleet: each run is the run that it would be alone, and one that fails or is killed does not stop the others."""

from __future__ import annotations

import contextlib
import io
import multiprocessing
import shlex
import shutil
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
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
from mfec.experiments.lock import LOCK, locked
from mfec.experiments.many_runs import Run, TrainingOptions, train_runs
from mfec.experiments.train import train as train_alone
from mfec.files import is_running
from mfec.run_directory import RunDirectory

from ..waiting import PATIENCE, wait_until
from .stopping import ask_to_stop, games_of, outcome, stopped_after, wait_for

pytestmark = pytest.mark.usefixtures("one_thread")  # as the process that owns the device has it

ATARI = ["--index", "cuda", "--total-frames", "1200", "--capacity", "30", "--max-frames", "400"]
CART = ["--index", "cuda", "--total-frames", "900", "--capacity", "200", "--checkpoint-frames", "300"]


def train(*arguments: str, out: Path) -> int:
    return main(["train", *arguments, "--no-video", "--out", str(out)])


@pytest.fixture(scope="module")
def carts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two cart poles that were trained one after the other and never stopped, in seed-0 and seed-1."""
    out = tmp_path_factory.mktemp("alone")
    for seed in (0, 1):
        assert train("CartPole-v1", *CART, "--seed", str(seed), out=out / f"seed-{seed}") == 0
    return out


# -- Equal runs -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=[(1, "mean"), (2, "inverse")], ids=["one environment", "two environments"])
def games(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """A fleet of two games, and its settings."""
    out = tmp_path_factory.mktemp("fleet")
    n_envs, kernel = request.param
    settings = [*ATARI, "--n-envs", str(n_envs), "--kernel", kernel]
    assert train("qbert", "ms_pacman", *settings, out=out) == 0
    return out, settings


def test_a_run_in_a_fleet_is_the_run_alone_bit_for_bit(games, tmp_path):
    out, settings = games
    for env in ("qbert", "ms_pacman"):
        assert train(env, *settings, out=tmp_path / env) == 0
        assert outcome(out / env) == outcome(tmp_path / env)
        assert RunDirectory(out / env).read_config() == RunDirectory(tmp_path / env).read_config()
        assert games_of(out / env) >= 2
    assert len(MFEC.load(out / "qbert" / "checkpoint").memory) > 100


def test_a_run_in_a_fleet_plays_the_games_that_exact_search_plays(games, tmp_path):
    out, settings = games
    assert train("qbert", *settings, "--index", "exact", out=tmp_path) == 0
    assert (out / "qbert" / "episodes.csv").read_bytes() == (tmp_path / "episodes.csv").read_bytes()
    assert outcome(out / "qbert")[3] == outcome(tmp_path)[3]


def test_each_run_has_its_own_directory_beside_a_common_curve(games):
    out, settings = games
    n_envs, kernel = int(settings[-3]), settings[-1]
    assert sorted(path.name for path in out.iterdir()) == ["curve.png", "ms_pacman", "qbert"]
    assert (out / "curve.png").read_bytes()[:4] == b"\x89PNG"
    agent = MFECConfig(index="cuda", capacity=30, kernel=kernel, embedding="random_projection", truncated="write")
    for env in ("qbert", "ms_pacman"):
        run = RunDirectory(out / env)
        assert run.read_config() == RunConfig(env, 1200, 0, agent, EnvConfig(n_envs=n_envs, max_frames=400))
        assert MFEC.load(run.checkpoint).games == len(run.episodes()["frames"])
        names = {path.name for path in run.path.iterdir() if not path.name.startswith("events.")}
        files = {"config.toml", "episodes.csv", "progress.csv", "checkpoint", "history", "log.txt", "curve.png"}
        assert names == files


def test_seeds_of_several_environments_of_which_one_was_begun_alone_with_exact_search(carts, tmp_path, capsys):
    begun = RunConfig("CartPole-v1", 900, 0, MFECConfig(index="exact", capacity=200))
    with stopped_after(400):
        train_alone(begun, tmp_path / "CartPole-v1" / "seed-0", console=Console(file=io.StringIO()))
    assert train("CartPole-v1", "FrozenLake-v1", *CART, "--seeds", "0", "1", "--resume", out=tmp_path) == 0
    said = capsys.readouterr().out
    assert "going on from frame 400\n" in (tmp_path / "CartPole-v1" / "seed-0" / "log.txt").read_text()
    assert "3,600/3,600 frames  0/s  runs: 4 finished\n" in said
    assert f"learning curve: {tmp_path / 'curve.png'}" in said
    for seed in ("seed-0", "seed-1"):
        ours, theirs = outcome(tmp_path / "CartPole-v1" / seed), outcome(carts / seed)
        assert ours[0] == theirs[0]
        assert ours[2:] == theirs[2:]
        assert (ours[1] == theirs[1]) == (seed == "seed-1"), "another index takes other bytes, as progress tells"
        assert MFEC.load(tmp_path / "FrozenLake-v1" / seed / "checkpoint").frames == 900
    first, second = (tmp_path / "FrozenLake-v1" / seed / "episodes.csv" for seed in ("seed-0", "seed-1"))
    assert first.read_text() != second.read_text()


# -- Runs that fail ---------------------------------------------------------------------------------------------------


def test_a_run_that_another_process_trains_is_refused_and_the_others_go_on(carts, tmp_path, capsys):
    with locked(tmp_path / "seed-0"):
        assert train("CartPole-v1", *CART, "--seeds", "0", "1", out=tmp_path) == 1
    said = capsys.readouterr()
    reason = f"seed 0 failed: cannot begin a run in {tmp_path / 'seed-0'}: it is in use by process "
    assert said.err.startswith(f"mfec: {reason}")
    assert reason in said.out
    assert not (tmp_path / "seed-0" / "config.toml").exists()
    assert outcome(tmp_path / "seed-1") == outcome(carts / "seed-1")


FAULTY = """
    import os, signal
    import gymnasium
    from gymnasium.envs.classic_control import CartPoleEnv

    class Faulty(CartPoleEnv):
        steps = 0

        def __init__(self, fault, render_mode=None):
            super().__init__(render_mode=render_mode)
            self.fault = fault

        def step(self, action):
            Faulty.steps += 1
            observation, reward, *rest = super().step(action)
            if Faulty.steps == 500 and "FAULTS" in os.environ:
                if self.fault == "killed":
                    os.kill(os.getpid(), signal.SIGKILL)
                if self.fault == "raises":
                    raise RuntimeError("the pole broke")
                reward = float("nan")
            return observation, reward, *rest

    for name in ("killed", "raises", "nan"):
        gymnasium.register(f"{name}-v0", entry_point=Faulty, kwargs={"fault": name}, max_episode_steps=500)
"""
FAULTS = ["faulty_carts:killed-v0", "faulty_carts:raises-v0", "faulty_carts:nan-v0"]


def test_a_run_that_fails_or_is_killed_is_reported_and_the_others_finish(carts, tmp_path, monkeypatch, capfd):
    """Then all of them go on, and end as if nothing had happened."""
    (tmp_path / "faulty_carts.py").write_text(textwrap.dedent(FAULTY))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("FAULTS", "1")
    out = tmp_path / "runs"
    out.mkdir()
    (out / "FrozenLake-v1").write_text("no place for a run")
    assert train("CartPole-v1", "FrozenLake-v1", *FAULTS, *CART, out=out) == 1
    said, error = capfd.readouterr()
    reasons = [
        f"FrozenLake-v1 failed: cannot begin a run in {out / 'FrozenLake-v1'}: ",
        f"{FAULTS[0]} failed: its process ended with status -9",
        f"{FAULTS[1]} failed: RuntimeError: the pole broke",
        f"{FAULTS[2]} failed: the environment returned the rewards [nan] after frame 499",
    ]
    for line, reason in zip(error.splitlines(), reasons, strict=True):
        assert line.startswith(f"mfec: {reason}")
        assert reason in said
    trace = (out / FAULTS[1].replace(":", "-") / "log.txt").read_text()
    assert 'raise RuntimeError("the pole broke")' in trace  # it is the environment's author who must look
    assert "runs: 1 finished, 4 failed\n" in said
    assert outcome(out / "CartPole-v1") == outcome(carts / "seed-0")
    frames = [MFEC.load(out / name.replace(":", "-") / "checkpoint").frames for name in FAULTS]
    assert frames == [300, 300, 499]  # the last checkpoint, or what was good before bad data

    monkeypatch.delenv("FAULTS")
    (out / "FrozenLake-v1").unlink()
    assert train("CartPole-v1", "FrozenLake-v1", *FAULTS, *CART, "--resume", out=out) == 0
    said, error = capfd.readouterr()
    assert "going on from frame 300\n" in (out / FAULTS[0].replace(":", "-") / "log.txt").read_text()
    assert error == ""
    for name in FAULTS:  # without their faults they are cart poles
        assert outcome(out / name.replace(":", "-")) == outcome(carts / "seed-0")
    assert games_of(out / "FrozenLake-v1") > 20


def test_a_damaged_checkpoint_fails_alone(carts, tmp_path, capsys):
    for seed in ("seed-0", "seed-1"):
        shutil.copytree(carts / seed, tmp_path / seed)
    [file] = (tmp_path / "seed-0" / "checkpoint").glob("memory-*")
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    more = ["--total-frames", "1200", "--seeds", "0", "1", "--resume"]
    assert train("CartPole-v1", *CART, *more, out=tmp_path) == 1
    said = capsys.readouterr()
    reason = f"seed 0 failed: {file} is damaged: its checksum does not match"
    assert f"{reason}\n" in said.out
    assert said.err == f"mfec: {reason}; {tmp_path / 'seed-0' / 'log.txt'}\n"
    assert "Traceback" not in said.out
    assert "2,100/2,400 frames  0/s  runs: 1 finished, 1 failed\n" in said.out
    assert MFEC.load(tmp_path / "seed-1" / "checkpoint").frames == 1200


def test_output_that_cannot_be_written_ends_the_fleet_and_its_runs_save(tmp_path):
    """They are served until they have."""

    class Full(io.StringIO):
        def write(self, text: str) -> int:
            if text.startswith("seed 0 failed"):
                raise OSError("no space left on device")
            return len(text)

    config = RunConfig("CartPole-v1", 10**6, 0, MFECConfig(index="cuda", capacity=300))
    runs = [Run(f"seed {i}", replace(config, seed=i), tmp_path / f"seed-{i}") for i in range(2)]
    (tmp_path / "seed-0").write_text("no place for a run")
    with pytest.raises(OSError, match="no space left"):
        train_runs(runs, LocalLauncher(jobs=2, options=TrainingOptions()), console=Console(file=Full()))
    assert runs[1].state == "stopped"
    assert multiprocessing.active_children() == []


def test_the_runs_of_a_fleet_share_one_device(tmp_path):
    configs = [RunConfig("CartPole-v1", 100, 0, MFECConfig(index="cuda", device=device)) for device in ("cpu", "cuda")]
    runs = [Run(config.agent.device, config, tmp_path / config.agent.device) for config in configs]
    with pytest.raises(ValueError, match="the runs of a fleet share one device, not cpu, cuda"):
        train_runs(runs, LocalLauncher(jobs=2, options=TrainingOptions()))


# -- Stopping ---------------------------------------------------------------------------------------------------------


def have_games(out: Path, n: int) -> Callable[[], bool]:
    return lambda: all(games_of(out / seed) >= n for seed in ("seed-0", "seed-1"))


LISTED = pytest.mark.skipif(not Path("/proc").exists(), reason="processes are listed in /proc")


def children_of(parent: int) -> list[int]:
    """All processes that this one has started and that have not ended."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            state, own_parent = (place / "stat").read_text().rpartition(")")[2].split()[:2]
            found += [int(place.name)] if int(own_parent) == parent and state != "Z" else []
    return found


def how_to_go_on(process: subprocess.Popen[str]) -> str:
    """The command that a fleet which was asked to stop printed as its last words."""
    said, error = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130, said + error
    assert error == ""
    assert "Traceback" not in said
    return said.rpartition("\nstopped, and saved; go on with\n")[2].strip()


@pytest.mark.parametrize("way", ["ctrl-c"])
def test_asked_to_stop_all_runs_save_and_go_on_as_if_they_had_not(carts, tmp_path, start, held, way):
    with held(400):
        process = start("held:Cart-v0", *CART, "--seeds", "0", "1", "--out", str(tmp_path))
    wait_for(have_games(tmp_path, 3), process)
    ask_to_stop(process, way)
    again = how_to_go_on(process)
    assert shlex.split(again)[:3] == ["mfec", "train", "held:Cart-v0"]
    frames = {seed: MFEC.load(tmp_path / seed / "checkpoint").frames for seed in ("seed-0", "seed-1")}
    assert all(0 < stopped_at <= 400 for stopped_at in frames.values())
    assert main(shlex.split(again)[1:]) == 0
    for seed, stopped_at in frames.items():
        assert f"going on from frame {stopped_at:,}\n" in (tmp_path / seed / "log.txt").read_text()
        assert outcome(tmp_path / seed) == outcome(carts / seed)


@LISTED
@pytest.mark.parametrize("way", ["kill"])
def test_asked_to_stop_before_it_has_begun_a_fleet_stops_all_the_same(tmp_path, start, way):
    process = start("CartPole-v1", *CART, "--seeds", "0", "1", "--out", str(tmp_path))
    wait_for(lambda: len(children_of(process.pid)) > 1, process)  # its resource tracker, and a first run
    ask_to_stop(process, way)
    assert how_to_go_on(process).endswith("--resume")


@LISTED
def test_runs_whose_owner_was_killed_end_by_themselves(tmp_path, start):
    """Also a lake, whose states may need no look-up: it has nothing to ask its owner for."""
    process = start("CartPole-v1", "FrozenLake-v1", *CART, "--total-frames", "10000000", "--out", str(tmp_path))
    wait_for(lambda: all(games_of(tmp_path / env) > 0 for env in ("CartPole-v1", "FrozenLake-v1")), process)
    runs = [int((tmp_path / env / LOCK).read_text().split()[1]) for env in ("CartPole-v1", "FrozenLake-v1")]
    process.kill()
    process.communicate(timeout=PATIENCE)
    assert process.returncode == -signal.SIGKILL
    wait_until(lambda: not any(map(is_running, runs)), "the end of all processes")


# -- What cannot start ------------------------------------------------------------------------------------------------


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
@pytest.mark.parametrize("seeds", [[], ["--seeds", "0", "1"]], ids=["alone", "fleet"])
def test_without_a_gpu_the_device_is_refused_in_a_sentence(tmp_path, capsys, seeds):
    assert train("qbert", "--device", "cuda", *seeds, out=tmp_path / "run") == 1
    error = capsys.readouterr().err
    assert error.startswith("mfec: device 'cuda' needs an NVIDIA GPU, and torch ")
    assert error.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_without_torch_the_device_names_what_is_missing(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    for seeds in ([], ["--seeds", "0", "1"]):
        assert train("CartPole-v1", "--index", "cuda", *seeds, out=tmp_path / "run") == 1
        assert capsys.readouterr().err == "mfec: the device needs the extra `torch`: pip install 'mfec[torch]'\n"
    assert not (tmp_path / "run").exists()
