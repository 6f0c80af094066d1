"""Callbacks that end training."""

from __future__ import annotations

from collections.abc import Sequence

from mfec.interface import Agent, Callback, Stopped


class StopAfterGames(Callback):
    """End training after so many games."""

    def __init__(self, games: int) -> None:
        self._games = games

    def on_step(self, agent: Agent) -> bool:
        """False when they were played."""
        return agent.games < self._games


class StopAtScore(Callback):
    """End training when the mean score of the last games, 100 of them unless given, has come so far."""

    def __init__(self, score: float, *, games: int = 100) -> None:
        if not 1 <= games <= 100:
            raise ValueError(f"games must lie between 1 and 100, the scores that an agent keeps, not {games}")
        self._score, self._games = score, games

    def on_step(self, agent: Agent) -> bool:
        """False when it has."""
        last = list(agent.scores)[-self._games :]
        return len(last) < self._games or sum(last) / len(last) < self._score


class StopWhenAsked(Callback):
    """Raise `Stopped` as soon as a list has something in it, such as the signals that a process has heard."""

    def __init__(self, asked: Sequence[object]) -> None:
        self._asked = asked

    def on_step(self, agent: Agent) -> None:
        """Stop if asked to."""
        self.check()

    def check(self) -> None:
        """Stop if asked to."""
        if self._asked:
            raise Stopped
