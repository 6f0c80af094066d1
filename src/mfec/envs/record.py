"""Seeds and actions of the games in progress, what the groups show, and the actions in flight."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from mfec.envs.crashes import TheirCode
from mfec.envs.flattening import Actions, Observations
from mfec.envs.introspection import AnyEnv, Facts


class Record:
    """Seeds and histories of n environments."""

    def __init__(self, n: int, seed: np.random.SeedSequence, reseed_every: int, first_env: int = 0) -> None:
        self._seed = seed
        self._reseed_every = reseed_every
        self._first_env = first_env  # above 0 if these are only some environments of a run
        self.games = np.full(n, -1, np.int64)  # the number of each environment's game, from 0
        self.actions: list[list[int]] = [[] for _ in range(n)]

    def seed(self, env_id: int) -> int | None:
        """The seed of the environment's game; None if the game goes on with the random numbers of the last one."""
        if self.games[env_id] % self._reseed_every:
            return None
        key = (*self._seed.spawn_key, self._first_env + env_id, int(self.games[env_id]))
        return int(np.random.SeedSequence(self._seed.entropy, spawn_key=key).generate_state(1)[0] >> 1)

    def begin(self, env_id: int) -> int | None:
        """Count the environment's next game; returns its seed."""
        self.games[env_id] += 1
        self.actions[env_id] = []
        return self.seed(env_id)

    def number_from(self, number: int) -> None:
        """Let the next game of each environment have this number, or the next one that has a seed of its own."""
        self.games[:] = -(-number // self._reseed_every) * self._reseed_every - 1

    def history(self) -> dict[str, Any]:
        """The numbers of the games in progress and their actions, as JSON takes them."""
        return {"games": self.games.tolist(), "actions": [list(own) for own in self.actions]}

    def append(self, envs: slice, actions: NDArray[np.int64]) -> None:
        """Add a step of some environments."""
        for own, action in zip(self.actions[envs], actions.tolist(), strict=True):
            own.append(action)

    def retract(self, envs: slice) -> None:
        """Remove the last step of some environments."""
        for own in self.actions[envs]:
            own.pop()

    def rewind(self, env_id: int, game: int) -> None:
        """Make the last game up to `game` that has a seed of its own the next one to begin."""
        self.games[env_id] = game - game % self._reseed_every - 1


class Groups:
    """Groups of environments: what they show, and the actions of those in flight."""

    facts: Facts

    def __init__(self, env: AnyEnv, groups: list[slice]) -> None:
        if isinstance(env, VectorEnv):
            self.seeing, self.acting = Observations(env.single_observation_space), Actions(env.single_action_space)
        else:
            self.seeing, self.acting = Observations(env.observation_space), Actions(env.action_space)
        self.observation_space, self.action_space = self.seeing.space, self.acting.space
        self.groups = groups
        self._their_code = TheirCode(env)
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
        """What all environments show now, (n, ...)."""
        return self._shown[0] if len(self.groups) == 1 else np.concatenate(self._shown)

    def shown(self, group: int) -> NDArray[Any]:
        """What the environments of a group show now, (m, ...)."""
        return self._shown[group]

    def send(self, group: int, actions: NDArray[np.int64]) -> None:
        """Keep the actions; an environment without groups makes its step in `receive`."""
        self._sent[group] = actions

    @property
    def games(self) -> NDArray[np.int64] | None:
        """None: these games cannot be brought back."""
        return None

    def before(self, group: int) -> NDArray[Any]:
        """What the environments of a group showed before their last step, (m, ...)."""
        return self._before[group]

    def retract(self, group: int) -> None:
        """Show what was shown before the last step."""
        self._shown[group] = self._before[group]

    def show(self, group: int, observations: NDArray[Any]) -> None:
        """Set what a group shows: a new array, since states may be views of it."""
        self._before[group], self._shown[group] = self._shown[group], observations


class RecordedGroups(Groups):
    """Groups that keep a record, so that their games can be brought back."""

    def __init__(
        self, env: AnyEnv, groups: list[slice], seed: np.random.SeedSequence, reseed_every: int, first_env: int = 0
    ) -> None:
        super().__init__(env, groups)
        self._record = Record(self.n, seed, reseed_every, first_env)

    @property
    def games(self) -> NDArray[np.int64] | None:
        """The number of each environment's game, from 0."""
        return self._record.games

    def retract(self, group: int) -> None:
        """Remove the last step from the history, too."""
        super().retract(group)
        self._record.retract(self.groups[group])

    def history(self) -> dict[str, Any] | None:
        """What `restore` needs."""
        return self._record.history()

    def number_games_from(self, number: int) -> None:
        """Let the games that begin next have this number, or the next one that has a seed of its own."""
        self._record.number_from(number)

    def begin(self, mask: NDArray[np.bool_]) -> NDArray[np.int64]:
        """Begin games in the environments of the mask."""
        raise NotImplementedError

    def begin_game(self, env_id: int, game: int) -> None:
        """Begin the environment's game of that number, after those since the last one with a seed of its own."""
        only = np.arange(self.n) == env_id
        self._record.rewind(env_id, game)
        while self._record.games[env_id] < game:
            self.begin(only)

    def step_made(self, group: int, observations: NDArray[Any]) -> None:
        """Note that the step of a group in flight has led to these observations."""
        self.show(group, observations)
        self._record.append(self.groups[group], self._sent.pop(group))
