"""`mfec train` of several: each run is what it would be alone, and one that fails does not stop the others."""

from __future__ import annotations

import hashlib
import shlex
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from mfec import MFEC
from mfec.algorithms.mfec import MFECConfig
from mfec.cli import main
from mfec.experiments.many_runs import Run
from mfec.run_directory import RunDirectory

from ..waiting import PATIENCE
from .stopping import ask_to_stop, games_of, wait_for

LAKE = ["FrozenLake-v1", "--total-frames", "5000", "--capacity", "300", "--n-envs", "2"]
HELD = ["held:Lake-v0", *LAKE[1:]]


def outcome(out: Path) -> tuple[str, dict[str, str]]:
    """What two equal runs have in common, bit for bit."""
    tensors = MFEC.load(out / "checkpoint").memory.tensors()
    memory = {name: hashlib.sha256(tensor.tobytes()).hexdigest() for name, tensor in tensors.items()}
    return (out / "episodes.csv").read_text(), memory


# -- Runs -------------------------------------------------------------------------------------------------------------


def test_each_seed_is_the_run_that_it_would_be_alone(tmp_path, capsys):
    arguments = ["CartPole-v1", "--total-frames", "2000", "--capacity", "300", "--gamma", "0.9"]
    assert main(["train", *arguments, "--seeds", "0", "1", "--out", str(tmp_path / "both")]) == 0
    said = capsys.readouterr().out
    assert "4,000/4,000 frames" in said
    for seed in (0, 1):
        assert main(["train", *arguments, "--seed", str(seed), "--out", str(tmp_path / str(seed))]) == 0
        together, alone = RunDirectory(tmp_path / "both" / f"seed-{seed}"), RunDirectory(tmp_path / str(seed))
        assert outcome(together.path) == outcome(alone.path)
        assert together.read_config() == alone.read_config()
        assert together.curve.exists()
    assert outcome(tmp_path / "0")[0] != outcome(tmp_path / "1")[0]
    assert outcome(tmp_path / "0")[1]["keys"] != outcome(tmp_path / "1")[1]["keys"]
    assert sorted(path.name for path in (tmp_path / "both").iterdir()) == ["curve.png", "seed-0", "seed-1"]


def test_a_seed_that_fails_is_reported_and_the_others_go_on(tmp_path, capsys):
    lake = [*LAKE, "--no-video"]
    assert main(["train", *lake, "--seed", "0", "--out", str(tmp_path / "seed-0")]) == 0
    before = outcome(tmp_path / "seed-0")
    capsys.readouterr()
    assert main(["train", *lake, "--seeds", "0", "1", "--out", str(tmp_path)]) == 1
    said = capsys.readouterr()
    reason = f"{tmp_path / 'seed-0'} already holds a run: --resume goes on with it, or choose another --out"
    assert said.err == f"mfec: seed 0 failed: {reason}\n"
    assert f"seed 0 failed: {reason}\n" in said.out
    assert outcome(tmp_path / "seed-0") == before
    assert MFEC.load(tmp_path / "seed-1" / "checkpoint").frames == 5000
    assert "Traceback" not in said.out + said.err

    assert main(["train", *lake, "--seeds", "0", "1", "--out", str(tmp_path), "--resume"]) == 0
    assert "10,000/10,000 frames  0/s  runs: 2 finished\n" in capsys.readouterr().out
    assert (tmp_path / "curve.png").exists()


def test_a_seed_named_twice_is_trained_once(tmp_path, capsys):
    assert main(["train", *LAKE, "--seeds", "3", "3", "--out", str(tmp_path)]) == 0
    assert "go on with" not in capsys.readouterr().out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["curve.png", "seed-3"]


SEVEN = ["CartPole-v1", "--total-frames", "700", "--capacity", "100"]
SHORT = ["--total-frames", "600", "--capacity", "100", "--no-video"]


