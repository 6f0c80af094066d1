"""Model-free episodic control (Blundell et al., 2016): an agent that remembers its best returns and replays them."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mfec.agent import MFEC
    from mfec.algorithms.nec.agent import NEC as NEC
    from mfec.algorithms.nec.dictionary import NeuralDictionary as NeuralDictionary
    from mfec.callbacks import Callback
    from mfec.checkpoint import CheckpointError
    from mfec.config import AgentConfig
    from mfec.embeddings import VAE, Identity, RandomProjection
    from mfec.envs import make_atari, make_env
    from mfec.experiments.from_python import evaluate, train
    from mfec.interface import Agent, Game
    from mfec.memory import EpisodicMemory
    from mfec.recipes import agent_defaults
    from mfec.schedule import Linear

__version__ = "0.1.0"

# Imported when first used: `mfec --help` must not wait for a compiler.
_HOMES = {
    "MFEC": "mfec.agent",
    "NEC": "mfec.algorithms.nec.agent",
    "Agent": "mfec.interface",
    "AgentConfig": "mfec.config",
    "Callback": "mfec.callbacks",
    "CheckpointError": "mfec.checkpoint",
    "EpisodicMemory": "mfec.memory",
    "Game": "mfec.interface",
    "Identity": "mfec.embeddings",
    "Linear": "mfec.schedule",
    "NeuralDictionary": "mfec.algorithms.nec.dictionary",
    "RandomProjection": "mfec.embeddings",
    "VAE": "mfec.embeddings",
    "agent_defaults": "mfec.recipes",
    "evaluate": "mfec.experiments.from_python",
    "make_atari": "mfec.envs",
    "make_env": "mfec.envs",
    "train": "mfec.experiments.from_python",
}

# `from mfec import *` works without extras; NEC and NeuralDictionary, which need torch, are asked for by name.
__all__ = [
    "MFEC",
    "VAE",
    "Agent",
    "AgentConfig",
    "Callback",
    "CheckpointError",
    "EpisodicMemory",
    "Game",
    "Identity",
    "Linear",
    "RandomProjection",
    "agent_defaults",
    "evaluate",
    "make_atari",
    "make_env",
    "train",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'mfec' has no attribute {name!r}")
