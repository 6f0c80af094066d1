"""What hangs off the learning loop: tables, checkpoints, TensorBoard, history, evaluations, progress, stopping.

Give `learn` one of them, or a list, and add your own: a subclass of `Callback` overrides what is of use, and a plain
function is called with the agent after every step. What returns False ends training.

>>> from mfec import MFEC
>>> from mfec.callbacks import StopAfterGames
>>> MFEC("FrozenLake-v1", seed=0).learn(1_000_000, [StopAfterGames(20)]).games
20
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from mfec.callbacks.stopping import StopAfterGames, StopAtScore
from mfec.interface import Callback, CallbackList, Stopped

if TYPE_CHECKING:
    from mfec.callbacks.checkpoints import Checkpoints
    from mfec.callbacks.episode_history import EpisodeHistory
    from mfec.callbacks.evaluations import Evaluations
    from mfec.callbacks.tables import Tables
    from mfec.callbacks.tensorboard import TensorBoard
    from mfec.progress import ProgressBar

# Imported when first used: an agent needs none of what these import.
_HOMES = {
    "Checkpoints": "mfec.callbacks.checkpoints",
    "EpisodeHistory": "mfec.callbacks.episode_history",
    "Evaluations": "mfec.callbacks.evaluations",
    "ProgressBar": "mfec.progress",
    "Tables": "mfec.callbacks.tables",
    "TensorBoard": "mfec.callbacks.tensorboard",
}

__all__ = [
    "Callback",
    "CallbackList",
    "Checkpoints",
    "EpisodeHistory",
    "Evaluations",
    "ProgressBar",
    "StopAfterGames",
    "StopAtScore",
    "Stopped",
    "Tables",
    "TensorBoard",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'mfec.callbacks' has no attribute {name!r}")
