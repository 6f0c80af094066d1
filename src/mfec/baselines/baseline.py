"""A baseline as mfec runs it: games, frames and seeds as MFEC has them, checkpoints that go on bit for bit."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from mfec.callback import Tally, Watcher
from mfec.checkpoint import CheckpointError, read_checkpoint, write_checkpoint
from mfec.config import ALGORITHMS, AlgorithmName, RunConfig, scheduled
from mfec.envs.lanes import make_lanes
from mfec.threads import n_threads

try:
    import torch
    from stable_baselines3 import A2C, DQN
    from stable_baselines3.common.callbacks import BaseCallback
except ImportError:
    raise ImportError("DQN and A2C need the extra `baselines`: pip install 'mfec[baselines]'") from None

from mfec.baselines.models import make_a2c, make_dqn
from mfec.baselines.replay import FrameReplay
from mfec.baselines.state import model_state, restore_model, restore_policy
from mfec.baselines.vec_env import LanesVecEnv

KIND = "baseline"  # of its checkpoints


@dataclass(frozen=True)
class Stored:
    """Steps in a replay buffer, as displays ask for them."""

    entries: int
    nbytes: int
    capacity: int
    measured_recall: None = None

    def __len__(self) -> int:
        return self.entries

    @property
    def sizes(self) -> Sequence[int]:
        """Of the one buffer that there is."""
        return [self.entries]


class Baseline:
    """DQN, prioritised DQN or A2C (Stable-Baselines3's) on an environment of ours.

    Its games begin from the same seeds as those of MFEC with the same seed.

    >>> from mfec.config import DQNConfig, RunConfig
    >>> quick = DQNConfig(replay_start=50, replay_capacity=1000)
    >>> config = RunConfig("CartPole-v1", total_frames=200, algorithm="dqn", dqn=quick)
    >>> Baseline(gymnasium.make("CartPole-v1"), config).learn(200).frames
    200
    """

    def __init__(self, env: gymnasium.Env[Any, Any] | VectorEnv[Any, Any, Any], config: RunConfig) -> None:
        """env: without stacked frames, which are stacked here. `self.config` has numbers for DQN's schedule."""
        self.algorithm: AlgorithmName = config.algorithm
        self.scores: deque[float] = deque(maxlen=100)
        self.tally = Tally()
        # The first of six is what MFEC has for its environment.
        env_seed, *_, learning = np.random.SeedSequence(config.seed).spawn(6)
        a2c = config.algorithm == "a2c"
        settings = config.a2c if a2c else config.dqn
        self.env = LanesVecEnv(
            make_lanes(env, env_seed),
            frame_stack=config.environment.frame_stack,
            clip_rewards=settings.clip_rewards,
            episode=settings.episode,
        )
        if not a2c:
            config = replace(config, dqn=scheduled(config.dqn, config.total_frames / self.env.lanes.frame_skip))
        self.config = config
        # A small network is ten times slower on two threads than on one, where another process is busy.
        torch.set_num_threads(n_threads() if self.env.stacked else 1)
        self.model: DQN | A2C
        if a2c:
            self.model = make_a2c(self.env, config.a2c, seed=learning, device=config.agent.device)
        else:
            self.model = make_dqn(
                self.env,
                config.dqn,
                seed=learning,
                device=config.agent.device,
                prioritised=config.algorithm == "prioritised_dqn",
            )

    def __repr__(self) -> str:
        return f"Baseline({ALGORITHMS[self.algorithm]}, frames={self.frames})"

    @property
    def frames(self) -> int:
        """Frames that were played."""
        return self.env.frames

    @property
    def games(self) -> int:
        """Whole games that were played."""
        return self.env.games

    @property
    def memory(self) -> Stored:
        """What replay holds; A2C has none."""
        replay = getattr(self.model, "replay_buffer", None)
        if isinstance(replay, FrameReplay):
            return Stored(replay.size() * replay.n_envs, replay.nbytes, replay.buffer_size * replay.n_envs)
        return Stored(0, 0, 1)

    def learn(self, total_frames: int, callback: Watcher | None = None) -> Baseline:
        """Play and learn until `total_frames` frames were seen in all."""
        steps = -(-(total_frames - self.frames) // self.env.lanes.frame_skip)
        # Of a run that is stopped: counted on from where it was.
        self.model.learn(steps, _Rollouts(self, callback), reset_num_timesteps=self.model.num_timesteps == 0)
        self.tell(callback)
        return self

    def tell(self, callback: Watcher | None) -> None:
        """Tell of the games that have ended, and of progress, where everything can be saved."""
        while self.env.finished:
            game = self.env.finished.popleft()
            self.scores.append(game.score)
            if callback:
                callback.on_game(self, game)
        if callback and self.tally.steps:
            callback.on_step(self)

    def player(self, epsilon: float | None, rng: np.random.Generator) -> Callable[[NDArray[Any], bool], int]:
        """A policy for whole games: from an observation, and whether a game begins with it, to an action.

        DQN takes the best action but for `epsilon`, its published 0.05 unless given; A2C draws from its policy, and
        anything at random with `epsilon`, never unless given.
        """
        model, stacked = self.model, self.env.stacked
        first = int(self.env.lanes.action_space.start)
        low = int(getattr(self.env.lanes.observation_space, "start", 0))
        epsilon = self.default_epsilon if epsilon is None else epsilon
        stack = np.zeros(self.env.observation_space.shape or (), self.env.observation_space.dtype)

        def choose(observation: NDArray[Any], begins: bool) -> int:
            nonlocal stack
            if stacked:
                before = np.zeros_like(stack[1:]) if begins else stack[1:]
                stack = np.concatenate([before, observation[None]])
            if rng.random() < epsilon:
                return first + int(rng.integers(model.action_space.n))  # type: ignore[attr-defined]
            shown = stack if stacked else observation - low
            if isinstance(model, A2C):
                return first + _draw(model, shown, rng)
            return first + int(model.policy.predict(shown, deterministic=True)[0])

        return choose

    @property
    def default_epsilon(self) -> float:
        """Chance of a random action where whole games are played to see how well."""
        return 0.0 if self.algorithm == "a2c" else self.config.dqn.evaluation_epsilon

    # -- Storage ------------------------------------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write everything that it takes to go on, replay too, atomically."""
        model, tensors = model_state(self.model)
        state = {
            "algorithm": self.algorithm,
            "seed": self.config.seed,
            "frames": self.frames,
            "scores": list(self.scores),
            "tally": asdict(self.tally),
            "model": model,
            "games_in_progress": self.env.summary(),
        }
        write_checkpoint(path, kind=KIND, state=state, tensors={**tensors, "games": self.env.tensors()})

    def restore(self, path: str | Path) -> Baseline:
        """Go on from what `save` wrote, with the same settings."""
        state, tensors = read_checkpoint(path, kind=KIND)
        self._check(path, state)
        try:
            self.scores.extend(state["scores"])
            self.tally = Tally(**state["tally"])
            self.env.restore(state["games_in_progress"], tensors["games"])
            restore_model(self.model, state["model"], tensors)
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"{path} is no complete baseline: {error}") from None
        return self

    def restore_player(self, path: str | Path) -> Baseline:
        """Read the networks alone: enough to play."""
        state, tensors = read_checkpoint(path, kind=KIND, only={"policy"})
        self._check(path, state)
        try:
            restore_policy(self.model, tensors)
        except (KeyError, ValueError) as error:
            raise CheckpointError(f"{path} is no complete baseline: {error}") from None
        return self

    def _check(self, path: str | Path, state: dict[str, Any]) -> None:
        if (state.get("algorithm"), state.get("seed")) != (self.algorithm, self.config.seed):
            raise CheckpointError(f"{path} is of another run: its settings are not those of config.toml")


def _draw(model: A2C, observation: NDArray[Any], rng: np.random.Generator) -> int:
    """An action of A2C's policy. Stable-Baselines3 draws with torch's own generator, which learning goes on with."""
    with torch.no_grad():
        shown, _ = model.policy.obs_to_tensor(observation)
        logits = model.policy.get_distribution(shown).distribution.logits  # type: ignore[union-attr]
    chances = np.exp(logits[0].double().cpu().numpy())
    return int(rng.choice(len(chances), p=chances / chances.sum()))


class _Rollouts(BaseCallback):
    """Tells of progress between two rollouts, when the model is in a state that can be saved."""

    def __init__(self, baseline: Baseline, callback: Watcher | None) -> None:
        super().__init__()
        self._baseline = baseline
        self._callback = callback

    def _on_rollout_start(self) -> None:
        self._baseline.tell(self._callback)

    def _on_step(self) -> bool:
        self._baseline.tally.steps += self._baseline.env.num_envs
        return True
