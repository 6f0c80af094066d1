r"""Why a discount helps: measure, in finished runs, what neighbours say and what the score is made of.

    mfec train qbert space_invaders --gamma 0.99 --seeds 0 1 2 --total-frames 1000000 --index cells --no-video \
        --out runs/why/0.99                                           # and so on, for each discount
    python results/why/measure.py runs/why --out results/why/neighbours.csv
    python results/why/draw.py results/why/neighbours.csv docs/images/why.png

A row for each run. It plays greedily from all thirty starts of its game and looks, in every state, at the neighbours of
each action that has no exact match there:

- unexplained: the variance of the values among these neighbours, as a share of that among all entries of the buffer. At
  1, a neighbour says no more about a state than any other entry;
- undecided: the share of choices in which the best estimate leads the second best by less than its own standard error,
  so that which neighbours happened to be there decided;
- training, exploring, greedy: the mean of the last 100 games in training; of thirty games with the final memory and the
  run's epsilon, so without the lag of those 100 games; and of thirty without exploration.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfec import MFEC
from mfec.evaluation import AgentPlayer, WholeGames
from mfec.run_directory import RunDirectory, find_runs
from mfec.statistics import mean

COLUMNS = ["env", "gamma", "seed", "frames", "unexplained", "undecided", "training", "exploring", "greedy"]
EVERY = 5  # steps from one look at the neighbours to the next


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directories", nargs="+", type=Path, help="runs of Atari games, with their checkpoints")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    with options.out.open("w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(COLUMNS)
        for run in find_runs(options.directories):
            row = measure(run)
            table.writerow(row)
            print(*row)


def measure(run: RunDirectory) -> list[Any]:
    """The row of a run."""
    config = run.read_config()
    agent = MFEC.load(run.checkpoint)
    one = config.kind.environment_of_agent(config, n_envs=1)
    looking = Looking(agent)
    greedy = WholeGames(config.env, one, starts="all").play(looking).mean
    exploring = WholeGames(config.env, one, games=30, seed=1).play(AgentPlayer(agent, seed=1)).mean
    training = mean(run.episodes()["return"][-100:])
    told = [mean(looking.unexplained), mean(looking.undecided), training, exploring, greedy]
    return [config.env, agent.gamma, config.seed, agent.frames, *(round(number, 3) for number in told)]


class Looking(AgentPlayer):
    """Plays greedily, and looks at the neighbours behind every few choices."""

    def __init__(self, agent: MFEC) -> None:
        super().__init__(agent, 0.0, seed=0)
        self._memory = agent.memory
        self._explain = agent.explain
        sizes = agent.memory.sizes
        self._variances = [float(agent.memory.buffers.values[action, :size].var()) for action, size in enumerate(sizes)]
        self._steps = 0
        self.unexplained: list[float] = []
        self.undecided: list[float] = []

    def act(self, games: Sequence[int], observations: NDArray[Any], begins: Sequence[bool]) -> NDArray[np.int64]:
        """The greedy actions."""
        self._steps += 1
        if self._steps % EVERY == 0:
            self._look(observations[0])
        return super().act(games, observations, begins)

    def _look(self, observation: NDArray[Any]) -> None:
        errors = []
        evidence = self._explain(observation).actions
        for own, variance in zip(evidence, self._variances, strict=True):
            values = own.neighbours.values.astype(np.float64)
            if own.exact:
                errors.append(0.0)
            elif len(values) == self._memory.k and variance > 0.0:
                self.unexplained.append(float(values.var(ddof=1) / variance))
                errors.append(float(values.std(ddof=1) / len(values) ** 0.5))
            else:
                return
        order = np.argsort([own.value for own in evidence])
        best, second = int(order[-1]), int(order[-2])
        lead = evidence[best].value - evidence[second].value
        self.undecided.append(float(lead < np.hypot(errors[best], errors[second])))


if __name__ == "__main__":
    main()
