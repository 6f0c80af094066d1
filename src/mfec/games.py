"""Games in progress: the lanes' episodes, the steps that are in flight, and how all of it survives a stop."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfec.callback import Steps
from mfec.envs.lanes import LaneError, Lanes, Step
from mfec.envs.spaces import fits, misfit
from mfec.episode import Episode, episode_tensors, restore_episodes
from mfec.errors import MfecError
from mfec.memory.identities import array_keys

LARGEST = float(np.finfo(np.float32).max)  # return that the memory can hold


class BadEnvironmentData(MfecError):
    """The environment returned what no memory can hold: numbers that are not finite, or not of its spaces."""


@dataclass(frozen=True)
class Decision:
    """What was looked up and chosen for the m lanes of a group."""

    states: NDArray[np.float32]  # (m, dim)
    keys: NDArray[np.uint64]  # (m, 2)
    actions: NDArray[np.int64]  # (m,)
    exact: NDArray[np.bool_]  # (m, n_actions): which values were exact matches


Outcome = tuple[Episode, NDArray[np.float32], NDArray[np.uint64], int, float, bool, int, NDArray[Any] | None]
"""Of an environment that made a step: its episode, state, key, action, reward, whether the game ended, lives (negative
where unknown), and what it showed when a time limit cut it off, (1, ...), if it did."""


@dataclass(frozen=True)
class Played:
    """A step that a group of lanes has made."""

    steps: Steps  # what callbacks are told of it
    ended: NDArray[np.bool_]  # (m,): games
    actions: NDArray[np.int64]  # of the lanes that made a step and did not just reset themselves
    exact: NDArray[np.bool_]  # which of the values that they were chosen by were exact matches
    outcomes: list[Outcome]


class GamesInProgress:
    """The games of all lanes, played group by group in turn.

    While one group makes its step, values are looked up for the next one. Whose turn it is and who is in flight
    depends on nothing but how many steps there were, so results do not depend on how long anything took.
    """

    def __init__(self) -> None:
        self.lanes: Lanes | None = None
        self.episodes: list[Episode] = []
        self.begun = 0  # games, by all lanes
        self.turn = 0  # the group that decides next
        self.in_flight: dict[int, Decision] = {}  # by group
        self._to_restore: dict[str, Any] | None = None

    def start(self, frames: int) -> None:
        """Begin games in all lanes, or bring back those that were in progress when the agent was saved."""
        if self.lanes is None:
            raise ValueError("this agent was loaded without an environment: MFEC.load(path, env=...)")
        lanes, saved = self.lanes, self._to_restore
        if saved is not None and saved["history"] is not None:
            self._refuse_other_lanes(saved)
            lanes.restore(saved["history"])
            self._refuse_bad_start(frames)
            if saved["observations"] is not None and array_keys(lanes.observations).tolist() != saved["observations"]:
                raise LaneError(
                    "repeating the actions of the games in progress led elsewhere: "
                    "this is not the environment that was saved, or it is not deterministic under its seed"
                )
            for group, decision in self.in_flight.items():
                lanes.send(group, decision.actions)
        elif saved is not None or not self.episodes:
            if saved is not None and saved["lanes"]:
                warnings.warn("games in progress could not be brought back; new ones begin", stacklevel=3)
            self.episodes = [Episode() for _ in range(lanes.n)]
            self.turn, self.in_flight = 0, {}
            self._to_restore = None
            self._begin(np.ones(lanes.n, np.bool_), frames)
        self._to_restore = None

    def step(self, act: Callable[[NDArray[Any]], Decision], frames: int) -> Played | None:
        """The group whose turn it is acts, and the next one's step comes in; None where that one has not acted yet.

        A single group is its own next. After an error its step is still in flight, and comes in first.
        """
        assert self.lanes is not None
        if self.turn not in self.in_flight:
            decision = act(self.lanes.shown(self.turn))
            self.lanes.send(self.turn, decision.actions)
            self.in_flight[self.turn] = decision
            self.turn = (self.turn + 1) % len(self.lanes.groups)
        if self.turn not in self.in_flight:
            return None
        decision, step = self._receive(frames)
        told = self._steps(decision, step, frames)
        made = step.valid
        return Played(told, step.ended, decision.actions[made], decision.exact[made], self._outcomes(decision, step))

    def _receive(self, frames: int) -> tuple[Decision, Step]:
        """The step of the group whose turn it is, which is in flight. Data that are no numbers are refused."""
        assert self.lanes is not None
        try:
            step = self.lanes.receive(self.turn)
        except Exception:
            self._to_restore = self.summary()  # who knows what such an environment has done of its step
            raise
        episodes, space = self.episodes[self.lanes.groups[self.turn]], self.lanes.observation_space
        # No return is larger than the rewards together, whatever their signs; and nothing is above NaN.
        rewards = zip(step.rewards.tolist(), episodes, strict=True)
        good = all(abs(reward) + episode.magnitude <= LARGEST for reward, episode in rewards)
        if not good or not fits(self.lanes.shown(self.turn), space) or not fits(step.observations, space):
            self.lanes.retract(self.turn)
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
        assert self.lanes is not None
        own = self.lanes.groups[self.turn]
        episodes = self.episodes[own]
        return Steps(
            frames, own, [episode.number for episode in episodes], [episode.steps for episode in episodes],
            None if self.lanes.games is None else self.lanes.games[own].tolist(), self.lanes.frame_skip,
            self.lanes.before(self.turn), decision.actions, step.rewards, step.ended,
            [0 <= now < episode.lives for now, episode in zip(step.lives.tolist(), episodes, strict=True)], step.valid,
        )  # fmt: skip

    def _outcomes(self, decision: Decision, step: Step) -> list[Outcome]:
        assert self.lanes is not None
        cut_off = [step.observations[i : i + 1] if cut else None for i, cut in enumerate(step.cut_off.tolist())]
        # Lists, once for all lanes: numbers taken one by one out of arrays cost more than all else in the loop.
        rows = zip(
            self.episodes[self.lanes.groups[self.turn]], decision.states, decision.keys, decision.actions.tolist(),
            step.rewards.tolist(), step.ended.tolist(), step.lives.tolist(), cut_off, strict=True,
        )  # fmt: skip
        return [row for row, valid in zip(rows, step.valid.tolist(), strict=True) if valid]

    def begin_after(self, played: Played, frames: int) -> None:
        """Begin new games where this step of the group whose turn it is ended some."""
        assert self.lanes is not None
        if played.ended.any():
            mask = np.zeros(self.lanes.n, np.bool_)
            mask[self.lanes.groups[self.turn]] = played.ended
            self._begin(mask, frames)

    def _begin(self, mask: NDArray[np.bool_], frames: int) -> None:
        assert self.lanes is not None
        lives = self.lanes.begin(mask)
        for lane in np.flatnonzero(mask):
            self.begun += 1
            # Lives that are not known yet are no lives: whatever the first step tells, none was lost in it.
            self.episodes[lane] = Episode(lives=max(0, int(lives[lane])), number=self.begun)
        self._refuse_bad_start(frames)

    def _refuse_bad_start(self, frames: int) -> None:
        assert self.lanes is not None
        space = self.lanes.observation_space
        for group in range(len(self.lanes.groups)):
            shown = self.lanes.shown(group)
            if not fits(shown, space):
                self._to_restore = {**(self.summary() or {}), "observations": None}
                raise BadEnvironmentData(f"a game begins with {misfit(shown, space)}, after frame {frames}")

    def _refuse_other_lanes(self, saved: dict[str, Any]) -> None:
        assert self.lanes is not None
        if len(saved["lanes"]) != self.lanes.n:
            raise LaneError(f"the agent played {len(saved['lanes'])} environments, these are {self.lanes.n}")
        # Without groups in the checkpoint, it is from a time when all lanes stepped together: all groups are at rest.
        groups = _bounds(self.lanes)
        if saved.get("groups", groups) != groups:
            raise LaneError(f"the agent played environments in the groups {saved['groups']}, these are {groups}")

    # -- Storage ------------------------------------------------------------------------------------------------------

    def summary(self) -> dict[str, Any] | None:
        """What JSON takes of the games in progress; None where there are none."""
        if self._to_restore is not None or self.lanes is None or not self.episodes:
            return self._to_restore
        return {
            "history": self.lanes.history(),
            "observations": array_keys(self.lanes.observations).tolist(),
            "lanes": [episode.summary() for episode in self.episodes],
            "groups": _bounds(self.lanes),
            "begun": self.begun,
            "turn": self.turn,
            "in_flight": list(self.in_flight),
        }

    def tensors(self, dim: int) -> dict[str, NDArray[Any]]:
        """Steps of the episodes, and what was decided for the groups in flight."""
        tensors = episode_tensors(self.episodes, dim)
        for group, decision in self.in_flight.items():
            tensors |= {f"in_flight.{group}.{name}": array for name, array in vars(decision).items()}
        return tensors

    def restore(self, saved: dict[str, Any] | None, tensors: dict[str, NDArray[Any]], *, ended: int) -> None:
        """Take over the games of which `summary()` and `tensors()` were kept; `start` brings the lanes there.

        ended: games that had ended then.
        """
        self._to_restore = saved
        in_progress = len(saved["lanes"]) if saved else 0
        self.begun = (saved or {}).get("begun", ended + in_progress)  # checkpoints of 0.1 have no such number
        self.episodes = restore_episodes(saved, tensors)
        if saved is not None:
            self.turn = saved.get("turn", 0)
            names = Decision.__dataclass_fields__
            self.in_flight = {
                group: Decision(**{name: tensors[f"in_flight.{group}.{name}"] for name in names})
                for group in saved.get("in_flight", [])
            }


def _bounds(lanes: Lanes) -> list[list[int]]:
    return [[own.start, own.stop] for own in lanes.groups]
