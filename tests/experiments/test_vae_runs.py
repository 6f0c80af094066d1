"""Runs whose states come from a VAE: one that was trained before, or one that the run trains on its first frames."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import signal
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from mfec import MFEC
from mfec.algorithms import RunConfig
from mfec.algorithms.mfec import MFECConfig
from mfec.cli import Train, commands_for, main
from mfec.cli.reading import read_command
from mfec.cli.resuming import how_to_go_on
from mfec.config import EnvConfig, VAEConfig
from mfec.embeddings import VAE
from mfec.embeddings.vae.training import Trainer
from mfec.experiments import vae as experiments_vae
from mfec.experiments.launchers.local import LocalLauncher
from mfec.experiments.lock import locked
from mfec.experiments.many_runs import Run, TrainingOptions, train_runs
from mfec.experiments.ram import needs_of
from mfec.experiments.train import train
from mfec.experiments.vae_directory import VAEDirectoryError
from mfec.run_directory import RunDirectory, RunDirectoryError

from .stopping import games_of, outcome, stopped_after

pytestmark = pytest.mark.usefixtures("small", "_small_networks")
# A run has the networks of the paper; with these a step takes milliseconds.
RECIPE = VAEConfig(minibatch=4, channels=(4, 4, 4, 4), hidden=16, latents=4)


@pytest.fixture(scope="module")
def _small_networks() -> Iterator[None]:
    small = property(lambda own: replace(RECIPE, frames=own.vae_frames, steps=own.vae_steps))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MFECConfig, "own_vae", small)
        yield


SHORT = ["--total-frames", "480", "--capacity", "30", "--max-frames", "200", "--no-video"]


def refused(capsys: pytest.CaptureFixture[str]) -> str:
    """The sentence in which something was refused."""
    error = capsys.readouterr().err
    assert error.startswith("mfec: ")
    assert error.count("\n") == 1
    return error.removeprefix("mfec: ").rstrip()


# -- With an encoder that is there ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, make_encoder, small: None) -> Path:
    """A run of Q*bert, never stopped, with the encoder `qbert` beside it."""
    place = tmp_path_factory.mktemp("runs")
    make_encoder(place / "qbert")
    encoder = ["--index", "cuda", "--vae", str(place / "{env}")]
    assert main(["train", "qbert", *SHORT, *encoder, "--out", str(place / "run")]) == 0
    return place / "run"


def test_states_are_those_of_the_encoder(run):
    config = RunDirectory(run).read_config()
    assert (config.agent.embedding, config.agent.vae) == ("vae", str(run.with_name("qbert")))
    agent = MFEC.load(run / "checkpoint")
    assert isinstance(agent.embedding, VAE)
    assert agent.embedding.digest == VAE.load(run.with_name("qbert")).digest
    assert agent.memory.tensors()["states"].shape[1] == 8
    assert games_of(run) == 2
    assert len(agent.memory) > 30


def test_stopped_it_goes_on_bit_for_bit_when_its_encoder_is_gone(run, make_encoder, tmp_path, monkeypatch):
    """The checkpoint holds it. The settings of the run stay as they were."""
    vae, out = make_encoder(tmp_path / "vae"), tmp_path / "runs" / "seed-0"
    before = RunDirectory(run).read_config()
    config = replace(before, agent=replace(before.agent, vae=str(vae)))
    with stopped_after(60):
        train(config, out, console=Console(file=io.StringIO()))
    shutil.rmtree(vae)
    command = ["train", "qbert", *SHORT, "--index", "cuda", "--vae", str(vae), "--resume"]
    begun: list[Run] = []
    with monkeypatch.context() as patch:
        patch.setattr("mfec.experiments.many_runs.train_runs", lambda runs, *_, **__: begun.extend(runs))
        assert main([*command, "--seeds", "0", "--out", str(out.parent)]) == 0
    assert [run.out for run in begun] == [out]  # many of them would not be refused, either
    assert needs_of(config, out) == needs_of(replace(config, agent=replace(config.agent, vae=before.agent.vae)))
    assert main([*command, "--out", str(out)]) == 0
    ours, theirs = outcome(out), outcome(run)
    assert (ours[0], ours[3]) == (theirs[0], theirs[3])
    assert RunDirectory(out).read_config().agent.vae == str(vae)


@pytest.mark.parametrize(("env", "arguments", "message"), [
    ("qbert", ["--frame-stack", "4"], "the environment has uint8 of shape (4, 84, 84)"),
    ("CartPole-v1", ["--seeds", "0", "1"], "the environment has float32 of shape (4,)"),
])  # fmt: skip
def test_an_encoder_that_does_not_fit_is_refused_once(encoder, tmp_path, capsys, env, arguments, message):
    command = ["train", env, *SHORT[:4], "--vae", str(encoder), *arguments, "--out", str(tmp_path / "run")]
    assert main(command) == 1
    assert refused(capsys).endswith(message)
    assert not (tmp_path / "run").exists()


def test_an_encoder_is_for_no_other_embedding(tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["train", "qbert", "--embedding", "random_projection", "--vae", "here", "--out", str(tmp_path / "run")])
    assert ended.value.code == 2
    said = " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert "an encoder ('here') is for the embedding vae, not for random_projection" in said
    assert not (tmp_path / "run").exists()


def test_an_encoder_that_is_not_there_is_refused_once(tmp_path, capsys):
    command = [
        "train",
        "qbert",
        *SHORT,
        "--vae",
        str(tmp_path / "nowhere"),
        "--seeds",
        "0",
        "1",
        "--out",
        str(tmp_path / "run"),
    ]
    assert main(command) == 1
    assert refused(capsys).startswith(f"there is no encoder '{tmp_path / 'nowhere'}'")
    assert not (tmp_path / "run").exists()


def test_without_torch_nothing_is_begun(encoder, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    assert main(["train", "qbert", *SHORT, "--vae", str(encoder), "--out", str(tmp_path / "run")]) == 1
    assert refused(capsys).endswith("needs the extra `torch`: pip install 'mfec[torch]'")
    assert not (tmp_path / "run").exists()


# -- With a VAE of its own --------------------------------------------------------------------------------------------

AGENT = MFECConfig(embedding="vae", capacity=60, index="cuda", vae_frames=640, vae_steps=25)
OWN = RunConfig("qbert", 1040, 0, AGENT, EnvConfig(max_frames=200))
COMMAND = [
    "train", "qbert", "--total-frames", "1040", "--max-frames", "200", "--no-video", "--capacity", "60",
    "--index", "cuda", "--embedding", "vae", "--vae-frames", "640", "--vae-steps", "25",
]  # fmt: skip


def begin(out: Path, *, resume: bool = False) -> str:
    """Train the run OWN; what it said."""
    said = io.StringIO()
    train(OWN, out, resume=resume, console=Console(file=said, width=300))
    return said.getvalue()


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory, small: None, _small_networks: None) -> Path:
    """The run OWN, which trained its own VAE, never stopped; by the command."""
    out = tmp_path_factory.mktemp("own")
    assert main([*COMMAND, "--out", str(out)]) == 0
    return out


def test_the_frames_of_its_vae_are_its_first(own):
    run = RunDirectory(own)
    ends, lengths = run.episodes()["frames"], run.episodes()["length_frames"]
    assert len(ends) >= 2
    assert ends[0] == 640 + lengths[0]
    progress = run.progress()["frames"]
    assert (progress[0], progress[-1]) == (644, 1040)
    assert (
        len(progress) >= 100
    )  # they lie a hundredth of what the agent has played apart; its VAE's frames do not count
    assert MFEC.load(run.checkpoint).frames == 1040
    assert MFEC.load(run.checkpoint).embedding.digest == VAE.load(own / "vae").digest  # type: ignore[attr-defined]
    assert VAE.load(own).digest == VAE.load(own / "vae").digest  # a run is as good a name for its encoder


def test_its_settings_are_those_of_its_vae_too(own):
    table = tomllib.loads((own / "config.toml").read_text())["agent"]
    assert {"vae_frames": 640, "vae_steps": 25}.items() <= table.items()
    assert RunDirectory(own).read_config() == replace(OWN, agent=replace(OWN.agent, truncated="write"))


def test_its_frames_are_deleted_and_not_collected_again(own, tmp_path, monkeypatch):
    assert sorted(path.name for path in (own / "vae").iterdir()) == [
        "checkpoint", "config.toml", "decoder.safetensors", "encoder.safetensors", "loss.csv", "loss.png",
        "reconstructions.png",
    ]  # fmt: skip
    assert (own / "curve.png").exists()
    shutil.copytree(own, tmp_path / "begun")
    shutil.rmtree(tmp_path / "begun" / "checkpoint")  # as if it had been killed before the first one
    (tmp_path / "begun" / "vae" / "frames.npy").write_text("left by a kill")
    monkeypatch.setattr(experiments_vae, "collect_frames", lambda *_, **__: pytest.fail("it collects again"))
    assert "vae has all of its 25 steps\n" in begin(tmp_path / "begun", resume=True)
    assert not (tmp_path / "begun" / "vae" / "frames.npy").exists()
    assert outcome(tmp_path / "begun") == outcome(own)
    shutil.rmtree(tmp_path / "begun" / "vae")
    assert "has all of its 1,040 frames\n" in begin(tmp_path / "begun", resume=True)  # the agent has the encoder


@contextlib.contextmanager
def asked_to_stop_in_a_chunk() -> Iterator[None]:
    """While a VAE is trained, this process is asked to stop."""
    finish = Trainer.finish_chunk

    def ask_to_stop(trainer: Trainer) -> np.ndarray:
        os.kill(os.getpid(), signal.SIGTERM)
        return finish(trainer)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trainer, "finish_chunk", ask_to_stop)
        yield


def train_in_fleet(*runs: Run, resume: bool = False) -> str:
    """What was said."""
    said = io.StringIO()
    launcher = LocalLauncher(jobs=1, options=TrainingOptions(resume=resume))
    train_runs(runs, launcher, console=Console(file=said, width=300))
    return said.getvalue()


def test_stopped_while_its_vae_is_trained_in_a_fleet_it_goes_on_as_the_run_that_was_not(own, tmp_path):
    other = replace(OWN, agent=replace(AGENT, embedding="random_projection"))
    runs = [Run("own", OWN, tmp_path / "own"), Run("other", other, tmp_path / "other")]
    with asked_to_stop_in_a_chunk():
        train_in_fleet(*runs)
    assert [run.state for run in runs] == ["stopped", "stopped"]
    assert not (tmp_path / "other").exists()
    assert not (tmp_path / "own" / "vae" / "encoder.safetensors").exists()
    with pytest.raises(VAEDirectoryError, match=r"vae already holds a VAE: --resume goes on with it"):
        begin(tmp_path / "own")

    again = Run("own", OWN, tmp_path / "own")
    said = train_in_fleet(again, resume=True)
    assert again.state == "finished", said
    assert "step 25/25" in said
    assert not (tmp_path / "own" / "vae" / "frames.npy").exists()
    ours, theirs = outcome(tmp_path / "own"), outcome(own)
    assert (ours[0], ours[3]) == (theirs[0], theirs[3])
    assert VAE.load(tmp_path / "own").digest == VAE.load(own).digest


def test_one_that_another_process_trains_is_refused_before_its_vae_is_trained(tmp_path):
    with locked(tmp_path / "run"):
        only = Run("only", OWN, tmp_path / "run")
        said = train_in_fleet(only)
        assert (only.state, "in use by process" in only.reason) == ("failed", True)
        assert only.reason in said
    with locked(tmp_path / "run" / "vae"), pytest.raises(RunDirectoryError, match="in use by process"):
        begin(tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("several", [[], ["--seeds", "0", "1"]], ids=["alone", "several"])
def test_too_few_frames_for_a_vae_of_its_own_are_refused_once(tmp_path, capsys, monkeypatch, several):
    monkeypatch.setattr("subprocess.Popen", lambda *_, **__: pytest.fail("a process is started"))
    arguments = ["--embedding", "vae", "--total-frames", "1000000", *several, "--out", str(tmp_path / "run")]
    assert main(["train", "qbert", *arguments]) == 1
    said = refused(capsys)
    assert said.startswith("the first 1,000,000 frames train the VAE, so total_frames must be more than that, not ")
    assert said.endswith("or name an encoder (--vae)")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("several", [[], ["--seeds", "0", "1"]], ids=["alone", "several"])
def test_a_vae_of_its_own_needs_pictures(tmp_path, capsys, monkeypatch, several):
    monkeypatch.setattr("subprocess.Popen", lambda *_, **__: pytest.fail("a process is started"))
    arguments = ["--embedding", "vae", "--total-frames", "1000001", *several, "--out", str(tmp_path / "run")]
    assert main(["train", "CartPole-v1", "--capacity", "10", *arguments]) == 1
    assert refused(capsys).startswith("a VAE is trained on pictures of bytes, and these observations are Box(")
    assert not (tmp_path / "run").exists()


# -- The command line -------------------------------------------------------------------------------------------------


def parse(arguments: list[str]) -> Train:
    command = read_command(commands_for(arguments), arguments)
    assert isinstance(command, Train)
    return command


@pytest.mark.parametrize("arguments", [
    ["--embedding", "vae", "--vae-frames", "5000", "--vae-steps", "700", "--total-frames", "6000"],
    ["--vae", "it's in {env}", "--index", "cuda", "--seeds", "3", "4", "--no-video", "--checkpoint-frames", "5"],
    ["--embedding", "identity", "--frame-stack", "4", "--epsilon", "1e-05", "--ignore-memory-limit"],
    ["--launcher", "ray", "--ray-address", "auto", "--cpus-per-run", "2.0", "--total-frames", "5000"],
])  # fmt: skip
def test_what_goes_on_with_a_run_asks_for_the_same_run(arguments):
    given = parse(["train", "qbert", "ms_pacman", *arguments, "--out", "here"])
    again = how_to_go_on(dict.fromkeys(given.envs, given), Path("here"))
    assert parse(again) == given
    assert parse([*again, "--resume"]) == replace(given, resume=True)
