"""`mfec vae train`: what it writes, that a stopped training ends as if it had not been, and what it refuses."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import sys
import tomllib
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest
import torch

from mfec.cli import main
from mfec.cli.vae import draw_vae
from mfec.config import VAEConfig
from mfec.embeddings import VAE
from mfec.embeddings.vae import Architecture
from mfec.embeddings.vae.files import read_network
from mfec.embeddings.vae.training import Trainer
from mfec.experiments import vae as experiments_vae
from mfec.experiments.lock import locked
from mfec.experiments.vae_directory import VAEDirectory

from .. import dots  # noqa: F401 (it registers Dots-v0)
from ..waiting import PATIENCE
from .stopping import wait_for

pytestmark = pytest.mark.usefixtures("small")
RECIPE = ["--frames", "100", "--minibatch", "4", "--channels", "4", "4", "4", "4", "--hidden", "16", "--latents", "4"]
PARTS = ("encoder.safetensors", "decoder.safetensors")


def train(*arguments: str, out: Path, env: str = "Dots-v0", steps: int = 25) -> int:
    try:
        return main(["vae", "train", *env.split(), *RECIPE, "--steps", str(steps), "--out", str(out), *arguments])
    except SystemExit as ended:
        return int(ended.code)


def networks(out: Path) -> list[tuple[Architecture, dict[str, bytes]]]:
    """Both networks, to the byte. (The library writes what describes them in any order.)"""
    both = [read_network(out, part) for part in ("encoder", "decoder")]
    return [(shape, {name: tensor.tobytes() for name, tensor in tensors.items()}) for shape, tensors in both]


def costs(out: Path) -> list[list[float]]:
    table = VAEDirectory(out).costs()
    return [table[name] for name in ("step", "correction", "communication")]


@pytest.fixture(scope="module")
def dots_vae(tmp_path_factory: pytest.TempPathFactory, small: None) -> Path:
    """A VAE of Dots-v0 after 25 steps."""
    out = tmp_path_factory.mktemp("dots")
    assert train(out=out) == 0
    return out


@pytest.fixture(scope="module")
def qbert_vae(tmp_path_factory: pytest.TempPathFactory, small: None) -> Path:
    """A VAE of Q*bert after 25 steps, never stopped."""
    out = tmp_path_factory.mktemp("qbert")
    assert train(out=out, env="qbert") == 0
    return out


@pytest.fixture(autouse=True)
def _undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures take longer than such a training. Those of the VAEs above are drawn."""
    monkeypatch.setattr("mfec.cli.vae.draw_vae", lambda *_: None)


# -- What it writes ---------------------------------------------------------------------------------------------------


def test_everything_is_written_and_can_be_read(qbert_vae):
    names = {path.name for path in qbert_vae.iterdir()}
    pictures = {"loss.png", "reconstructions.png"}
    assert names == {*PARTS, *pictures, "config.toml", "loss.csv", "frames.npy", "frames.json", "checkpoint"}
    for name in pictures:
        height, width, _ = matplotlib.image.imread(qbert_vae / name).shape
        assert min(height, width) > 100
    vae = VAE.load(qbert_vae)
    frames = np.load(qbert_vae / "frames.npy")
    assert frames.shape == (100, 84, 84)
    assert vae(frames[:3]).shape == (3, 8)
    assert vae.reconstruct(frames[:3]).shape == (3, 84, 84)
    step, correction, communication = costs(qbert_vae)
    assert step == [25]
    assert np.isfinite([correction, communication]).all()
    config = tomllib.loads((qbert_vae / "config.toml").read_text())
    assert (config["env"], config["environment"]["sticky_actions"]) == ("qbert", 0.0)
    assert (config["recipe"]["steps"], config["recipe"]["channels"]) == (25, [4, 4, 4, 4])


def test_the_seed_makes_the_vae(dots_vae, tmp_path):
    assert train("--seed", "1", out=tmp_path) == 0
    assert networks(tmp_path) != networks(dots_vae)