def test_each_environment_is_the_run_that_it_would_be_alone(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["train", "CartPole-v1", "FrozenLake-v1", *SHORT, "--seed", "7"]) == 0
    said = capsys.readouterr().out
    out = Path("runs") / "CartPole-v1-FrozenLake-v1"
    assert "1,200/1,200 frames" in said
    for env in ("CartPole-v1", "FrozenLake-v1"):
        assert main(["train", env, *SHORT, "--seed", "7", "--out", env]) == 0
        assert outcome(out / env) == outcome(Path(env))
        assert RunDirectory(out / env).read_config() == RunDirectory(env).read_config()
    assert sorted(path.name for path in out.iterdir()) == ["CartPole-v1", "FrozenLake-v1", "curve.png"]


def test_seeds_of_several_environments_have_a_directory_each_and_fail_by_name(tmp_path, capsys):
    (tmp_path / "FrozenLake-v1").mkdir()
    (tmp_path / "FrozenLake-v1" / "seed-2").write_text("no place for a run")
    arguments = ["CartPole-v1", "FrozenLake-v1", *SHORT, "--seeds", "1", "2", "--out", str(tmp_path)]
    assert main(["train", *arguments]) == 1
    said = capsys.readouterr()
    place = tmp_path / "FrozenLake-v1" / "seed-2"
    assert said.err.startswith(f"mfec: FrozenLake-v1 seed 2 failed: cannot begin a run in {place}: ")
    assert said.err.count("\n") == 1
    (tmp_path / "FrozenLake-v1" / "seed-2").unlink()
    assert main(["train", *arguments, "--resume"]) == 0
    for env in ("CartPole-v1", "FrozenLake-v1"):
        for seed in (1, 2):
            config = RunDirectory(tmp_path / env / f"seed-{seed}").read_config()
            assert (config.env, config.seed) == (env, seed)
            assert MFEC.load(tmp_path / env / f"seed-{seed}" / "checkpoint").frames == 600


@pytest.mark.parametrize("jobs", ["0", "-1"])
def test_a_senseless_number_of_jobs_is_refused(tmp_path, jobs):
    """With no process allowed to start it would wait for ever."""
    command = [sys.executable, "-m", "mfec", "train", *LAKE, "--seeds", "0", "1", "--jobs", jobs]
    ended = subprocess.run([*command, "--out", str(tmp_path)], capture_output=True, text=True, timeout=PATIENCE)
    assert ended.returncode == 1
    assert ended.stderr == f"mfec: jobs must be at least 1, not {jobs}\n"


# -- Defaults of an environment ---------------------------------------------------------------------------------------


