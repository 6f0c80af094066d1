"""What a run has lived through: actions and rewards of all its episodes and, where they are kept, frames."""

from mfec.history.reader import History, PastEpisode
from mfec.history.writer import HistoryWriter

__all__ = ["History", "HistoryWriter", "PastEpisode"]
