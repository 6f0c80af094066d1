"""A short run of MFEC: how fast it is, how often it comes back, and whether it beats random play yet."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

from mfec.algorithms import RunConfig
from mfec.experiments.check.measured import Repeats, Rewards, Spaces
from mfec.experiments.check.play import Limit
from mfec.experiments.ram import physical_ram
from mfec.interface import Agent, Callback, Game
from mfec.statistics import mean, standard_error

FRAMES = 1_000_000  # what memory and hours are told for: the default of `mfec train`
COMPILING_GAMES = 2  # the end of the first compiles writing, the first look-up after it the search
ERRORS = 2.0  # standard errors between two means that count as a difference


@dataclass(frozen=True)
class Memory:
    """What a run of a million frames keeps."""

    bytes_per_entry: int
    capacity: int
    """Entries for each action."""
    full: int
    """Bytes of a full memory."""
    entries: int
    """At most, after a million frames: as many as random play goes on to make."""
    most_bytes: int
    """After a million frames, if every step made an entry."""
    ram: int
    """Bytes of this machine."""


@dataclass(frozen=True)
class Learning:
    """A short run of MFEC with the settings that are proposed."""

    frames: int
    games: int
    steps_per_second: float
    exact_share: float | None
    """Share of the actions taken that had been taken in that very observation before."""
    late_games: int
    mean_late: float | None
    """Mean score of the last half of its games."""
    error_late: float | None
    """Its standard error."""

    def better_than(self, rewards: Rewards) -> bool | None:
        """Whether its last half of games scored above random play; None where there are too few games to tell."""
        if self.mean_late is None or rewards.mean_score is None or self.error_late is None or rewards.error is None:
            return None
        return self.mean_late - rewards.mean_score > ERRORS * math.hypot(self.error_late, rewards.error)

    def hours(self, spaces: Spaces) -> float:
        """Hours for a million frames at that speed."""
        return FRAMES / spaces.frame_skip / self.steps_per_second / 3600


class Watch(Callback):
    """Keeps scores, and ends a run after so many steps or seconds; the clock is read in every step."""

    def __init__(self, *, steps: int, seconds: float) -> None:
        self._steps, self._seconds = steps, seconds
        self.times: list[float] = []
        self.scores: list[float] = []

    def on_game(self, agent: Agent, game: Game) -> None:
        """Keep the score. The seconds begin anew after the first games, which may compile what is not on disk yet."""
        self.scores.append(game.score)
        if len(self.scores) <= COMPILING_GAMES:
            self._limit = Limit(steps=self._steps, seconds=self._seconds)

    def on_step(self, agent: Agent) -> bool:
        """False at the limit."""
        if not self.times:
            self._limit = Limit(steps=self._steps, seconds=self._seconds)
        self.times.append(time.perf_counter())
        return not self._limit.reached(len(self.times))

    @property
    def steps_per_second(self) -> float:
        """Of the last half: the first steps may compile."""
        late = self.times[len(self.times) // 2 :]
        return (len(late) - 1) / (late[-1] - late[0]) if len(late) > 1 else math.nan


def learn(config: RunConfig, env: Any, *, steps: int, seconds: float) -> Learning:
    """Train on an environment for so many steps or seconds, whichever comes first."""
    agent, watch = config.kind.make(env, config), Watch(steps=steps, seconds=seconds)
    agent.learn(steps * agent.frame_skip, watch)
    late = watch.scores[len(watch.scores) // 2 :]
    share = agent.metrics()["exact_match_rate_chosen"]
    return Learning(
        frames=agent.frames,
        games=agent.games,
        steps_per_second=watch.steps_per_second,
        exact_share=None if share is None else float(share),
        late_games=len(late),
        mean_late=mean(late) if late else None,
        error_late=standard_error(late) if len(late) > 1 else None,
    )


def memory_of(run: RunConfig, env: Any, spaces: Spaces, repeats: Repeats) -> Memory:
    """What a run keeps. A table cannot have more entries than there are pairs of observation and action."""
    footprint, capacity = run.kind.footprint(run, env), run.agent.capacity
    assert footprint is not None
    steps = run.total_frames // spaces.frame_skip
    entries = min(steps, repeats.pairs + round(max(0, steps - repeats.steps) * repeats.new_pairs_late))
    if spaces.kind == "number":
        entries = min(entries, spaces.values * spaces.n_actions)
    return Memory(
        bytes_per_entry=footprint.full // (spaces.n_actions * capacity),
        capacity=capacity,
        full=footprint.full,
        entries=min(entries, spaces.n_actions * capacity),
        most_bytes=footprint.in_this_run,
        ram=physical_ram(),
    )
