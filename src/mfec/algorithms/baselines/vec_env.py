"""Environments as Stable-Baselines3 wants them: stacked frames, clipped rewards, lives as episodes."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import VecEnv

from mfec.config import EpisodeEnd
from mfec.envs.environments import AutoresetEnvironments, Environments, EnvsError
from mfec.envs.spaces import fits, is_picture, misfit
from mfec.errors import MfecError
from mfec.interface import Game
from mfec.memory.identities import array_keys


class NotANumber(MfecError):
    """The environment returned something that is not a finite number."""


class EnvironmentsVecEnv(VecEnv):
    """The environments of a run as a vector environment that begins new games by itself.

    For learning, a lost life ends an episode and rewards are their signs, as published; games go on and are counted
    whole and unclipped (`finished`). A stack of frames begins with zeros in every episode.
    """

    def __init__(
        self,
        envs: Environments,
        *,
        frame_stack: int,
        clip_rewards: bool,
        episode: EpisodeEnd,
    ) -> None:
        if isinstance(envs, AutoresetEnvironments):
            raise EnvsError("games must begin when told to: make the vector with autoreset_mode=AutoresetMode.DISABLED")
        seen = envs.observation_space
        self.stacked = is_picture(seen)
        if self.stacked:
            assert isinstance(seen, spaces.Box)
            seen = spaces.Box(0, 255, (frame_stack, *seen.shape), np.uint8)
        elif isinstance(seen, spaces.Discrete):
            seen = spaces.Discrete(int(seen.n))
        super().__init__(envs.n, seen, spaces.Discrete(int(envs.action_space.n)))
        self.envs = envs
        self.frames = 0
        self.games = 0
        self.finished: deque[Game] = deque()  # games that nobody has taken from here yet
        self._clip_rewards = clip_rewards
        self._lives_end_episodes = episode == "life"
        self._lives = np.zeros(envs.n, np.int64)
        self._scores = np.zeros(envs.n)
        self._steps = np.zeros(envs.n, np.int64)
        self._stack = np.zeros((envs.n, *(seen.shape or ())), seen.dtype)

    def reset(self) -> NDArray[Any]:
        """Begin a game in every environment."""
        everyone = np.ones(self.num_envs, np.bool_)
        self._begin(everyone)
        return self._after_begin(everyone)

    def step_async(self, actions: NDArray[Any]) -> None:
        """Start a step in every environment."""
        chosen = np.asarray(actions, np.int64)
        for group, own in enumerate(self.envs.groups):
            self.envs.send(group, chosen[own])

    def step_wait(self) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], list[dict[str, Any]]]:
        """Wait for the step: observations, rewards, whether an episode ended, and how."""
        steps = [self.envs.receive(group) for group in range(len(self.envs.groups))]
        rewards = np.concatenate([step.rewards for step in steps])
        ended = np.concatenate([step.ended for step in steps])
        cut_off = np.concatenate([step.cut_off for step in steps])
        if not np.isfinite(rewards).all():
            raise self._not_a_number(f"the rewards {rewards.tolist()}")
        lives = np.concatenate([step.lives for step in steps])
        lives = np.where(lives < 0, self._lives, lives)  # where the environment does not tell
        lost = (lives < self._lives) & self._lives_end_episodes
        self._lives = lives
        done = ended | lost
        cut_off &= ~lost  # where a life is lost at the time limit, there is nothing after it to learn from
        terminal = self._after_step()
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for env_id in np.flatnonzero(done).tolist():
            infos[env_id] = {"terminal_observation": terminal[env_id], "TimeLimit.truncated": bool(cut_off[env_id])}
        self._count(rewards, ended)
        if ended.any():
            self._begin(ended)
        observations = self._after_begin(done) if done.any() else terminal
        signs = np.sign(rewards) if self._clip_rewards else rewards
        return observations, signs.astype(np.float32), done, infos

    def _count(self, rewards: NDArray[np.float64], ended: NDArray[np.bool_]) -> None:
        self._scores += rewards
        self._steps += 1
        for env_id in range(self.num_envs):
            self.frames += self.envs.frame_skip
            if ended[env_id]:
                self.games += 1
                length = int(self._steps[env_id]) * self.envs.frame_skip
                self.finished.append(Game(self.frames, self.games, float(self._scores[env_id]), length))

    def _begin(self, mask: NDArray[np.bool_]) -> None:
        lives = self.envs.begin(mask)
        self._lives = np.where(mask, np.maximum(lives, 0), self._lives)
        self._scores[mask] = 0.0
        self._steps[mask] = 0

    def _shown(self) -> NDArray[Any]:
        """What the environments show now, each without its stack: an array of its own."""
        space, shown = self.envs.observation_space, self.envs.observations
        if not fits(shown, space):
            raise self._not_a_number(misfit(shown, space))
        return np.array(shown - int(getattr(space, "start", 0)))

    def _not_a_number(self, what: str) -> NotANumber:
        """An error now, where networks would be ruined without a word."""
        return NotANumber(f"the environment returned {what} after frame {self.frames}; the last checkpoint is kept")

    def _after_step(self) -> NDArray[Any]:
        """What all environments show after a step, on top of what they showed before."""
        if not self.stacked:
            return self._shown()
        stack = np.empty_like(self._stack)
        stack[:, :-1] = self._stack[:, 1:]
        stack[:, -1] = self._shown()
        self._stack = stack
        return stack

    def _after_begin(self, mask: NDArray[np.bool_]) -> NDArray[Any]:
        """What all environments show, where those of the mask have begun an episode: there is nothing before it."""
        if not self.stacked:
            return self._shown()
        stack = self._stack.copy()  # the last one is still in use, as what was shown at the end
        stack[mask] = 0
        stack[mask, -1] = self._shown()[mask]
        self._stack = stack
        return stack

    # -- Storage ------------------------------------------------------------------------------------------------------

    def summary(self) -> dict[str, Any]:
        """What JSON takes of the games in progress."""
        return {
            "frames": self.frames,
            "games": self.games,
            "finished": [asdict(game) for game in self.finished],
            "history": self.envs.history(),
            "observations": array_keys(self.envs.observations).tolist(),
            "lives": self._lives.tolist(),
            "scores": self._scores.tolist(),
            "steps": self._steps.tolist(),
        }

    def tensors(self) -> dict[str, NDArray[Any]]:
        """The stacks of frames."""
        return {"stack": self._stack}

    def restore(self, saved: dict[str, Any], tensors: dict[str, NDArray[Any]]) -> None:
        """Bring the games back that were in progress."""
        self.envs.restore(saved["history"])
        if array_keys(self.envs.observations).tolist() != saved["observations"]:
            raise EnvsError(
                "repeating the actions of the games in progress led elsewhere: "
                "this is not the environment that was saved, or it is not deterministic under its seed"
            )
        self.frames, self.games = int(saved["frames"]), int(saved["games"])
        self.finished.clear()
        self.finished.extend(Game(**game) for game in saved["finished"])
        self._lives = np.array(saved["lives"], np.int64)
        self._scores = np.array(saved["scores"], np.float64)
        self._steps = np.array(saved["steps"], np.int64)
        self._stack = tensors["stack"].copy()

    # -- What the interface asks for besides --------------------------------------------------------------------------

    def close(self) -> None:
        """Nothing: the environments end with the process."""

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """An attribute of this vector, once for each environment."""
        return [getattr(self, attr_name, None)] * len(list(self._get_indices(indices)))

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Refused: environments have no attributes of their own."""
        raise NotImplementedError("the environments have no attributes of their own")

    def env_method(self, method_name: str, *method_args: Any, indices: Any = None, **method_kwargs: Any) -> list[Any]:
        """Refused: environments have no methods of their own."""
        raise NotImplementedError("the environments have no methods of their own")

    def env_is_wrapped(self, wrapper_class: type[Any], indices: Any = None) -> list[bool]:
        """No environment is wrapped."""
        return [False] * len(list(self._get_indices(indices)))

    def seed(self, seed: int | None = None) -> Sequence[int | None]:
        """Nothing: every game has its own seed, made of the run's."""
        return [None] * self.num_envs
