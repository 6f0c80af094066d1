"""Training: what it lowers, and the same bits for the same seed, whether it was stopped or not."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from mfec.config import VAEConfig
from mfec.embeddings.vae import VAE, training
from mfec.embeddings.vae.files import write_network
from mfec.embeddings.vae.training import Trainer

from .making import noise_frames

RECIPE = VAEConfig(steps=13, minibatch=4, step_size=1e-3, channels=(3, 4, 3, 4), hidden=6, latents=3)


@pytest.fixture
def short_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "CHUNK", 5)


def train(trainer: Trainer) -> NDArray[np.float64]:
    """All steps that are left; their costs."""
    found = []
    while not trainer.done:
        trainer.start_chunk()
        found.append(trainer.finish_chunk())
    return np.concatenate(found)


def bits(trainer: Trainer) -> list[bytes]:
    return [trainer.parameters.values.numpy().tobytes(), trainer.optimiser.squares.numpy().tobytes()]


# -- What it is for ---------------------------------------------------------------------------------------------------


def squares(n: int, seed: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """A bright square somewhere in the dark, and where."""
    corners = np.random.default_rng(seed).integers(0, 37, (n, 2))
    frames = np.zeros((n, 52, 52), np.uint8)
    for frame, (y, x) in zip(frames, corners, strict=True):
        frame[y : y + 16, x : x + 16] = 230
    return frames, corners


def far(some: NDArray[np.int64], others: NDArray[np.int64]) -> float:
    return float(np.linalg.norm(some - others, axis=1).mean())


def cost_without_messages(known: NDArray[np.uint8], new: NDArray[np.uint8]) -> float:
    """Of the best predictor that sees nothing: each pixel's mean, and its standard deviation from 0.05 upwards."""
    mean, std = (known / 255.0).mean(0), np.maximum((known / 255.0).std(0), 0.05)
    nats = 0.5 * np.square((new / 255.0 - mean) / std) + np.log(std) + 0.5 * math.log(2.0 * math.pi)
    return float(nats.sum((1, 2)).mean())


@pytest.mark.slow(reason="800 steps of training")
def test_it_learns_to_describe_frames_that_it_never_saw(tmp_path: Path) -> None:
    """Within 800 steps, 3,800 nats below what can be done without messages; the margin is 1,000.

    It is 2,000 and more with the seeds 2, 3 and 7, whatever the last digits of their first weights. With others, more
    maps die in the first steps, and it takes longer. Frames of nearest states have their squares 1 to 4 pixels from
    each other, any two frames 20.
    """
    (frames, _), (new, corners) = squares(2000, seed=0), squares(200, seed=1)
    recipe = VAEConfig(steps=800, minibatch=8, step_size=5e-4, channels=(8, 8, 16, 16), hidden=32, latents=4)
    trainer = Trainer(frames, recipe, seed=7)
    train(trainer)
    for part, tensors in trainer.networks().items():
        write_network(tmp_path, part, tensors, trainer.architecture)
    vae = VAE.load(tmp_path)
    assert sum(vae.costs(new)) < cost_without_messages(frames, new) - 1000.0
    states = vae(new)
    squared = np.square(states[:, None] - states).sum(2)
    np.fill_diagonal(squared, np.inf)
    assert far(corners, corners[squared.argmin(1)]) < 0.5 * far(corners, np.roll(corners, 1, axis=0))


# -- The same bits ----------------------------------------------------------------------------------------------------


def test_the_same_seed_trains_the_same_bits_and_another_one_others(short_chunks: None) -> None:
    """Without a random number of torch's own."""
    before = torch.get_rng_state()
    frames = noise_frames(20)
    trainers = [Trainer(frames, RECIPE, seed=seed) for seed in (1, 1, 2)]
    first = [bits(trainer) for trainer in trainers]
    found = [train(trainer).tobytes() for trainer in trainers]
    assert first[0] == first[1]
    assert first[0] != first[2]
    assert found[0] == found[1]
    assert found[0] != found[2]
    assert bits(trainers[0]) == bits(trainers[1])
    assert bits(trainers[0]) != bits(trainers[2])
    assert bits(trainers[0]) != first[0]
    assert torch.equal(torch.get_rng_state(), before)


def test_a_stopped_training_goes_on_as_if_it_was_not(short_chunks: None) -> None:
    stopped_after = 2
    frames = noise_frames(20)
    never = Trainer(frames, RECIPE, seed=1)
    expected = train(never)
    stopped = Trainer(frames, RECIPE, seed=1)
    before = []
    for _ in range(stopped_after):
        stopped.start_chunk()
        before.append(stopped.finish_chunk())
    kept = stopped.tensors()
    stopped.parameters.values.zero_()  # what was kept is a copy
    resumed = Trainer(frames, RECIPE, seed=1)
    resumed.parameters.values.fill_(7.0)
    resumed.restore(stopped_after, kept)
    assert resumed.steps == 10
    assert np.concatenate([*before, train(resumed)]).tobytes() == expected.tobytes()
    assert bits(resumed) == bits(never)


def test_trainings_side_by_side_do_not_touch_each_other(short_chunks: None) -> None:
    frames = noise_frames(20)
    alone = [Trainer(frames, RECIPE, seed=seed) for seed in (1, 2)]
    expected = [train(trainer).tobytes() for trainer in alone]
    together = [Trainer(frames, RECIPE, seed=seed) for seed in (1, 2)]
    found: list[list[NDArray[np.float64]]] = [[], []]
    while not together[0].done:
        for trainer in together:
            trainer.start_chunk()
        for costs, trainer in zip(found, together, strict=True):
            costs.append(trainer.finish_chunk())
    assert [np.concatenate(costs).tobytes() for costs in found] == expected
    assert [bits(trainer) for trainer in together] == [bits(trainer) for trainer in alone]


