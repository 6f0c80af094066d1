"""The differentiable neural dictionary of Neural Episodic Control (Pritzel et al., 2017), on MFEC's own memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

try:
    import torch
except ImportError:
    raise ImportError("a neural dictionary needs the extra `torch`: pip install 'mfec[torch]'") from None
from torch import nn

from mfec.algorithms.nec.network import Diverged
from mfec.algorithms.nec.settings import NECConfig
from mfec.config import DeviceName, FewNeighbours, IndexName
from mfec.device import Channel, device_name, open_channel
from mfec.memory import EpisodicMemory
from mfec.memory.identities import Identities, array_keys, identity_keys

SMOOTHING = 0.95  # of the mean square that RMSProp divides by


@dataclass(frozen=True)
class LookedUp:
    """The neighbours behind some values: where they are, and copies of them that gradients reach.

    `loss.backward()` fills `keys.grad` and `values.grad`; `NeuralDictionary.descend` then moves the entries.
    """

    actions: NDArray[np.int64]  # (n,)
    slots: NDArray[np.int64]  # (n, p), -1 where there are fewer
    keys: torch.Tensor  # (n, p, dim)
    values: torch.Tensor  # (n, p)
    there: torch.Tensor  # bool (n, p)


def kernel_mean(
    keys: torch.Tensor, near: torch.Tensor, values: torch.Tensor, there: torch.Tensor, delta: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """The mean of neighbours' values, (n,), and their weights, (n, p): shares of 1 / (|h - h_i|^2 + delta).

    keys: (n, dim); near: (n, p, dim); values and there: (n, p). Where no neighbour is there, all are zeros.
    """
    # Differences, not products: |h|^2 - 2 h h_i + |h_i|^2 is off by 4e-4 where the distance is 3e-6.
    squared = (keys[:, None] - near).square().sum(2)
    kernel = there / (squared + delta)
    weights = kernel / kernel.sum(1, keepdim=True).clamp_min(torch.finfo(kernel.dtype).tiny)
    return (weights * values).sum(1), weights


def key_steps(gradients: torch.Tensor, there: torch.Tensor, mean_square: torch.Tensor, key_step: float) -> torch.Tensor:
    """Steps of RMSProp, (n, p, dim), against the gradients of the neighbours' keys; `mean_square` takes them in."""
    numbers = there.sum().clamp_min(1) * gradients.shape[2]
    mean_square.lerp_((gradients.square().sum() / numbers).to(mean_square), 1.0 - SMOOTHING)
    return gradients * (-key_step / mean_square.sqrt().clamp_min(1e-30)).to(gradients)


