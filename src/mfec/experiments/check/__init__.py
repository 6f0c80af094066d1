"""`mfec check`: a minute of play in an environment, what it shows about it, and what to expect there."""

from __future__ import annotations

import math
import shlex
import sys
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, Literal, cast

import numpy as np

from mfec.algorithms import RunConfig
from mfec.canonical_names import canonical_name
from mfec.command_line import arguments_of
from mfec.config import EnvConfig
from mfec.embeddings import resolve_embedding
from mfec.envs import make_env
from mfec.envs.crashes import EnvironmentCrash, TheirCode
from mfec.experiments.check.determinism import determinism_of
from mfec.experiments.check.faults import Problem, problem_of, problems_of_warnings
from mfec.experiments.check.learning import FRAMES, learn, memory_of
from mfec.experiments.check.measured import (
    Spaces,
    games_of,
    repeats_of,
    rewards_of,
    spaces_of,
)
from mfec.experiments.check.play import Limit, Maker, Player
from mfec.experiments.check.rules import Measured, advice, settings_of
from mfec.experiments.check.sentences import sentences

__all__ = ["Check", "check_environment"]

SECONDS = 60.0
# Where a step takes microseconds a minute would be a million of them, and tell nothing that these do not.
MOST_STEPS = 100_000
RESETS = 200  # of thirty starts, each is seen with a chance of 0.999
# Shares of the time. Repeating takes as long as what is repeated, three times; the rest is MFEC's.
RESETS_SHARE, RANDOM_SHARE, REPLAY_SHARE, MFEC_SHARE = 0.05, 0.35, 0.2, 0.4

Verdict = Literal["good", "fair", "poor", "fails"]


@dataclass(frozen=True)
class Check:
    """What a minute of play shows about an environment; it prints as a page."""

    env: str
    spaces: Spaces | None
    """None where the environment cannot even be made."""
    measured: Measured | None = None
    """None where play never came so far."""
    problems: tuple[Problem, ...] = ()
    verdict: Verdict = "fails"
    """How well the method fits, or that a run would fail."""
    reasons: tuple[str, ...] = ()
    """Behind the verdict, the worst first."""
    settings: tuple[tuple[str, Any], ...] = ()
    """To begin with, where they differ from the defaults."""
    command: str = ""
    """The command line with these settings; empty where a run would fail."""

    def as_json(self) -> dict[str, Any]:
        """Everything, as JSON takes it."""
        parts = {**asdict(self), "settings": dict(self.settings)}
        if self.measured:
            del parts["measured"]["spaces"]
            own = self.measured.determinism
            parts["measured"]["determinism"] |= {
                name: getattr(own, name) for name in ("repeatable", "chance", "chance_share", "elsewhere_share")
            }
        return cast("dict[str, Any]", _without_nan(parts))

    def __str__(self) -> str:
        return "\n".join(f"{label}: {text}" for label, text in sentences(self))


def check_environment(
    env: str | Maker,
    environment: EnvConfig | None = None,
    *,
    seconds: float = SECONDS,
    frames: int | None = None,
    seed: int = 0,
    tell: Callable[[str], None] = lambda _: None,
) -> Check:
    """Play in an environment for about a minute, at random and with MFEC, and report what that shows.

    Args:
        env: its name, or what makes one: a class or a function without arguments.
        environment: its settings, as for `mfec train`.
        seconds: of play in all; fast environments need fewer.
        frames: of random play, and as many of MFEC, instead of seconds: the same report each time, but for its speeds.
        seed: makes the games and the actions.
        tell: is given a sentence when another part begins.
    """
    if not seconds > 0.0 or (frames is not None and frames < 1):
        raise ValueError("a check needs some play: seconds must be above 0, and frames at least 1")
    config = environment or EnvConfig()
    if not isinstance(env, str) and not callable(env):
        raise TypeError(
            f"a check makes several environments: give it a name or what makes one, such as a function, not {env}"
        )
    name = canonical_name(env) if isinstance(env, str) else _name_of(env)
    # One environment tells what there is to tell of them all.
    make = partial(make_env, name, replace(config, n_envs=1)) if isinstance(env, str) else env
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        check = _Checking(name, cast("Maker", make), config, seconds, frames, seed, tell).check()
    return replace(check, problems=(*check.problems, *problems_of_warnings(caught)))


