"""An agent as a player of whole games."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfec.evaluation.whole_games import dice_of
from mfec.interface import Agent, PolicyState


class AgentPlayer:
    """Plays whole games with an agent, which it leaves as it was.

    Args:
        epsilon: chance of a random action; None stands for the agent's own. With 0, equal values go to the first
            action, unless the agent's policy is itself one of chances.
        seed: makes the random numbers of every game.
    """

    name = "agent"

    def __init__(self, agent: Agent, epsilon: float | None = None, *, seed: int) -> None:
        self._agent, self._seed = agent, seed
        self.epsilon = agent.evaluation_epsilon if epsilon is None else epsilon
        self.deterministic = self.epsilon == 0.0 and not agent.stochastic
        self._dice: dict[int, np.random.Generator] = {}
        self._states: dict[int, PolicyState] = {}  # of each game, where the policy has one

    def act(self, games: Sequence[int], observations: Any, begins: Sequence[bool]) -> NDArray[Any]:
        """The actions of its policy, but for epsilon of them."""
        actions, after = self._agent.predict(
            observations,
            self._state_of(games, begins),
            np.array(begins, np.bool_),
            deterministic=self.deterministic,
            epsilon=self.epsilon,
            rng=None if self.deterministic else dice_of(games, begins, self._dice, self._seed, 1),
        )
        if after is not None:
            for i, game in enumerate(games):
                self._states[game] = tuple(part[i] for part in after)
        return actions

    def _state_of(self, games: Sequence[int], begins: Sequence[bool]) -> PolicyState | None:
        """What the policy kept of these games, one row for each; zeros where a game begins."""
        if not self._states:
            return None
        like = next(iter(self._states.values()))
        empty = tuple(np.zeros_like(part) for part in like)
        rows = [empty if new else self._states[game] for game, new in zip(games, begins, strict=True)]
        return tuple(np.stack(parts) for parts in zip(*rows, strict=True))
