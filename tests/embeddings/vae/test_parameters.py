"""All parameters in one vector, and RMSProp over it against torch's own."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from mfec.embeddings.vae.networks import Decoder, Encoder, as_pictures, costs
from mfec.embeddings.vae.parameters import Parameters, RMSProp

from .making import SMALL, make_networks, noise_frames, tensors_of

Both = tuple[Encoder, Decoder, Parameters]


@pytest.fixture
def both() -> Both:
    encoder, decoder = make_networks()
    return encoder, decoder, Parameters(encoder, decoder)


def random_gradients(parameters: Parameters, seed: int) -> dict[str, Tensor]:
    rng = np.random.default_rng(seed)
    return {
        name: 10.0 ** int(rng.integers(-6, 4)) * torch.from_numpy(rng.standard_normal(each.shape, np.float32))
        for name, each in parameters.named.items()
    }


# -- The vector -------------------------------------------------------------------------------------------------------


def test_networks_are_what_they_were_before_they_shared_a_vector(both: Both) -> None:
    encoder, decoder, _ = both
    for own, fresh in zip((encoder, decoder), make_networks(), strict=True):
        for name, tensor in tensors_of(fresh).items():
            assert tensors_of(own)[name].tobytes() == tensor.tobytes()
    pictures, noise = as_pictures(torch.from_numpy(noise_frames(3)), SMALL), torch.ones(3, 3)
    for found, expected in zip(
        costs(encoder, decoder, pictures, noise), costs(*make_networks(), pictures, noise), strict=True
    ):
        torch.testing.assert_close(found, expected, rtol=1e-6, atol=0.0)


def test_the_vector_is_the_memory_of_the_networks(both: Both) -> None:
    encoder, decoder, parameters = both
    assert parameters.values.numel() == sum(each.numel() for net in (encoder, decoder) for each in net.parameters())
    parameters.values.copy_(torch.arange(parameters.values.numel()))
    seen = torch.cat([each.detach().flatten() for network in (encoder, decoder) for each in network.parameters()])
    assert sorted(seen.tolist()) == parameters.values.tolist(), "each number belongs to one parameter"
    with torch.no_grad():
        for parameter in parameters.named.values():
            parameter.fill_(3.0)
    assert (parameters.values == 3.0).all()
    assert (parameters.gradients == 0.0).all()


def test_weights_of_convolutions_lie_in_the_order_of_the_kernels(both: Both) -> None:
    encoder, decoder, parameters = both
    part = parameters.part(parameters.values, "encoder.convolutions.1.weight")
    assert part.shape == (5, 5, 3, 4)  # size, size, big, small
    assert part.is_contiguous()
    assert torch.equal(part[1, 2], encoder.convolutions[1].weight[:, :, 1, 2].T)
    part = parameters.part(parameters.values, "decoder.reverse_convolutions.2.weight")
    assert part.shape == (5, 5, 4, 3)
    assert torch.equal(part[1, 2], decoder.reverse_convolutions[2].weight[:, :, 1, 2].T)
    part = parameters.part(parameters.values, "encoder.hidden.weight")
    assert torch.equal(part, encoder.hidden.weight)


def test_tensors_are_copies_and_fill_puts_them_back(both: Both) -> None:
    *_, parameters = both
    before = parameters.values.clone()
    tensors = parameters.tensors(parameters.values)
    assert {name: tensor.shape for name, tensor in tensors.items()} == {
        name: each.shape for name, each in parameters.named.items()
    }
    assert all(tensor.is_contiguous() for tensor in tensors.values())
    parameters.values.zero_()
    assert torch.equal(tensors["encoder.hidden.weight"], make_networks()[0].hidden.weight)
    parameters.fill(parameters.values, tensors)
    assert torch.equal(parameters.values, before)
    parameters.fill(parameters.gradients, tensors)
    assert torch.equal(parameters.gradients, before)


# -- RMSProp ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step_size", [1e-5, 1e-2])
def test_steps_are_those_of_torch(both: Both, step_size: float) -> None:
    *_, parameters = both
    own = RMSProp(parameters, step_size)
    others = dict(zip(parameters.named, [p for net in make_networks() for p in net.parameters()], strict=True))
    other = torch.optim.RMSprop(others.values(), lr=step_size)
    start = parameters.values.clone()
    for step in range(6):
        gradients = random_gradients(parameters, step)
        parameters.fill(parameters.gradients, gradients)
        own.step()
        for name, parameter in others.items():
            parameter.grad = gradients[name]
        other.step()
        for name, parameter in parameters.named.items():
            torch.testing.assert_close(parameter, others[name], rtol=1e-6, atol=1e-7 * step_size)
    squares = parameters.tensors(own.squares)
    for name, parameter in others.items():
        torch.testing.assert_close(squares[name], other.state[parameter]["square_avg"], rtol=1e-6, atol=0.0)
    assert ((parameters.values - start).abs() > step_size).double().mean() > 0.5, "they moved"


def test_the_first_step_is_ten_step_sizes_against_the_gradient(both: Both) -> None:
    """The running mean begins at 0, so that after one step it is a hundredth of the square."""
    *_, parameters = both
    start = parameters.values.clone()
    parameters.gradients.copy_(torch.where(torch.arange(len(start)) % 2 == 0, 3.0, -0.2))
    RMSProp(parameters, 1e-3).step()
    torch.testing.assert_close(parameters.values, start - 1e-2 * parameters.gradients.sign(), rtol=0.0, atol=1e-7)


def test_parameters_without_a_gradient_stay(both: Both) -> None:
    *_, parameters = both
    start = parameters.values.clone()
    optimiser = RMSProp(parameters, 0.1)
    for _ in range(3):
        optimiser.step()
    assert torch.equal(parameters.values, start)
