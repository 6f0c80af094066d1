"""The episodic memory Q_EC: action buffers, exact matches, neighbours, eviction. It knows nothing of environments."""

from mfec.memory.episodic_memory import EpisodicMemory
from mfec.memory.estimates import Entries, Estimates, Evidence, Neighbours, Source

__all__ = ["Entries", "EpisodicMemory", "Estimates", "Evidence", "Neighbours", "Source"]