def test_frames_may_be_a_memory_map(tmp_path: Path, short_chunks: None) -> None:
    frames = noise_frames(20)
    np.save(tmp_path / "frames.npy", frames)
    mapped = np.load(tmp_path / "frames.npy", mmap_mode="r")
    trainers = [Trainer(each, RECIPE, seed=1) for each in (frames, mapped)]
    assert train(trainers[0]).tobytes() == train(trainers[1]).tobytes()
    assert bits(trainers[0]) == bits(trainers[1])


# -- Steps ------------------------------------------------------------------------------------------------------------


def test_the_last_chunk_has_the_steps_that_are_left(short_chunks: None) -> None:
    trainer = Trainer(noise_frames(20), RECIPE, seed=1)
    made = []
    while not trainer.done:
        trainer.start_chunk()
        costs = trainer.finish_chunk()
        assert costs.dtype == np.float64
        made.append((costs.shape, trainer.steps))
    assert made == [((5, 2), 5), ((5, 2), 10), ((3, 2), 13)]


def test_fewer_steps_are_the_first_ones_of_more(short_chunks: None) -> None:
    frames = noise_frames(20)
    short, long = (train(Trainer(frames, replace(RECIPE, steps=steps), seed=1)) for steps in (7, 13))
    assert len(short) == 7
    assert short.tobytes() == long[:7].tobytes()


def test_each_step_moves_by_the_gradient_of_its_minibatch(short_chunks: None) -> None:
    """With one frame the minibatch is known, and with the deviations of messages near 0 so is the noise."""
    frame = noise_frames(1)
    trainer = Trainer(frame, replace(RECIPE, steps=3), seed=1)
    with torch.no_grad():
        trainer.encoder.posterior.weight[3:] = 0.0
        trainer.encoder.posterior.bias[3:] = -30.0
    reference = Trainer(frame, RECIPE, seed=1)
    reference.restore(0, trainer.tensors())
    optimiser = torch.optim.RMSprop([*reference.encoder.parameters(), *reference.decoder.parameters()], lr=1e-3)
    picture = torch.from_numpy(frame)[:, None].float() / 255.0
    expected = []
    for _ in range(3):
        posterior = reference.encoder(picture)
        mean, log_std = reference.decoder(posterior[:, :3])
        correction = -torch.distributions.Normal(mean, log_std.exp()).log_prob(picture).sum()
        standard = torch.distributions.Normal(torch.zeros(3), torch.ones(3))
        own = torch.distributions.Normal(posterior[0, :3], posterior[0, 3:].exp())
        communication = torch.distributions.kl_divergence(own, standard).sum()
        expected.append([correction.item(), communication.item()])
        optimiser.zero_grad()
        (correction + communication).backward()
        optimiser.step()
    np.testing.assert_allclose(train(trainer), expected, rtol=1e-4)


def test_every_chunk_and_every_seed_has_minibatches_and_noise_of_its_own(short_chunks: None) -> None:
    """Where weights do not move, costs differ by what was drawn alone."""
    recipe = replace(RECIPE, steps=10, step_size=1e-30)
    first, other = (Trainer(noise_frames(20), recipe, seed=seed) for seed in (1, 2))
    other.restore(0, first.tensors())
    costs = np.concatenate([train(first), train(other)])
    assert bits(first)[0] == bits(other)[0]
    assert len(np.unique(costs[:, 0])) == len(np.unique(costs[:, 1])) == 20


def test_every_frame_is_drawn_as_often_as_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of eight frames is of one brightness; in 800 draws, each comes 100 times, give or take 9.4."""
    frames = np.repeat(np.arange(8, dtype=np.uint8), 52 * 52).reshape(8, 52, 52)
    trainer = Trainer(frames, replace(RECIPE, steps=1, minibatch=8), seed=1)
    monkeypatch.setattr(trainer, "_step", lambda: None)
    trainer.start_chunk()
    drawn = trainer._frames.tensor[trainer._places.flatten(), 0, 0].tolist()
    counts = np.bincount(drawn, minlength=8)
    assert counts.sum() == 800
    assert np.abs(counts - 100).max() < 4 * math.sqrt(800 * 7 / 64)


# -- What it leaves ---------------------------------------------------------------------------------------------------


def test_networks_are_the_trained_weights(short_chunks: None) -> None:
    trainer = Trainer(noise_frames(20), RECIPE, seed=1)
    train(trainer)
    networks = trainer.networks()
    for part, network in (("encoder", trainer.encoder), ("decoder", trainer.decoder)):
        assert {name: array.tobytes() for name, array in networks[part].items()} == {
            name: tensor.numpy().tobytes() for name, tensor in network.state_dict().items()
        }
    assert {name: array.shape for name, array in networks["encoder"].items()} == trainer.architecture.encoder_shapes()
    assert {name: array.shape for name, array in networks["decoder"].items()} == trainer.architecture.decoder_shapes()


@pytest.mark.parametrize("shape", [(3, 52, 57), (57, 52, 3)], ids=["stack", "colours"])
def test_stacks_and_colours_are_trained_on(short_chunks: None, shape: tuple[int, ...]) -> None:
    frames = np.random.default_rng(0).integers(0, 256, (20, *shape), np.uint8)
    trainer = Trainer(frames, RECIPE, seed=1)
    costs = train(trainer).sum(1)
    assert trainer.architecture.observation_shape == shape
    assert costs[-5:].mean() < costs[:5].mean()


def test_frames_that_are_too_small_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 52x52 pixels"):
        Trainer(np.zeros((5, 40, 52), np.uint8), RECIPE)
