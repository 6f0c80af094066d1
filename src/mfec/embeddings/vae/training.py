"""Training a VAE by the recipe of the paper's appendix, on the CPU or a GPU."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mfec.config import VAEConfig
from mfec.embeddings.vae.architecture import Architecture
from mfec.embeddings.vae.files import Tensors
from mfec.embeddings.vae.networks import Decoder, Encoder, as_pictures, costs
from mfec.embeddings.vae.parameters import Parameters, RMSProp

CHUNK = 100  # steps between two reports of their costs
_Gradients = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]
SPARE_BYTES = 2 * 2**30  # of a GPU, beside the frames


class Trainer:
    """Trains a VAE on frames, a chunk of steps at a time.

    The minibatches and the noise of a chunk depend only on the seed and the number of the chunk. So a training that is
    restored from its `tensors()` continues as if it had never stopped.

    Args:
        frames: uint8 (n, *observation_shape); may be a memory map.
        config: the recipe.
        seed: makes first weights, minibatches and noise.
        device: `cpu` or `cuda`.
    """

    def __init__(self, frames: NDArray[np.uint8], config: VAEConfig, *, seed: int = 0, device: str = "cpu") -> None:
        self.architecture = Architecture(tuple(frames.shape[1:]), config.channels, config.hidden, config.latents)
        self.config = config
        self.chunks = 0
        self._seed = seed
        self._device = torch.device(device)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(np.random.SeedSequence([seed, 1]).generate_state(1)[0]))
            self.encoder, self.decoder = Encoder(self.architecture), Decoder(self.architecture)
        self.encoder.to(self._device)
        self.decoder.to(self._device)
        self.parameters = Parameters(self.encoder, self.decoder)
        self.optimiser = RMSProp(self.parameters, config.step_size)
        self._frames = _Frames(frames, CHUNK * config.minibatch, self._device)
        self._gradients: _Gradients = self._plain_gradients
        if self._device.type == "cuda" or os.environ.get("TRITON_INTERPRET") == "1":
            from mfec.embeddings.vae.passes import Passes, supports

            if supports(self.architecture):
                self._gradients = Passes(
                    self.architecture, self.encoder, self.decoder, self.parameters, config.minibatch
                )
        n = config.minibatch
        self._at = torch.zeros(1, dtype=torch.int64, device=self._device)  # the step within the chunk
        self._places = torch.zeros((CHUNK, n), dtype=torch.int64, device=self._device)
        self._noise = torch.zeros((CHUNK, n, config.latents), device=self._device)
        self._costs = torch.zeros((CHUNK, 2), device=self._device)
        self._begun = 0
        self._stream = torch.cuda.Stream() if self._device.type == "cuda" else None  # type: ignore[no-untyped-call]
        self._recorded: torch.cuda.CUDAGraph | None = None

    @property
    def steps(self) -> int:
        """Steps made so far."""
        return min(self.chunks * CHUNK, self.config.steps)

    @property
    def done(self) -> bool:
        """Whether all steps of the recipe were made."""
        return self.steps >= self.config.steps

    def start_chunk(self) -> None:
        """Begin the next steps; on a GPU this returns while they run, so that several trainers run side by side."""
        steps = min(CHUNK, self.config.steps - self.steps)
        with torch.cuda.stream(self._stream):
            self._draw()
            if self._stream is not None and self._recorded is None:
                self._record()
            for _ in range(steps):
                if self._recorded is None:
                    self._step()
                else:
                    self._recorded.replay()
        self._begun = steps

    def finish_chunk(self) -> NDArray[np.float64]:
        """Wait for the steps that were begun; their mean costs, float64 (steps, 2): correction and communication."""
        if self._stream is not None:
            self._stream.synchronize()
        self.chunks += 1
        return self._costs[: self._begun].double().cpu().numpy()

    def tensors(self) -> dict[str, Tensors]:
        """What a checkpoint keeps: parameters, and the optimiser's running means."""
        vectors = {"parameters": self.parameters.values, "squares": self.optimiser.squares}
        return {
            name: {key: tensor.cpu().numpy() for key, tensor in self.parameters.tensors(vector).items()}
            for name, vector in vectors.items()
        }

    def restore(self, chunks: int, tensors: dict[str, dict[str, Any]]) -> None:
        """Continue from the tensors of a checkpoint."""
        vectors = {"parameters": self.parameters.values, "squares": self.optimiser.squares}
        for name, vector in vectors.items():
            self.parameters.fill(vector, {key: torch.from_numpy(array) for key, array in tensors[name].items()})
        self.chunks = chunks

    def networks(self) -> dict[str, Tensors]:
        """Weights of the encoder and of the decoder."""
        both: dict[str, Tensors] = {"encoder": {}, "decoder": {}}
        for name, tensor in self.tensors()["parameters"].items():
            part, _, key = name.partition(".")
            both[part][key] = tensor
        return both

    def _draw(self) -> None:
        """Minibatches and noise of the next chunk."""
        chosen = int(np.random.SeedSequence([self._seed, 2, self.chunks]).generate_state(1)[0])
        generator = torch.Generator(self._device).manual_seed(chosen)
        places = torch.randint(self._frames.total, self._places.shape, generator=generator, device=self._device)
        self._places.copy_(self._frames.bring(places))
        self._noise.normal_(generator=generator)
        self._at.zero_()

    def _step(self) -> None:
        places, noise = self._places.index_select(0, self._at)[0], self._noise.index_select(0, self._at)[0]
        correction, communication = self._gradients(self._frames.tensor, places, noise)
        self.optimiser.step()
        self._costs.index_copy_(0, self._at, torch.stack([correction, communication])[None])
        self._at.add_(1)

    def _record(self) -> None:
        """Record one step, to be replayed: launching its sixty kernels one by one takes longer than running them."""
        before = [tensor.clone() for tensor in (self.parameters.values, self.optimiser.squares)]
        for _ in range(2):  # libraries set themselves up before a recording
            self._step()
        self._recorded = torch.cuda.CUDAGraph()
        torch.cuda.synchronize()
        with torch.cuda.graph(self._recorded, stream=self._stream):
            self._step()
        self.parameters.values.copy_(before[0])
        self.optimiser.squares.copy_(before[1])
        self._at.zero_()

    def _plain_gradients(self, frames: Tensor, places: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Mean costs of a minibatch by torch alone; sets the gradients of all parameters."""
        pictures = as_pictures(frames.index_select(0, places), self.architecture)
        correction, communication = (each.mean() for each in costs(self.encoder, self.decoder, pictures, noise))
        named = self.parameters.named
        gradients = torch.autograd.grad(correction + communication, list(named.values()))
        self.parameters.fill(self.parameters.gradients, dict(zip(named, gradients, strict=True)))
        return correction.detach(), communication.detach()


class _Frames:
    """The frames on a device: all of them if they fit a GPU, else those of one chunk at a time."""

    def __init__(self, frames: NDArray[np.uint8], of_chunk: int, device: torch.device) -> None:
        self.total = len(frames)
        self._source = frames
        self._all = device.type == "cuda" and frames.nbytes + SPARE_BYTES < torch.cuda.mem_get_info()[0]
        self.tensor = torch.empty(
            (len(frames) if self._all else of_chunk, *frames.shape[1:]), dtype=torch.uint8, device=device
        )
        if self._all:
            for start in range(0, len(frames), 10_000):
                self.tensor[start : start + 10_000] = torch.from_numpy(np.array(frames[start : start + 10_000]))

    def bring(self, places: Tensor) -> Tensor:
        """Copy the frames at these places into the tensor, if need be; returns their places in it."""
        if self._all:
            return places
        self.tensor.copy_(torch.from_numpy(self._source[places.cpu().numpy().reshape(-1)]))
        return torch.arange(places.numel(), device=places.device).view(places.shape)
