"""A random policy in many lanes: where the frames come from that a VAE is trained on."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfec.config import EnvConfig
from mfec.envs.lanes import make_lanes
from mfec.envs.names import make_env, shows_every_frame
from mfec.envs.pictures import FRAME_SKIP

LANES = 32


class RandomPlay:
    """What a random policy sees, observation by observation, the same for the same seed.

    An action is kept for four frames on Atari and in the Labyrinth, as any agent's is, and every one of the four is
    seen: a million frames are a million observations, as in the paper. Elsewhere an observation is a step.

    Args:
        env: name of the environment.
        config: its settings; `n_envs` does not matter.
        seed: makes games and actions.
    """

    def __init__(self, env: str, config: EnvConfig, seed: np.random.SeedSequence) -> None:
        every_frame = shows_every_frame(env) and config.frame_stack == 1
        config = EnvConfig(**{**vars(config), "n_envs": LANES})
        games, actions = seed.spawn(2)
        self._lanes = make_lanes(make_env(env, config, every_frame=every_frame), games)
        self._random = np.random.default_rng(actions)
        self._hold = FRAME_SKIP if every_frame else 1
        self._ticks = 0
        self._actions = np.zeros(self._lanes.n, np.int64)
        self.observation_space = self._lanes.observation_space
        self.frames_each = self._lanes.frame_skip  # frames that an observation stands for

    def look(self) -> NDArray[Any]:
        """What all lanes see next, (lanes, ...)."""
        lanes = self._lanes
        if self._ticks == 0:
            lanes.begin(np.ones(lanes.n, np.bool_))
        else:
            if (self._ticks - 1) % self._hold == 0:
                self._actions = self._random.integers(int(lanes.action_space.n), size=lanes.n)
            for group, own in enumerate(lanes.groups):
                lanes.send(group, self._actions[own])
            ended = np.concatenate([lanes.receive(group).ended for group in range(len(lanes.groups))])
            if ended.any():
                lanes.begin(ended)
        self._ticks += 1
        return lanes.observations

    def state(self) -> dict[str, Any]:
        """Where it is, as JSON takes it."""
        return {
            "ticks": self._ticks,
            "history": self._lanes.history(),
            "actions": self._actions.tolist(),
            "random": self._random.bit_generator.state,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from where it was."""
        self._lanes.restore(state["history"])
        self._ticks = state["ticks"]
        self._actions = np.array(state["actions"], np.int64)
        self._random.bit_generator.state = state["random"]
