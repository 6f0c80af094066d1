"""A random policy in many environments, which makes the frames that a VAE is trained on."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfec.config import EnvConfig
from mfec.envs.environments import make_environments
from mfec.envs.names import make_env, shows_every_frame
from mfec.envs.pictures import FRAME_SKIP

N_ENVS = 32


class RandomPlay:
    """The observations of a random policy, the same for the same seed.

    On Atari and in the Labyrinth an action is repeated for four frames, as that of an agent is, and each of the four is
    an observation: a million frames are a million observations, as in the paper. Elsewhere a step is an observation.

    Args:
        env: name of the environment.
        config: its settings; `n_envs` does not matter.
        seed: makes games and actions.
    """

    def __init__(self, env: str, config: EnvConfig, seed: np.random.SeedSequence) -> None:
        every_frame = shows_every_frame(env, config) and config.frame_stack == 1
        config = EnvConfig(**{**vars(config), "n_envs": N_ENVS})
        games, actions = seed.spawn(2)
        self._envs = make_environments(make_env(env, config, every_frame=every_frame), games)
        self._random = np.random.default_rng(actions)
        self._hold = FRAME_SKIP if every_frame else 1
        self._ticks = 0
        self._actions = np.zeros(self._envs.n, np.int64)
        self.observation_space = self._envs.observation_space
        self.frames_each = self._envs.frame_skip  # frames that an observation stands for

    def look(self) -> NDArray[Any]:
        """The next observation of every environment, (N_ENVS, ...)."""
        envs = self._envs
        if self._ticks == 0:
            envs.begin(np.ones(envs.n, np.bool_))
        else:
            if (self._ticks - 1) % self._hold == 0:
                self._actions = self._random.integers(int(envs.action_space.n), size=envs.n)
            for group, own in enumerate(envs.groups):
                envs.send(group, self._actions[own])
            ended = np.concatenate([envs.receive(group).ended for group in range(len(envs.groups))])
            if ended.any():
                envs.begin(ended)
        self._ticks += 1
        return envs.observations

    def state(self) -> dict[str, Any]:
        """What `restore` needs, as JSON takes it."""
        return {
            "ticks": self._ticks,
            "history": self._envs.history(),
            "actions": self._actions.tolist(),
            "random": self._random.bit_generator.state,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from what `state` returned."""
        self._envs.restore(state["history"])
        self._ticks = state["ticks"]
        self._actions = np.array(state["actions"], np.int64)
        self._random.bit_generator.state = state["random"]
