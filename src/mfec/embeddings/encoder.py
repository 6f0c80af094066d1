"""An embedding of one's own: any callable, or a torch module, that makes states of observations."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from mfec.embeddings.fingerprint import differ, probes_of
from mfec.errors import MfecError

if TYPE_CHECKING:
    from mfec.embeddings import Embedding

WHAT_FITS = (
    "an embedding of your own is a callable or a torch module that makes states (n, dim) of observations (n, ...), or "
    "an object with the methods of mfec.embeddings.Embedding"
)


class EmbeddingError(MfecError):
    """An embedding of the user's that cannot be found, or makes no states; the message says what is wrong."""


class Encoder:
    """States that a callable or a torch module makes of observations, and nothing that it returns goes unchecked.

    A callable is given observations (n, ...) as an array and returns n rows. A module is put into evaluation mode and
    given a tensor of the same type and shape, on the device of its parameters, without gradients; of each row of its
    result all numbers make the state. `Discrete` observations count from 0.

    Args:
        encode: the callable or module.
        space: of the observations; a few of that space show how many numbers a state has.
        name: what figures and messages call it; by default that of the function or class.

    >>> Encoder(lambda o: o.reshape(len(o), -1) / 255, spaces.Box(0, 255, (4, 4), np.uint8)).dim
    16
    """

    has_neighbours = True

    def __init__(
        self, encode: Callable[[Any], Any], space: spaces.Box | spaces.Discrete[Any], *, name: str = ""
    ) -> None:
        self.encode = encode
        named = encode.func if isinstance(encode, partial) else encode
        named = named if hasattr(named, "__qualname__") else type(named)
        self.name = name or named.__qualname__.rpartition(".")[2]
        self.source = f"{named.__module__}.{named.__qualname__}"  # what a checkpoint calls it
        self._is_module = _is_torch_module(encode)
        self.dim = 0  # any
        self.dim = self._try(space)

    def __call__(self, observations: NDArray[Any]) -> NDArray[np.float32]:
        """States, float32 (n, dim), of a batch of observations (n, ...)."""
        result = self._run_module(observations) if self._is_module else self.encode(observations)
        if hasattr(result, "detach"):  # a callable may return a tensor, too
            result = result.detach().float().cpu().numpy()
        try:
            numbers = np.asarray(result)
        except (TypeError, ValueError):  # a tuple of arrays of several shapes
            numbers = np.array(None)
        if numbers.dtype.kind not in "biuf":
            what = "None" if result is None else f"a {type(result).__name__}"
            raise EmbeddingError(f"{self.name} must return an array or a tensor of numbers, not {what}")
        with np.errstate(over="ignore"):  # what is too large is not finite, which is looked at below
            states = np.ascontiguousarray(numbers, np.float32)
        n = len(observations)
        if not numbers.ndim or len(states) != n or not states.size:
            raise EmbeddingError(
                f"{self.name} must return a row of numbers for each of {n} observations, and returned the shape "
                f"{numbers.shape}"
            )
        states = states.reshape(n, -1)
        if self.dim and states.shape[1] != self.dim:
            raise EmbeddingError(f"{self.name} made states of {self.dim} numbers before, and now of {states.shape[1]}")
        if not np.isfinite(states).all():
            raise EmbeddingError(f"{self.name} made a state that is not finite (NaN, or too large for a float32)")
        return states

    def tensors(self) -> dict[str, NDArray[Any]]:
        """Nothing: a checkpoint keeps no encoder, only its fingerprint."""
        return {}

    @classmethod
    def restore(cls, tensors: dict[str, NDArray[Any]]) -> Self:
        """An error: it cannot be made again of a checkpoint."""
        raise ValueError("an encoder of your own is not kept in a checkpoint: give it to `load`")

    def _run_module(self, observations: NDArray[Any]) -> Any:
        import torch

        module: Any = self.encode
        if module.training:
            module.eval()
        held = next(module.parameters(), None)
        if held is None:
            held = next(module.buffers(), None)
        with torch.inference_mode():
            # A copy, since torch warns of arrays that it may not write to.
            given = torch.from_numpy(np.array(observations, order="C"))
            return module(given if held is None else given.to(held.device))

    def _try(self, space: spaces.Box | spaces.Discrete[Any]) -> int:
        """The numbers in a state; an error unless a state is one and the same in every call and every batch."""
        probes = probes_of(space)
        try:
            states, again, first = self(probes), self(probes), self(probes[:1])
        except EmbeddingError:
            raise
        except Exception as error:  # it is the user's code, which may raise anything
            raise EmbeddingError(
                f"{self.name} fails on observations {probes.dtype} {probes.shape}: {type(error).__name__}: {error}"
            ) from error
        if states.shape[1] != first.shape[1]:
            raise EmbeddingError(
                f"{self.name} makes {states.shape[1]} numbers of an observation among {len(probes)}, and "
                f"{first.shape[1]} of it alone"
            )
        if differ(states, again):
            raise EmbeddingError(f"{self.name} makes another state of the same observation in every call")
        if differ(np.concatenate([first, states[1:]]), states):
            raise EmbeddingError(
                f"{self.name} makes another state of an observation alone than beside others: each must be encoded by "
                "itself"
            )
        return int(states.shape[1])


def as_embedding(given: Any, space: spaces.Box | spaces.Discrete[Any], *, name: str = "") -> Embedding:
    """The embedding that an object of the user's is, or that a callable makes of observations of that space."""
    if isinstance(given, type):
        given = instance_of(given)
    if not callable(given):
        raise TypeError(f"{WHAT_FITS}; not {given!r}")
    if all(hasattr(given, name) for name in ("name", "dim", "tensors")):
        return given  # type: ignore[no-any-return]
    return Encoder(given, space, name=name)


def instance_of(kind: type) -> Any:
    """An object of a class of the user's, which is called without arguments."""
    try:
        return kind()
    except TypeError as error:
        if error.__traceback__ is None or error.__traceback__.tb_next is not None:
            raise  # by what it does, not by how it is called
        raise EmbeddingError(
            f"the class {kind.__name__} needs arguments, so name an object of it instead: {error}"
        ) from None


def _is_torch_module(given: Any) -> bool:
    torch = sys.modules.get("torch")  # who gives a module has imported it
    return torch is not None and isinstance(given, torch.nn.Module)