def test_costs_are_the_means_of_the_steps_since_the_last_row_and_they_fall(tmp_path, monkeypatch):
    monkeypatch.setattr(experiments_vae, "EVERY_STEPS", 20)
    assert train("--step-size", "1e-3", out=tmp_path, steps=55) == 0
    step, correction, communication = costs(tmp_path)
    assert step == [20, 40, 55]
    assert (np.diff(np.add(correction, communication)) < 0).all()
    recipe = VAEConfig(steps=55, minibatch=4, step_size=1e-3, channels=(4, 4, 4, 4), hidden=16, latents=4)
    trainer, chunks = Trainer(np.load(tmp_path / "frames.npy"), recipe), []
    while not trainer.done:
        trainer.start_chunk()
        chunks.append(trainer.finish_chunk().copy())
    rows = np.split(np.concatenate(chunks), [20, 40])
    assert np.array([row.mean(axis=0) for row in rows]) == pytest.approx(np.array([correction, communication]).T)


def test_several_environments_are_trained_each_as_it_would_be_alone(dots_vae, tmp_path):
    assert train("--data", str(tmp_path / "data"), out=tmp_path / "vaes", env="Dots-v0 MoreDots-v0 Dots-v0") == 0
    assert sorted(path.name for path in (tmp_path / "vaes").iterdir()) == ["Dots-v0", "MoreDots-v0"]
    for name in ("Dots-v0", "MoreDots-v0"):
        assert networks(tmp_path / "vaes" / name) == networks(dots_vae)
        assert not (tmp_path / "vaes" / name / "frames.npy").exists()
        assert (tmp_path / "data" / name / "frames.npy").read_bytes() == (dots_vae / "frames.npy").read_bytes()


def test_without_a_place_it_is_trained_below_runs(elsewhere):
    assert main(["vae", "train", "Dots-v0", *RECIPE, "--steps", "1"]) == 0
    assert VAEDirectory("runs/vae/Dots-v0").finished


# -- Stop and go ------------------------------------------------------------------------------------------------------


def test_killed_and_resumed_it_is_byte_for_byte_what_it_would_have_been(qbert_vae, tmp_path, start_small):
    out = tmp_path / "vae"
    arguments = ["vae", "train", "qbert", *RECIPE, "--steps", "25", "--out", str(out)]
    process = start_small("sys.exit(main())", *arguments)
    wait_for((out / "checkpoint" / "manifest.json").exists, process)
    process.kill()
    process.communicate(timeout=PATIENCE)
    assert process.returncode == -signal.SIGKILL
    assert not VAEDirectory(out).finished, "it had ended before"
    assert main([*arguments, "--resume"]) == 0
    assert networks(out) == networks(qbert_vae)
    assert costs(out) == costs(qbert_vae)


def stop_after(chunks: int, patch: pytest.MonkeyPatch) -> None:
    """The training is asked to stop in this chunk of ten steps."""
    finish = Trainer.finish_chunk

    def ask_to_stop(trainer: Trainer) -> np.ndarray:
        if trainer.chunks == chunks - 1:
            os.kill(os.getpid(), signal.SIGTERM)
        return finish(trainer)

    patch.setattr(Trainer, "finish_chunk", ask_to_stop)


def test_stopped_it_says_how_to_go_on_and_ends_as_if_it_had_not_been(dots_vae, tmp_path, capsys):
    out = tmp_path / "it's a VAE"
    with pytest.MonkeyPatch.context() as patch:
        stop_after(2, patch)
        assert train("--resume", out=out) == 130
    again = shlex.split(capsys.readouterr().out.splitlines()[-1])
    line = ["vae", "train", "Dots-v0", *RECIPE, "--steps", "25", "--out", str(out)]
    assert again == ["mfec", *line, "--resume"]
    assert train("--resume", out=out, steps=15) == 1
    assert refused(capsys) == f"{out} has made 20 steps already, more than the 15 of now"
    assert main(again[1:]) == 0
    assert networks(out) == networks(dots_vae)
    assert costs(out) == costs(dots_vae)