class NeuralDictionary(nn.Module):
    """For each action a dictionary from keys to values, whose look-ups gradients flow through.

    A look-up is the mean of the p nearest keys' values, weighted by 1 / (|h - h_i|^2 + delta); it is differentiable in
    the key that is looked up and in the keys and values that were found. Its entries are those of an `EpisodicMemory`
    (`dictionary.memory`): searched exactly, identified by what was observed and not by the key, so that a key that
    moves keeps its entry, and given up in the order in which they last were neighbours. In evaluation mode (`eval()`) a
    look-up leaves no trace on that order.

    >>> dictionary = NeuralDictionary(n_actions=2, dim=1, capacity=10, p=2)
    >>> dictionary.write([[0.0], [1.0]], [0, 0], [2.0, 4.0])
    >>> key = torch.tensor([[0.5]], requires_grad=True)
    >>> values, weights, neighbours = dictionary.look_up(key, 0)
    >>> values.item()
    3.0
    >>> values.sum().backward()
    >>> key.grad.item() > 0.0  # towards the larger value
    True
    """

    mean_square: torch.Tensor

    def __init__(
        self,
        n_actions: int,
        dim: int = NECConfig.dim,
        *,
        capacity: int = NECConfig.capacity,
        p: int = NECConfig.p,
        delta: float = NECConfig.delta,
        alpha: float = NECConfig.alpha,
        index: IndexName = NECConfig.index,
        recall: float = NECConfig.recall,
        few_neighbours: FewNeighbours = NECConfig.few_neighbours,
        device: DeviceName | Channel = NECConfig.device,
    ) -> None:
        super().__init__()
        index = NECConfig(index=index, device=device_name(device)).resolved_index()
        self.channel: DeviceName | Channel = (
            open_channel(device) if index == "cuda" and isinstance(device, str) else device
        )
        self.memory = EpisodicMemory(
            n_actions, dim, capacity=capacity, k=p, kernel="inverse", delta=delta, update="step", alpha=alpha,
            eviction="used", exact_matches=False, few_neighbours=few_neighbours,
            index=index, recall=recall, device=self.channel,
        )  # fmt: skip
        # One mean square for all keys: an entry is a neighbour too rarely to have a mean of its own.
        self.register_buffer("mean_square", torch.zeros((), dtype=torch.float64, device=device_name(device)))

    def __len__(self) -> int:
        return len(self.memory)

    def extra_repr(self) -> str:
        """What `print` shows."""
        return repr(self.memory)

    def look_up(
        self,
        keys: torch.Tensor,
        action: int | Sequence[int] | NDArray[np.integer[Any]] | torch.Tensor,
        *,
        leave_out: Identities | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor, LookedUp]:
        """Values, (n,), of an action in states with these keys, (n, dim); the weights, (n, p), and the neighbours.

        Where an action's dictionary is empty, the value is 0.

        action: one for all of them, or one for each. leave_out: identities of the states, whose own entries do not
        count if they are among the p nearest.
        """
        asked = action.cpu().numpy() if isinstance(action, torch.Tensor) else np.asarray(action)
        each = asked if asked.ndim else np.full(len(keys), asked)
        slots = self.nearest(keys.detach().to("cpu", torch.float32).numpy(), each, leave_out=leave_out)
        actions, found = each.astype(np.int64), slots >= 0
        entries = self.memory.at(np.broadcast_to(actions[:, None], slots.shape)[found], slots[found])
        near = np.zeros((*slots.shape, self.memory.dim), np.float32)
        stored = np.zeros(slots.shape, np.float32)
        near[found], stored[found] = entries.states, entries.values
        like: dict[str, Any] = {"dtype": keys.dtype, "device": keys.device}
        there = torch.from_numpy(found).to(keys.device)
        neighbours = LookedUp(
            actions, slots, torch.from_numpy(near).to(**like).requires_grad_(),
            torch.from_numpy(stored).to(**like).requires_grad_(), there,
        )  # fmt: skip
        values, weights = kernel_mean(keys, neighbours.keys, neighbours.values, there, self.memory.delta)
        return values, weights, neighbours

    forward = look_up

    def nearest(
        self, states: NDArray[Any], actions: NDArray[np.integer[Any]], *, leave_out: Identities | None = None
    ) -> NDArray[np.int64]:
        """Slots of the neighbours, int64 (n, p), -1 where there are fewer. In training they are marked as used.

        states: keys, float32 (n, dim), or what the memory makes keys of; leave_out: as for `look_up`.
        """
        slots, _ = self.memory.nearest(states, actions, mark_used=self.training)
        if leave_out is None:
            return slots
        return np.where(slots == self.memory.slots_of(leave_out, actions)[:, None], -1, slots)

    def write(
        self,
        keys: torch.Tensor | ArrayLike,
        actions: ArrayLike,
        returns: ArrayLike,
        identities: Identities | None = None,
        origins: ArrayLike | None = None,
    ) -> None:
        """Add entries. One that is there already gets the new key; its value moves by alpha of the way to the return.

        identities: what makes two states the same, as `EpisodicMemory.write` takes it; by default the keys' own bytes.
        """
        given = keys.detach().to("cpu", torch.float32).numpy() if isinstance(keys, torch.Tensor) else keys
        rows, taken = np.asarray(given, np.float32), np.asarray(actions)
        own = array_keys(rows) if identities is None else identity_keys(identities)
        self.memory.write(rows, taken, returns, own, origins)

    @torch.no_grad()
    def descend(self, neighbours: LookedUp, *, key_step: float, value_step: float) -> None:
        """Move keys and values of neighbours against their gradients, which `backward` has filled in.

        Keys take a step of RMSProp, values one of plain gradient descent. An entry that several look-ups have found
        is moved by the sum of its gradients.
        """
        if neighbours.keys.grad is None or neighbours.values.grad is None:
            raise ValueError("there are no gradients: call backward on a loss of the values first")
        found = neighbours.slots >= 0
        if not found.any():
            return
        actions = np.broadcast_to(neighbours.actions[:, None], found.shape)[found]
        _, first, which = np.unique(
            actions * self.memory.capacity + neighbours.slots[found], return_index=True, return_inverse=True
        )
        at, there = torch.from_numpy(which), neighbours.there
        of_keys, of_values = neighbours.keys.grad.float(), neighbours.values.grad.float()
        steps = key_steps(of_keys, there, self.mean_square, key_step)[there].cpu()
        if not self.mean_square.isfinite():
            raise Diverged("gradients")
        keys = neighbours.keys.detach()[there].float().cpu()[first]
        keys += torch.zeros_like(keys).index_add_(0, at, steps)
        values = neighbours.values.detach()[there].float().cpu()[first]
        values -= value_step * torch.zeros_like(values).index_add_(0, at, of_values[there].cpu())
        self.memory.move(actions[first], neighbours.slots[found][first], keys.numpy(), values.numpy())

    # -- Storage ------------------------------------------------------------------------------------------------------

    def get_extra_state(self) -> dict[str, Any]:
        """All entries, for `state_dict`."""
        tensors = {name: torch.from_numpy(_signed(array)) for name, array in self.memory.tensors().items()}
        return {"settings": self.memory.settings(), "tensors": tensors}

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """The entries of a `state_dict`, in the place of all that there are."""
        tensors = {name: tensor.numpy() for name, tensor in state["tensors"].items()}
        tensors["keys"] = tensors["keys"].view(np.uint64)
        self.take_over(state["settings"], tensors)

    def take_over(
        self, settings: dict[str, Any], tensors: dict[str, NDArray[Any]], *, index: IndexName | None = None
    ) -> None:
        """Put the memory that these settings and tensors (`EpisodicMemory.settings`) describe in place of its own."""
        self.memory = EpisodicMemory.restore(settings, tensors, device=self.channel, index=index)


def _signed(array: NDArray[Any]) -> NDArray[Any]:
    """Unsigned 64-bit numbers as signed ones: older torch has no others."""
    return array.view(np.int64) if array.dtype == np.uint64 else array
