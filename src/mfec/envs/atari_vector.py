"""Atari games side by side on ale-py's native vector environment, in two groups that can step in turn."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cache
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from mfec.config import EnvConfig
from mfec.envs.console import STARTS, import_ale, load, rom_of
from mfec.envs.pictures import FRAME_SKIP, frames_space

RELOAD_EVERY = 64  # games of one environment between two loads of its ROM, which take 100 ms each

Observation = NDArray[np.uint8]
Info = dict[str, NDArray[Any]]
Outcome = tuple[Observation, NDArray[Any], NDArray[Any], NDArray[Any], Info]


class AtariVector(VectorEnv[Observation, NDArray[np.int64], NDArray[Any]]):
    """Games side by side on ale-py's native vector environment; see `make_atari` for the settings.

    Autoreset is off: `reset(options={"reset_mask": mask})` begins new games in some environments. A `seed` loads the
    ROM again, which takes 100 ms; without one, the environment goes on with its own random numbers.

    The environments form two `groups` that can step in turn: `send` starts a step of one group and returns at once,
    `receive` waits for it. What an environment shows depends on its own seeds and actions only.

    The console's timer starts at random, and some games (Frostbite, Hero) then start in one of two states. Which one
    depends only on the number of resets since the ROM was loaded, so resets to the other state are skipped.
    """

    metadata = {"autoreset_mode": AutoresetMode.DISABLED}  # noqa: RUF012

    def __init__(
        self,
        game: str,
        n_envs: int,
        *,
        frame_stack: int = EnvConfig.frame_stack,
        sticky_actions: float = EnvConfig.sticky_actions,
        max_frames: int = EnvConfig.max_frames,
        frame_skip: int = FRAME_SKIP,
    ) -> None:
        """frame_skip: frames in a step. With 1, every frame is shown as the maximum of it and the one before."""
        EnvConfig(frame_stack=frame_stack, sticky_actions=sticky_actions, max_frames=max_frames)  # checks them
        if n_envs < 1:
            raise ValueError(f"n_envs must be at least 1, not {n_envs}")
        if frame_skip == 1 and frame_stack > 1:
            raise ValueError("stacked frames need the frames between them: frame_stack must be 1 where frame_skip is 1")
        import_ale()
        from ale_py.vector_env import AtariVectorEnv

        half = (n_envs + 1) // 2
        self.groups = [slice(0, half), slice(half, n_envs)] if n_envs > 1 else [slice(0, 1)]
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        self._natives = [
            AtariVectorEnv(
                rom_of(game),
                own.stop - own.start,
                num_threads=min(own.stop - own.start, cores),
                stack_num=frame_stack,
                frameskip=frame_skip,
                repeat_action_probability=sticky_actions,
                max_num_frames_per_episode=max_frames,
                reward_clipping=False,
                use_fire_reset=False,
                noop_max=STARTS,
            )
            for own in self.groups
        ]
        self.frame_skip = frame_skip
        self._last_frames: list[Observation | None] = [None] * len(self.groups)  # if a step is one frame
        self._in_flight = [False] * len(self.groups)
        self._shown: list[tuple[Observation, Info] | None] = [None] * len(self.groups)  # by each group in its last step
        self.num_envs = n_envs
        self.single_action_space = self._natives[0].single_action_space
        self.single_observation_space = frames_space(frame_stack)
        self.action_space = batch_space(self.single_action_space, n_envs)
        self.observation_space = batch_space(self.single_observation_space, n_envs)
        # Sticky actions draw from the emulator's random numbers in every frame, so only a new load repeats a game.
        self._skips = _skipped_resets(game)
        self.reseed_every = 1 if sticky_actions else min(RELOAD_EVERY, int((~self._skips).sum()))
        self._resets = np.zeros(n_envs, np.int64)  # since the environment's ROM was loaded

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Observation, Info]:
        """Begin games in the environments of `options["reset_mask"]`, by default in all of them.

        A group outside the mask is not touched, so it may be in flight; its last observations are returned. If a whole
        group in flight begins games, its step is dropped; if only a part of it does, that is an error.
        """
        mask = np.asarray((options or {}).get("reset_mask", np.ones(self.num_envs, np.bool_)), np.bool_)
        if isinstance(seed, int):
            seed = [seed + env_id for env_id in range(self.num_envs)]
        seeds = np.array([-1 if own is None else own for own in ([None] * self.num_envs if seed is None else seed)])
        if None in self._shown and not mask.all():
            raise gymnasium.error.ResetNeeded("the first reset begins games in all environments")
        for group, own in enumerate(self.groups):
            if mask[own].any():
                self._begin(group, mask[own], seeds[own])
        shown = [last for last in self._shown if last is not None]
        return np.concatenate([observations for observations, _ in shown]), _joined([info for _, info in shown])

    def step(self, actions: NDArray[np.int64]) -> Outcome:
        """Repeat an action for `frame_skip` frames, by default four, in every environment."""
        for group, own in enumerate(self.groups):
            self.send(group, actions[own])
        parts = [self.receive(group) for group in range(len(self.groups))]
        observations, rewards, terminated, truncated = (np.concatenate([part[i] for part in parts]) for i in range(4))
        return observations, rewards, terminated, truncated, _joined([part[4] for part in parts])

    def send(self, group: int, actions: NDArray[np.int64]) -> None:
        """Start a step of the environments `groups[group]`."""
        if self._in_flight[group]:
            raise gymnasium.error.AlreadyPendingCallError(f"the last step of group {group} was not received", "send")
        self._natives[group].send(np.asarray(actions, np.int64))
        self._in_flight[group] = True

    def receive(self, group: int) -> Outcome:
        """Wait for the step of the environments `groups[group]`; returns what `step` does, for these."""
        if not self._in_flight[group]:
            raise gymnasium.error.NoAsyncCallError(f"group {group} was sent no actions", "receive")
        # Each call has its own arrays: later steps do not write into them.
        observations, rewards, terminated, truncated, info = self._natives[group].recv()
        self._in_flight[group] = False
        observations, info = self._show(group, observations, info)
        return observations, rewards.astype(np.float64), terminated, truncated, info

    def _begin(self, group: int, mask: NDArray[np.bool_], seeds: NDArray[np.int64]) -> None:
        if self._in_flight[group]:
            if not mask.all():
                raise gymnasium.error.AlreadyPendingCallError(f"group {group} is making a step", "reset")
            self.receive(group)
        resets, begun = self._resets[self.groups[group]], mask
        while mask.any():
            observations, info = self._natives[group].reset(seed=seeds[mask], options={"reset_mask": mask})
            resets[mask] = np.where(seeds[mask] >= 0, 1, resets[mask] + 1)
            mask = mask & self._skips[(resets - 1) % len(self._skips)]
            seeds = np.full_like(seeds, -1)
        self._show(group, observations, info, begun)

    def _show(
        self, group: int, observations: Observation, info: Info, begun: NDArray[np.bool_] | None = None
    ) -> tuple[Observation, Info]:
        observations = observations.reshape(-1, *(self.single_observation_space.shape or ()))
        if self.frame_skip == 1:
            observations = self._with_last_frame(group, observations, begun)
        info = {**info, "env_id": info["env_id"] + self.groups[group].start}
        self._shown[group] = observations, info
        return observations, info

    def _with_last_frame(self, group: int, frames: Observation, begun: NDArray[np.bool_] | None) -> Observation:
        last, self._last_frames[group] = self._last_frames[group], frames
        if begun is None:
            return np.maximum(frames, last)  # type: ignore[arg-type]
        shown = self._shown[group]
        return frames if shown is None else np.where(begun[:, None, None], frames, shown[0])


@cache
def _skipped_resets(game: str) -> NDArray[np.bool_]:
    """For each reset since the ROM was loaded, whether it leads to another state than the first one."""
    ale = load(game)
    states: list[bytes] = []
    for _ in range(2 * RELOAD_EVERY):
        # A reset takes 4 ms. No game of ale-py 0.12 whose first 64 are alike has another state in the next 64.
        if len(states) == RELOAD_EVERY and len(set(states)) == 1:
            break
        ale.reset_game()
        states.append(bytes(ale.getRAM()))
    return np.array([state != states[0] for state in states])


def _joined(parts: list[Info]) -> Info:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
