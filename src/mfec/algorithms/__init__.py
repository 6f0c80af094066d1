"""Algorithms: what `--algorithm` can name. The only room that knows one from another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mfec.algorithms.registry import Algorithm, Footprint, UnknownAlgorithm, algorithm, names
from mfec.algorithms.run_config import RunConfig

if TYPE_CHECKING:
    from mfec.algorithms.step_agent import StepAgent

__all__ = ["Algorithm", "Footprint", "RunConfig", "StepAgent", "UnknownAlgorithm", "algorithm", "names"]


def __getattr__(name: str) -> Any:
    if name == "StepAgent":  # imported when first used: a figure needs no environments
        from mfec.algorithms.step_agent import StepAgent

        return StepAgent
    raise AttributeError(f"module 'mfec.algorithms' has no attribute {name!r}")
