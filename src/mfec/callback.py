"""What hangs off the learning loop: logging, checkpoints, displays."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mfec.config import AlgorithmName

if TYPE_CHECKING:
    from mfec.agent import MFEC


@dataclass(frozen=True)
class Game:
    """A finished game, whatever ended it."""

    frames: int  # of the run, when the game ended
    episode: int  # number of the game, from 1
    score: float  # undiscounted sum of raw rewards
    length_frames: int


@dataclass(frozen=True)
class Steps:
    """What the m lanes of a group have just seen, done and got."""

    frames: int  # of the run, before this step
    lanes: slice
    numbers: list[int]  # of their games, from 1, as they began
    at: list[int]  # steps of these games before this one
    games: list[int] | None  # how many games each lane had begun before; None where games cannot be brought back
    frame_skip: int
    observations: NDArray[Any]  # (m, ...), seen before the step; nobody writes into them later
    actions: NDArray[np.int64]  # (m,), from 0
    rewards: NDArray[np.float64]  # (m,)
    ended: NDArray[np.bool_]  # (m,)
    lost_life: list[bool]  # (m,)
    valid: NDArray[np.bool_]  # (m,): False where an environment only reset itself


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
    """Override what is of use.

    All of them are called between two steps, in this order, where the agent is whole: it can be saved there, and an
    exception ends `learn` so that the next one goes on as if nothing had happened.
    """

    def on_steps(self, agent: MFEC, steps: Steps) -> None:
        """A group of lanes has made a step; episodes that ended in it are in the memory, and new games have begun."""

    def on_game(self, agent: MFEC, game: Game) -> None:
        """A game has ended. Of several that ended in the same step, `agent.games` counts all from the first call on."""

    def on_step(self, agent: MFEC) -> None:
        """A group of lanes has made a step, and everything was told of it."""


class Holds(Protocol):
    """What a learner keeps of its experience: an episodic memory, or a replay buffer."""

    def __len__(self) -> int: ...

    @property
    def capacity(self) -> int: ...

    @property
    def nbytes(self) -> int: ...

    @property
    def sizes(self) -> Sequence[int] | NDArray[np.int64]: ...

    @property
    def measured_recall(self) -> float | None: ...


class Learner(Protocol):
    """What tables, checkpoints and displays ask of an agent, be it MFEC or one of the baselines."""

    scores: deque[float]
    tally: Tally

    @property
    def frames(self) -> int: ...

    @property
    def games(self) -> int: ...

    @property
    def algorithm(self) -> AlgorithmName: ...

    @property
    def memory(self) -> Holds: ...

    def save(self, path: str | Path) -> None: ...


class Watcher(Protocol):
    """A callback for any learner."""

    def on_game(self, agent: Learner, game: Game) -> None: ...

    def on_steps(self, agent: MFEC, steps: Steps) -> None: ...

    def on_step(self, agent: Learner) -> None: ...
