"""Evaluation of an agent while it learns."""

from __future__ import annotations

import math

from mfec.evaluation import AgentPlayer, Evaluation, WholeGames
from mfec.interface import Agent, Callback
from mfec.run_directory import RunDirectory


class Evaluations(Callback):
    """Plays whole games with an agent that learns, every so many frames and at the end, and tells everyone the scores.

    It leaves no trace on the run, which plays the same games and learns the same without it. Which evaluation is due is
    seen from the table in `directory`, if there is one: one that a stop has cut short is made when the run goes on, of
    the same agent.

    Args:
        games: what is played each time.
        every: frames between two evaluations.
        epsilon: chance of a random action.
        directory: where `evaluations.csv` goes.
        first_frame: frames that were seen before the agent's first.
    """

    off_the_clock = True

    def __init__(
        self,
        games: WholeGames,
        *,
        every: int,
        epsilon: float = 0.0,
        seed: int = 0,
        directory: RunDirectory | None = None,
        first_frame: int = 0,
    ) -> None:
        self._games, self._every, self._epsilon, self._seed = games, every, epsilon, seed
        self._directory = directory
        known = directory.evaluations()["frames"] if directory else []
        self._last = int(max(known, default=first_frame))
        self._total_frames = math.inf

    def due(self, frames: int, total_frames: float) -> bool:
        """Whether an evaluation is to be made now, of an agent that has seen so many frames of all."""
        at_the_end = frames >= total_frames and frames > self._last
        return at_the_end or frames // self._every > self._last // self._every

    def on_start(self, agent: Agent, total_frames: int) -> None:
        """Make the evaluation that a stop has cut short."""
        self._total_frames = total_frames
        self.on_step(agent)

    def on_step(self, agent: Agent) -> None:
        """Play, if it is time to."""
        if self.due(agent.frames, self._total_frames):
            player = AgentPlayer(agent, self._epsilon, seed=self._seed)
            evaluation = self._games.play(player, self.callbacks.check)
            if self._directory is not None:
                self._directory.add_evaluation({"frames": agent.frames, **columns_of(evaluation)})
            self._last = agent.frames
            self.callbacks.on_evaluation(agent, evaluation)


def columns_of(evaluation: Evaluation) -> dict[str, float | str]:
    """What the table says of an evaluation; nothing for the standard error of a single game."""
    error = evaluation.standard_error
    return {
        "games": len(evaluation.scores),
        "mean": evaluation.mean,
        "standard_error": "" if math.isnan(error) else error,
        "lowest": min(evaluation.scores),
        "highest": max(evaluation.scores),
        "mean_length_frames": evaluation.mean_length_frames,
    }
