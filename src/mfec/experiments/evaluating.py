"""Evaluation while a run trains: `evaluations.csv`."""

from __future__ import annotations

import math
from collections.abc import Callable

from mfec.callback import Learner
from mfec.config import RunConfig
from mfec.envs.names import is_atari
from mfec.experiments.evaluate import environment_of_games, player_of
from mfec.experiments.whole_games import Evaluation, WholeGames
from mfec.run_directory import RunDirectory


class Evaluator:
    """Plays whole games with an agent that learns, every so many frames and at the end, and keeps their scores.

    It leaves no trace on the run, which plays the same games and remembers the same without it. Which evaluation is due
    is seen from the table: one that a stop has cut short is made when the run goes on, of the same agent.
    """

    def __init__(self, config: RunConfig, directory: RunDirectory) -> None:
        settings = config.evaluation
        self._every, self._total_frames = settings.evaluate_every, config.total_frames
        self._epsilon, self._seed = settings.evaluate_epsilon, config.seed
        self._directory = directory
        if not self._every:
            return
        all_starts = is_atari(config.env) and not self._epsilon and not config.environment.sticky_actions
        self._games = WholeGames(
            config.env,
            environment_of_games(config),
            games=None if all_starts else settings.evaluate_games,
            seed=config.seed,
            starts="all" if all_starts else "sampled",
        )
        before_the_first = config.vae.frames if config.trains_vae else 0
        self._last = int(max(directory.evaluations()["frames"], default=before_the_first))

    def due(self, frames: int) -> bool:
        """Whether an evaluation is to be made now, of the agent that has seen so many frames."""
        if not self._every:
            return False
        at_the_end = frames >= self._total_frames and frames > self._last
        return at_the_end or frames // self._every > self._last // self._every

    def evaluate(self, agent: Learner, check: Callable[[], object]) -> Evaluation:
        """Play, and add a row to the table; `check` is called between two steps, and may raise."""
        player = player_of(agent, self._epsilon, seed=self._seed)
        evaluation = self._games.play(player, check)
        self._directory.add_evaluation({"frames": agent.frames, **columns_of(evaluation)})
        self._last = agent.frames
        return evaluation


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
