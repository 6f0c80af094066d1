"""`mfec vae show`: costs and pictures of frames that an encoder was not trained on, if it can see them."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest
import torch
from matplotlib.axes import Axes

from mfec.cli import main
from mfec.config import EnvConfig
from mfec.embeddings import VAE
from mfec.experiments.frames import held_out_frames

from .. import dots  # noqa: F401 (it registers Dots-v0)

pytestmark = pytest.mark.usefixtures("small")


@pytest.fixture(scope="module")
def dots_encoder(make_encoder) -> Path:
    return make_encoder(shape=(60, 60))


def show(env: str, vae: Path | str, *arguments: str, out: Path) -> int:
    return main(["vae", "show", env, "--vae", str(vae), "--frames", "50", "--out", str(out), *arguments])


def test_it_prints_both_costs_and_draws_frames_beside_what_becomes_of_them(dots_encoder, tmp_path, capsys, monkeypatch):
    out, drawn, imshow = tmp_path / "new" / "shown.png", [], Axes.imshow
    monkeypatch.setattr(Axes, "imshow", lambda axes, own, **how: (drawn.append(own), imshow(axes, own, **how))[1])
    assert show("Dots-v0", dots_encoder, out=out) == 0
    said = capsys.readouterr().out
    frames, vae = held_out_frames("Dots-v0", EnvConfig(), 50, 0), VAE.load(dots_encoder)
    places = [0, 7, 14, 21, 28, 35, 42, 49]
    assert np.array_equal(drawn[:8], frames[places] / 255.0)
    assert np.array_equal(drawn[8:], vae.reconstruct(frames[places]).clip(0.0, 1.0))
    correction, communication = vae.costs(frames)
    assert said.splitlines() == [
        "held-out frames: 50 of Dots-v0, a random policy",
        f"correction cost: {correction:,.1f} nats, communication cost: {communication:,.1f} nats a frame",
        f"picture: {out}",
    ]
    assert min(matplotlib.image.imread(out).shape[:2]) > 100

    assert show("Dots-v0", dots_encoder, "--json", "--seed", "1", out=out) == 0
    told = json.loads(capsys.readouterr().out)
    other = vae.costs(held_out_frames("Dots-v0", EnvConfig(), 50, 1))
    assert told == {"frames": 50, "correction": other[0], "communication": other[1]}
    assert other != (correction, communication)


def test_an_atari_game_shows_as_many_frames_as_the_encoder_takes(make_encoder, tmp_path):
    assert show("qbert", make_encoder(shape=(2, 84, 84)), out=tmp_path / "shown.png") == 0
    assert (tmp_path / "shown.png").stat().st_size > 1000


@pytest.mark.parametrize(("env", "shape", "message"), [
    ("CartPole-v1", (84, 84), r"takes uint8 observations of shape \(84, 84\), the environment has float32 of .* .4,."),
    ("qbert", (60, 60), r"takes uint8 observations of shape \(60, 60\), the environment has uint8 of shape \(84, 84\)"),
    ("Dots-v0", (2, 60, 60), r"takes uint8 observations of shape \(2, 60, 60\), the environment has uint8 of .*"),
])  # fmt: skip
def test_an_encoder_of_other_observations_is_refused(make_encoder, tmp_path, capsys, env, shape, message):
    encoder = make_encoder(shape=shape)
    assert show(env, encoder, out=tmp_path / "shown.png") == 1
    assert re.fullmatch(rf"mfec: the encoder in {encoder} {message}\n", capsys.readouterr().err)
    assert not (tmp_path / "shown.png").exists()


def test_unknown_encoders_and_environments_are_refused(encoder, tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    for env, vae, message in [
        ("qbert", tmp_path / "nowhere", f"there is no encoder '{tmp_path / 'nowhere'}'"),
        ("qbert", tmp_path / "empty", f"{tmp_path / 'empty'} holds no encoder.safetensors"),
        ("qbertt", encoder, "unknown game 'qbertt'; did you mean 'qbert'?"),
    ]:
        assert show(env, vae, out=tmp_path / "shown.png") == 1
        error = capsys.readouterr().err
        assert error.startswith(f"mfec: {message}")
        assert error.count("\n") == 1
    assert main(["vae", "show", "no_such_game"]) == 1
    assert capsys.readouterr().err.startswith("mfec: there is no encoder 'no_such_game'")


def test_a_damaged_encoder_and_one_without_a_decoder_are_refused(make_encoder, tmp_path, capsys):
    vae = make_encoder(tmp_path / "vae", shape=(60, 60))
    (vae / "decoder.safetensors").unlink()
    assert show("Dots-v0", vae, out=tmp_path / "shown.png") == 1
    assert capsys.readouterr().err == f"mfec: {vae} holds no decoder.safetensors\n"
    data = bytearray((vae / "encoder.safetensors").read_bytes())
    data[-1] ^= 1
    (vae / "encoder.safetensors").write_bytes(data)
    assert show("Dots-v0", vae, out=tmp_path / "shown.png") == 1
    assert capsys.readouterr().err.startswith(f"mfec: {vae / 'encoder.safetensors'} ")


@pytest.mark.parametrize(("arguments", "message"), [
    (["--frames", "0"], "frames must be at least 1, not 0"),
    (["--out", "shown.txt"], "cannot draw shown.txt: a picture ends in .png, .pdf, .svg"),
    pytest.param(
        ["--device", "cuda"], "device 'cuda' needs an NVIDIA GPU, and torch ",
        marks=pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU"),
    ),
])  # fmt: skip
def test_what_cannot_be_done_is_a_sentence(dots_encoder, elsewhere, capsys, arguments, message):
    assert main(["vae", "show", "Dots-v0", "--vae", str(dots_encoder), *arguments]) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"mfec: {message}")
    assert error.count("\n") == 1
    assert list(elsewhere.iterdir()) == []


def test_without_torch_the_missing_extra_is_named(dots_encoder, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    assert show("Dots-v0", dots_encoder, out=tmp_path / "shown.png") == 1
    assert capsys.readouterr().err == "mfec: this needs the extra `torch`: pip install 'mfec[torch]'\n"
