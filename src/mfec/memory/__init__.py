"""Q_EC: action buffers, exact matches, neighbour estimates, eviction. Knows nothing of environments."""

from mfec.memory.episodic_memory import EpisodicMemory, Estimates, Neighbours

__all__ = ["EpisodicMemory", "Estimates", "Neighbours"]
