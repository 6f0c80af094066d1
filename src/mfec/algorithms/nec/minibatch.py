"""One minibatch: the squared error of look-ups moves the network, and the keys and values of the neighbours."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from mfec.algorithms.nec.dictionary import NeuralDictionary, kernel_mean, key_steps
from mfec.algorithms.nec.network import NetworkEmbedding
from mfec.algorithms.nec.replay import Drawn
from mfec.algorithms.nec.settings import NECConfig
from mfec.device.buffers import ActionBuffers
from mfec.device.launches import HostAndDevice, Recorded

DECAY, SMALLEST = 0.95, 1e-8  # of RMSProp


class Minibatch:
    """Looks up, computes gradients and takes steps, one after the other."""

    def __init__(self, embedding: NetworkEmbedding, dictionary: NeuralDictionary, config: NECConfig) -> None:
        self.embedding, self.dictionary, self.config = embedding, dictionary, config
        self.optimizer = torch.optim.RMSprop(
            embedding.network.parameters(), lr=config.learning_rate, alpha=DECAY, eps=SMALLEST,
            capturable=embedding.device == "cuda",
        )  # fmt: skip
        # Half the gradient of a step's own squared error: so that the rate is the share of its error, as alpha is.
        self.value_step = config.value_learning_rate * config.batch_size / 2
        self._loss: float | None = None

    def begin(self, drawn: Drawn, own: NDArray[np.uint64] | None = None) -> None:
        """Learn from these steps. What it changes has changed when `finish` returns; no other may begin before.

        own: identities of the steps' states, whose own entries are then left out.
        """
        keys = self.embedding.keys(drawn.observations)
        values, _, neighbours = self.dictionary.look_up(keys, drawn.actions, leave_out=own)
        loss = (values - torch.from_numpy(drawn.values).to(values.device)).square().mean()
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        self.dictionary.descend(neighbours, key_step=self.config.key_learning_rate, value_step=self.value_step)
        self._loss = loss.item()

    def finish(self) -> float | None:
        """The loss of the minibatch that was begun, if there was one since this was called last."""
        loss, self._loss = self._loss, None
        return loss


class RecordedMinibatch(Minibatch):
    """The same on a GPU, where the keys stay, and where all launches are one recording.

    Launched one by one they take 3 ms of Python, recorded half a millisecond of the GPU, and the environments step
    meanwhile. Of the neighbours only the places, values and steps of values cross over.
    """

    def __init__(
        self,
        embedding: NetworkEmbedding,
        dictionary: NeuralDictionary,
        config: NECConfig,
        buffers: ActionBuffers,
        observations: tuple[tuple[int, ...], Any],
    ) -> None:
        """buffers: where the dictionary's keys are; observations: shape and type of one."""
        super().__init__(embedding, dictionary, config)
        self._buffers = buffers
        (shape, dtype), n, p, device = observations, config.batch_size, config.p, buffers.device
        self._shown, self._returns = HostAndDevice((n, *shape), dtype, device), HostAndDevice(n, np.float32, device)
        self._addresses = HostAndDevice((n, p), np.int64, device)  # of the neighbours' keys; 0 where there are fewer
        self._values, self._steps = (HostAndDevice((n, p), np.float32, device) for _ in range(2))
        self._error = HostAndDevice(1, np.float32, device)
        self._recorded = Recorded(self._launch, device)
        self._begun: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]] | None = None

    def begin(self, drawn: Drawn, own: NDArray[np.uint64] | None = None) -> None:
        """Find the neighbours, and start the rest."""
        observations = drawn.observations
        memory = self.dictionary.memory
        rows = observations.reshape(len(observations), -1) if memory.embeds else self.embedding(observations)
        slots = self.dictionary.nearest(rows, drawn.actions, leave_out=own)
        actions, there = np.broadcast_to(drawn.actions[:, None], slots.shape), slots >= 0
        self._addresses.host[:] = np.where(there, self._buffers.addresses(actions, np.maximum(slots, 0)), 0)
        self._values.host[:] = np.where(there, memory.buffers.values[actions, slots], 0.0)
        self._returns.host[:], self._shown.host[:] = drawn.values, observations
        self._recorded.start()
        self._begun = actions[there], slots[there], there

    def finish(self) -> float | None:
        """Wait for it, and let the values take their steps."""
        if self._begun is None:
            return None
        self._recorded.wait()
        actions, slots, there = self._begun
        self._begun = None
        self.dictionary.memory.shift_values(actions, slots, self._steps.host[there])
        return float(self._error.host[0])

    def _launch(self) -> None:
        from mfec.device.kernels import add_rows, read_rows

        for each in (self._shown, self._returns, self._addresses, self._values):
            each.send()
        addresses, dim = self._addresses.on_device, self.config.dim
        there = addresses != 0
        near = torch.empty((*addresses.shape, dim), device=addresses.device)
        read_rows(addresses.view(-1), near.view(-1, dim))
        near.requires_grad_()
        stored = self._values.on_device.detach().requires_grad_()
        parameters = list(self.embedding.network.parameters())
        keys = self.embedding.network(self._shown.on_device)
        values, _ = kernel_mean(keys, near, stored, there, self.config.delta)
        error = (values - self._returns.on_device).square().mean()
        *gradients, of_keys, of_values = torch.autograd.grad(error, [*parameters, near, stored])
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = gradient
        self.optimizer.step()
        steps = key_steps(of_keys, there, self.dictionary.mean_square, self.config.key_learning_rate)
        add_rows(addresses.view(-1), steps.view(-1, dim))
        self._steps.on_device.copy_(of_values * -self.value_step)
        self._error.on_device.copy_(error.detach())
        for each in (self._steps, self._error):
            each.fetch()
