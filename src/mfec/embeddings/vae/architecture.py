"""The shape of a VAE: the sizes of its layers, and of every tensor in its files. Nothing here needs torch."""

from __future__ import annotations

import math
from dataclasses import dataclass

KERNELS = (4, 5, 5, 4)
STRIDE = 2
SMALLEST_SIDE = 52  # pixels; a smaller picture leaves nothing for the last convolution

Shapes = dict[str, tuple[int, ...]]


@dataclass(frozen=True)
class Architecture:
    """Sizes of the layers; the defaults are those of the paper's appendix.

    Args:
        observation_shape: of one picture: (height, width), several frames (n, height, width), or colours
            (height, width, 3).
        channels: maps of the four convolutions.
        hidden: units of the fully connected layer.
        latents: numbers in a message z; a state has a mean and a log-standard-deviation for each.

    >>> Architecture((84, 84)).sizes
    [(84, 84), (41, 41), (19, 19), (8, 8), (3, 3)]
    """

    observation_shape: tuple[int, ...]
    channels: tuple[int, ...] = (32, 32, 64, 64)
    hidden: int = 512
    latents: int = 32

    def __post_init__(self) -> None:
        shape = self.observation_shape
        if len(shape) not in (2, 3) or min(self.picture_shape[1:]) < SMALLEST_SIDE:
            raise ValueError(
                f"a VAE needs pictures of at least {SMALLEST_SIDE}x{SMALLEST_SIDE} pixels, (height, width), "
                f"(frames, height, width) or (height, width, colours), not observations of shape {shape}"
            )
        if len(self.channels) != len(KERNELS):
            raise ValueError(f"a VAE has {len(KERNELS)} convolutions, so channels are {len(KERNELS)} numbers")
        if min(*self.channels, self.hidden, self.latents) < 1:
            raise ValueError("channels, hidden and latents must be at least 1")

    @property
    def colours_last(self) -> bool:
        """Whether an observation is (height, width, colours)."""
        shape = self.observation_shape
        return len(shape) == 3 and shape[2] <= 4 < shape[0]

    @property
    def picture_shape(self) -> tuple[int, int, int]:
        """Maps, height and width of an observation as the first convolution takes it."""
        shape = self.observation_shape
        if len(shape) == 2:
            return (1, shape[0], shape[1])
        return (shape[2], shape[0], shape[1]) if self.colours_last else (shape[0], shape[1], shape[2])

    @property
    def sizes(self) -> list[tuple[int, int]]:
        """Height and width of the picture, and of the maps after each convolution."""
        sizes = [self.picture_shape[1:]]
        for kernel in KERNELS:
            height, width = sizes[-1]
            sizes.append(((height - kernel) // STRIDE + 1, (width - kernel) // STRIDE + 1))
        return sizes

    @property
    def flat(self) -> int:
        """Numbers in all maps of the last convolution."""
        return self.channels[-1] * math.prod(self.sizes[-1])

    def encoder_shapes(self) -> Shapes:
        """Shape of every tensor of the encoder."""
        shapes: Shapes = {}
        inputs = (self.picture_shape[0], *self.channels[:-1])
        for i, (before, after, kernel) in enumerate(zip(inputs, self.channels, KERNELS, strict=True)):
            shapes |= _layer(f"convolutions.{i}", (after, before, kernel, kernel), after)
        shapes |= _layer("hidden", (self.hidden, self.flat), self.hidden)
        return shapes | _layer("posterior", (2 * self.latents, self.hidden), 2 * self.latents)

    def decoder_shapes(self) -> Shapes:
        """Shape of every tensor of the decoder."""
        shapes = _layer("hidden", (self.hidden, self.latents), self.hidden)
        shapes |= _layer("maps", (self.flat, self.hidden), self.flat)
        outputs = self.channels[::-1]  # 64, 64, 32, 32: mirrored, the first one takes what the last convolution made
        inputs = (self.channels[-1], *outputs[:-1])
        for i, (before, after, kernel) in enumerate(zip(inputs, outputs, KERNELS[::-1], strict=True)):
            shapes |= _layer(f"reverse_convolutions.{i}", (before, after, kernel, kernel), after)
        pictures = 2 * self.picture_shape[0]  # a mean and a log-standard-deviation
        return shapes | _layer("picture", (outputs[-1], pictures, 1, 1), pictures)


def _layer(name: str, weight: tuple[int, ...], bias: int) -> Shapes:
    return {f"{name}.weight": weight, f"{name}.bias": (bias,)}
