"""A base for agents of your own: it plays, counts, saves and goes on bit for bit; you say how to act and to learn."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mfec.checkpoint import CheckpointError, read_checkpoint, write_checkpoint
from mfec.envs.environments import make_environments
from mfec.interface import CallbackList, Callbacks, Game, Metrics, PolicyState
from mfec.progress import ProgressBar
from mfec.summary import agent_html


class StepAgent:
    """An agent that learns from every step of one environment.

    Override `act` and `observe`, and `tensors` with whatever was learned: arrays, which `load` writes back in place.
    """

    stochastic = False
    evaluation_epsilon = 0.0
    epsilon = 0.0
    """Chance of a random action while learning."""

    def __init__(self, env: Any, seed: int = 0) -> None:
        games, exploration = np.random.SeedSequence(seed).spawn(2)
        self.envs = make_environments(env, games)
        if self.envs.n != 1:
            raise ValueError(f"{type(self).__name__} plays one environment, not {self.envs.n}")
        self.rng = np.random.default_rng(exploration)
        self.env, self.seed = env, seed
        self.run_directory: Path | None = None  # that it was trained in, if `mfec.train` has trained it
        self.frame_skip = self.envs.frame_skip
        self.frames = self.games = 0
        self.scores: deque[float] = deque(maxlen=100)
        self._score, self._steps = 0.0, 0  # of the game so far

    # -- Yours --------------------------------------------------------------------------------------------------------

    def act(self, observation: NDArray[Any]) -> int:
        """The best action, from 0."""
        raise NotImplementedError

    def observe(
        self, observation: NDArray[Any], action: int, reward: float, after: NDArray[Any], *, ended: bool, cut_off: bool
    ) -> None:
        """Learn from a step: `after` is what it led to. cut_off: the game has ended by a time limit alone."""
        raise NotImplementedError

    def tensors(self) -> dict[str, NDArray[Any]]:
        """What was learned."""
        return {}

    def metrics(self) -> Metrics:
        """What is logged."""
        return {}

    def begin_row(self) -> None:
        """A row of progress was written."""

    # -- The rest -----------------------------------------------------------------------------------------------------

    @property
    def num_timesteps(self) -> int:
        """Steps of environments so far, as Stable-Baselines3 counts them: frames, by the frames in a step."""
        return self.frames // self.frame_skip

    def learn(self, total_frames: int, callback: Callbacks | None = None, *, progress_bar: bool = False) -> Self:
        """Play and learn until it has seen so many frames in all."""
        callbacks = CallbackList.of(callback, *([ProgressBar()] if progress_bar else []))
        with callbacks.around(self, total_frames):
            if not self.frames:
                self.envs.begin(np.array([True]))
            while self.frames < total_frames:
                self._step(callbacks)
                if not callbacks.on_step(self):
                    break
        return self

    def _step(self, callbacks: CallbackList) -> None:
        [seen] = self.envs.shown(0)
        action = self._choose(seen, self.epsilon, self.rng)
        self.envs.send(0, np.array([action]))
        step = self.envs.receive(0)
        reward, ended, cut_off = float(step.rewards[0]), bool(step.ended[0]), bool(step.cut_off[0])
        self.observe(seen, action, reward, step.observations[0], ended=ended, cut_off=cut_off)
        self.frames += self.frame_skip
        self._score, self._steps = self._score + reward, self._steps + 1
        if ended:
            self.games += 1
            self.scores.append(self._score)
            game = Game(self.frames, self.games, self._score, self._steps * self.frame_skip)
            self._score, self._steps = 0.0, 0
            self.envs.begin(np.array([True]))
            callbacks.on_game(self, game)

    def _repr_html_(self) -> str:
        settings = getattr(self, "settings", None)
        return agent_html(self, type(self).__name__, env=self.env, settings=settings, facts={})

    def predict(
        self,
        observation: Any,
        state: PolicyState | None = None,
        episode_start: NDArray[Any] | None = None,
        deterministic: bool = False,
        *,
        epsilon: float | None = None,
        rng: np.random.Generator | Sequence[np.random.Generator] | None = None,
    ) -> tuple[NDArray[np.int64], None]:
        """The action for one observation or a batch of them, as in Stable-Baselines3."""
        seeing = self.envs.seeing
        single = seeing.is_one(observation)
        batch = seeing.one(observation) if single else seeing.batch(observation)
        chance = 0.0 if deterministic else self.evaluation_epsilon if epsilon is None else epsilon
        dice = [rng or np.random.default_rng()] if rng is None or isinstance(rng, np.random.Generator) else list(rng)
        dice = dice * len(batch) if len(dice) == 1 else dice
        chosen = [self._choose(own, chance, die) for own, die in zip(batch, dice, strict=True)]
        actions = self.envs.acting.own(np.array(chosen, np.int64))
        return (actions[0] if single else actions), None

    def _choose(self, observation: NDArray[Any], epsilon: float, rng: np.random.Generator) -> int:
        if epsilon and rng.random() < epsilon:
            return int(rng.integers(self.envs.action_space.n))
        return self.act(observation)

    def save(self, path: str | Path) -> None:
        """Write everything that it takes to go on to the directory `path`, whole or not at all."""
        state = {
            "seed": self.seed,
            "frames": self.frames,
            "games": self.games,
            "scores": list(self.scores),
            "game": [self._score, self._steps],
            "rng": self.rng.bit_generator.state,
            "games_in_progress": self.envs.history(),
        }
        write_checkpoint(path, kind=type(self).__name__, state=state, tensors={"learned": self.tensors()})

    def load(self, path: str | Path) -> Self:
        """Go on from what an agent with the same settings has saved."""
        state, tensors = read_checkpoint(path, kind=type(self).__name__)
        try:
            if state["seed"] != self.seed:
                raise ValueError(f"its seed is {state['seed']}, not {self.seed}")
            for name, array in self.tensors().items():
                array[...] = tensors["learned"][name]
            self.frames, self.games = int(state["frames"]), int(state["games"])
            self.scores.extend(state["scores"])
            self._score, self._steps = state["game"]
            self.rng.bit_generator.state = state["rng"]
            if self.frames:
                self.envs.restore(state["games_in_progress"])
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"{path} is no {type(self).__name__} that can go on here: {error}") from None
        return self
