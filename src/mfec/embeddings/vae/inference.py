"""Encoding observations so that a state does not depend on the batch it is in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mfec.embeddings.vae.architecture import Architecture
from mfec.embeddings.vae.networks import Decoder, Encoder, as_pictures, costs

ROWS = 32  # observations that a GPU encodes at a time: 0.16 ms on an H200; one alone takes 0.09 ms
MINIBATCH = 250


class Encode:
    """Observations, uint8 (n, ...), to states, float32 (n, dim), on one device.

    Libraries sum in another order for another batch size. So the CPU takes one observation at a time, which costs it
    little (0.6 ms instead of 0.5), and a GPU always takes `ROWS`, some of which may be padding.
    """

    def __init__(self, encoder: Encoder, shape: Architecture, device: str) -> None:
        self._encoder, self._shape, self._device = encoder, shape, device
        self._dim = 2 * shape.latents
        self._graph: torch.cuda.CUDAGraph | None = None
        if device != "cpu":
            self._seen = torch.zeros((ROWS, *shape.observation_shape), dtype=torch.uint8, device=device)
            self._states = torch.zeros((ROWS, self._dim), device=device)
            self._staging = torch.zeros((ROWS, *shape.observation_shape), dtype=torch.uint8).pin_memory()
            self._record()

    @torch.inference_mode()
    def __call__(self, observations: NDArray[np.uint8]) -> NDArray[np.float32]:
        """States of a batch of observations."""
        states = np.empty((len(observations), self._dim), np.float32)
        if self._graph is None:
            with _one_thread():
                for i in range(len(observations)):
                    states[i] = self._encoder(as_pictures(_tensor(observations[i : i + 1]), self._shape))[0].numpy()
            return states
        for start in range(0, len(observations), ROWS):
            own = observations[start : start + ROWS]
            self._staging.numpy()[: len(own)] = own
            self._seen.copy_(self._staging, non_blocking=True)
            self._graph.replay()
            states[start : start + len(own)] = self._states[: len(own)].cpu().numpy()
        return states

    def _record(self) -> None:
        with torch.inference_mode(), _full_precision():
            side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):  # libraries set themselves up before a recording
                for _ in range(3):
                    self._encoder(as_pictures(self._seen, self._shape))
            torch.cuda.current_stream().wait_stream(side)
            self._graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self._graph):
                self._states.copy_(self._encoder(as_pictures(self._seen, self._shape)))


@torch.inference_mode()
def reconstruct(
    encoder: Encoder, decoder: Decoder, shape: Architecture, observations: NDArray[np.uint8]
) -> NDArray[np.float32]:
    """Mean pictures of the messages that are the means of q(z|x), shaped like the observations."""
    pictures = as_pictures(_tensor(observations).to(_device(encoder)), shape)
    means: Tensor = decoder(encoder(pictures)[:, : shape.latents])[0]
    if shape.colours_last:
        means = means.permute(0, 2, 3, 1)
    found: NDArray[np.float32] = means.reshape(observations.shape).cpu().numpy()
    return found


@torch.inference_mode()
def mean_costs(
    encoder: Encoder, decoder: Decoder, shape: Architecture, observations: NDArray[np.uint8], seed: int
) -> tuple[float, float]:
    """Mean correction and communication cost in nats."""
    noise = torch.from_numpy(
        np.random.default_rng(seed).standard_normal((len(observations), shape.latents), np.float32)
    )
    totals = np.zeros(2)
    for start in range(0, len(observations), MINIBATCH):
        some = _tensor(observations[start : start + MINIBATCH]).to(_device(encoder))
        own_noise = noise[start : start + MINIBATCH].to(some.device)
        totals += [float(each.double().sum()) for each in costs(encoder, decoder, as_pictures(some, shape), own_noise)]
    correction, communication = (totals / len(observations)).tolist()
    return correction, communication


def _tensor(observations: NDArray[np.uint8]) -> Tensor:
    """A copy, since torch warns of arrays that it may not write to, such as a memory map."""
    return torch.from_numpy(np.array(observations, order="C"))


def _device(network: Encoder) -> torch.device:
    return next(network.parameters()).device


@contextmanager
def _one_thread() -> Iterator[None]:
    """Use one thread: a picture takes 0.6 ms with one and 0.5 to 0.65 ms with two."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def _full_precision() -> Iterator[None]:
    """Multiply in full float32: by default torch lets convolutions round to 10 bits."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = False
    try:
        with torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True, allow_tf32=False):
            yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before
