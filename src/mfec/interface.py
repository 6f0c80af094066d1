"""Agents and callbacks, as they know each other; nobody else needs to know more of an agent than this."""

from __future__ import annotations

import contextlib
import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mfec.config import Starts
from mfec.statistics import mean, standard_error

ROW_FRAMES = 10_000  # between two rows of progress, at most

PolicyState = tuple[NDArray[Any], ...]
"""What a policy keeps from one step of a game to the next, such as stacked frames; one row for each game."""
Metrics = Mapping[str, float | int | None]
"""Numbers that an agent logs, by the names of their columns; None where there is nothing to say."""


@dataclass(frozen=True)
class Game:
    """A finished game, whatever ended it."""

    frames: int  # of the run, when the game ended
    episode: int  # number of the game, from 1
    score: float  # undiscounted sum of raw rewards
    length_frames: int


@dataclass(frozen=True)
class Steps:
    """What the m environments of a group have just seen, done and got."""

    frames: int  # of the run, before this step
    envs: slice
    numbers: list[int]  # of their games, from 1, as they began
    at: list[int]  # steps of these games before this one
    games: list[int] | None  # how many games each had begun before; None where games cannot be brought back
    frame_skip: int
    observations: NDArray[Any]  # (m, ...), seen before the step; nobody writes into them later
    actions: NDArray[np.int64]  # (m,), from 0
    rewards: NDArray[np.float64]  # (m,)
    ended: NDArray[np.bool_]  # (m,)
    lost_life: list[bool]  # (m,)
    valid: NDArray[np.bool_]  # (m,): False where an environment only reset itself


@dataclass(frozen=True)
class Evaluation:
    """Scores of whole games under one policy.

    starts: where they began: as their seeds fell, at all thirty starts of an Atari game, once each, or at thirty that
    training never has. exact: nothing was left to chance, so that this is no sample of the policy's score but the score
    itself.
    """

    policy: str
    epsilon: float
    scores: list[float]
    lengths_frames: list[int]
    starts: Starts = "sampled"
    exact: bool = False

    @property
    def mean(self) -> float:
        """Mean score."""
        return mean(self.scores)

    @property
    def standard_error(self) -> float:
        """Standard error of the mean score."""
        return standard_error(self.scores)

    @property
    def mean_length_frames(self) -> float:
        """Mean length of a game."""
        return mean(self.lengths_frames)

    @property
    def kind(self) -> str:
        """What it is an evaluation of, in a word or two."""
        return "greedy" if not self.epsilon else f"epsilon {self.epsilon:g}"

    def as_json(self) -> dict[str, Any]:
        """Everything, as JSON takes it."""
        error = self.standard_error
        return {**asdict(self), "mean": self.mean, "standard_error": None if math.isnan(error) else error}


class Stopped(Exception):
    """The run was asked to stop, and what it has learned is kept."""


class Agent(Protocol):
    """An agent that learns, plays, and can be saved: MFEC, a baseline, or one of your own (`docs/extending.md`)."""

    seed: int
    scores: deque[float]  # of the last 100 games

    @property
    def frames(self) -> int:
        """Frames seen so far."""

    @property
    def games(self) -> int:
        """Games finished so far."""

    @property
    def frame_skip(self) -> int:
        """Frames in a step."""

    @property
    def evaluation_epsilon(self) -> float:
        """Chance of a random action where whole games are played to see how good the agent is."""

    @property
    def stochastic(self) -> bool:
        """Whether its policy draws its actions, so that `deterministic=True` would be another policy."""

    def learn(self, total_frames: int, callback: Callback | Sequence[Callback] | None = None) -> Agent:
        """Learn until it has seen so many frames in all; see `CallbackList.around` for what callbacks are told."""

    def predict(
        self,
        observation: Any,
        state: PolicyState | None = None,
        episode_start: NDArray[Any] | None = None,
        deterministic: bool = False,
        *,
        epsilon: float | None = None,
        rng: np.random.Generator | Sequence[np.random.Generator] | None = None,
    ) -> tuple[NDArray[np.int64], PolicyState | None]:
        """The action for one observation or a batch of them, and the policy's state, as in Stable-Baselines3.

        Both are the environment's own, a batch of `Dict` observations a dict of arrays (`mfec.envs.flattening`).
        It leaves no trace on the agent, which learns on as if nobody had asked. rng: where random numbers come from,
        one generator or one for each observation.
        """

    def save(self, path: str | Path) -> None:
        """Write everything that it takes to go on to the directory `path`, whole or not at all."""

    def metrics(self) -> Metrics:
        """What it logs: the numbers of a row of progress, counted since the last row where they are shares or times."""

    def begin_row(self) -> None:
        """Count anew: a row of progress was written."""


