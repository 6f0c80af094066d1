"""A module of environments as a user writes it, put beside the command in tests."""

CORRIDOR = '''
import gymnasium
import numpy as np
from gymnasium import spaces


class Corridor(gymnasium.Env):
    """Walk to the end; door: step, over all games, at which the environment fails, and in what."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 4}

    def __init__(self, length=6, door=0, fails="step", render_mode=None):
        if length < 2:
            raise ValueError("too short")
        self.length, self.door, self.fails, self.render_mode = length, door, fails, render_mode
        self.observation_space = spaces.Dict({"at": spaces.Discrete(length), "light": spaces.MultiBinary(2)})
        self.action_space = spaces.MultiDiscrete([2, 2])
        self.steps = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        if self.fails == "reset" and self.steps >= self.door > 0:
            self.open()
        self.at, self.t = int(self.np_random.integers(2)), 0
        return self.observe(), {}

    def step(self, action):
        self.steps += 1
        if self.fails == "step" and self.steps == self.door:
            self.open()
        self.t += 1
        self.at = min(self.length - 1, max(0, self.at + (1 if action[0] else -1)))
        return self.observe(), float(action[1] and self.at == self.length - 1), self.t == 7, False, {}

    def observe(self):
        return {"at": self.at, "light": np.array([self.at % 2, self.t % 2], np.int8)}

    def open(self):
        try:
            {}["door"]
        except KeyError as error:
            raise RuntimeError("the door is locked") from error

    def render(self):
        return np.full((64, 64, 3), 20 * self.at, np.uint8)


class Twice(gymnasium.RewardWrapper):
    def reward(self, reward):
        return 2 * reward


def add_one(env):
    return gymnasium.wrappers.TransformReward(env, lambda reward: reward + 1)


def short(length=3):
    return Corridor(length)


short_one = short()
number = 3
gymnasium.register("Corridor-v0", Corridor)
'''
