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
from mfec.cli import main
from mfec.config import AgentConfig, EnvConfig, RunConfig
from mfec.experiments.fleet import Member, train_fleet
from mfec.experiments.lock import locked
from mfec.experiments.train import train as train_alone
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


@pytest.fixture(scope="module", params=[(1, "mean"), (2, "inverse")], ids=["one lane", "two lanes"])
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
    agent = AgentConfig(index="cuda", capacity=30, kernel=kernel, embedding="random_projection", truncated="write")
    for env in ("qbert", "ms_pacman"):
        run = RunDirectory(out / env)
        assert run.read_config() == RunConfig(env, 1200, 0, agent, EnvConfig(n_envs=n_envs, max_frames=400))
        assert MFEC.load(run.checkpoint).games == len(run.episodes()["frames"])
        names = {path.name for path in run.path.iterdir() if not path.name.startswith("events.")}
        assert names == {"config.toml", "episodes.csv", "progress.csv", "checkpoint", "history"}


def test_seeds_of_several_environments_of_which_one_was_begun_alone_with_exact_search(carts, tmp_path, capsys):
    begun = RunConfig("CartPole-v1", 900, 0, AgentConfig(index="exact", capacity=200))
    with stopped_after(400):
        train_alone(begun, tmp_path / "CartPole-v1" / "seed-0", console=Console(file=io.StringIO()))
    assert train("CartPole-v1", "FrozenLake-v1", *CART, "--seeds", "0", "1", "--resume", out=tmp_path) == 0
    said = capsys.readouterr().out
    assert "CartPole-v1 seed 0: going on from frame 400\n" in said
    assert "3,600/3,600 frames" in said
    assert "runs: 4 finished  left 0:00\n" in said
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
    assert said.err.splitlines()[-1] == "mfec: these runs failed: seed 0"
    assert f"seed 0 failed: cannot begin a run in {tmp_path / 'seed-0'}: it is in use by process " in said.out
    assert not (tmp_path / "seed-0").exists()
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
    assert error.splitlines()[-1] == f"mfec: these runs failed: FrozenLake-v1, {', '.join(FAULTS)}"
    assert f"FrozenLake-v1 failed: cannot begin a run in {out / 'FrozenLake-v1'}: " in said
    assert f"{FAULTS[0]} failed: its process ended with status -9\n" in said
    assert f"{FAULTS[1]} failed: " in said
    assert "RuntimeError: the pole broke\n" in said  # with the trace: it is the environment's author who must look
    assert f"{FAULTS[2]} failed: the environment returned the rewards [nan] after frame 499\n" in said
    assert "runs: 1 finished, 4 failed" in said.splitlines()[-1]
    assert outcome(out / "CartPole-v1") == outcome(carts / "seed-0")
    frames = [MFEC.load(out / name.replace(":", "-") / "checkpoint").frames for name in FAULTS]
    assert frames == [300, 300, 499]  # the last checkpoint, or what was good before bad data

    monkeypatch.delenv("FAULTS")
    (out / "FrozenLake-v1").unlink()
    assert train("CartPole-v1", "FrozenLake-v1", *FAULTS, *CART, "--resume", out=out) == 0
    said, error = capfd.readouterr()
    assert f"{FAULTS[0]}: going on from frame 300\n" in said
    assert error == ""
    for name in FAULTS:  # without their faults they are cart poles
        assert outcome(out / name.replace(":", "-")) == outcome(carts / "seed-0")
    assert games_of(out / "FrozenLake-v1") > 20


def test_a_directory_that_holds_a_run_is_the_failure_of_that_run_alone(carts, tmp_path, capsys):
    shutil.copytree(carts / "seed-0", tmp_path / "seed-0")
    assert train("CartPole-v1", *CART, "--seeds", "0", "1", out=tmp_path) == 1
    said = capsys.readouterr()
    assert f"seed 0 failed: {tmp_path / 'seed-0'} already holds a run: --resume goes on with it" in said.out
    assert said.err == "mfec: these runs failed: seed 0\n"
    for seed in ("seed-0", "seed-1"):
        assert outcome(tmp_path / seed) == outcome(carts / seed)


