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
from mfec.embeddings.vae.training import Trainer

from ...interpreter import INTERPRETED, run_in_interpreter
from .making import noise_frames

interpreted = pytest.mark.skipif(not INTERPRETED, reason="run by the first test, in Triton's interpreter")

# Its size leaves rows and columns which no convolution reaches, at different layers.
UNEVEN = Architecture((52, 53), (16, 32, 16, 16), hidden=9, latents=3)


@pytest.mark.slow(reason="Triton's interpreter runs every program of a kernel in Python")
@pytest.mark.skipif(INTERPRETED, reason="it is on")
def test_all_of_this_holds_for_the_kernels_in_the_interpreter() -> None:
    assert "2 passed, 1 skipped" in run_in_interpreter(__file__)


@interpreted
def test_a_trainer_steps_by_the_kernels_along_the_gradients_of_autograd(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of the pixels are at the smallest deviation, where the cost has another gradient."""
    recipe = VAEConfig(steps=1, minibatch=1, channels=UNEVEN.channels, hidden=UNEVEN.hidden, latents=UNEVEN.latents)
    trainers = [Trainer(noise_frames(3, UNEVEN), recipe, seed=1)]
    with monkeypatch.context() as patch:
        patch.delenv("TRITON_INTERPRET")
        trainers.append(Trainer(noise_frames(3, UNEVEN), recipe, seed=1))
    assert trainers[0]._gradients is not trainers[0]._plain_gradients
    assert trainers[1]._gradients == trainers[1]._plain_gradients
    deviations = trainers[1].decoder(torch.zeros(1, UNEVEN.latents))[1]
    for trainer in trainers:
        with torch.no_grad():
            trainer.decoder.picture.bias[1] += math.log(0.05) - deviations.median()
        trainer.start_chunk()
    [by_kernels, by_torch] = [trainer.finish_chunk() for trainer in trainers]
    assert by_kernels.tolist() == [pytest.approx(by_torch[0].tolist(), rel=1e-5)]
    own, expected = (trainer.parameters.tensors(trainer.parameters.gradients) for trainer in trainers)
    for name, gradient in expected.items():
        largest = gradient.abs().max().item()
        assert largest > 0.0, name
        assert (own[name] - gradient).abs().max().item() <= 1e-5 * largest, name


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
    trainer = Trainer(noise_frames(2, UNEVEN), recipe)
    assert trainer._gradients == trainer._plain_gradients
