"""Replay of single frames: stacks are put together when they are drawn, so a million steps take 7 GB, not 56."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.type_aliases import ReplayBufferSamples

from mfec.algorithms.baselines.sum_tree import SumTree

Place = tuple[NDArray[np.int64], NDArray[np.int64]]  # rows and environments


class FrameReplay(ReplayBuffer):
    """Stable-Baselines3's replay buffer, for observations that are stacks of frames: it keeps each frame once.

    A stack never reaches back over the beginning of an episode: it is filled with zeros there, as
    `EnvironmentsVecEnv` shows it. Observations that are no stacks (`stacked=False`) are kept whole.
    """

    def __init__(
        self,
        buffer_size: int,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        device: torch.device | str = "auto",
        n_envs: int = 1,
        optimize_memory_usage: bool = False,
        *,
        seed: np.random.SeedSequence,
        stacked: bool = True,
    ) -> None:
        # The arrays of the class above are not wanted: they would hold every frame eight times.
        super().__init__(1, observation_space, action_space, device, n_envs)
        del self.observations, self.next_observations, self.actions, self.rewards, self.dones, self.timeouts
        shape = observation_space.shape or ()
        self._depth = shape[0] if stacked else 1
        self.buffer_size = max(buffer_size // n_envs, self._depth + 1)
        rows = (self.buffer_size, n_envs)
        self._rng = np.random.default_rng(seed)
        # Zeros that nobody has written to take no memory: it grows with what is stored.
        self.arrays: dict[str, NDArray[Any]] = {
            "frames": np.zeros((*rows, *(shape[1:] if stacked else shape)), observation_space.dtype),
            "actions": np.zeros(rows, np.int64),
            "rewards": np.zeros(rows, np.float32),
            "over": np.zeros(rows, np.bool_),  # the episode ended with this step, and not by a time limit
            "begins": np.zeros(rows, np.bool_),  # the episode began with this step
            "cut_off": np.zeros(rows, np.bool_),
        }
        self._begins = np.ones(n_envs, np.bool_)
        self._after_cut: dict[tuple[int, int], NDArray[Any]] = {}  # last frame of games that a time limit ended
        self._offsets = np.arange(self._depth - 1, -1, -1)  # ages of the frames in a stack, the oldest first

    def add(
        self,
        obs: NDArray[Any],
        next_obs: NDArray[Any],
        action: NDArray[Any],
        reward: NDArray[Any],
        done: NDArray[Any],
        infos: list[dict[str, Any]],
    ) -> None:
        """Keep one step of every environment."""
        row, arrays = self.pos, self.arrays
        cut_off = np.array([bool(info.get("TimeLimit.truncated", False)) for info in infos])
        arrays["frames"][row] = self._newest(obs)
        arrays["actions"][row] = np.asarray(action).reshape(self.n_envs)
        arrays["rewards"][row] = reward
        arrays["over"][row] = np.asarray(done, np.bool_) & ~cut_off
        arrays["begins"][row] = self._begins
        arrays["cut_off"][row] = cut_off
        self._begins = np.asarray(done, np.bool_).copy()
        next_row = (row + 1) % self.buffer_size
        # Until the next step writes the same frame there, this one must be complete.
        arrays["frames"][next_row] = after = self._newest(next_obs)
        if self._after_cut and self.full:
            for env in range(self.n_envs):
                self._after_cut.pop((row, env), None)
        for env in np.flatnonzero(cut_off).tolist():
            self._after_cut[row, env] = after[env].copy()
        self.pos = next_row
        self.full = self.full or next_row == 0

    def sample(self, batch_size: int, env: Any = None) -> ReplayBufferSamples:
        """Draw transitions, all with the same chance."""
        if self.full:  # the oldest ones have lost frames of their stacks
            rows = (self.pos + self._rng.integers(self._depth, self.buffer_size, batch_size)) % self.buffer_size
        else:
            rows = self._rng.integers(0, self.pos, batch_size)
        return self._transitions((rows, self._rng.integers(0, self.n_envs, batch_size)))

    @property
    def nbytes(self) -> int:
        """Bytes of what is stored."""
        per_row: int = sum(array[0].nbytes for array in self.arrays.values())
        beside: int = sum(frame.nbytes for frame in self._after_cut.values())
        return int(self.size()) * per_row + beside

    # -- Storage ------------------------------------------------------------------------------------------------------

    def tensors(self) -> dict[str, NDArray[Any]]:
        """Everything that is stored, but for what `summary` has."""
        rows = min(self.size() + 1, self.buffer_size)  # with the frame after the last step
        cut = list(self._after_cut)
        tensors = {name: array[:rows] for name, array in self.arrays.items()}
        if cut:
            tensors["after_cut.places"] = np.array(cut, np.int64)
            tensors["after_cut.frames"] = np.stack([self._after_cut[place] for place in cut])
        return tensors

    def summary(self) -> dict[str, Any]:
        """What JSON takes."""
        begins = self._begins.tolist()
        return {"pos": self.pos, "full": self.full, "begins": begins, "rng": self._rng.bit_generator.state}

    def restore(self, summary: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]]) -> None:
        """Take over what `summary` and `tensors` had."""
        for name, array in self.arrays.items():
            kept = tensors[name]
            if kept.shape[1:] != array.shape[1:] or len(kept) > len(array):
                raise ValueError(f"replay of {kept.shape} {name} does not fit into {array.shape}")
            array[: len(kept)] = kept
        places = tensors.get("after_cut.places", np.zeros((0, 2), np.int64)).tolist()
        self._after_cut = {
            (row, env): tensors["after_cut.frames"][number].copy() for number, (row, env) in enumerate(places)
        }
        self.pos, self.full = int(summary["pos"]), bool(summary["full"])
        self._begins = np.array(summary["begins"], np.bool_)
        self._rng.bit_generator.state = summary["rng"]

    # -- Stacks -------------------------------------------------------------------------------------------------------

    def _newest(self, observations: NDArray[Any]) -> NDArray[Any]:
        stacked = observations.ndim == self.arrays["frames"].ndim
        return observations[:, -1] if stacked else observations

    def _transitions(self, place: Place) -> ReplayBufferSamples:
        rows, envs = place
        arrays = self.arrays
        stacks = self._stacks(place)
        after = arrays["frames"][(rows + 1) % self.buffer_size, envs]
        for number in np.flatnonzero(arrays["cut_off"][place]).tolist():
            after[number] = self._after_cut[int(rows[number]), int(envs[number])]
        following = np.concatenate([stacks[:, 1:], after[:, None]], axis=1)
        shape = (len(rows), *(self.observation_space.shape or ()))
        data = (
            stacks.reshape(shape),
            arrays["actions"][place].reshape(-1, 1),
            following.reshape(shape),
            arrays["over"][place].astype(np.float32).reshape(-1, 1),
            arrays["rewards"][place].reshape(-1, 1),
        )
        return ReplayBufferSamples(*(self.to_torch(array, copy=False) for array in data))

    def _stacks(self, place: Place) -> NDArray[Any]:
        """What was shown at these places, (m, depth, ...)."""
        rows, envs = place
        behind = (rows[:, None] - self._offsets) % self.buffer_size
        stacks: NDArray[Any] = self.arrays["frames"][behind, envs[:, None]]
        if self._depth > 1:
            begins = self.arrays["begins"][behind[:, 1:], envs[:, None]]
            # A frame is of an earlier episode if one began after it, up to now.
            earlier = np.logical_or.accumulate(begins[:, ::-1], axis=1)[:, ::-1]
            stacks[:, :-1][earlier] = 0
        return stacks


class PrioritisedSamples(NamedTuple):
    """A batch, with what prioritised replay adds to it."""

    batch: ReplayBufferSamples
    weights: torch.Tensor  # (m, 1), at most 1
    items: NDArray[np.int64]  # (m,): what `update` calls them


class PrioritisedReplay(FrameReplay):
    """Proportional prioritised replay (Schaul et al., 2016, section 3.3): a transition with a large error comes back
    more often, and counts the less for it."""

    SMALLEST = 1e-6  # added to every error, so that a transition without one can come back

    def __init__(self, *arguments: Any, alpha: float, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._alpha = alpha
        self._tree = SumTree(self.buffer_size * self.n_envs)
        self._highest = 1.0  # what a new transition gets: it is to be seen once

    def add(self, *arguments: Any, **options: Any) -> None:
        """Keep one step of every environment, with the highest priority that there was."""
        row = self.pos
        super().add(*arguments, **options)
        # The newest frame has taken the place of the oldest, so stacks that reach back to that one are not whole.
        lost = (self.pos + np.arange(self._depth if self.full else 0)) % self.buffer_size
        rows = np.concatenate([[row], lost])
        items = rows[:, None] * self.n_envs + np.arange(self.n_envs)
        self._tree.set(items, np.where(rows == row, self._highest, 0.0)[:, None])

    def draw(self, batch_size: int, beta: float) -> PrioritisedSamples:
        """Draw transitions in proportion to their priorities, one from each of `batch_size` equal shares of the sum."""
        edges = np.arange(batch_size) + self._rng.random(batch_size)
        items = self._tree.find(edges * (self._tree.total / batch_size))
        chances = self._tree.priorities[items] / self._tree.total
        weights = (self._count() * chances) ** -beta
        place = (items // self.n_envs, items % self.n_envs)
        scaled = self.to_torch((weights / weights.max()).astype(np.float32).reshape(-1, 1), copy=False)
        return PrioritisedSamples(self._transitions(place), scaled, items)

    def update(self, items: NDArray[np.int64], errors: NDArray[Any]) -> None:
        """Give transitions that were drawn the priorities of their errors."""
        priorities = (np.abs(errors.astype(np.float64)) + self.SMALLEST) ** self._alpha
        self._highest = max(self._highest, float(priorities.max()))
        self._tree.set(items, priorities)

    @property
    def nbytes(self) -> int:
        """Bytes of what is stored, and of the tree."""
        return super().nbytes + self._tree.nbytes

    def tensors(self) -> dict[str, NDArray[Any]]:
        """Everything that is stored, with the priorities."""
        rows = min(self.size() + 1, self.buffer_size)
        return {**super().tensors(), "priorities": self._tree.priorities[: rows * self.n_envs]}

    def summary(self) -> dict[str, Any]:
        """What JSON takes."""
        return {**super().summary(), "highest": self._highest}

    def restore(self, summary: Mapping[str, Any], tensors: Mapping[str, NDArray[Any]]) -> None:
        """Take over what `summary` and `tensors` had."""
        super().restore(summary, tensors)
        self._tree.set(np.arange(len(tensors["priorities"])), tensors["priorities"])
        self._highest = float(summary["highest"])

    def _count(self) -> int:
        """Transitions that can be drawn."""
        rows = self.buffer_size - self._depth if self.full else self.pos
        return rows * self.n_envs
