"""Many players side by side, stepped by compiled code on all cores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.utils.seeding import np_random
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from mfec.envs.labyrinth.env import checked_frame_skip, episode_seed, level_of
from mfec.envs.labyrinth.physics import ACTIONS
from mfec.envs.labyrinth.simulation import LOOK, Simulation
from mfec.envs.pictures import FRAME_SKIP, SIDE, frames_space
from mfec.threads import Work, n_threads

SHARE = 4  # environments that a thread steps in 0.15 ms; waking one for less is not worth it

Observation = NDArray[np.uint8]
Outcome = tuple[Observation, NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]


class LabyrinthVector(VectorEnv[Observation, NDArray[np.int64], NDArray[Any]]):
    """Players of one level side by side; see `Labyrinth`, which each of them equals bit for bit.

    By default an ended episode is followed by the next one in the next step, as everywhere in Gymnasium. With
    `AutoresetMode.DISABLED`, `reset(options={"reset_mask": mask})` begins new ones, and the environments form two
    `groups` that can step in turn: `send` starts a step of one group and returns at once, `receive` waits for it.
    """

    def __init__(
        self,
        level: str,
        num_envs: int,
        *,
        frame_skip: int = FRAME_SKIP,
        autoreset_mode: AutoresetMode = AutoresetMode.NEXT_STEP,
    ) -> None:
        if num_envs < 1:
            raise ValueError(f"num_envs must be at least 1, not {num_envs}")
        if autoreset_mode == AutoresetMode.SAME_STEP:
            raise ValueError("the Labyrinth begins episodes in the next step or when told to, not in the same step")
        half = (num_envs + 1) // 2
        self.groups = [slice(0, half), slice(half, num_envs)] if num_envs > 1 else [slice(0, 1)]
        self.metadata = {"autoreset_mode": autoreset_mode}
        self.num_envs = num_envs
        self.frame_skip = checked_frame_skip(frame_skip)
        self._by_itself = autoreset_mode == AutoresetMode.NEXT_STEP
        self._simulation = Simulation(level_of(level), num_envs)
        self._random = [np_random()[0] for _ in range(num_envs)]
        self._observations: Observation | None = None  # the last of each environment
        self._ended = np.zeros(num_envs, np.bool_)
        self._in_flight: dict[int, tuple[slice, Work, Outcome]] = {}  # by group
        self.single_action_space = spaces.Discrete(len(ACTIONS))
        self.single_observation_space = frames_space()
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.observation_space = batch_space(self.single_observation_space, num_envs)

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin episodes in the environments of `options["reset_mask"]`, by default in all of them.

        The others may be in flight; their last observations are returned.
        """
        mask = np.asarray((options or {}).get("reset_mask", np.ones(self.num_envs, np.bool_)), np.bool_)
        if isinstance(seed, int):
            seed = [seed + env_id for env_id in range(self.num_envs)]
        if self._observations is None:
            if not mask.all():
                raise gymnasium.error.ResetNeeded("the first reset begins episodes in all environments")
            self._observations = np.zeros((self.num_envs, SIDE, SIDE), np.uint8)
        begun = [group for group in self._in_flight if mask[self.groups[group]].any()]
        for group in begun:
            if not mask[self.groups[group]].all():
                raise gymnasium.error.AlreadyPendingCallError(f"group {group} is making a step", "reset")
        for group in begun:
            self.receive(group)
        for env_id in np.flatnonzero(mask).tolist():
            if seed is not None and seed[env_id] is not None:
                self._random[env_id] = np_random(seed[env_id])[0]
            self._begin(env_id)
            self._observations[env_id] = self._simulation.look(env_id)
        return self._observations.copy(), {}

    def step(self, actions: NDArray[np.int64]) -> Outcome:
        """Repeat an action for four frames in every environment, or begin the next episode where the last one ended."""
        if self._in_flight:
            raise gymnasium.error.AlreadyPendingCallError("a group is making a step", "step")
        return self._finish(*self._start(slice(0, self.num_envs), actions))

    def send(self, group: int, actions: NDArray[np.int64]) -> None:
        """Start a step of the environments `groups[group]`."""
        if group in self._in_flight:
            raise gymnasium.error.AlreadyPendingCallError(f"the last step of group {group} was not received", "send")
        self._in_flight[group] = self._start(self.groups[group], actions)

    def receive(self, group: int) -> Outcome:
        """Wait for the step of the environments `groups[group]`; returns what `step` does, for these."""
        if group not in self._in_flight:
            raise gymnasium.error.NoAsyncCallError(f"group {group} was sent no actions", "receive")
        return self._finish(*self._in_flight.pop(group))

    def _start(self, own: slice, actions: NDArray[np.int64]) -> tuple[slice, Work, Outcome]:
        if self._observations is None:
            raise gymnasium.error.ResetNeeded("reset begins episodes, which come before the first step")
        n = own.stop - own.start
        given = np.asarray(actions)
        if given.shape != (n,) or given.dtype.kind not in "iu" or ((given < 0) | (given >= len(ACTIONS))).any():
            raise ValueError(f"{n} actions in 0..{len(ACTIONS) - 1} are needed, not {given.tolist()}")
        actions = given.astype(np.int64)
        if self._by_itself:
            for env_id in (own.start + np.flatnonzero(self._ended[own])).tolist():
                self._begin(env_id)
                actions[env_id - own.start] = LOOK
        pictures, rewards = np.empty((n, SIDE, SIDE), np.uint8), np.empty(n)
        terminated, truncated = np.empty(n, np.bool_), np.empty(n, np.bool_)
        # Two shares for each thread, so that a thread that is held up leaves its second share to another.
        shares = min(2 * n_threads(), -(-n // SHARE))
        bounds = [n * share // shares for share in range(shares + 1)]

        def step_share(share: int) -> None:
            part = slice(bounds[share], bounds[share + 1])
            envs = slice(own.start + part.start, own.start + part.stop)
            written = rewards[part], terminated[part], truncated[part], pictures[part]
            self._simulation.step(envs, actions[part], self.frame_skip, *written)

        work = Work(step_share, shares, helpers=min(n_threads() - 1, shares))
        return own, work, (pictures, rewards, terminated, truncated, {})

    def _finish(self, own: slice, work: Work, outcome: Outcome) -> Outcome:
        work.finish()
        assert self._observations is not None
        self._observations[own] = outcome[0]
        self._ended[own] = outcome[2] | outcome[3]
        return outcome

    def _begin(self, env_id: int) -> None:
        self._simulation.begin(env_id, episode_seed(self._random[env_id]))
        self._ended[env_id] = False
