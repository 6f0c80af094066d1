"""What hangs off the learning loop: logging, checkpoints, displays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from mfec.agent import MFEC


@dataclass(frozen=True)
class Game:
    """A finished game, whatever ended it."""

    frames: int  # of the run, when the game ended
    episode: int  # number of the game, from 1
    score: float  # undiscounted sum of raw rewards
    length_frames: int


@dataclass
class Tally:
    """Counts since the last time somebody took them."""

    steps: int = 0
    lookups: int = 0
    exact: int = 0
    exact_chosen: int = 0
    lookup_seconds: float = 0.0
    write_seconds: float = 0.0

    def count(self, exact: NDArray[np.bool_], actions: NDArray[np.int64]) -> None:
        """Look-ups of all actions in some lanes, bool (m, n_actions), and the actions taken there, (m,)."""
        self.steps += len(actions)
        self.lookups += exact.size
        self.exact += int(np.count_nonzero(exact))
        self.exact_chosen += int(np.count_nonzero(exact[np.arange(len(actions)), actions]))


class Callback:
    """Override what is of use."""

    def on_game(self, agent: MFEC, game: Game) -> None:
        """A game has ended and its episode is in the memory."""

    def on_step(self, agent: MFEC) -> None:
        """A group of lanes has made a step; the agent is in a state that can be saved."""
