"""`mfec train` of several: where each run goes, what it is given, what is said of it, and how the command goes on."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from mfec.algorithms.mfec import MFEC_ALGORITHM
from mfec.cli import main
from mfec.experiments.many_runs import Run
from mfec.run_directory import RunDirectory

from ..waiting import PATIENCE
from .stopping import ask_to_stop, games_of, outcome, wait_for

SHORT = ["--total-frames", "600", "--capacity", "100"]
LAKE = ["held:Lake-v0", "--total-frames", "900", "--capacity", "300", "--n-envs", "2", "--no-video"]


# -- Runs -------------------------------------------------------------------------------------------------------------


def test_each_run_is_what_it_would_be_alone_and_one_that_fails_is_named(elsewhere, capsys):
    """A seed that is named twice is trained once."""
    out, envs = Path("runs") / "CartPole-v1-FrozenLake-v1", ("CartPole-v1", "FrozenLake-v1")
    cart, lake = (RunDirectory(out / env / "seed-3") for env in envs)
    lake.path.parent.mkdir(parents=True)
    lake.path.write_text("no place for a run")
    command = ["train", *envs, *SHORT, "--seeds", "3", "3", "--gamma", "0.9"]
    assert main(command) == 1
    said = capsys.readouterr()
    assert said.err.startswith(f"mfec: FrozenLake-v1 seed 3 failed: cannot begin a run in {lake.path}: ")
    assert said.err.count("\n") == 1
    assert f"video: {cart.video}\n" in said.out
    assert "600/1,200 frames  0/s  runs: 1 finished, 1 failed\n" in said.out

    lake.path.unlink()
    assert main([*command, "--no-video", "--resume"]) == 0
    said = capsys.readouterr()
    assert "1,200/1,200 frames  0/s  runs: 2 finished\n" in said.out
    assert f"learning curve: {out / 'curve.png'}" in said.out
    assert said.err == ""
    assert sorted(path.name for path in out.iterdir()) == ["CartPole-v1", "FrozenLake-v1", "curve.png"]
    assert (out / "curve.png").read_bytes()[:4] == b"\x89PNG"
    for run, env in zip((cart, lake), envs, strict=True):
        assert main(["train", env, *SHORT, "--gamma", "0.9", "--seed", "3", "--no-video", "--out", env]) == 0
        assert outcome(run.path) == outcome(Path(env))
        assert run.read_config() == RunDirectory(env).read_config()
        assert run.curve.exists()


@pytest.mark.parametrize(("options", "given"), [
    ("", {}),
    ("--k 11", {"k": 11}),  # the default of one of them, given for both
    ("--k 3 --capacity 100000 --n-envs 2", {"k": 3, "capacity": 100_000}),
    ("--vae runs/vae/{env}", {"embedding": "vae"}),
])  # fmt: skip
def test_runs_have_the_defaults_of_their_environment_and_the_command_that_goes_on_makes_the_same(
    monkeypatch, capsys, options, given
):
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
    for run in asked[0]:
        own = {**given, "vae": f"runs/vae/{run.config.env}"} if "vae" in options else given
        assert run.config.agent == replace(MFEC_ALGORITHM.defaults(run.config.env), **own)
    again = shlex.split(capsys.readouterr().out.splitlines()[-1])
    assert main(again[1:]) == 130
    assert asked[1] == asked[0]


@pytest.mark.parametrize(("arguments", "message"), [
    (["CartPole-v1", "CartPol-v1"], "unknown environment 'CartPol-v1'; did you mean 'CartPole-v1'?"),
    (["CartPole-v1", "FrozenLake-v1", "--keep-frames"], "CartPole-v1 shows no pictures"),
    (["CartPole-v1", "FrozenLake-v1", "--total-frames", "0"], "total_frames must be at least 1, not 0"),
    (["CartPole-v1", "--seeds", "0", "-1"], "a seed must not be negative, and -1 is"),
])  # fmt: skip
def test_what_cannot_begin_is_refused_before_anything_is_trained(tmp_path, capsys, arguments, message):
    assert main(["train", *arguments, "--out", str(tmp_path / "runs")]) == 1
    assert capsys.readouterr().err.startswith(f"mfec: {message}")
    assert not (tmp_path / "runs").exists()


# -- Stopping ---------------------------------------------------------------------------------------------------------


def test_seeds_that_were_stopped_go_on_as_if_they_had_not_been(tmp_path, start, held):
    out = tmp_path / "it's here"
    with held(400):
        process = start(*LAKE, "--seeds", "0", "1", "--jobs", "1", "--out", str(out))
    wait_for(lambda: games_of(out / "seed-0") >= 3, process)
    ask_to_stop(process, "ctrl-c")
    said, error = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130, error
    assert error == ""
    assert not (out / "seed-1").exists()  # what waits does not begin
    again = shlex.split(said.rpartition("\nstopped, and saved; go on with\n")[2])
    assert again[-6:] == ["--seeds", "0", "1", "--out", str(out), "--resume"]
    assert main(again[1:]) == 0
    assert "going on from frame " in (out / "seed-0" / "log.txt").read_text()
    for seed in (0, 1):
        assert main(["train", *LAKE, "--seed", str(seed), "--out", str(tmp_path / f"whole-{seed}")]) == 0
        assert outcome(out / f"seed-{seed}") == outcome(tmp_path / f"whole-{seed}")
