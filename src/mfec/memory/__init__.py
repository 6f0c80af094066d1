"""The episodic memory Q_EC: action buffers, exact matches, neighbours, eviction. It knows nothing of environments."""

from mfec.memory.entries import Entries, Entry
from mfec.memory.episodic_memory import EpisodicMemory
from mfec.memory.estimates import Estimates, Evidence, Neighbours, Source

__all__ = ["Entries", "Entry", "EpisodicMemory", "Estimates", "Evidence", "Neighbours", "Source"]
