"""A game that a trained agent plays, step by step with the memories behind every value."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from mfec.envs.crashes import TheirCode
from mfec.envs.flattening import Actions, Observations
from mfec.episodic_agent import EpisodicAgent
from mfec.history.frame_codec import frames_in_chunk, pack_frames, picture_shape, pictures_of
from mfec.inspector.memory_map import MemoryMap
from mfec.inspector.numbers import numbers_kept, shown_numbers
from mfec.memory import Evidence, Source


@dataclass(frozen=True)
class Estimate:
    """The value of one action, and the memories that it comes from, without their states."""

    value: float
    source: Source
    entry_ids: NDArray[np.int64]
    values: NDArray[np.float32]
    distances: NDArray[np.float64]
    weights: NDArray[np.float64]
    origins: NDArray[np.int32]
    matched: NDArray[np.int32]
    places: NDArray[np.float64]
    numbers: NDArray[np.float64] | None  # the states, where they are the numbers of the observation

    @property
    def exact(self) -> bool:
        """Whether the value is that of an exact match."""
        return self.source == "exact"


@dataclass(frozen=True)
class Step:
    """One step of the game."""

    action: int
    explored: bool
    reward: float  # that followed
    score: float  # before
    place: NDArray[np.float64]  # on the map
    numbers: list[float] | None
    estimates: tuple[Estimate, ...]  # for each action
    highest: list[int]
    exact_so_far: int  # exact matches among all look-ups of the game up to here
    exact_taken_so_far: int  # and among those of the actions taken


class RecordedGame:
    """A game, as far as it was played. Others may look while it grows."""

    def __init__(self, number: int, seed: int, epsilon: float) -> None:
        self.number, self.seed, self.epsilon = number, seed, epsilon
        self.steps: list[Step] = []
        self.pictures: PackedFrames | None = None
        self.observations: PackedFrames | None = None
        self.done = False
        self.error = ""
        self.score = 0.0

    def play(
        self,
        agent: EpisodicAgent,
        env: gymnasium.Env[Any, Any],
        map_: MemoryMap,
        rng: np.random.Generator,
        stop: list[bool],
    ) -> None:
        """Play it to its end, or until `stop` fills. The memory stays as it is."""
        seeing, acting, their_code = Observations(env.observation_space), Actions(env.action_space), TheirCode(env)
        picture = picture_shape(seeing.space)
        own_numbers = numbers_kept(agent)
        with their_code:
            observation, _ = env.reset(seed=self.seed)
        ended, exact, exact_taken = False, 0, 0
        while not ended and not stop:
            [seen] = seeing.one(observation)
            explanation = agent.explain(observation)
            action, explored = int(explanation.values.argmax()), False  # without chance, as in `mfec evaluate`
            if self.epsilon:
                (action,), (explored,) = agent.choose(explanation.values[None], self.epsilon, rng, rng)
            self._show(env, seen, picture)
            estimates = tuple(_estimate(evidence, map_, own_numbers) for evidence in explanation.actions)
            place = map_.places(np.asarray(agent.states(seen[None])))[0]
            with their_code:
                observation, reward, terminated, truncated, _ = env.step(acting.one(int(action)))
            exact += sum(own.exact for own in estimates)
            exact_taken += estimates[action].exact
            self.steps.append(
                Step(
                    action=int(action),
                    explored=explored,
                    reward=float(reward),
                    score=self.score,
                    place=place,
                    numbers=shown_numbers(seen[None])[0].tolist() if picture is None else None,
                    estimates=estimates,
                    highest=explanation.highest,
                    exact_so_far=exact,
                    exact_taken_so_far=exact_taken,
                )
            )
            self.score += float(reward)
            ended = bool(terminated or truncated)
        self.done = ended

    def _show(self, env: gymnasium.Env[Any, Any], seen: NDArray[Any], picture: tuple[int, ...] | None) -> None:
        if picture is not None:
            self.observations = self.observations or PackedFrames(picture)
            self.observations.append(pictures_of(seen[None], picture)[0])
        if env.render_mode == "rgb_array" and (self.pictures is not None or not self.steps):
            drawn = draw(env)
            if drawn is not None:
                self.pictures = self.pictures or PackedFrames(drawn.shape)
                self.pictures.append(drawn)


class PackedFrames:
    """Frames of one shape, packed by chunks as they come."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = tuple(shape)
        self.per_chunk = frames_in_chunk(self.shape)
        self._packed: list[bytes] = []
        self._open: list[NDArray[np.uint8]] = []
        self._lock = threading.Lock()

    def append(self, frame: NDArray[np.uint8]) -> None:
        """One more frame."""
        with self._lock:
            self._open.append(np.array(frame, np.uint8))
            if len(self._open) == self.per_chunk:
                self._packed.append(pack_frames(np.array(self._open)))
                self._open = []

    def chunk(self, number: int) -> bytes | None:
        """A chunk, the last one as far as it is there; None if there is no such."""
        with self._lock:
            if number < len(self._packed):
                return self._packed[number]
            return pack_frames(np.array(self._open)) if number == len(self._packed) and self._open else None

    def about(self) -> dict[str, Any]:
        """What the page must know to unpack them."""
        return {"shape": list(self.shape), "per_chunk": self.per_chunk}


def _estimate(evidence: Evidence, map_: MemoryMap, own_numbers: bool) -> Estimate:
    near = evidence.neighbours
    return Estimate(
        evidence.value,
        evidence.source,
        near.entry_ids,
        near.values,
        near.distances,
        evidence.weights,
        near.origins,
        near.matched,
        map_.places(near.states),
        shown_numbers(near.states) if own_numbers else None,
    )


def draw(env: gymnasium.Env[Any, Any]) -> NDArray[np.uint8] | None:
    """What the environment draws; None where it cannot."""
    try:
        drawn = np.asarray(env.render(), np.uint8)
    except (gymnasium.error.Error, NotImplementedError, ImportError, TypeError, ValueError):
        return None
    return drawn if drawn.ndim == 3 and drawn.shape[2] == 3 else None
