"""The sizes of the paper's appendix, and those of other pictures."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from mfec.embeddings.vae import VAE, Architecture
from mfec.embeddings.vae.architecture import Shapes
from mfec.embeddings.vae.networks import Decoder, Encoder, as_pictures

from .making import make_networks, tensors_of

ATARI = Architecture((84, 84))
ODD = [(52, 52), (53, 52), (85, 83), (61, 58), (60, 55), (99, 64), (4, 84, 84), (2, 57, 63), (96, 96, 3), (55, 70, 4)]


def parameters(shapes: Shapes) -> int:
    return sum(math.prod(shape) for shape in shapes.values())


def module_shapes(network: Encoder | Decoder) -> Shapes:
    return {name: tuple(tensor.shape) for name, tensor in network.state_dict().items()}


# -- The paper's ------------------------------------------------------------------------------------------------------


def test_maps_shrink_from_84_to_41_to_19_to_8_to_3() -> None:
    assert ATARI.sizes == [(84, 84), (41, 41), (19, 19), (8, 8), (3, 3)]
    assert ATARI.flat == 64 * 3 * 3


def test_the_encoder_has_these_tensors_and_471296_numbers() -> None:
    shapes = ATARI.encoder_shapes()
    assert shapes == {
        "convolutions.0.weight": (32, 1, 4, 4), "convolutions.0.bias": (32,),
        "convolutions.1.weight": (32, 32, 5, 5), "convolutions.1.bias": (32,),
        "convolutions.2.weight": (64, 32, 5, 5), "convolutions.2.bias": (64,),
        "convolutions.3.weight": (64, 64, 4, 4), "convolutions.3.bias": (64,),
        "hidden.weight": (512, 576), "hidden.bias": (512,),
        "posterior.weight": (64, 512), "posterior.bias": (64,),
    }  # fmt: skip
    assert parameters(shapes) == 471_296


def test_the_decoder_has_these_tensors_and_548162_numbers() -> None:
    shapes = ATARI.decoder_shapes()
    assert shapes == {
        "hidden.weight": (512, 32), "hidden.bias": (512,),
        "maps.weight": (576, 512), "maps.bias": (576,),
        "reverse_convolutions.0.weight": (64, 64, 4, 4), "reverse_convolutions.0.bias": (64,),
        "reverse_convolutions.1.weight": (64, 64, 5, 5), "reverse_convolutions.1.bias": (64,),
        "reverse_convolutions.2.weight": (64, 32, 5, 5), "reverse_convolutions.2.bias": (32,),
        "reverse_convolutions.3.weight": (32, 32, 4, 4), "reverse_convolutions.3.bias": (32,),
        "picture.weight": (32, 2, 1, 1), "picture.bias": (2,),
    }  # fmt: skip
    assert parameters(shapes) == 548_162


# -- Any --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("observation_shape", [(84, 84), *ODD], ids=str)
def test_the_modules_have_the_shapes_of_their_architecture(observation_shape: tuple[int, ...]) -> None:
    shape = Architecture(observation_shape, (5, 6, 7, 8), hidden=9, latents=2)
    encoder, decoder = Encoder(shape), Decoder(shape)
    assert module_shapes(encoder) == shape.encoder_shapes()
    assert module_shapes(decoder) == shape.decoder_shapes()


@pytest.mark.parametrize("observation_shape", [(84, 84), *ODD], ids=str)
def test_pictures_come_back_in_their_own_size(observation_shape: tuple[int, ...]) -> None:
    shape = Architecture(observation_shape, (2, 3, 2, 3), hidden=4, latents=2)
    encoder, decoder = make_networks(shape)
    observations = torch.zeros((3, *observation_shape), dtype=torch.uint8)
    pictures = as_pictures(observations, shape)
    mean, log_std = decoder(encoder(pictures)[:, :2])
    assert mean.shape == log_std.shape == pictures.shape
    states = VAE(shape, tensors_of(encoder))(observations.numpy())
    assert states.shape == (3, 4)


def test_colours_come_last_and_stacked_frames_first() -> None:
    assert Architecture((96, 97, 3)).picture_shape == (3, 96, 97)
    assert Architecture((4, 84, 85)).picture_shape == (4, 84, 85)
    assert Architecture((84, 85)).picture_shape == (1, 84, 85)
    assert [Architecture(shape).colours_last for shape in ((96, 97, 3), (4, 84, 85), (84, 85))] == [True, False, False]


def test_more_frames_or_colours_are_more_inputs_and_outputs_alone() -> None:
    grey, stack = Architecture((84, 84)), Architecture((4, 84, 84))
    differing = {
        name: shape
        for name, shape in (stack.encoder_shapes() | stack.decoder_shapes()).items()
        if (grey.encoder_shapes() | grey.decoder_shapes())[name] != shape
    }
    assert differing == {
        "convolutions.0.weight": (32, 4, 4, 4),
        "picture.weight": (32, 8, 1, 1),
        "picture.bias": (8,),
    }


# -- Refused ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "shape", [(51, 84), (84, 51), (4, 84, 51), (51, 96, 3), (10, 10), (128,), (), (2, 3, 84, 84), (84, 84, 5)], ids=str
)
def test_observations_that_are_no_pictures_or_too_small_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"^a VAE needs pictures of at least 52x52 pixels, .* not observations of .*$"):
        Architecture(shape)


def test_a_picture_one_pixel_smaller_than_allowed_leaves_nothing() -> None:
    """So that 52 is no arbitrary number."""
    sizes = np.array([52, 51])
    for kernel in (4, 5, 5, 4):
        sizes = (sizes - kernel) // 2 + 1
    assert sizes.tolist() == [1, 0]


@pytest.mark.parametrize("channels", [(), (32, 32, 64), (32, 32, 64, 64, 64)])
def test_other_numbers_of_convolutions_are_refused(channels: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"^a VAE has 4 convolutions, so channels are 4 numbers$"):
        Architecture((84, 84), channels)


@pytest.mark.parametrize("sizes", [{"channels": (32, 0, 64, 64)}, {"hidden": 0}, {"latents": -1}], ids=str)
def test_empty_layers_are_refused(sizes: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=r"^channels, hidden and latents must be at least 1$"):
        Architecture((84, 84), **sizes)
