"""A small environment that shows pictures, 60x60 grey pixels, under two names: `Dots-v0` and `MoreDots-v0`."""

from __future__ import annotations

import gymnasium
import numpy as np
from gymnasium import spaces

SIDE = 60


class Dots(gymnasium.Env):
    """A dot on a dark field that the actions move; its brightness tells the last action, the corner the step."""

    observation_space = spaces.Box(0, 255, (SIDE, SIDE), np.uint8)
    action_space = spaces.Discrete(4)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = self.np_random.integers(SIDE - 10, size=2)
        self.left = int(self.np_random.integers(5, 60))
        self.steps = 0
        return self._observe(0), {}

    def step(self, action):
        self.at = (self.at + [(3, 0), (-3, 0), (0, 3), (0, -3)][action]) % (SIDE - 10)
        self.steps += 1
        return self._observe(int(action)), 1.0, self.steps >= self.left, False, {}

    def _observe(self, action):
        picture = np.zeros((SIDE, SIDE), np.uint8)
        row, column = self.at
        picture[row : row + 10, column : column + 10] = 100 + 10 * action
        picture[-1, -1] = self.steps
        return picture


for name in ("Dots-v0", "MoreDots-v0"):
    gymnasium.register(name, entry_point=Dots)
