"""All parameters of a VAE in one vector, so that a step of the optimiser is a few operations."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from mfec.embeddings.vae.networks import Decoder, Encoder


class Parameters:
    """The networks' parameters and gradients as parts of two vectors.

    The weights of convolutions and of reverse ones, (small, big, size, size), lie there as (size, size, big, small),
    the order that the GPU kernels read.
    """

    def __init__(self, encoder: Encoder, decoder: Decoder) -> None:
        self.named: dict[str, nn.Parameter] = {
            f"{part}.{name}": parameter
            for part, network in (("encoder", encoder), ("decoder", decoder))
            for name, parameter in network.named_parameters()
        }
        some = next(iter(self.named.values()))
        total = sum(parameter.numel() for parameter in self.named.values())
        self.values = torch.empty(total, device=some.device)
        self.gradients = torch.zeros(total, device=some.device)
        self._places: dict[str, tuple[int, tuple[int, ...]]] = {}
        start = 0
        for name, parameter in self.named.items():
            shape = parameter.shape if parameter.dim() != 4 else parameter.permute(2, 3, 1, 0).shape
            self._places[name] = start, tuple(shape)
            start += parameter.numel()
            own = self._as_parameter(self.values, name)
            own.copy_(parameter.data)
            parameter.data = own

    def part(self, vector: Tensor, name: str) -> Tensor:
        """The part of a vector like `values` that belongs to a parameter, in the order it lies."""
        start, shape = self._places[name]
        return vector[start : start + math.prod(shape)].view(shape)

    def tensors(self, vector: Tensor) -> dict[str, Tensor]:
        """Copies of the parts of a vector, shaped like their parameters."""
        return {
            name: self._as_parameter(vector, name).clone(memory_format=torch.contiguous_format) for name in self.named
        }

    def fill(self, vector: Tensor, tensors: dict[str, Tensor]) -> None:
        """Set a vector to what `tensors` returned."""
        for name in self.named:
            self._as_parameter(vector, name).copy_(tensors[name])

    def _as_parameter(self, vector: Tensor, name: str) -> Tensor:
        own = self.part(vector, name)
        return own.permute(3, 2, 0, 1) if own.dim() == 4 else own


class RMSProp:
    """RMSProp (Tieleman and Hinton, 2012) over one vector of parameters; torch's defaults but for the step size."""

    def __init__(self, parameters: Parameters, step_size: float, *, decay: float = 0.99, eps: float = 1e-8) -> None:
        self._parameters, self._step_size, self._decay, self._eps = parameters, step_size, decay, eps
        self.squares = torch.zeros_like(parameters.values)  # running mean of squared gradients

    @torch.no_grad()
    def step(self) -> None:
        """Move the parameters against their gradients."""
        values, gradients = self._parameters.values, self._parameters.gradients
        self.squares.mul_(self._decay).addcmul_(gradients, gradients, value=1.0 - self._decay)
        values.addcdiv_(gradients, self.squares.sqrt().add_(self._eps), value=-self._step_size)