def test_a_damaged_checkpoint_fails_alone_and_a_finished_run_is_not_trained_again(carts, tmp_path, capsys):
    for seed in ("seed-0", "seed-1"):
        shutil.copytree(carts / seed, tmp_path / seed)
    [file] = (tmp_path / "seed-0" / "checkpoint").glob("memory-*")
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    checkpoint = (tmp_path / "seed-1" / "checkpoint" / "manifest.json").read_bytes()
    assert train("CartPole-v1", *CART, "--seeds", "0", "1", "--resume", out=tmp_path) == 1
    said = capsys.readouterr()
    assert f"seed 0 failed: {file} is damaged: its checksum does not match\n" in said.out
    assert f"seed 1: {tmp_path / 'seed-1'} has all of its 900 frames\n" in said.out
    assert said.err == "mfec: these runs failed: seed 0\n"
    assert "Traceback" not in said.out
    last = said.out.splitlines()[-1]
    assert last.startswith("900/1,800 frames  ")
    assert last.endswith("runs: 1 failed, 1 finished  left 0:00")
    assert (tmp_path / "seed-1" / "checkpoint" / "manifest.json").read_bytes() == checkpoint
    assert outcome(tmp_path / "seed-1") == outcome(carts / "seed-1")


def test_output_that_cannot_be_written_ends_the_fleet_at_once(tmp_path):
    """Runs that nobody serves any more must not be waited for."""

    class Full(io.StringIO):
        def write(self, text: str) -> int:
            if text.startswith("seed 0 failed"):
                raise OSError("no space left on device")
            return len(text)

    config = RunConfig("CartPole-v1", 10**6, 0, AgentConfig(index="cuda", capacity=300))
    members = [Member(f"seed {i}", replace(config, seed=i), tmp_path / f"seed-{i}") for i in range(2)]
    (tmp_path / "seed-0").write_text("no place for a run")
    with pytest.raises(OSError, match="no space left"):
        train_fleet(members, console=Console(file=Full()))
    assert members[1].outcome == "running"
    assert multiprocessing.active_children() == []


def test_the_runs_of_a_fleet_share_one_device(tmp_path):
    configs = [RunConfig("CartPole-v1", 100, 0, AgentConfig(index="cuda", device=device)) for device in ("cpu", "cuda")]
    members = [Member(config.agent.device, config, tmp_path / config.agent.device) for config in configs]
    with pytest.raises(ValueError, match="the runs of a fleet share one device, not cpu, cuda"):
        train_fleet(members)


# -- Processes that do not exit ---------------------------------------------------------------------------------------


def test_a_run_whose_process_hangs_at_its_end_keeps_nobody_waiting(carts, tmp_path, monkeypatch, capfd, hanging_carts):
    """Were it waited for, no look-up of the other, which is longer, would be answered any more."""
    monkeypatch.setattr("mfec.experiments.leaving.EXIT_SECONDS", 0.5)
    assert train(hanging_carts, "CartPole-v1", *CART, out=tmp_path / "runs") == 0
    said, error = capfd.readouterr()
    assert error == ""
    assert f"{hanging_carts}: its process did not exit" in said
    for name in (hanging_carts.replace(":", "-"), "CartPole-v1"):
        assert outcome(tmp_path / "runs" / name) == outcome(carts / "seed-0")


# -- Stopping ---------------------------------------------------------------------------------------------------------


def have_games(out: Path, n: int) -> Callable[[], bool]:
    return lambda: all(games_of(out / seed) >= n for seed in ("seed-0", "seed-1"))


LISTED = pytest.mark.skipif(not Path("/proc").exists(), reason="processes are listed in /proc")


