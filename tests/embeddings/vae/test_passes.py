"""Gradients by our own kernels against autograd's.

The kernels run on any machine in Triton's interpreter. It must be switched on before Triton is imported, so that the
tests of this file are run in a process of their own.
"""

from __future__ import annotations

import math

import pytest
import torch

from mfec.config import VAEConfig
from mfec.embeddings.vae import Architecture
from mfec.embeddings.vae.networks import as_pictures, costs, draw_messages
from mfec.embeddings.vae.parameters import Parameters
from mfec.embeddings.vae.training import Trainer

from ...interpreter import INTERPRETED, run_in_interpreter
from .making import make_networks, noise_frames

interpreted = pytest.mark.skipif(not INTERPRETED, reason="run by the first test, in Triton's interpreter")

# Sizes that leave rows and columns which no convolution reaches, at different layers.
UNEVEN = Architecture((55, 58), (16, 16, 32, 16), hidden=24, latents=5)
ONE = Architecture((52, 53), (16, 32, 16, 16), hidden=9, latents=3)


@pytest.mark.slow(reason="Triton's interpreter runs every program of a kernel in Python")
@pytest.mark.skipif(INTERPRETED, reason="it is on")
def test_all_of_this_holds_for_the_kernels_in_the_interpreter() -> None:
    assert "4 passed, 1 skipped" in run_in_interpreter(__file__)


@interpreted
@pytest.mark.parametrize(
    ("shape", "places", "share"),
    [(UNEVEN, [3, 0], 0.0), (ONE, [1], 0.5)],
    ids=["uneven", "half of the pixels at the smallest deviation"],
)
def test_costs_and_gradients_are_those_of_autograd(shape: Architecture, places: list[int], share: float) -> None:
    from mfec.embeddings.vae.passes import Passes

    encoder, decoder = make_networks(shape, seed=5, scale=1.5)
    frames, chosen = torch.from_numpy(noise_frames(4, shape)), torch.tensor(places)
    pictures = as_pictures(frames[chosen], shape)
    noise = torch.randn((len(places), shape.latents), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        decoder.picture.weight[:, 1] *= 10.0
        messages = draw_messages(encoder(pictures), noise)
        if share:
            decoder.picture.bias[1] += math.log(0.05) - decoder(messages)[1].median()
        smallest = decoder(messages)[1] == torch.tensor(math.log(0.05))
        assert smallest.double().mean().item() == pytest.approx(share, abs=0.1)
    parameters = Parameters(encoder, decoder)
    correction, communication = (each.mean() for each in costs(encoder, decoder, pictures, noise))
    gradients = torch.autograd.grad(correction + communication, list(parameters.named.values()))

    found = Passes(shape, encoder, decoder, parameters, len(places))(frames, chosen, noise)
    assert [each.item() for each in found] == pytest.approx([correction.item(), communication.item()], rel=1e-5)
    own = parameters.tensors(parameters.gradients)
    for name, gradient in zip(parameters.named, gradients, strict=True):
        largest = gradient.abs().max().item()
        assert largest > 0.0, name
        assert (own[name] - gradient).abs().max().item() <= 1e-5 * largest, name


@interpreted
def test_a_trainer_makes_its_steps_by_the_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """To the weights of a trainer without them. A step is as long for the smallest gradient as for the largest."""
    recipe = VAEConfig(steps=1, minibatch=1, channels=ONE.channels, hidden=ONE.hidden, latents=ONE.latents)
    trainers = [Trainer(noise_frames(3, ONE), recipe, seed=1)]
    monkeypatch.delenv("TRITON_INTERPRET")
    trainers.append(Trainer(noise_frames(3, ONE), recipe, seed=1))
    assert trainers[0]._gradients is not trainers[0]._plain_gradients
    assert trainers[1]._gradients == trainers[1]._plain_gradients
    start = trainers[0].parameters.values.clone()
    for trainer in trainers:
        trainer.start_chunk()
    [by_kernels, by_torch] = [trainer.finish_chunk() for trainer in trainers]
    assert by_kernels.tolist() == [pytest.approx(by_torch[0].tolist(), rel=1e-5)]
    moved = [trainer.parameters.values - start for trainer in trainers]
    same = (moved[0] - moved[1]).abs() <= 1e-3 * moved[1].abs()
    assert same.double().mean() > 0.99
    assert (moved[1] != 0.0).double().mean() > 0.3


@interpreted
def test_networks_that_the_kernels_do_not_know_are_trained_without_them() -> None:
    from mfec.embeddings.vae.passes import supports

    for shape, known in (
        (Architecture((84, 84)), True),
        (UNEVEN, True),
        (Architecture((4, 84, 84)), False),
        (Architecture((84, 84, 3)), False),
        (Architecture((84, 84), (8, 16, 16, 16)), False),
        (Architecture((84, 84), (16, 24, 16, 16)), False),
    ):
        assert supports(shape) is known
    recipe = VAEConfig(steps=1, minibatch=1, channels=(8, 16, 16, 16), hidden=9, latents=3)
    trainer = Trainer(noise_frames(2, ONE), recipe)
    assert trainer._gradients == trainer._plain_gradients
