"""A small environment whose best action takes two frames to see, with a known best score: `Bars-v0`."""

from __future__ import annotations

import gymnasium
import numpy as np
from gymnasium import spaces

SIDE, PLACES, STEPS = 36, 6, 20
BEST = STEPS - 1  # there is nothing to say at the first step


class Bars(gymnasium.Env):
    """A bright bar moves to the left or to the right by chance, and around the edges; the action says which way.

    One picture shows where the bar is, two of them where it came from. A right answer gives a point, a wrong one ends
    the game.
    """

    observation_space = spaces.Box(0, 255, (SIDE, SIDE), np.uint8)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at, self.went, self.steps = int(self.np_random.integers(PLACES)), None, 0
        return self._observe(), {}

    def step(self, action):
        right, asked = action == self.went, self.went is not None
        self.went = int(self.np_random.integers(2))
        self.at = (self.at + 2 * self.went - 1) % PLACES
        self.steps += 1
        return self._observe(), float(asked and right), asked and not right, self.steps == STEPS, {}

    def _observe(self):
        picture = np.zeros((SIDE, SIDE), np.uint8)
        width = SIDE // PLACES
        picture[:, self.at * width : (self.at + 1) * width] = 255
        return picture


gymnasium.register("Bars-v0", entry_point=Bars)
