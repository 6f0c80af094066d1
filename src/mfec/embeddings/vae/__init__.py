"""The variational autoencoder of the paper's appendix as an embedding. torch is imported when it first encodes."""

from __future__ import annotations

import hashlib
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from mfec.config import VAEConfig
from mfec.device import Channel
from mfec.embeddings.vae.architecture import Architecture
from mfec.embeddings.vae.files import EncoderError, Tensors, find_files, read_network, shipped_names

if TYPE_CHECKING:
    from mfec.embeddings.vae.inference import Encode
    from mfec.embeddings.vae.networks import Decoder, Encoder

__all__ = ["VAE", "Architecture", "EncoderError", "check_pictures", "shipped_names"]

NEEDS_TORCH = "the VAE needs the extra `torch`: pip install 'mfec[torch]'"


class VAE:
    """States that are the parameters of q(z|x): the means of the latents, then their log-standard-deviations.

    The state of an observation is the same bits in every batch and for any number of threads. On a GPU it differs from
    the CPU's in the last digits.

    Args:
        architecture: sizes of the layers, and the observations that fit.
        tensors: weights of the encoder.
        device: where to encode: `cpu` or `cuda`.
        source: where the weights came from, for messages.

    >>> vae = VAE.load("qbert")
    >>> vae(np.zeros((3, 84, 84), np.uint8)).shape
    (3, 64)
    """

    name = "vae"

    def __init__(
        self, architecture: Architecture, tensors: Tensors, *, device: str = "cpu", source: Path | None = None
    ) -> None:
        self.architecture = architecture
        self.device = device
        self.source = source
        self._tensors = tensors

    @classmethod
    def load(cls, name: str | Path, *, device: str = "cpu") -> VAE:
        """A VAE that ships with the package (`shipped_names()`), or one that `mfec vae train` wrote to a directory."""
        source = find_files(name)
        architecture, tensors = read_network(source, "encoder")
        return cls(architecture, tensors, device=device, source=source)

    @classmethod
    def make(cls, space: spaces.Box | spaces.Discrete[Any], *, dim: int, seed: np.random.SeedSequence, vae: str) -> VAE:
        """The VAE of that name or directory."""
        if not vae:
            raise ValueError(
                "the embedding 'vae' needs an encoder: vae='qbert' names one that ships, vae='DIR' one that "
                "`mfec vae train` wrote"
            )
        return cls.load(vae)

    @staticmethod
    def dim_for(space: spaces.Box | spaces.Discrete[Any], *, dim: int, vae: str) -> int:
        """The numbers in a state of that VAE, or of one that is yet to be trained on such observations."""
        if not vae:
            check_pictures(space)
            return 2 * VAEConfig.latents
        encoder = VAE.load(vae)
        encoder.check_fits(space.dtype, space.shape)
        return encoder.dim

    def hand_over(self, device: Channel) -> bool:
        """Let a device encode observations; False for a subclass, which may compute something else."""
        if type(self) is not VAE:
            return False
        device.encode_with(self)
        return True

    @property
    def dim(self) -> int:
        """Numbers in a state."""
        return 2 * self.architecture.latents

    @property
    def observation_shape(self) -> tuple[int, ...]:
        """The shape of the observations that it takes."""
        return self.architecture.observation_shape

    @cached_property
    def encoder(self) -> Encoder:
        """The encoder, a torch module: pictures in [0, 1], float32 (n, maps, height, width), to (n, dim)."""
        encoder = _networks().Encoder(self.architecture)
        _fill(encoder, self._tensors, self.device)
        return encoder  # type: ignore[no-any-return]

    @cached_property
    def decoder(self) -> Decoder:
        """The decoder, a torch module: messages (n, latents) to means and log-standard-deviations of pixels."""
        if self.source is None:
            raise EncoderError("this VAE has no decoder: only VAE.load can find one")
        architecture, tensors = read_network(self.source, "decoder")
        if architecture != self.architecture:
            raise EncoderError(f"{self.source} holds the decoder of another encoder: their architectures differ")
        decoder = _networks().Decoder(architecture)
        _fill(decoder, tensors, self.device)
        return decoder  # type: ignore[no-any-return]

    def __call__(self, observations: NDArray[np.uint8]) -> NDArray[np.float32]:
        """States, float32 (n, dim), of a batch of observations, uint8 (n, ...), each of `observation_shape`."""
        self._check(observations)
        return self._encode(observations)

    def reconstruct(self, observations: NDArray[np.uint8]) -> NDArray[np.float32]:
        """The decoder's mean pictures in [0, 1] for the means of q(z|x), shaped like the observations."""
        self._check(observations)
        decoder = self.decoder
        from mfec.embeddings.vae.inference import reconstruct

        return reconstruct(self.encoder, decoder, self.architecture, observations)

    def costs(self, observations: NDArray[np.uint8], *, seed: int = 0) -> tuple[float, float]:
        """Mean correction and communication cost of observations, in nats; `seed` makes the noise of the messages."""
        self._check(observations)
        decoder = self.decoder
        from mfec.embeddings.vae.inference import mean_costs

        return mean_costs(self.encoder, decoder, self.architecture, observations, seed)

    def check_fits(self, dtype: Any, shape: tuple[int, ...] | None) -> None:
        """Raise if observations differ in type or shape from those that the encoder was trained on."""
        if dtype != np.uint8 or shape != self.observation_shape:
            whose = "this encoder" if self.source is None else f"the encoder in {self.source}"
            raise EncoderError(
                f"{whose} takes uint8 observations of shape {self.observation_shape}, the environment has {dtype} of "
                f"shape {shape}"
            )

    def on(self, device: str) -> VAE:
        """The same embedding on another device."""
        return VAE(self.architecture, self._tensors, device=device, source=self.source)

    @cached_property
    def digest(self) -> str:
        """Equal for equal encoders."""
        digest = hashlib.sha256(repr(self.architecture).encode())
        for name in sorted(self._tensors):
            digest.update(self._tensors[name].tobytes())
        return digest.hexdigest()

    def tensors(self) -> dict[str, NDArray[Any]]:
        """What a checkpoint keeps."""
        shape = self.architecture
        sizes = {"observation_shape": shape.observation_shape, "channels": shape.channels}
        return {
            **self._tensors,
            **{name: np.array(numbers) for name, numbers in sizes.items()},
            "layers": np.array([shape.hidden, shape.latents]),
        }

    @classmethod
    def restore(cls, tensors: dict[str, NDArray[Any]]) -> VAE:
        """The VAE whose `tensors()` these are; it has no decoder."""
        weights = dict(tensors)
        observation_shape, channels = (tuple(weights.pop(name).tolist()) for name in ("observation_shape", "channels"))
        hidden, latents = weights.pop("layers").tolist()
        architecture = Architecture(observation_shape, channels, hidden, latents)
        if {name: tensor.shape for name, tensor in weights.items()} != architecture.encoder_shapes():
            raise ValueError("its encoder's tensors are not those of its architecture")
        return cls(architecture, weights)

    def _check(self, observations: NDArray[Any]) -> None:
        if observations.dtype != np.uint8 or observations.shape[1:] != self.observation_shape:
            raise ValueError(
                f"this encoder takes uint8 observations of shape {self.observation_shape}, "
                f"not {observations.dtype} of shape {observations.shape[1:]}"
            )

    @cached_property
    def _encode(self) -> Encode:
        encoder = self.encoder  # first: its error names the extra if torch is missing
        from mfec.embeddings.vae.inference import Encode

        return Encode(encoder, self.architecture, self.device)

    def __getstate__(self) -> dict[str, Any]:
        """Everything but torch modules, which are made again when needed."""
        held = ("encoder", "decoder", "_encode")
        return {name: value for name, value in vars(self).items() if name not in held}


def check_pictures(space: spaces.Box | spaces.Discrete[Any]) -> None:
    """Raise if no VAE can be trained on such observations."""
    if space.dtype != np.uint8 or isinstance(space, spaces.Discrete):
        raise ValueError(f"a VAE is trained on pictures of bytes, and these observations are {space}")
    Architecture(space.shape)  # raises if their size does not fit


def _networks() -> Any:
    try:
        from mfec.embeddings.vae import networks
    except ImportError:
        raise ImportError(NEEDS_TORCH) from None
    return networks


def _fill(network: Any, tensors: Tensors, device: str) -> None:
    import torch

    network.load_state_dict({name: torch.from_numpy(np.array(tensor)) for name, tensor in tensors.items()})
    network.to(device).eval().requires_grad_(False)
