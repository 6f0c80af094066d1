"""Recipes: the settings that a word stands for, by kind of environment. The paper's is the default."""

from __future__ import annotations

from typing import Any, Literal

from mfec.canonical_names import EnvKind, env_kind
from mfec.config import AgentConfig

RecipeName = Literal["paper", "tuned"]

AGENT: dict[RecipeName, dict[EnvKind, dict[str, Any]]] = {
    # Sections 4.1 and 4.2 of Blundell et al. (2016); the numbers for Atari are the defaults of `AgentConfig`.
    "paper": {"atari": {}, "labyrinth": {"k": 50, "gamma": 0.99, "capacity": 100_000}, "other": {}},
    # What scored highest of what was tried on the paper's five games; docs/results.md has the evidence. In environments
    # of other kinds it is that with more exploration, since most begin alike each time (docs/when-it-works.md).
    "tuned": {
        "atari": {"k": 50, "kernel": "inverse", "gamma": 0.99, "episode": "game"},
        "labyrinth": {"k": 50, "gamma": 0.99, "capacity": 100_000},
        "other": {"k": 50, "kernel": "inverse", "gamma": 0.99, "epsilon": 0.1},
    },
}
"""Settings of MFEC that differ from the defaults of `AgentConfig`."""


def agent_defaults(env: str, recipe: RecipeName = "paper") -> AgentConfig:
    """The settings of a recipe for that environment.

    >>> agent_defaults("labyrinth_forage").k, agent_defaults("qbert").k
    (50, 11)
    >>> agent_defaults("qbert").gamma, agent_defaults("qbert", "tuned").gamma
    (1.0, 0.99)
    """
    return AgentConfig(**AGENT[recipe][env_kind(env)])
