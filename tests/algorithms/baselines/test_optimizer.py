"""RMSProp against the published rule in plain numpy."""

from __future__ import annotations

import numpy as np
import torch

from mfec.algorithms.baselines.optimizer import CentredRMSprop


def published(start: np.ndarray, gradients: np.ndarray, *, lr: float = 0.00025, decay: float = 0.95) -> np.ndarray:
    """Mnih et al. (2015): both moments with 0.95, 0.01 as the smallest squared gradient, sums over a minibatch."""
    at, mean, square = start.astype(np.float64), 0.0, 0.0
    path = []
    for gradient in gradients.astype(np.float64):
        mean = decay * mean + (1.0 - decay) * gradient
        square = decay * square + (1.0 - decay) * gradient**2
        at = at - lr * gradient / np.sqrt(square - mean**2 + 0.01)
        path.append(at)
    return np.stack(path)


def steps(optimizer: torch.optim.Optimizer, parameters: list[torch.Tensor], gradients: np.ndarray) -> np.ndarray:
    """Where the parameters, all in a row, are after each of these gradients."""
    path = []
    for gradient in gradients:
        at = 0
        for parameter in parameters:
            own = gradient[at : at + parameter.numel()]
            parameter.grad = torch.tensor(own, dtype=parameter.dtype).reshape(parameter.shape)
            at += parameter.numel()
        optimizer.step()
        path.append(np.concatenate([parameter.detach().numpy().reshape(-1) for parameter in parameters]))
    return np.stack(path)


def parameters(dtype: torch.dtype = torch.float64) -> list[torch.Tensor]:
    return [torch.linspace(-1.0, 1.0, 6, dtype=dtype).reshape(2, 3), torch.full((4,), 0.5, dtype=dtype)]


START = np.concatenate([parameter.numpy().reshape(-1) for parameter in parameters()])


def summed(scale: float) -> np.ndarray:
    """Gradients of 200 minibatches, summed over 32 each."""
    return scale * np.random.default_rng(0).normal(0.1, 1.0, (200, len(START)))


def test_steps_are_the_published_ones():
    """Written for means: a thirty-second of the sum, with 0.01 / 32^2 beside its variance, is the same step."""
    for scale in (10.0, 0.1, 0.001):  # from far above the smallest variance to far below
        own = parameters()
        path = steps(CentredRMSprop(own), own, summed(scale) / 32)
        assert np.allclose(path, published(START, summed(scale)), rtol=0.0, atol=1e-15)


def test_sums_with_the_published_number_make_the_same_steps():
    own = parameters()
    path = steps(CentredRMSprop(own, smallest=0.01), own, summed(1.0))
    assert np.allclose(path, published(START, summed(1.0)), rtol=0.0, atol=1e-15)


def test_in_single_precision_too():
    own = parameters(torch.float32)
    path = steps(CentredRMSprop(own), own, summed(0.1) / 32)
    assert np.allclose(path, published(START, summed(0.1)), rtol=0.0, atol=2e-6)


def test_the_step_size_can_be_set():
    own = parameters()
    path = steps(CentredRMSprop(own, lr=0.01), own, summed(1.0) / 32)
    assert np.allclose(path, published(START, summed(1.0), lr=0.01), rtol=0.0, atol=1e-13)


def test_torchs_own_makes_other_steps():
    """It has no variance below the root, so that small gradients make large steps."""
    own = parameters()
    peer = torch.optim.RMSprop(own, lr=0.00025, alpha=0.95, eps=0.01 / 32, centered=True)
    path = steps(peer, own, summed(0.001) / 32)
    assert np.abs(path - published(START, summed(0.001)))[-1].max() > 1e-4


def test_parameters_without_a_gradient_stay_where_they_are():
    own = parameters()
    optimizer = CentredRMSprop(own)
    own[0].grad = torch.ones_like(own[0])
    optimizer.step()
    assert not torch.equal(own[0], parameters()[0])
    assert torch.equal(own[1], parameters()[1])
    assert list(optimizer.state) == [own[0]]


def test_what_was_saved_goes_on_as_if_it_had_never_stopped():
    gradients = summed(0.1) / 32
    whole, first = parameters(), parameters()
    path = steps(CentredRMSprop(whole), whole, gradients)
    optimizer = CentredRMSprop(first)
    steps(optimizer, first, gradients[:90])
    second = [parameter.clone() for parameter in first]
    again = CentredRMSprop(second)
    again.load_state_dict(optimizer.state_dict())
    assert np.array_equal(steps(again, second, gradients[90:]), path[90:])
