"""Modules and optimizers of torch as arrays that a checkpoint takes."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

Tensors = dict[str, NDArray[Any]]


def module_tensors(module: torch.nn.Module) -> Tensors:
    """Parameters and buffers of a module."""
    return {name: _array(value) for name, value in module.state_dict().items()}


def restore_module(module: torch.nn.Module, tensors: Tensors) -> None:
    """Take over what `module_tensors` gave."""
    try:
        module.load_state_dict({name: torch.from_numpy(array.copy()) for name, array in tensors.items()})
    except RuntimeError as error:
        raise ValueError(f"the networks do not fit: {error}") from None


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> Tensors:
    """What an optimizer keeps of each parameter."""
    return {
        f"{number}.{name}": _array(value)
        for number, own in optimizer.state_dict()["state"].items()
        for name, value in own.items()
    }


def restore_optimizer(optimizer: torch.optim.Optimizer, tensors: Tensors) -> None:
    """Take over what `optimizer_tensors` gave."""
    values: dict[int, dict[str, Any]] = {}
    for key, array in tensors.items():
        number, _, name = key.partition(".")
        values.setdefault(int(number), {})[name] = torch.from_numpy(array.copy())
    optimizer.load_state_dict({**optimizer.state_dict(), "state": values})


def _array(value: Any) -> NDArray[Any]:
    if isinstance(value, torch.Tensor):
        return np.asarray(value.detach().cpu().numpy())
    return np.asarray(value)
