"""The replay buffer: the last completed steps, with each frame of a stack kept once."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray


class Drawn(NamedTuple):
    """Some steps."""

    observations: NDArray[Any]  # (n, ...)
    actions: NDArray[np.int64]  # (n,)
    values: NDArray[np.float32]  # (n,): N-step returns


class Replay:
    """The last `capacity` completed steps of all environments: observation, action and N-step return.

    An observation is kept when it is seen, and becomes an item when its return is known. A stack of frames is kept as
    planes, 7 KB of Atari instead of 28: where all but its last plane equal, byte for byte, all but the first of what
    the same environment showed before, only the last is new. Nothing else is asked, so it does not matter how an
    environment fills its stack after a reset.

    Planes are counted by who needs them (items, steps in flight, the next observation), and one that nobody needs is
    free for the next; no item ever loses one. A game begins with up to `planes` new ones, so games of a single step
    take up to `planes` times the memory of long ones; of games of a hundred steps, three in a hundred more. There is
    room for an eighth more planes than `capacity`, which is address space until it is written. Where that is not
    enough it grows by an eighth, for which all planes are copied once.

    Args:
        capacity: items.
        observation_shape: of one observation.
        dtype: of one observation.
        planes: stacked frames, the first axis of an observation; 1 for observations that are kept whole.
    """

    def __init__(self, capacity: int, observation_shape: tuple[int, ...], dtype: DTypeLike, *, planes: int) -> None:
        if capacity < 1:
            raise ValueError(f"a replay holds at least one step, not {capacity}")
        plane = _plane_shape(observation_shape, planes)
        self.capacity = capacity
        self.observation_shape = observation_shape
        self._stack = (planes, *plane)
        self._planes = np.zeros((capacity + _eighth(capacity), *plane), dtype)
        self._plane_bytes = prod(plane) * self._planes.itemsize
        # Lists, not arrays: single numbers of arrays cost 100 ns each, and a step counts a dozen of them.
        self._needed: list[int] = []  # by how many each plane is, as far as planes have been written
        self._free: list[int] = []
        self._shown: dict[int, tuple[bytes, list[int]]] = {}  # by environment, all but the first plane: bytes, places
        self._in_flight: dict[int, list[int]] = {}  # places of the planes of observations without a return
        self._kept = self._added = 0
        self._stacks = np.zeros((capacity, planes), np.int32)  # places of each item's planes
        self._actions = np.zeros(capacity, np.int64)
        self._values = np.zeros(capacity, np.float32)

    def __len__(self) -> int:
        return min(self._added, self.capacity)

    @staticmethod
    def bytes_when_full(capacity: int, observation_shape: tuple[int, ...], dtype: DTypeLike, *, planes: int) -> int:
        """Bytes of `capacity` items, without steps in flight and the first stacks of games."""
        plane = _plane_shape(observation_shape, planes)
        return capacity * (prod(plane) * np.dtype(dtype).itemsize + _beside(planes))

    @property
    def nbytes(self) -> int:
        """Bytes of what has been written."""
        return len(self._needed) * self._plane_bytes + len(self) * _beside(self._stack[0])

    def keep(self, env_id: int, observation: NDArray[Any]) -> int:
        """Keep what an environment shows now; returns its place, a number that only grows."""
        stack = np.asarray(observation, self._planes.dtype).reshape(self._stack)
        # Copying 28 KB and comparing bytes takes 1 us; numpy's == takes 2, and to it -0.0 is 0.0.
        data = stack.tobytes()
        last, places = self._shown.get(env_id, (None, []))
        if last is not None and data.startswith(last):
            stack_places = [*places, self._room()]
            self._planes[stack_places[-1]] = stack[-1]
        else:
            stack_places = [self._room() for _ in stack]
            self._planes[stack_places] = stack
        self._need(stack_places)
        self._need(stack_places[1:])
        self._release(places)
        self._shown[env_id] = data[self._plane_bytes :], stack_places[1:]
        place = self._kept
        self._kept += 1
        self._in_flight[place] = stack_places
        return place

    def add(self, place: int, action: int, value: float) -> None:
        """The step that was seen there is complete: the oldest item goes where there are `capacity`."""
        stack_places = self._in_flight.pop(place)
        item = self._added % self.capacity
        if self._added >= self.capacity:
            self._release(self._stacks[item].tolist())
        self._stacks[item] = stack_places
        self._actions[item] = action
        self._values[item] = value
        self._added += 1

    def give_up(self, places: Iterable[int] | None = None) -> None:
        """Forget steps in flight that will never be complete, by default all of them."""
        for place in list(self._in_flight) if places is None else places:
            self._release(self._in_flight.pop(place))

    def draw(self, size: int, rng: np.random.Generator) -> Drawn:
        """So many items, each drawn from all of them."""
        items = rng.integers(0, len(self), size)
        observations = self._planes[self._stacks[items]].reshape(size, *self.observation_shape)
        return Drawn(observations, self._actions[items], self._values[items])

    def _room(self) -> int:
        """The place for a new plane."""
        if self._free:
            return self._free.pop()
        place = len(self._needed)
        if place == len(self._planes):
            grown = np.zeros((place + _eighth(place), *self._stack[1:]), self._planes.dtype)
            grown[:place] = self._planes
            self._planes = grown
        self._needed.append(0)
        return place

    def _need(self, places: list[int]) -> None:
        needed = self._needed
        for place in places:
            needed[place] += 1

    def _release(self, places: list[int]) -> None:
        needed = self._needed
        for place in places:
            needed[place] -= 1
            if not needed[place]:
                self._free.append(place)

    # -- Storage ------------------------------------------------------------------------------------------------------

    def summary(self) -> dict[str, Any]:
        """What JSON takes."""
        return {"kept": self._kept, "added": self._added}

    def tensors(self) -> dict[str, NDArray[Any]]:
        """All else, as far as it has been written: views, good until the next step."""
        planes, n = self._stack[0], len(self)
        waiting, shown = list(self._in_flight.values()), [places for _, places in self._shown.values()]
        return {
            "planes": self._planes[: len(self._needed)],
            "stacks": self._stacks[:n],
            "actions": self._actions[:n],
            "values": self._values[:n],
            "in_flight": np.array(list(self._in_flight), np.int64),
            "in_flight.stacks": np.array(waiting, np.int32).reshape(len(waiting), planes),
            "shown": np.array(list(self._shown), np.int64),
            "shown.stacks": np.array(shown, np.int32).reshape(len(shown), planes - 1),
        }

    def restore(self, summary: dict[str, Any], tensors: dict[str, NDArray[Any]]) -> None:
        """Take over what `summary` and `tensors` of a replay with the same settings returned."""
        self._kept, self._added = summary["kept"], summary["added"]
        stacks = [tensors[name] for name in ("stacks", "in_flight.stacks", "shown.stacks")]
        used = np.concatenate([places.ravel() for places in stacks])
        written, n, planes = tensors["planes"], len(self), self._stack[0]
        shapes = (written.shape[1:], stacks[0].shape, stacks[1].shape[1], stacks[2].shape[1])
        fits = shapes == (self._stack[1:], (n, planes), planes, planes - 1) and written.dtype == self._planes.dtype
        if not fits or (len(used) and not 0 <= used.min() <= used.max() < len(written)):
            raise ValueError("its replay does not fit its settings")
        if len(written) > len(self._planes):
            self._planes = np.zeros(written.shape, written.dtype)
        self._planes[: len(written)] = written
        self._stacks[:n], self._actions[:n], self._values[:n] = stacks[0], tensors["actions"], tensors["values"]
        self._needed = np.bincount(used, minlength=len(written)).tolist()
        self._free = [place for place, count in enumerate(self._needed) if not count]
        self._in_flight = dict(zip(tensors["in_flight"].tolist(), stacks[1].tolist(), strict=True))
        self._shown = {
            env_id: (self._planes[places].tobytes(), places)
            for env_id, places in zip(tensors["shown"].tolist(), stacks[2].tolist(), strict=True)
        }


def _plane_shape(observation_shape: tuple[int, ...], planes: int) -> tuple[int, ...]:
    """The shape of what is kept once."""
    if planes == 1:
        return observation_shape
    if planes < 1 or observation_shape[:1] != (planes,):
        raise ValueError(f"observations {observation_shape} are no stacks of {planes} planes")
    return observation_shape[1:]


def _eighth(n: int) -> int:
    return n // 8 + 64


def _beside(planes: int) -> int:
    """Bytes of an item beside its newest plane: places of all its planes and one count, action, value."""
    return 4 * planes + 8 + 8 + 4