class Callback:
    """Override what is of use.

    Every method is called between two steps, where the agent is whole: it can be saved there, and an exception ends
    `learn` so that the next one goes on as if nothing had happened. `callbacks` is the list that it belongs to.
    """

    off_the_clock = False
    """Whether the time that `on_start` and `on_step` take is none of the run's, as an evaluation's is not."""
    callbacks: CallbackList

    def on_start(self, agent: Agent, total_frames: int) -> None:
        """`learn` begins, and will go on until the agent has seen so many frames."""

    def on_steps(self, agent: Any, steps: Steps) -> None:
        """Environments have made a step, of MFEC: episodes that ended in it are in the memory, new games have begun."""

    def on_game(self, agent: Agent, game: Game) -> None:
        """A game has ended. Of several that ended in the same step, `agent.games` counts all from the first call on."""

    def on_progress(self, agent: Agent, row: dict[str, Any]) -> None:
        """It is time for a row of progress: frames, seconds, and what the agent logs. A run has a hundred or more."""

    def on_evaluation(self, agent: Agent, evaluation: Evaluation) -> None:
        """Whole games were played (`Evaluations`)."""

    def on_step(self, agent: Agent) -> bool | None:
        """A step was made, and everything was told of it. False ends `learn`."""

    def check(self) -> None:
        """Raise an exception to end `learn` now, also in the middle of an evaluation."""

    def flush(self) -> None:
        """Bring to the disk what is kept of the run: a checkpoint is about to be written, which must not know more."""

    def on_end(self, agent: Agent) -> None:
        """`learn` has ended: all frames were seen, it was asked to stop, or the environment failed."""

    def close(self) -> None:
        """`learn` has ended, however it did: let go of files and threads."""


CallbackFunction = Callable[[Any], bool | None]
"""A function as a callback: it is called with the agent after every step, and ends `learn` by returning False."""
Callbacks = Callback | CallbackFunction | Iterable[Callback | CallbackFunction]
"""What `learn` takes: a callback, a function, or several of them."""


class EveryStep(Callback):
    """Calls a function with the agent after every step; False from it ends `learn`."""

    def __init__(self, function: CallbackFunction) -> None:
        self._function = function

    def on_step(self, agent: Agent) -> bool | None:
        """Call it."""
        return self._function(agent)


