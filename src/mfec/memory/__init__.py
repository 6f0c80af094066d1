"""Q_EC: action buffers, exact matches, neighbour estimates, eviction. Knows nothing of environments."""

from mfec.memory.answers import Entries, Estimates, Evidence, Neighbours, Source
from mfec.memory.episodic_memory import EpisodicMemory

__all__ = ["Entries", "EpisodicMemory", "Estimates", "Evidence", "Neighbours", "Source"]
