"""The networks against plain numpy, the costs against torch.distributions, the gradients against differences."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.distributions import Normal, kl_divergence

from mfec.embeddings.vae import Architecture
from mfec.embeddings.vae.networks import (
    Decoder,
    Encoder,
    as_pictures,
    communication_cost,
    correction_cost,
    costs,
    draw_messages,
)

from .making import SMALL, make_networks, noise_frames, tensors_of

Array = NDArray[np.float64]
UNEVEN = Architecture((57, 54), (3, 4, 3, 4), hidden=6, latents=3)  # some maps are one row or column larger


def gaussian(*shape: int, seed: int = 0, scale: float = 1.0) -> Tensor:
    return scale * torch.from_numpy(np.random.default_rng(seed).standard_normal(shape))


def shown(n: int, shape: Architecture) -> Tensor:
    return as_pictures(torch.from_numpy(noise_frames(n, shape)), shape).double()


# -- Layers -----------------------------------------------------------------------------------------------------------


def relu(numbers: Array) -> Array:
    return np.maximum(numbers, 0.0)


def convolve(maps: Array, weight: Array, bias: Array) -> Array:
    windows = np.lib.stride_tricks.sliding_window_view(maps, weight.shape[2:], axis=(2, 3))[:, :, ::2, ::2]
    return np.einsum("nbyxij,sbij->nsyx", windows, weight) + bias[:, None, None]


def convolve_reversely(maps: Array, weight: Array, bias: Array, size: tuple[int, int]) -> Array:
    """Every pixel of the small maps adds its patch to the big ones."""
    big = np.zeros((len(maps), weight.shape[1], *size)) + bias[:, None, None]
    kernel = weight.shape[2]
    for y in range(maps.shape[2]):
        for x in range(maps.shape[3]):
            big[:, :, 2 * y : 2 * y + kernel, 2 * x : 2 * x + kernel] += np.einsum(
                "ns,sbij->nbij", maps[:, :, y, x], weight
            )
    return big


@pytest.mark.parametrize("shape", [SMALL, UNEVEN], ids=["even", "uneven"])
def test_the_encoder_is_four_convolutions_and_two_full_layers(shape: Architecture) -> None:
    encoder = make_networks(shape)[0].double()
    own = tensors_of(encoder)
    pictures = shown(2, shape)
    maps = pictures.numpy()
    for i in range(4):
        maps = relu(convolve(maps, own[f"convolutions.{i}.weight"], own[f"convolutions.{i}.bias"]))
    hidden = relu(maps.reshape(2, -1) @ own["hidden.weight"].T + own["hidden.bias"])
    posterior = hidden @ own["posterior.weight"].T + own["posterior.bias"]
    np.testing.assert_allclose(encoder(pictures).detach().numpy(), posterior, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("shape", [SMALL, UNEVEN], ids=["even", "uneven"])
def test_the_decoder_is_two_full_layers_and_five_reverse_convolutions(shape: Architecture) -> None:
    decoder = make_networks(shape, seed=1)[1].double()
    own = tensors_of(decoder)
    messages = gaussian(2, shape.latents)
    hidden = relu(messages.numpy() @ own["hidden.weight"].T + own["hidden.bias"])
    maps = relu(hidden @ own["maps.weight"].T + own["maps.bias"]).reshape(2, shape.channels[-1], *shape.sizes[-1])
    for i in range(4):
        name = f"reverse_convolutions.{i}"
        maps = relu(convolve_reversely(maps, own[f"{name}.weight"], own[f"{name}.bias"], shape.sizes[3 - i]))
    picture = np.einsum("nsyx,sb->nbyx", maps, own["picture.weight"][:, :, 0, 0]) + own["picture.bias"][:, None, None]
    mean, log_std = (each.detach().numpy() for each in decoder(messages))
    np.testing.assert_allclose(mean, picture[:, :1], rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(log_std, np.maximum(picture[:, 1:], math.log(0.05)), rtol=1e-12, atol=1e-14)


def test_layers_are_those_of_the_paper() -> None:
    shape = Architecture((84, 84))
    encoder, decoder = Encoder(shape), Decoder(shape)
    down = [each for each in encoder.modules() if isinstance(each, nn.Conv2d)]
    assert [each.out_channels for each in down] == [32, 32, 64, 64]
    assert [each.kernel_size for each in down] == [(4, 4), (5, 5), (5, 5), (4, 4)]
    up = [each for each in decoder.modules() if isinstance(each, nn.ConvTranspose2d)]
    assert [each.out_channels for each in up] == [64, 64, 32, 32, 2]
    assert [each.kernel_size for each in up] == [(4, 4), (5, 5), (5, 5), (4, 4), (1, 1)]
    assert [each.stride for each in (*down, *up)] == [(2, 2)] * 8 + [(1, 1)]
    assert {each.padding for each in (*down, *up)} == {each.output_padding for each in up} == {(0, 0)}
    assert {each.dilation for each in (*down, *up)} == {(1, 1)}
    assert {each.groups for each in (*down, *up)} == {1}


def test_bytes_become_numbers_between_0_and_1() -> None:
    shape = Architecture((52, 53))
    observations = torch.zeros((2, 52, 53), dtype=torch.uint8)
    observations[1] = 255
    observations[0, 3, 4] = 51
    pictures = as_pictures(observations, shape)
    assert pictures.dtype == torch.float32
    assert pictures[0, 0, 3, 4] == np.float32(51) / np.float32(255)
    assert pictures[0].sum() == pictures[0, 0, 3, 4]
    assert (pictures[1] == 1.0).all()


def test_each_colour_and_each_frame_becomes_a_map() -> None:
    observations = noise_frames(2, Architecture((60, 61, 3)))
    pictures = as_pictures(torch.from_numpy(observations), Architecture((60, 61, 3)))
    np.testing.assert_array_equal(pictures.numpy() * 255, observations.transpose(0, 3, 1, 2))
    observations = noise_frames(2, Architecture((4, 60, 61)))
    pictures = as_pictures(torch.from_numpy(observations), Architecture((4, 60, 61)))
    np.testing.assert_array_equal(pictures.numpy() * 255, observations)


# -- The smallest standard deviation ----------------------------------------------------------------------------------


def with_log_std_bias(bias: float) -> Decoder:
    decoder = make_networks(seed=1)[1].double()
    with torch.no_grad():
        decoder.picture.bias[1] = bias
    return decoder


def test_no_pixel_has_a_standard_deviation_below_a_twentieth() -> None:
    log_std = with_log_std_bias(-50.0)(gaussian(2, 3))[1]
    assert (log_std == math.log(0.05)).all()
    log_std = with_log_std_bias(-2.0)(gaussian(2, 3))[1]
    assert (log_std > math.log(0.05)).all()
    assert (log_std != log_std[0, 0, 0, 0]).any()


def test_what_lies_below_it_has_no_gradient() -> None:
    for bias, alive in ((-50.0, False), (-2.0, True)):
        decoder = with_log_std_bias(bias)
        mean, log_std = decoder(gaussian(2, 3))
        correction_cost(torch.zeros_like(mean), mean, log_std).sum().backward()
        assert decoder.picture.weight.grad is not None
        assert decoder.picture.bias.grad is not None
        assert (decoder.picture.weight.grad[:, 0] != 0.0).any(), "of the mean"
        assert (decoder.picture.weight.grad[:, 1] != 0.0).any() == alive
        assert (decoder.picture.bias.grad[1] != 0.0) == alive


# -- Costs ------------------------------------------------------------------------------------------------------------


def test_the_communication_cost_is_the_divergence_from_a_standard_gaussian() -> None:
    posterior = gaussian(50, 14)
    mean, log_std = posterior[:, :7], posterior[:, 7:]
    standard = Normal(torch.zeros(7, dtype=torch.float64), torch.ones(7, dtype=torch.float64))
    expected = kl_divergence(Normal(mean, log_std.exp()), standard).sum(1)
    torch.testing.assert_close(communication_cost(posterior), expected, rtol=1e-12, atol=1e-12)
    assert communication_cost(torch.zeros(1, 14)).tolist() == [0.0]


def test_the_correction_cost_is_the_log_probability_of_pixels() -> None:
    pictures, mean, log_std = (gaussian(5, 2, 6, 7, seed=seed, scale=0.7) for seed in (1, 2, 3))
    expected = -Normal(mean, log_std.exp()).log_prob(pictures).sum((1, 2, 3))
    torch.testing.assert_close(correction_cost(pictures, mean, log_std), expected, rtol=1e-12, atol=1e-12)


def test_messages_have_the_mean_and_deviation_of_the_posterior() -> None:
    """Exactly: both are read off noise of -1, 0 and 1."""
    posterior = gaussian(3, 10)
    mean, std = posterior[:, :5], posterior[:, 5:].exp()
    for noise in (-1.0, 0.0, 1.0):
        torch.testing.assert_close(draw_messages(posterior, torch.full_like(mean, noise)), mean + noise * std)


def test_each_picture_has_its_own_costs() -> None:
    encoder, decoder = (network.double() for network in make_networks())
    pictures, noise = shown(4, SMALL), gaussian(4, 3)
    together = costs(encoder, decoder, pictures, noise)
    for i in range(4):
        alone = costs(encoder, decoder, pictures[i : i + 1], noise[i : i + 1])
        for all_of_them, one in zip(together, alone, strict=True):
            assert all_of_them.shape == (4,)
            assert all_of_them[i].item() == pytest.approx(one.item(), rel=1e-12)


# -- Gradients --------------------------------------------------------------------------------------------------------


def test_the_gradient_of_the_communication_cost_has_a_closed_form() -> None:
    posterior = gaussian(9, 8).requires_grad_()
    communication_cost(posterior).sum().backward()
    mean, log_std = posterior.detach().chunk(2, dim=1)
    assert posterior.grad is not None
    torch.testing.assert_close(posterior.grad, torch.cat([mean, (2.0 * log_std).exp() - 1.0], 1), rtol=1e-12, atol=0)


def test_the_gradient_of_the_correction_cost_has_a_closed_form() -> None:
    pictures, mean, log_std = (gaussian(5, 1, 6, 7, seed=seed, scale=0.7) for seed in (1, 2, 3))
    mean.requires_grad_()
    log_std.requires_grad_()
    correction_cost(pictures, mean, log_std).sum().backward()
    off = pictures - mean.detach()
    variance = (2.0 * log_std.detach()).exp()
    assert mean.grad is not None
    assert log_std.grad is not None
    torch.testing.assert_close(mean.grad, -off / variance, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(log_std.grad, 1.0 - off.square() / variance, rtol=1e-12, atol=1e-12)


def by_differences(cost: Callable[[], Tensor], parameter: Tensor, place: tuple[int, ...]) -> float:
    step = 1e-6  # larger ones meet kinks of the ReLUs, smaller ones the last digits of the cost
    with torch.no_grad():
        start = parameter[place].item()
        parameter[place] = start + step
        above = cost().item()
        parameter[place] = start - step
        below = cost().item()
        parameter[place] = start
    return (above - below) / (2.0 * step)


@pytest.mark.parametrize("term", [0, 1], ids=["correction", "communication"])
@pytest.mark.parametrize("shape", [SMALL, UNEVEN], ids=["even", "uneven"])
def test_gradients_are_those_of_small_differences(shape: Architecture, term: int) -> None:
    """Of every tensor: where the gradient is largest, and in two places at random."""
    encoder, decoder = (network.double() for network in make_networks(shape, seed=3, scale=2.0))
    pictures, noise = shown(3, shape), gaussian(3, 3)
    rng = np.random.default_rng(0)

    def cost() -> Tensor:
        return costs(encoder, decoder, pictures, noise)[term].mean()

    concerned = [encoder] if term else [encoder, decoder]
    named = [each for network in concerned for each in network.named_parameters()]
    gradients = torch.autograd.grad(cost(), [parameter for _, parameter in named])
    assert len(named) == (12 if term else 26)
    for (name, parameter), gradient in zip(named, gradients, strict=True):
        largest = int(gradient.abs().argmax())
        size = gradient.flatten()[largest].abs().item()
        assert size > 0.0, name
        for flat in (largest, *rng.integers(0, parameter.numel(), 2).tolist()):
            place = tuple(int(i) for i in np.unravel_index(flat, parameter.shape))
            found = by_differences(cost, parameter, place)
            assert gradient[place].item() == pytest.approx(found, rel=1e-5, abs=1e-5 * size + 1e-6), (name, place)