class CallbackList(Callback):
    """Callbacks in the order in which they are told, and the clock of the run.

    Args:
        callbacks: in their order: functions of the agent, too, and the members of lists like this one.
        first_frame: where the agent's own frames begin, if others were seen before.
        seconds: that the run took before it was stopped.
    """

    def __init__(
        self, callbacks: Iterable[Callback | CallbackFunction] = (), *, first_frame: int = 0, seconds: float = 0.0
    ) -> None:
        self.members = [member for given in callbacks for member in _members(given)]
        for member in self.members:
            member.callbacks = self
        # Of each method those that have it: most have few, and a step takes a quarter of a millisecond.
        self._of = {name: [own for own in self.members if name in _overridden(own)] for name in METHODS}
        self._first_frame = first_frame
        self._seconds = seconds
        self._began = self._row_began = time.perf_counter()
        self._row_frames = self._next_row = self._written = 0

    @classmethod
    def of(cls, given: Callbacks | None, *others: Callback) -> CallbackList:
        """What was given to `learn`, as a list, and these others."""
        if isinstance(given, CallbackList):
            if not others:
                return given
            return cls([given, *others], first_frame=given._first_frame, seconds=given._seconds)
        several: Iterable[Any] = given if isinstance(given, Iterable) else [] if given is None else [given]
        return cls([*several, *others])

    @contextlib.contextmanager
    def around(
        self, agent: Agent, total_frames: int, *, whole_after: tuple[type[Exception], ...] = ()
    ) -> Iterator[None]:
        """Surround the loop of `learn`: start, end and close.

        whole_after: exceptions after which the agent can be saved, beside `Stopped`.
        """
        try:
            self._began = self._row_began = time.perf_counter()
            self._row_frames = self._written = agent.frames
            self._next_row = self._row_after(agent.frames)
            self.on_start(agent, total_frames)
            try:
                yield
            except (Stopped, *whole_after):  # type: ignore[misc]
                self._end(agent, total_frames)
                raise
            self._end(agent, total_frames)
        finally:
            self.close()

    def _end(self, agent: Agent, total_frames: int) -> None:
        """Write the last row, if all frames were seen, and tell everyone: also of a stop at the very last frame."""
        if agent.frames >= total_frames and agent.frames > self._written and self._of["on_progress"]:
            # The agent counts on: given more frames, it goes on as if it had not ended here.
            self._write_row(agent)
        self.on_end(agent)

    def on_start(self, agent: Agent, total_frames: int) -> None:
        for member in self._of["on_start"]:
            began = time.perf_counter()
            member.on_start(agent, total_frames)
            self._stop_clock(member, began)

    def on_steps(self, agent: Any, steps: Steps) -> None:
        for member in self._of["on_steps"]:
            member.on_steps(agent, steps)

    def on_game(self, agent: Agent, game: Game) -> None:
        for member in self._of["on_game"]:
            member.on_game(agent, game)

    def on_progress(self, agent: Agent, row: dict[str, Any]) -> None:
        for member in self._of["on_progress"]:
            member.on_progress(agent, row)

    def on_evaluation(self, agent: Agent, evaluation: Evaluation) -> None:
        for member in self._of["on_evaluation"]:
            member.on_evaluation(agent, evaluation)

    def on_step(self, agent: Agent) -> bool:
        """A row of progress, if it is time for one, and then each in turn; False if one of them says so."""
        if agent.frames >= self._next_row and self._of["on_progress"]:
            self._write_row(agent)
            agent.begin_row()
            self._row_frames, self._next_row = agent.frames, self._row_after(agent.frames)
        go_on = True
        for member in self._of["on_step"]:
            began = time.perf_counter()
            answer = member.on_step(agent)
            # A comparison of numpy's numbers is no `False` but one of numpy's own.
            stops = answer is False or (isinstance(answer, np.bool_) and not answer)
            go_on = go_on and not stops
            self._stop_clock(member, began)
        return go_on

    def check(self) -> None:
        for member in self._of["check"]:
            member.check()

    def flush(self) -> None:
        for member in self._of["flush"]:
            member.flush()

    def on_end(self, agent: Agent) -> None:
        for member in self._of["on_end"]:
            member.on_end(agent)

    def close(self) -> None:
        with contextlib.ExitStack() as everyone:
            for member in self._of["close"]:
                everyone.callback(member.close)

    def _write_row(self, agent: Agent) -> None:
        now = time.perf_counter()
        steps = (agent.frames - self._row_frames) / agent.frame_skip
        row = {
            "frames": agent.frames,
            "seconds": round(self._seconds + now - self._began, 3),
            "steps_per_second": round(steps / (now - self._row_began), 1),
            "return_mean_100": sum(agent.scores) / len(agent.scores) if agent.scores else None,
            **agent.metrics(),
        }
        self.on_progress(agent, row)
        self._row_began, self._written = now, agent.frames

    def _row_after(self, frames: int) -> int:
        return self._first_frame + next_row(frames - self._first_frame)

    def _stop_clock(self, member: Callback, began: float) -> None:
        if member.off_the_clock:
            took = time.perf_counter() - began
            self._began += took
            self._row_began += took


METHODS = [name for name in vars(Callback) if name.startswith("on_") or name in ("check", "flush", "close")]


def _members(given: Any) -> list[Callback]:
    if isinstance(given, CallbackList):
        return given.members
    if isinstance(given, Callback):
        return [given]
    if isinstance(given, type) or not callable(given):
        what = f"the class {given.__name__}" if isinstance(given, type) else f"{given!r}"
        hint = f"; give one of its objects: {given.__name__}(...)" if isinstance(given, type) else ""
        raise TypeError(f"a callback is a mfec.Callback or a function of the agent, not {what}{hint}")
    return [EveryStep(given)]


def _overridden(member: Callback) -> set[str]:
    return {name for name in METHODS if getattr(type(member), name) is not getattr(Callback, name)}


def next_row(frames: int) -> int:
    """The number of frames at which there is a row of progress after so many.

    Rows lie a hundredth of the frames so far apart, rounded down to 1, 2 or 5 and zeros, and at most 10,000. So a run
    of any length has a hundred of them, and where they lie does not depend on how long the run is, was, or will be.

    >>> [next_row(frames) for frames in (0, 99, 250, 4_321, 10_000, 999_999, 1_234_567)]
    [1, 100, 252, 4340, 10100, 1000000, 1240000]
    """
    hundredth = max(1, frames // 100)
    zeros = int("1" + "0" * (len(str(hundredth)) - 1))
    apart = min(ROW_FRAMES, zeros * max(digit for digit in (1, 2, 5) if digit * zeros <= hundredth))
    return (frames // apart + 1) * apart