def test_each_environment_has_its_own_defaults_and_all_that_is_given(tmp_path, monkeypatch):
    (tmp_path / "small_maze.py").write_text(
        "import gymnasium\n"
        "from gymnasium.envs.toy_text import FrozenLakeEnv\n"
        "gymnasium.register('mfec/Labyrinth-Small-v0', entry_point=FrozenLakeEnv, max_episode_steps=100)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    envs, out = ["FrozenLake-v1", "small_maze:mfec/Labyrinth-Small-v0"], tmp_path / "runs"
    arguments = ["train", *envs, "--k", "11", "--epsilon", "0.5", "--no-video", "--out", str(out)]
    assert main([*arguments, "--total-frames", "100"]) == 0
    lake, maze = RunDirectory(out / "FrozenLake-v1"), RunDirectory(out / "small_maze-mfec-Labyrinth-Small-v0")
    given = MFECConfig(k=11, epsilon=0.5, embedding="table", truncated="bootstrap")
    assert lake.read_config().agent == replace(given, gamma=1.0, capacity=1_000_000)
    assert maze.read_config().agent == replace(given, gamma=0.99, capacity=100_000)

    assert main([*arguments, "--total-frames", "200", "--resume"]) == 0
    assert [MFEC.load(run.checkpoint).frames for run in (lake, maze)] == [200, 200]


@pytest.mark.parametrize("options", [
    "", "--k 11", "--k 50 --gamma 1.0", "--k 3 --capacity 100000 --n-envs 2", "--vae runs/vae/{env}",
])  # fmt: skip
def test_the_command_that_goes_on_makes_the_same_runs(monkeypatch, capsys, options):
    asked: list[list[Run]] = []

    def stop(runs: list[Run], *_, **__) -> None:
        asked.append([replace(run) for run in runs])
        for run in runs:
            run.state = "stopped"

    monkeypatch.setattr("mfec.experiments.many_runs.train_runs", stop)
    monkeypatch.setattr("mfec.cli.train._look_before", lambda runs, **_: None)
    assert main(["train", "qbert", "labyrinth_forage", *options.split(), "--seeds", "3", "4"]) == 130
    names = ["qbert seed 3", "qbert seed 4", "labyrinth_forage seed 3", "labyrinth_forage seed 4"]
    assert [run.name for run in asked[0]] == names
    again = shlex.split(capsys.readouterr().out.splitlines()[-1])
    assert main(again[1:]) == 130
    assert asked[1] == asked[0]


def test_what_cannot_begin_is_refused_before_anything_is_trained(tmp_path, capsys):
    for arguments, message in (
        (["CartPole-v1", "CartPol-v1"], "unknown environment 'CartPol-v1'; did you mean 'CartPole-v1'?"),
        (["CartPole-v1", "FrozenLake-v1", "--keep-frames"], "CartPole-v1 shows no pictures"),
        (["CartPole-v1", "FrozenLake-v1", "--total-frames", "0"], "total_frames must be at least 1, not 0"),
        (["CartPole-v1", "--seeds", "0", "-1"], "a seed must not be negative, and -1 is"),
    ):
        for index in ([], ["--index", "cuda"]):
            assert main(["train", *arguments, *index, "--out", str(tmp_path / "runs")]) == 1
            assert capsys.readouterr().err.startswith(f"mfec: {message}")
            assert not (tmp_path / "runs").exists()


def test_each_finished_run_has_its_curve_and_its_video(tmp_path, capsys):
    assert main(["train", *SEVEN, "--seeds", "0", "1", "--out", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    for seed in (0, 1):
        run = RunDirectory(tmp_path / f"seed-{seed}")
        assert f"video: {run.video}\n" in said
        assert run.curve.exists()


# -- Stopping ---------------------------------------------------------------------------------------------------------


def wait_for_games(out: Path, seeds: int, process: subprocess.Popen[str]) -> None:
    """Wait until so many seeds have finished some games, or the process has ended."""
    wait_for(lambda: sum(games_of(run) >= 20 for run in out.glob("seed-*")) == seeds, process)


@pytest.mark.parametrize("way", ["timeout"])
def test_asked_to_stop_every_seed_saves(tmp_path, start, held, way):
    with held(500):
        process = start(*HELD, "--seeds", "0", "1", "--jobs", "2", "--out", str(tmp_path))
    wait_for_games(tmp_path, 2, process)
    ask_to_stop(process, way)
    said, error = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130, error
    assert "Traceback" not in said + error
    for seed in (0, 1):
        run = RunDirectory(tmp_path / f"seed-{seed}")
        assert run.has_checkpoint, said
        agent = MFEC.load(run.checkpoint)
        assert 0 < agent.frames <= 500
        assert agent.games == len(run.episodes()["frames"])
    again = said.rpartition("\nstopped, and saved; go on with\n")[2].split()
    assert again[:3] == ["mfec", "train", "held:Lake-v0"]
    assert again[-6:] == ["--seeds", "0", "1", "--out", str(tmp_path), "--resume"]


def test_seeds_that_were_stopped_go_on_as_if_they_had_not_been(tmp_path, start, held):
    with held(500):
        process = start(*HELD, "--seeds", "0", "1", "--jobs", "1", "--out", str(tmp_path))
    wait_for_games(tmp_path, 1, process)
    process.send_signal(signal.SIGINT)
    said, error = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130, error
    assert not (tmp_path / "seed-1").exists()  # what waits does not begin
    again = said.rpartition("\nstopped, and saved; go on with\n")[2].split()
    assert main(again[1:]) == 0
    for seed in (0, 1):
        assert main(["train", *LAKE, "--seed", str(seed), "--out", str(tmp_path / f"whole-{seed}")]) == 0
        assert outcome(tmp_path / f"seed-{seed}") == outcome(tmp_path / f"whole-{seed}")