def test_killed_with_only_its_networks_left_to_write_it_writes_them(dots_vae, tmp_path):
    for part in ("decoder", "encoder"):
        with pytest.MonkeyPatch.context() as patch:
            write = experiments_vae.write_network  # type: ignore[attr-defined]

            def killed(*arguments, part=part, write=write):
                if arguments[1] == part:
                    raise KeyboardInterrupt
                return write(*arguments)

            patch.setattr(experiments_vae, "write_network", killed)
            assert train("--resume", out=tmp_path) == 131
        assert not VAEDirectory(tmp_path).finished
    assert train("--resume", out=tmp_path) == 0
    assert networks(tmp_path) == networks(dots_vae)


def test_steps_can_be_added(dots_vae, tmp_path, monkeypatch):
    shutil.copytree(dots_vae, tmp_path / "added")
    begun, start_chunk = [], Trainer.start_chunk
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "start_chunk", lambda own: (begun.append(own.steps), start_chunk(own)))
        assert train("--resume", out=tmp_path / "added", steps=35) == 0
    assert begun == [20, 30]
    assert train("--data", str(dots_vae), out=tmp_path / "whole", steps=35) == 0
    assert networks(tmp_path / "added") == networks(tmp_path / "whole")
    assert costs(tmp_path / "added") == costs(tmp_path / "whole")
    assert "steps = 35" in (tmp_path / "added" / "config.toml").read_text()


def test_a_training_that_has_ended_is_drawn_again_and_not_made_again(dots_vae, tmp_path, monkeypatch, capsys):
    shutil.copytree(dots_vae, tmp_path / "copy")
    (tmp_path / "copy" / "loss.png").unlink()
    assert train("--resume", out=tmp_path / "copy", steps=5) == 0
    assert "has all of its 5 steps\n" in capsys.readouterr().out
    monkeypatch.setattr("mfec.cli.vae.draw_vae", draw_vae)
    assert train("--resume", out=tmp_path / "copy") == 0
    ended, *pictures = capsys.readouterr().out.splitlines()[-3:]
    assert ended.endswith("has all of its 25 steps")
    assert pictures == [f"picture: {tmp_path / 'copy' / name}" for name in ("loss.png", "reconstructions.png")]
    assert (tmp_path / "copy" / "loss.png").exists()
    assert "steps = 25" in (tmp_path / "copy" / "config.toml").read_text()
    assert networks(tmp_path / "copy") == networks(dots_vae)


# -- Refusals ---------------------------------------------------------------------------------------------------------


def refused(capsys: pytest.CaptureFixture[str]) -> str:
    """The sentence in which something was refused."""
    error = capsys.readouterr().err
    assert error.startswith("mfec: ")
    assert error.count("\n") == 1
    return error.removeprefix("mfec: ").rstrip()


def test_a_directory_that_holds_a_vae_is_left_alone(dots_vae, capsys):
    before = networks(dots_vae)
    assert train(out=dots_vae) == 1
    assert refused(capsys) == f"{dots_vae} already holds a VAE: --resume goes on with it, or choose another --out"
    assert networks(dots_vae) == before


@pytest.mark.parametrize(("settings", "message"), [
    (["--seed", "1"], "seed = 0, it cannot go on with 1"),
    (["--step-size", "1e-4"], "step_size = 1e-05, it cannot go on with 0.0001"),
    (["--channels", "4", "4", "4", "8"], "channels = [4, 4, 4, 4], it cannot go on with [4, 4, 4, 8]"),
])  # fmt: skip
def test_it_does_not_go_on_with_other_settings(dots_vae, capsys, settings, message):
    config = (dots_vae / "config.toml").read_bytes()
    assert train(*settings, "--resume", out=dots_vae) == 1
    assert refused(capsys) == f"{dots_vae} was begun with {message}"
    assert (dots_vae / "config.toml").read_bytes() == config