class _Checking:
    """The parts of a check, one after the other."""

    def __init__(
        self,
        name: str,
        make: Maker,
        config: EnvConfig,
        seconds: float,
        frames: int | None,
        seed: int,
        tell: Callable[[str], None],
    ) -> None:
        self.name, self.make, self.tell = name, make, tell
        self.run = RunConfig(name, FRAMES, seed, environment=config)  # refuses senseless numbers
        self.seconds = seconds if frames is None else math.inf
        self.frames = frames
        self.games_seed, self.actions_seed = np.random.SeedSequence(seed).spawn(2)

    def check(self) -> Check:
        """All of it, or as much as the environment takes."""
        try:
            with TheirCode(self.name):  # it lets sentences of ours pass, such as that of an unknown name
                player = Player(self.make, self.games_seed)
        except EnvironmentCrash as crash:
            return Check(self.name, None, problems=(problem_of(crash, "when it is made"),))
        run = self.run
        embedding, dim = resolve_embedding("auto", player.envs.observation_space, run.agent.dim)
        spaces = spaces_of(player, embedding, dim)
        try:
            measured = self._measure(player, spaces)
        except Exception as error:
            return Check(self.name, spaces, problems=(problem_of(error, player.where),))
        run = replace(run, agent=replace(_tuned(run), **settings_of(measured)))
        measured = replace(measured, memory=memory_of(run, player.env, spaces, measured.repeats))
        problems = player.bounds.problems()
        self.tell("playing with MFEC")
        try:
            learning = learn(run, self.make(), steps=self._steps(spaces), seconds=MFEC_SHARE * self.seconds)
        except Exception as error:
            return Check(self.name, spaces, measured, (problem_of(error, "while MFEC played"), *problems))
        measured = replace(measured, learning=learning)
        fit, reasons = advice(measured)
        defaults = vars(run.kind.defaults(self.name))
        chosen = tuple((name, value) for name, value in vars(run.agent).items() if value != defaults[name])
        return Check(
            self.name, spaces, measured, problems, fit, reasons, chosen, shlex.join(["mfec", *arguments_of(run)])
        )

    def _measure(self, player: Player, spaces: Spaces) -> Measured:
        self.tell("beginning games")
        player.begin_often(RESETS, self._limit(RESETS_SHARE))
        self.tell("playing at random")
        player.play(np.random.default_rng(self.actions_seed), self._limit(RANDOM_SHARE, self._steps(spaces)))
        self.tell("playing the same again")
        determinism = determinism_of(player, self.make, self.games_seed, self._limit(REPLAY_SHARE))
        repeats = repeats_of(player.games)
        games = games_of(player.games, player.env, spaces.frame_skip)
        return Measured(
            spaces,
            determinism,
            repeats,
            games,
            rewards_of(player.games),
            player.steps / player.step_seconds,
            memory_of(self.run, player.env, spaces, repeats),
        )

    def _steps(self, spaces: Spaces) -> int:
        return MOST_STEPS if self.frames is None else -(-self.frames // spaces.frame_skip)

    def _limit(self, share: float, steps: int = sys.maxsize) -> Limit:
        return Limit(steps=steps, seconds=share * self.seconds)


def _name_of(make: Maker) -> str:
    """What makes an environment, as a name; `ENV` for what no other process could find under one."""
    name = getattr(make, "__qualname__", "<nameless>")
    return "ENV" if "<" in name else f"{make.__module__}:{name}"


def _tuned(run: RunConfig) -> Any:
    return run.kind.defaults(run.env, "tuned")


def _without_nan(value: Any) -> Any:
    """JSON has no NaN."""
    if isinstance(value, dict):
        return {name: _without_nan(part) for name, part in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value
