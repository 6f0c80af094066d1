"""The two networks of the paper's VAE (appendix), and the two costs that they are trained to lower."""

from __future__ import annotations

import math
from itertools import pairwise

from torch import Tensor, nn
from torch.nn import functional

from mfec.embeddings.vae.architecture import KERNELS, STRIDE, Architecture

SMALLEST_STD = 0.05  # of a pixel, in [0, 1]


class Encoder(nn.Module):
    """From pictures to q(z|x): 32 means, then 32 log-standard-deviations."""

    def __init__(self, shape: Architecture) -> None:
        super().__init__()
        inputs = (shape.picture_shape[0], *shape.channels[:-1])
        self.convolutions = nn.ModuleList(
            nn.Conv2d(before, after, kernel, STRIDE)
            for before, after, kernel in zip(inputs, shape.channels, KERNELS, strict=True)
        )
        self.hidden = nn.Linear(shape.flat, shape.hidden)
        self.posterior = nn.Linear(shape.hidden, 2 * shape.latents)

    def forward(self, pictures: Tensor) -> Tensor:
        """Pictures in [0, 1], (n, maps, height, width), to (n, 2 * latents)."""
        maps = pictures
        for convolution in self.convolutions:
            maps = functional.relu(convolution(maps))
        posterior: Tensor = self.posterior(functional.relu(self.hidden(maps.flatten(1))))
        return posterior


class Decoder(nn.Module):
    """From messages z to p(x|z): a mean and a log-standard-deviation for every pixel."""

    def __init__(self, shape: Architecture) -> None:
        super().__init__()
        sizes = shape.sizes[::-1]
        outputs = shape.channels[::-1]
        inputs = (shape.channels[-1], *outputs[:-1])
        self._first = (shape.channels[-1], *sizes[0])
        self.hidden = nn.Linear(shape.latents, shape.hidden)
        self.maps = nn.Linear(shape.hidden, shape.flat)
        self.reverse_convolutions = nn.ModuleList(
            nn.ConvTranspose2d(before, after, kernel, STRIDE, output_padding=_left_over(small, big, kernel))
            for before, after, kernel, (small, big) in zip(inputs, outputs, KERNELS[::-1], pairwise(sizes), strict=True)
        )
        # The paper gives no size for this one; without padding, only 1 keeps 84x84.
        self.picture = nn.ConvTranspose2d(outputs[-1], 2 * shape.picture_shape[0], 1)

    def forward(self, messages: Tensor) -> tuple[Tensor, Tensor]:
        """Messages (n, latents) to means and log-standard-deviations, each (n, maps, height, width)."""
        maps = functional.relu(self.maps(functional.relu(self.hidden(messages))))
        maps = maps.unflatten(1, self._first)  # type: ignore[no-untyped-call]
        for convolution in self.reverse_convolutions:
            maps = functional.relu(convolution(maps))
        mean, log_std = self.picture(maps).chunk(2, dim=1)
        return mean, log_std.clamp(min=math.log(SMALLEST_STD))


def communication_cost(posterior: Tensor) -> Tensor:
    """KL(q(z|x) || p(z)) in nats, (n,), for p(z) a standard Gaussian; posterior: (n, 2 * latents)."""
    mean, log_std = posterior.chunk(2, dim=1)
    return (0.5 * (mean.square() + (2.0 * log_std).exp() - 1.0) - log_std).sum(dim=1)


def correction_cost(pictures: Tensor, mean: Tensor, log_std: Tensor) -> Tensor:
    """-log p(x|z) in nats, (n,): what it takes to recover the pictures from what the decoder made of their messages."""
    off = (pictures - mean) * (-log_std).exp()
    return (0.5 * off.square() + log_std + 0.5 * math.log(2.0 * math.pi)).flatten(1).sum(dim=1)


def draw_messages(posterior: Tensor, noise: Tensor) -> Tensor:
    """Messages z drawn from q(z|x); noise: standard normal numbers, (n, latents)."""
    mean, log_std = posterior.chunk(2, dim=1)
    return mean + log_std.exp() * noise


def costs(encoder: Encoder, decoder: Decoder, pictures: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    """Correction and communication cost of each picture, (n,) both; a VAE is trained to lower their sum."""
    posterior = encoder(pictures)
    mean, log_std = decoder(draw_messages(posterior, noise))
    return correction_cost(pictures, mean, log_std), communication_cost(posterior)


def as_pictures(observations: Tensor, shape: Architecture) -> Tensor:
    """Bytes as the environment shows them, (n, *observation_shape), to numbers in [0, 1], (n, maps, height, width)."""
    if shape.colours_last:
        observations = observations.permute(0, 3, 1, 2)
    return observations.reshape(len(observations), *shape.picture_shape).float() / 255.0


def _left_over(small: tuple[int, int], big: tuple[int, int], kernel: int) -> tuple[int, int]:
    """Rows and columns, 0 or 1, that a convolution did not reach, so that its mirror has to add them. 0 at 84x84."""
    rows, columns = (b - (STRIDE * (s - 1) + kernel) for s, b in zip(small, big, strict=True))
    return rows, columns