@pytest.mark.parametrize(("name", "steps"), [
    ("config.toml", 25), ("loss.csv", 35), ("checkpoint/manifest.json", 35), ("encoder.safetensors", 25),
])  # fmt: skip
def test_a_damaged_file_is_named(dots_vae, tmp_path, capsys, name, steps):
    """Of a training that has ended at 25 steps, or is to go on."""
    shutil.copytree(dots_vae, tmp_path / "vae")
    (tmp_path / "vae" / name).write_text("something else")
    assert train("--resume", out=tmp_path / "vae", steps=steps) == 1
    assert refused(capsys).startswith(f"{tmp_path / 'vae' / name} ")


def test_a_step_size_under_which_the_costs_explode_ends_in_a_sentence(tmp_path, capsys):
    assert train("--step-size", "0.9", out=tmp_path, steps=20) == 1
    assert refused(capsys) == "the costs of Dots-v0 are no longer finite after step 10: try a smaller --step-size"
    assert not VAEDirectory(tmp_path).finished


@pytest.mark.parametrize(("env", "settings", "message"), [
    ("CartPole-v1", [], "a VAE is trained on pictures of bytes, and these observations are Box("),
    ("qbertt", [], "unknown game 'qbertt'; did you mean 'qbert'?"),
    ("Dots-v0", ["--frame-stack", "4"], "frame_stack"),
    ("Dots-v0", ["--seed", "-1"], "a seed must not be negative, and -1 is"),
    ("Dots-v0", ["--hidden", "0"], "channels, hidden and latents must be at least 1"),
    ("Dots-v0", ["--channels", "4", "4"], "a VAE has 4 convolutions, so channels are 4 numbers"),
    pytest.param(
        "Dots-v0", ["--device", "cuda"], "device 'cuda' needs an NVIDIA GPU, and torch ",
        marks=pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU"),
    ),
])  # fmt: skip
def test_senseless_settings_are_refused_and_nothing_is_left_behind(tmp_path, capsys, env, settings, message):
    assert train(*settings, out=tmp_path / "vae", env=env) == 1
    assert refused(capsys).startswith(message)
    assert not (tmp_path / "vae").exists()


@pytest.mark.parametrize(("settings", "message"), [
    (["--step-size", "1"], "step_size must lie between 0 and 1, not 1.0"),
    (["--steps", "0"], "steps must be at least 1, not 0"),
    (["--latents", "few"], "few"),
])  # fmt: skip
def test_numbers_out_of_range_are_refused(tmp_path, capsys, settings, message):
    assert train(*settings, out=tmp_path / "vae") == 2
    assert message in " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert not (tmp_path / "vae").exists()


def test_it_needs_an_environment(capsys):
    assert main(["vae", "train"]) == 1
    assert refused(capsys) == "name an environment to train on; `mfec envs` lists them"


def test_a_directory_that_another_process_trains_in_is_refused(dots_vae, tmp_path, capsys):
    with locked(tmp_path / "vae"):
        assert train(out=tmp_path / "vae") == 1
        assert f"cannot train a VAE in {tmp_path / 'vae'}: it is in use by process " in capsys.readouterr().err
    with locked(tmp_path / "data"):
        assert train("--data", str(tmp_path / "data"), out=tmp_path / "vae") == 1
        assert f"cannot collect frames in {tmp_path / 'data'}: it is in use by process " in capsys.readouterr().err
    with locked(dots_vae):  # frames that are complete are only read
        assert train("--data", str(dots_vae), out=tmp_path / "other") == 0
    assert f"frames: {dots_vae / 'frames.npy'}, collected before" in capsys.readouterr().out
    assert networks(tmp_path / "other") == networks(dots_vae)


def test_a_place_that_cannot_be_written_is_a_sentence(tmp_path, capsys):
    (tmp_path / "taken").write_text("mine")
    assert train(out=tmp_path / "taken") == 1
    assert refused(capsys).startswith(f"cannot train a VAE in {tmp_path / 'taken'}: ")


def test_without_torch_the_missing_extra_is_named(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    assert train(out=tmp_path / "vae") == 1
    assert refused(capsys) == "this needs the extra `torch`: pip install 'mfec[torch]'"
    assert not (tmp_path / "vae").exists()
