"""Games in progress: the environments' episodes, the steps that are in flight, and how all of it survives a stop."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfec.envs.environments import Environments, EnvsError, Step
from mfec.envs.flattening import NotInSpace
from mfec.envs.spaces import fits, misfit
from mfec.episode import Episode, episode_tensors, restore_episodes
from mfec.errors import MfecError
from mfec.interface import Steps
from mfec.memory.identities import array_keys

LARGEST = float(np.finfo(np.float32).max)  # return that the memory can hold


class BadEnvironmentData(MfecError):
    """The environment returned what no memory can hold: numbers that are not finite, or not of its spaces."""


@dataclass(frozen=True)
class Decision:
    """What was looked up and chosen for the m environments of a group."""

    states: NDArray[np.float32]  # (m, dim)
    keys: NDArray[np.uint64]  # (m, 2)
    actions: NDArray[np.int64]  # (m,)
    exact: NDArray[np.bool_]  # (m, n_actions): which values were exact matches
    values: NDArray[np.float32] | None = None  # (m,): the highest ones, where the agent keeps them


Outcome = tuple[Episode, NDArray[np.float32], NDArray[np.uint64], int, float, bool, int, NDArray[Any] | None]
"""Of an environment that made a step: its episode, state, key, action, reward, whether the game ended, lives (negative
where unknown), and what it showed when a time limit cut it off, (1, ...), if it did."""


@dataclass(frozen=True)
class Played:
    """A step that a group of environments has made."""

    steps: Steps  # what callbacks are told of it
    ended: NDArray[np.bool_]  # (m,): games
    actions: NDArray[np.int64]  # of the environments that made a step and did not just reset themselves
    exact: NDArray[np.bool_]  # which of the values that they were chosen by were exact matches
    outcomes: list[Outcome]
    values: NDArray[np.float32] | None = None  # the highest ones there, where the agent keeps them


class GamesInProgress:
    """The games of all environments, played group by group in turn.

    While one group makes its step, values are looked up for the next one. Whose turn it is and who is in flight
    depends on nothing but how many steps there were, so results do not depend on how long anything took.

    agent: the name of the class that plays them, for errors.
    """

    def __init__(self, agent: str) -> None:
        self.agent = agent
        self.envs: Environments | None = None
        self.episodes: list[Episode] = []
        self.begun = 0  # games, by all environments
        self.turn = 0  # the group that decides next
        self.in_flight: dict[int, Decision] = {}  # by group
        self._to_restore: dict[str, Any] | None = None

    def start(self, frames: int) -> None:
        """Begin games in all environments, or bring back those that were in progress when the agent was saved."""
        if self.envs is None:
            raise ValueError(f"this agent was loaded without an environment: {self.agent}.load(path, env=...)")
        envs, saved = self.envs, self._to_restore
        if saved is not None and saved["history"] is not None:
            self._refuse_other_environments(saved)
            envs.restore(saved["history"])
            self._refuse_bad_start(frames)
            if saved["observations"] is not None and array_keys(envs.observations).tolist() != saved["observations"]:
                raise EnvsError(
                    "repeating the actions of the games in progress led elsewhere: "
                    "this is not the environment that was saved, or it is not deterministic under its seed"
                )
            for group, decision in self.in_flight.items():
                envs.send(group, decision.actions)
        elif saved is not None or not self.episodes:
            if saved is not None and saved["episodes"]:
                warnings.warn("games in progress could not be brought back; new ones begin", stacklevel=3)
            self.episodes = [Episode() for _ in range(envs.n)]
            self.turn, self.in_flight = 0, {}
            self._to_restore = None
            self._begin(np.ones(envs.n, np.bool_), frames)
        self._to_restore = None

    def give_up(self) -> None:
        """Forget the games in progress; new ones begin with the next `start`, on seeds that none has had."""
        assert self.envs is not None
        self.envs.number_games_from(self.begun)
        self.episodes, self.turn, self.in_flight, self._to_restore = [], 0, {}, None

    def step(
        self, act: Callable[[NDArray[Any]], Decision], frames: int, meanwhile: Callable[[], None] | None = None
    ) -> Played | None:
        """The group whose turn it is acts, and the next one's step comes in; None where that one has not acted yet.

        A single group is its own next. After an error its step is still in flight, and comes in first. `meanwhile` is
        called between the two.
        """
        assert self.envs is not None
        if self.turn not in self.in_flight:
            decision = act(self.envs.shown(self.turn))
            self.envs.send(self.turn, decision.actions)
            self.in_flight[self.turn] = decision
            self.turn = (self.turn + 1) % len(self.envs.groups)
        if meanwhile is not None:
            meanwhile()
        if self.turn not in self.in_flight:
            return None
        decision, step = self._receive(frames)
        told = self._steps(decision, step, frames)
        outcomes = self._outcomes(decision, step)
        actions, exact, values = decision.actions, decision.exact, decision.values
        if len(outcomes) < len(actions):
            made = step.valid
            actions, exact, values = actions[made], exact[made], None if values is None else values[made]
        return Played(told, step.ended, actions, exact, outcomes, values)

    def _receive(self, frames: int) -> tuple[Decision, Step]:
        """The step of the group whose turn it is, which is in flight. Data that are no numbers are refused."""
        assert self.envs is not None
        try:
            step = self.envs.receive(self.turn)
        except Exception as error:
            self._to_restore = self.summary()  # who knows what such an environment has done of its step
            if isinstance(error, NotInSpace):
                raise BadEnvironmentData(f"the environment returned {error} after frame {frames}") from None
            raise
        episodes, space = self.episodes[self.envs.groups[self.turn]], self.envs.observation_space
        # No return is larger than the rewards together, whatever their signs; and nothing is above NaN.
        rewards = zip(step.rewards.tolist(), episodes, strict=True)
        good = all(abs(reward) + episode.magnitude <= LARGEST for reward, episode in rewards)
        shown = self.envs.shown(self.turn)
        if not good or not fits(shown, space) or not (step.observations is shown or fits(step.observations, space)):
            self.envs.retract(self.turn)
            # The environments are already behind the bad step. It stays in flight: brought back, they make it again.
            self._to_restore = self.summary()
            what = misfit(step.observations, space) if good else f"the rewards {step.rewards.tolist()}"
            raise BadEnvironmentData(f"the environment returned {what} after frame {frames}")
        for episode, lives, valid in zip(episodes, step.lives.tolist(), step.valid.tolist(), strict=True):
            if not valid and lives >= 0:  # an environment that reset itself tells the lives of its new game
                episode.lives = lives
        return self.in_flight.pop(self.turn), step

    def _steps(self, decision: Decision, step: Step, frames: int) -> Steps:
        """What the group whose turn it is has seen, done and got; taken before its episodes are told."""
        assert self.envs is not None
        own = self.envs.groups[self.turn]
        episodes = self.episodes[own]
        return Steps(
            frames, own, [episode.number for episode in episodes], [episode.steps for episode in episodes],
            None if self.envs.games is None else self.envs.games[own].tolist(), self.envs.frame_skip,
            self.envs.before(self.turn), decision.actions, step.rewards, step.ended,
            [0 <= now < episode.lives for now, episode in zip(step.lives.tolist(), episodes, strict=True)], step.valid,
        )  # fmt: skip

    def _outcomes(self, decision: Decision, step: Step) -> list[Outcome]:
        assert self.envs is not None
        cut_off = [step.observations[i : i + 1] if cut else None for i, cut in enumerate(step.cut_off.tolist())]
        # Lists, once for all environments: numbers taken one by one out of arrays cost more than all else in the loop.
        rows = zip(
            self.episodes[self.envs.groups[self.turn]], decision.states, decision.keys, decision.actions.tolist(),
            step.rewards.tolist(), step.ended.tolist(), step.lives.tolist(), cut_off, strict=True,
        )  # fmt: skip
        return [row for row, valid in zip(rows, step.valid.tolist(), strict=True) if valid]

    def begin_after(self, played: Played, frames: int) -> None:
        """Begin new games where this step of the group whose turn it is ended some."""
        assert self.envs is not None
        if True in played.ended.tolist():
            mask = np.zeros(self.envs.n, np.bool_)
            mask[self.envs.groups[self.turn]] = played.ended
            self._begin(mask, frames)

    def _begin(self, mask: NDArray[np.bool_], frames: int) -> None:
        assert self.envs is not None
        try:
            lives = self.envs.begin(mask)
        except Exception as error:
            self._begin_episodes(mask, np.zeros(self.envs.n, np.int64))
            # The games are counted as begun, whatever they show: brought back, they begin again.
            self._to_restore = {**(self.summary() or {}), "observations": None}
            if isinstance(error, NotInSpace):
                raise BadEnvironmentData(f"a game begins with {error}, after frame {frames}") from None
            raise
        self._begin_episodes(mask, lives)
        self._refuse_bad_start(frames)

    def _begin_episodes(self, mask: NDArray[np.bool_], lives: NDArray[np.int64]) -> None:
        for env_id in np.flatnonzero(mask):
            self.begun += 1
            # Lives that are not known yet are no lives: whatever the first step tells, none was lost in it.
            self.episodes[env_id] = Episode(lives=max(0, int(lives[env_id])), number=self.begun)

    def _refuse_bad_start(self, frames: int) -> None:
        assert self.envs is not None
        space = self.envs.observation_space
        for group in range(len(self.envs.groups)):
            shown = self.envs.shown(group)
            if not fits(shown, space):
                self._to_restore = {**(self.summary() or {}), "observations": None}
                raise BadEnvironmentData(f"a game begins with {misfit(shown, space)}, after frame {frames}")

    def _refuse_other_environments(self, saved: dict[str, Any]) -> None:
        assert self.envs is not None
        if len(saved["episodes"]) != self.envs.n:
            raise EnvsError(f"the agent played {len(saved['episodes'])} environments, these are {self.envs.n}")
        groups = _bounds(self.envs)
        if saved["groups"] != groups:
            raise EnvsError(f"the agent played environments in the groups {saved['groups']}, these are {groups}")

    # -- Storage ------------------------------------------------------------------------------------------------------

    def summary(self) -> dict[str, Any] | None:
        """What JSON takes of the games in progress; None where there are none."""
        if self._to_restore is not None or self.envs is None or not self.episodes:
            return self._to_restore
        return {
            "history": self.envs.history(),
            "observations": array_keys(self.envs.observations).tolist(),
            "episodes": [episode.summary() for episode in self.episodes],
            "groups": _bounds(self.envs),
            "begun": self.begun,
            "turn": self.turn,
            "in_flight": list(self.in_flight),
        }

    def tensors(self, dim: int) -> dict[str, NDArray[Any]]:
        """Steps of the episodes, and what was decided for the groups in flight."""
        tensors = episode_tensors(self.episodes, dim)
        for group, decision in self.in_flight.items():
            kept = {name: array for name, array in vars(decision).items() if array is not None}
            tensors |= {f"in_flight.{group}.{name}": array for name, array in kept.items()}
        return tensors

    def restore(self, saved: dict[str, Any] | None, tensors: dict[str, NDArray[Any]], *, ended: int) -> None:
        """Take over the games of which `summary()` and `tensors()` were kept; `start` brings the environments there.

        ended: games that had ended then.
        """
        self._to_restore = saved
        self.begun = saved["begun"] if saved else ended
        self.episodes = restore_episodes(saved, tensors)
        if saved is not None:
            self.turn = saved["turn"]
            names = Decision.__dataclass_fields__
            self.in_flight = {
                group: Decision(
                    **{name: tensors[key] for name in names if (key := f"in_flight.{group}.{name}") in tensors}
                )
                for group in saved["in_flight"]
            }


def _bounds(envs: Environments) -> list[list[int]]:
    return [[own.start, own.stop] for own in envs.groups]
