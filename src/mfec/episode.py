"""An episode in progress: what the memory will be told of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass
class Episode:
    """Steps of an episode, and the score of the game it belongs to."""

    states: list[NDArray[np.float32]] = field(default_factory=list)
    keys: list[NDArray[np.uint64]] = field(default_factory=list)
    actions: list[int] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    score: float = 0.0  # of the game so far
    steps: int = 0  # of the game so far
    lives: int = 0
    magnitude: float = 0.0  # sum of the absolute rewards of the episode
    number: int = -1  # of the game, from 1, as they began; -1 where it is not known
    places: list[int] = field(default_factory=list)  # where a replay keeps the steps' observations, if there is one

    def append(self, state: NDArray[np.float32], key: NDArray[np.uint64], action: int, reward: float) -> None:
        """One step: the state with its key, the action taken there, and the reward that followed."""
        self.states.append(state)
        self.keys.append(key)
        self.actions.append(action)
        self.rewards.append(reward)
        self.score += reward
        self.magnitude += abs(reward)
        self.steps += 1

    def backwards(
        self, gamma: float, after: float = 0.0
    ) -> tuple[NDArray[np.float32], NDArray[np.uint64], NDArray[np.int64], NDArray[np.float64]]:
        """States, keys, actions and discounted returns, the last step first; `after` is the return after the last."""
        returns = []
        ret = after
        for reward in reversed(self.rewards):
            ret = reward + gamma * ret
            returns.append(ret)
        actions = np.array(self.actions[::-1])
        return np.array(self.states[::-1]), np.array(self.keys[::-1]), actions, np.array(returns, np.float64)

    def origins(self, frame_skip: int) -> NDArray[np.int32]:
        """Number and frame of the game at each step, int32 (n, 2), the last step first."""
        frames = frame_skip * np.arange(self.steps - 1, self.steps - 1 - len(self.actions), -1)
        return np.stack([np.full(len(frames), self.number), frames], axis=1).astype(np.int32)

    def take_first(self, frame_skip: int) -> tuple[NDArray[np.float32], NDArray[np.uint64], int, int, tuple[int, int]]:
        """Remove the first step: its state, key, action, place (-1 without a replay), and origin, (number, frame)."""
        origin = self.number, frame_skip * (self.steps - len(self.actions))
        state, key, action = self.states.pop(0), self.keys.pop(0), self.actions.pop(0)
        place = self.places.pop(0) if self.places else -1
        del self.rewards[0]
        # Anew, since a difference would keep what was rounded off of a large reward that is gone.
        self.magnitude = sum(map(abs, self.rewards))
        return state, key, action, place, origin

    def forget_steps(self) -> None:
        """Begin a new episode of the same game."""
        self.states, self.keys, self.actions, self.rewards, self.magnitude = [], [], [], [], 0.0
        self.places = []

    def summary(self) -> dict[str, Any]:
        """What a checkpoint keeps beside the steps."""
        own = {"score": self.score, "steps": self.steps, "lives": self.lives, "number": self.number}
        return {**own, "length": len(self.actions)}


def episode_tensors(episodes: list[Episode], dim: int) -> dict[str, NDArray[Any]]:
    """The steps of all environments' episodes, one after the other."""
    steps = sum(len(episode.actions) for episode in episodes)
    places = [place for e in episodes for place in e.places]
    assert len(places) in (0, steps)
    return {
        "states": np.array([state for e in episodes for state in e.states], np.float32).reshape(steps, dim),
        "keys": np.array([key for e in episodes for key in e.keys], np.uint64).reshape(steps, 2),
        "actions": np.array([action for e in episodes for action in e.actions], np.int64),
        "rewards": np.array([reward for e in episodes for reward in e.rewards], np.float64),
        **({"places": np.array(places, np.int64)} if places else {}),
    }


def restore_episodes(saved: dict[str, Any] | None, tensors: dict[str, NDArray[Any]]) -> list[Episode]:
    """The episodes of which summaries (`saved["episodes"]`) and tensors were kept."""
    episodes, start = [], 0
    for summary in saved["episodes"] if saved else []:
        part = slice(start, start + summary["length"])
        start += summary["length"]
        rewards = tensors["rewards"][part].tolist()
        episodes.append(
            Episode(
                states=list(tensors["states"][part]),
                keys=list(tensors["keys"][part]),
                actions=tensors["actions"][part].tolist(),
                rewards=rewards,
                magnitude=sum(map(abs, rewards)),
                score=summary["score"],
                steps=summary["steps"],
                lives=summary["lives"],
                number=summary["number"],
                places=tensors["places"][part].tolist() if "places" in tensors else [],
            )
        )
    return episodes