def processes_of(group: int) -> list[int]:
    """All processes of a group but those that have ended and were not waited for."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            state, _, own_group = (place / "stat").read_text().rpartition(")")[2].split()[:3]
            found += [int(place.name)] if int(own_group) == group and state != "Z" else []
    return found


def how_to_go_on(process: subprocess.Popen[str]) -> str:
    """The command that a fleet which was asked to stop printed as its last words."""
    said, error = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130, said + error
    assert error == ""
    assert "Traceback" not in said
    return said.rpartition("\nstopped, and saved; go on with\n")[2].strip()


@pytest.mark.parametrize("way", ["ctrl-c", "kill", "timeout"])
def test_asked_to_stop_all_runs_save_and_go_on_as_if_they_had_not(carts, tmp_path, start, held, capsys, way):
    with held(400):
        process = start("held:Cart-v0", *CART, "--seeds", "0", "1", "--out", str(tmp_path))
    wait_for(have_games(tmp_path, 3), process)
    ask_to_stop(process, way)
    again = how_to_go_on(process)
    assert shlex.split(again)[:3] == ["mfec", "train", "held:Cart-v0"]
    frames = {seed: MFEC.load(tmp_path / seed / "checkpoint").frames for seed in ("seed-0", "seed-1")}
    assert all(0 < stopped_at <= 400 for stopped_at in frames.values())
    assert main(shlex.split(again)[1:]) == 0
    said = capsys.readouterr().out
    for seed, stopped_at in frames.items():
        assert f"{seed.replace('-', ' ')}: going on from frame {stopped_at:,}\n" in said
        assert outcome(tmp_path / seed) == outcome(carts / seed)


@LISTED
@pytest.mark.parametrize("way", ["ctrl-c", "kill", "timeout"])
def test_asked_to_stop_before_it_has_begun_a_fleet_stops_all_the_same(tmp_path, start, way):
    process = start("CartPole-v1", *CART, "--seeds", "0", "1", "--out", str(tmp_path))
    assert process.stdout.readline().startswith("memory: 2 runs")
    wait_for(lambda: len(processes_of(process.pid)) > 2, process)  # itself, its resource tracker, and a first run
    ask_to_stop(process, way)
    assert how_to_go_on(process).endswith("--resume")


@LISTED
def test_runs_whose_owner_was_killed_end_by_themselves(tmp_path, start):
    """Also a lake, whose states may need no look-up: it has nothing to ask its owner for."""
    process = start("CartPole-v1", "FrozenLake-v1", *CART, "--total-frames", "10000000", "--out", str(tmp_path))
    wait_for(lambda: all(games_of(tmp_path / env) > 0 for env in ("CartPole-v1", "FrozenLake-v1")), process)
    process.kill()
    process.communicate(timeout=PATIENCE)  # until no process has its end of the pipe any more
    assert process.returncode == -signal.SIGKILL
    wait_until(lambda: not processes_of(process.pid), "the end of all processes")


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


def test_memories_that_fit_one_by_one_but_not_together_are_refused(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("mfec.experiments.ram.physical_ram", lambda: 2_000_000)
    settings = ["--index", "cuda", "--capacity", "1000", "--total-frames", "16000"]
    assert train("qbert", *settings, "--seeds", "0", "1", out=tmp_path / "run") == 1
    said = capsys.readouterr()
    assert said.err.startswith("mfec: a capacity of 1,000 entries for each of 12 actions of all runs needs ")
    assert "MB when full, this machine has 2 MB: choose a smaller --capacity or fewer --total-frames, or " in said.err
    assert said.err.count("\n") == 1
    assert said.out.startswith("memory: 2 runs with together 12 x 1,000 entries can grow to ")
    assert not (tmp_path / "run").exists()
    assert train("qbert", *settings, "--total-frames", "400", "--seeds", "0", "1", out=tmp_path / "run") == 0


@pytest.mark.parametrize(("settings", "message"), [
    (["--seeds", "0", "-1"], "a seed must not be negative, and -1 is"),
    (["--seeds", "0", "1", "--total-frames", "0"], "total_frames must be at least 1, not 0"),
    (["CartPol-v1"], "unknown environment 'CartPol-v1'; did you mean 'CartPole-v1'? `mfec envs` lists all of them"),
])  # fmt: skip
def test_a_senseless_fleet_is_refused_as_a_whole(tmp_path, capsys, settings, message):
    assert train("CartPole-v1", *settings, "--index", "cuda", out=tmp_path / "run") == 1
    assert capsys.readouterr().err == f"mfec: {message}\n"
    assert not (tmp_path / "run").exists()
