"""What is wrong with an environment: data that no agent can take, crashes of its own, and what others warn of."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from mfec.envs.crashes import EnvironmentCrash, their_traceback
from mfec.envs.environments import Step
from mfec.envs.spaces import fits, misfit
from mfec.errors import MfecError

MOST_WARNINGS = 5  # that are repeated: an environment can warn in every step
COLOURS = re.compile(r"\x1b\[[0-9;]*m")


class BadData(MfecError):
    """An observation or a reward that stops a run."""


@dataclass(frozen=True)
class Problem:
    """Something that is wrong with an environment."""

    sentence: str
    stops: bool
    """Whether a run would end there."""
    traceback: str = ""
    """Of a crash: the environment's own lines, without those that called it."""


class Bounds:
    """Watches for observations beyond the bounds of their space, which a run takes but nobody expects."""

    def __init__(self, space: spaces.Box | spaces.Discrete[Any]) -> None:
        self._space = space
        # A byte cannot lie beyond 0 and 255: pictures are not looked through.
        self._watched = isinstance(space, spaces.Box) and not _whole_range(space)
        self.beyond = 0
        self.first = ""

    def look(self, observations: NDArray[Any]) -> None:
        """Count an observation, (1, ...), that lies beyond; the first is kept in words."""
        if not self._watched:
            return
        assert isinstance(self._space, spaces.Box)
        outside = (observations[0] < self._space.low) | (observations[0] > self._space.high)
        if not outside.any():
            return
        self.beyond += 1
        if not self.first:
            at = tuple(np.argwhere(outside)[0])
            number, low, high = observations[0][at], self._space.low[at], self._space.high[at]
            where = f"number {', '.join(map(str, at))} of it" if at else "it"
            self.first = f"{where} is {number:.6g}, and the space goes from {low:.6g} to {high:.6g}"

    def problems(self) -> tuple[Problem, ...]:
        """A sentence, if there is anything to say."""
        if not self.beyond:
            return ()
        said = f"{self.beyond:,} observations lie outside their space, the first in that {self.first}"
        return (Problem(f"{said}. A run takes them, but whatever scales by the bounds is wrong", stops=False),)


def refuse_bad_observation(observations: NDArray[Any], space: spaces.Box | spaces.Discrete[Any]) -> None:
    """An error if what an environment shows, (1, ...), is nothing that an agent of this space takes."""
    if observations.shape[1:] != space.shape:
        raise BadData(f"an observation of the shape {observations.shape[1:]}, where the space has {space.shape}")
    if not fits(observations, space):
        raise BadData(misfit(observations, space))


def refuse_bad_step(step: Step, space: spaces.Box | spaces.Discrete[Any]) -> None:
    """An error if a step of one environment shows or pays what an agent cannot take."""
    refuse_bad_observation(step.observations, space)
    if step.rewards.shape != (1,):
        raise BadData(f"a reward of the shape {step.rewards.shape[1:]}, where a number is expected")
    if not np.isfinite(step.rewards[0]):
        raise BadData(f"the reward {step.rewards[0]}")


def problem_of(error: Exception, when: str) -> Problem:
    """What an exception in the middle of play means; when: `in step 3 of game 1`."""
    if isinstance(error, BadData):
        return Problem(f"the environment returned {error}, {when}", stops=True)
    if isinstance(error, EnvironmentCrash):
        return Problem(f"{error}, {when}", stops=True, traceback=their_traceback(error))
    said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return Problem(f"the environment returned what cannot be taken {when}: {said}", stops=True)


def problems_of_warnings(caught: Iterable[warnings.WarningMessage]) -> list[Problem]:
    """What was warned of while the environment was played, each once: Gymnasium's checks are among them."""
    kinds = (UserWarning, RuntimeWarning)
    said = [COLOURS.sub("", str(each.message)) for each in caught if issubclass(each.category, kinds)]
    sentences = dict.fromkeys(each.removeprefix("WARN: ") for each in said)
    return [Problem(f"a warning: {sentence}", stops=False) for sentence in list(sentences)[:MOST_WARNINGS]]


def _whole_range(space: spaces.Box) -> bool:
    if space.dtype.kind == "f":
        return bool(np.isneginf(space.low).all() and np.isposinf(space.high).all())
    if space.dtype.kind == "b":
        return True
    limits = np.iinfo(str(space.dtype))
    return bool((space.low == limits.min).all() and (space.high == limits.max).all())
