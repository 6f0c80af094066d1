"""What all lanes keep: seeds and actions of their games, what their groups show, and the actions in flight."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfec.envs.introspection import Facts


class Record:
    """Seeds and histories of n lanes."""

    def __init__(self, n: int, seed: np.random.SeedSequence, reseed_every: int, first_lane: int = 0) -> None:
        self._seed = seed
        self._reseed_every = reseed_every
        self._first_lane = first_lane  # where these are some lanes of a run
        self.games = np.full(n, -1, np.int64)  # number of the lane's game, from 0
        self.actions: list[list[int]] = [[] for _ in range(n)]

    def seed(self, lane: int) -> int | None:
        """Seed for the game that the lane begins; None where it goes on from the seed of an earlier one."""
        if self.games[lane] % self._reseed_every:
            return None
        key = (*self._seed.spawn_key, self._first_lane + lane, int(self.games[lane]))
        return int(np.random.SeedSequence(self._seed.entropy, spawn_key=key).generate_state(1)[0] >> 1)

    def begin(self, lane: int) -> int | None:
        """The lane begins its next game; its seed."""
        self.games[lane] += 1
        self.actions[lane] = []
        return self.seed(lane)

    def history(self) -> dict[str, Any]:
        """Numbers of the games in progress and their actions, as JSON takes them."""
        return {"games": self.games.tolist(), "actions": [list(own) for own in self.actions]}

    def append(self, lanes: slice, actions: NDArray[np.int64]) -> None:
        """A step that some lanes made."""
        for own, action in zip(self.actions[lanes], actions.tolist(), strict=True):
            own.append(action)

    def retract(self, lanes: slice) -> None:
        """Forget the last step of some lanes."""
        for own in self.actions[lanes]:
            own.pop()

    def rewind(self, lane: int, game: int) -> None:
        """Set the lane so that its next games lead up to `game`, the first of them on a seed."""
        self.games[lane] = game - game % self._reseed_every - 1


class Groups:
    """Groups of lanes: what they show, and the actions of those in flight."""

    facts: Facts

    def __init__(self, groups: list[slice]) -> None:
        self.groups = groups
        self.n: int = groups[-1].stop
        self._shown: list[NDArray[Any]] = [np.empty(0)] * len(groups)
        self._before = list(self._shown)  # before the last step
        self._sent: dict[int, NDArray[np.int64]] = {}

    @property
    def frame_skip(self) -> int:
        """Frames in a step."""
        return self.facts.frame_skip

    @property
    def observations(self) -> NDArray[Any]:
        """What all lanes show now, (n, ...)."""
        return self._shown[0] if len(self.groups) == 1 else np.concatenate(self._shown)

    def shown(self, group: int) -> NDArray[Any]:
        """What the lanes of a group show now, (m, ...)."""
        return self._shown[group]

    def send(self, group: int, actions: NDArray[np.int64]) -> None:
        """Keep the actions; an environment that steps as a whole does so when it is received."""
        self._sent[group] = actions

    @property
    def games(self) -> NDArray[np.int64] | None:
        """Numbers of the lanes' games, from 0, where they can be brought back."""
        return None

    def before(self, group: int) -> NDArray[Any]:
        """What the lanes of a group showed before their last step, (m, ...)."""
        return self._before[group]

    def retract(self, group: int) -> None:
        """Show what was shown before the last step."""
        self._shown[group] = self._before[group]

    def show(self, group: int, observations: NDArray[Any]) -> None:
        """The lanes of a group show something new: an array of its own, for states may be views of it."""
        self._before[group], self._shown[group] = self._shown[group], observations


class RecordedGroups(Groups):
    """Lanes that keep a record, so that their games can be brought back."""

    def __init__(
        self, groups: list[slice], seed: np.random.SeedSequence, reseed_every: int, first_lane: int = 0
    ) -> None:
        super().__init__(groups)
        self._record = Record(self.n, seed, reseed_every, first_lane)

    @property
    def games(self) -> NDArray[np.int64] | None:
        """Numbers of the lanes' games, from 0."""
        return self._record.games

    def retract(self, group: int) -> None:
        """Take the last step out of the history, too."""
        super().retract(group)
        self._record.retract(self.groups[group])

    def history(self) -> dict[str, Any] | None:
        """What `restore` needs."""
        return self._record.history()

    def begin(self, mask: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Begin games in the lanes of the mask."""
        raise NotImplementedError

    def begin_game(self, lane: int, game: int) -> None:
        """Begin the lane's game of that number, by way of those since the last one that began on a seed."""
        only = np.arange(self.n) == lane
        self._record.rewind(lane, game)
        while self._record.games[lane] < game:
            self.begin(only)

    def step_made(self, group: int, observations: NDArray[Any]) -> None:
        """The step of a group in flight has led to these observations."""
        self.show(group, observations)
        self._record.append(self.groups[group], self._sent.pop(group))
