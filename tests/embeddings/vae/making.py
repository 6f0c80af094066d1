"""Networks with first weights from a seed, their files, and frames to show them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from mfec.embeddings.vae import VAE, Architecture
from mfec.embeddings.vae.files import Tensors, write_network
from mfec.embeddings.vae.networks import Decoder, Encoder

SMALL = Architecture((52, 52), (3, 4, 3, 4), hidden=6, latents=3)


def make_networks(shape: Architecture = SMALL, seed: int = 0, *, scale: float = 1.0) -> tuple[Encoder, Decoder]:
    """First weights times `scale`: as they are, hardly anything comes through so many narrow layers."""
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(seed)
        encoder, decoder = Encoder(shape), Decoder(shape)
        for parameter in (*encoder.parameters(), *decoder.parameters()):
            parameter.mul_(scale)
    return encoder, decoder


def tensors_of(network: Encoder | Decoder) -> Tensors:
    return {name: tensor.numpy().copy() for name, tensor in network.state_dict().items()}


def make_vae(shape: Architecture = SMALL, seed: int = 0) -> VAE:
    return VAE(shape, tensors_of(make_networks(shape, seed)[0]))


def write_vae(directory: Path, shape: Architecture = SMALL, seed: int = 0, *, scale: float = 1.0) -> Path:
    """The directory, with both networks in it."""
    directory.mkdir(parents=True, exist_ok=True)
    encoder, decoder = make_networks(shape, seed, scale=scale)
    write_network(directory, "encoder", tensors_of(encoder), shape)
    write_network(directory, "decoder", tensors_of(decoder), shape)
    return directory


def noise_frames(n: int, shape: Architecture = SMALL, seed: int = 0) -> NDArray[np.uint8]:
    return np.random.default_rng(seed).integers(0, 256, (n, *shape.observation_shape), np.uint8)
