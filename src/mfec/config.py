"""The agent's settings, each with its default in this one place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

EmbeddingName = Literal["auto", "random_projection", "identity"]
IndexName = Literal["exact"]
Eviction = Literal["updated", "used"]
Update = Literal["max", "replace"]
FewNeighbours = Literal["infinity", "mean", "zero"]
Ties = Literal["random", "first"]
EpisodeEnd = Literal["game", "life"]


@dataclass(frozen=True)
class AgentConfig:
    """Settings of the episodic controller. Numbers are the paper's for Atari (section 4.1).

    Where the paper is silent or says two things, `docs/differences-from-the-paper.md` explains the default.
    """

    k: int = 11
    """Neighbours in an estimate."""
    gamma: float = 1.0
    """Discount rate of returns."""
    epsilon: float = 0.005
    """Chance of a random action."""
    capacity: int = 1_000_000
    """Entries in each action's buffer."""
    embedding: EmbeddingName = "auto"
    """From observation to state; auto projects observations of more than --dim numbers, takes others as they are."""
    dim: int = 64
    """Numbers in a projected state."""
    index: IndexName = "exact"
    """How neighbours are searched."""
    eviction: Eviction = "updated"
    """Entry that a full buffer gives up: least recently updated, or least recently used."""
    update: Update = "max"
    """Value of a known state and action: highest return (Eq. 1), or the latest one."""
    few_neighbours: FewNeighbours = "infinity"
    """Estimate from a buffer of fewer than k entries: infinity (try the action), mean of what is there, or zero."""
    ties: Ties = "random"
    """Choice among actions of equal value: at random from the seed, or always the first."""
    episode: EpisodeEnd = "life"
    """What ends an episode for the memory: the game, or each lost life (the game goes on either way)."""

    def __post_init__(self) -> None:
        if self.k < 1 or self.capacity < 1 or self.dim < 1:
            raise ValueError("k, capacity and dim must be at least 1")
        if not 0.0 < self.gamma <= 1.0:
            raise ValueError(f"gamma must lie above 0 and not above 1, not {self.gamma}")
        if not 0.0 <= self.epsilon <= 1.0:
            raise ValueError(f"epsilon must lie between 0 and 1, not {self.epsilon}")
