"""A baseline as mfec runs it: games, frames and seeds as MFEC has them, checkpoints that go on bit for bit."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from mfec.algorithms.baselines.settings import A2CConfig, DQNConfig
from mfec.checkpoint import CheckpointError, read_checkpoint, write_checkpoint
from mfec.config import DeviceName
from mfec.envs.environments import make_environments
from mfec.interface import CallbackList, Callbacks, Metrics, PolicyState
from mfec.progress import ProgressBar
from mfec.summary import agent_html
from mfec.threads import n_threads

try:
    import torch
    from stable_baselines3 import A2C, DQN
    from stable_baselines3.common.callbacks import BaseCallback
except ImportError:
    raise ImportError("DQN and A2C need the extra `baselines`: pip install 'mfec[baselines]'") from None

from mfec.algorithms.baselines.models import make_model
from mfec.algorithms.baselines.replay import FrameReplay
from mfec.algorithms.baselines.state import model_state, restore_model, restore_policy
from mfec.algorithms.baselines.vec_env import EnvironmentsVecEnv

KIND = "baseline"  # of its checkpoints
LOSSES = {"dqn": ["loss"], "prioritised_dqn": ["loss"], "a2c": ["policy_loss", "value_loss", "entropy_loss"]}
SETTINGS = {"dqn": DQNConfig, "prioritised_dqn": DQNConfig, "a2c": A2CConfig}


class Baseline:
    """DQN, prioritised DQN or A2C (Stable-Baselines3's) on an environment of ours.

    Its games begin from the same seeds as those of MFEC with the same seed.

    Args:
        env: without stacked frames, which are stacked here.
        settings: with numbers for DQN's schedule (`scheduled`).
        algorithm: `dqn`, `prioritised_dqn` or `a2c`.

    >>> quick = DQNConfig(replay_start=50, replay_capacity=1000, target_every=100, epsilon_steps=100)
    >>> Baseline(gymnasium.make("CartPole-v1"), quick, algorithm="dqn").learn(200).frames
    200
    """

    def __init__(
        self,
        env: gymnasium.Env[Any, Any] | VectorEnv[Any, Any, Any],
        settings: DQNConfig | A2CConfig,
        *,
        algorithm: str,
        frame_stack: int = 4,
        seed: int = 0,
    ) -> None:
        self.algorithm, self.settings, self.seed = algorithm, settings, seed
        self.run_directory: Path | None = None  # that it was trained in, if `mfec.train` has trained it
        self._given_env = env
        self.scores: deque[float] = deque(maxlen=100)
        # The first of six is what MFEC has for its environment.
        env_seed, *_, learning = np.random.SeedSequence(seed).spawn(6)
        self.env = EnvironmentsVecEnv(
            make_environments(env, env_seed),
            frame_stack=frame_stack,
            clip_rewards=settings.clip_rewards,
            episode=settings.episode,
        )
        self._frame_stack = frame_stack
        # A small network is ten times slower on two threads than on one, where another process is busy.
        torch.set_num_threads(n_threads() if self.env.stacked else 1)
        self.model: DQN | A2C = make_model(algorithm, self.env, settings, seed=learning)

    def __repr__(self) -> str:
        return f"Baseline({self.algorithm}, frames={self.frames})"

    def _repr_html_(self) -> str:
        return agent_html(self, self.algorithm, env=self._given_env, settings=self.settings, facts={})

    @property
    def num_timesteps(self) -> int:
        """Steps of environments so far, as Stable-Baselines3 counts them: frames, by the frames in a step."""
        return self.frames // self.frame_skip

    @property
    def frames(self) -> int:
        """Frames that were played."""
        return self.env.frames

    @property
    def games(self) -> int:
        """Whole games that were played."""
        return self.env.games

    @property
    def frame_skip(self) -> int:
        """Frames in a step."""
        return self.env.envs.frame_skip

    @property
    def evaluation_epsilon(self) -> float:
        """DQN's published 0.05; A2C draws from its policy and does nothing else at random."""
        return self.settings.evaluation_epsilon if isinstance(self.settings, DQNConfig) else 0.0

    @property
    def stochastic(self) -> bool:
        """Whether actions are drawn from the policy, as A2C's are."""
        return isinstance(self.model, A2C)

    def metrics(self) -> Metrics:
        """Updates so far and the losses of the last one; DQN's epsilon, and what its replay holds."""
        model = self.model
        logged = model.logger.name_to_value if hasattr(model, "_logger") else {}
        losses = {name: logged.get(f"train/{name}") for name in LOSSES[self.algorithm]}
        metrics = {"updates": model._n_updates, **losses}
        replay = getattr(model, "replay_buffer", None)
        if isinstance(model, DQN) and isinstance(replay, FrameReplay):
            entries = replay.size() * replay.n_envs
            metrics |= {
                "epsilon": model.exploration_rate,
                "memory_entries": entries,
                "memory_bytes": replay.nbytes,
                "memory_fill": round(entries / (replay.buffer_size * replay.n_envs), 6),
            }
        return metrics

    def begin_row(self) -> None:
        """Nothing is counted between rows."""

    def learn(self, total_frames: int, callback: Callbacks | None = None, *, progress_bar: bool = False) -> Baseline:
        """Play and learn until `total_frames` frames were seen in all. Callbacks are told between two rollouts."""
        callbacks = CallbackList.of(callback, *([ProgressBar()] if progress_bar else []))
        with callbacks.around(self, total_frames):
            steps = -(-(total_frames - self.frames) // self.frame_skip)
            # Of a run that is stopped: counted on from where it was.
            begins = self.model.num_timesteps == 0
            try:
                # Without its own log, which would forget the losses each time that it is shown.
                self.model.learn(steps, _Rollouts(self, callbacks), sys.maxsize, reset_num_timesteps=begins)
                self._tell(callbacks)
            except _EndOfTraining:
                pass
        return self

    def _tell(self, callbacks: CallbackList) -> None:
        """Tell of the games that have ended, and of progress, where everything can be saved."""
        while self.env.finished:
            game = self.env.finished.popleft()
            self.scores.append(game.score)
            callbacks.on_game(self, game)
        if not callbacks.on_step(self):
            raise _EndOfTraining

    def predict(
        self,
        observation: Any,
        state: PolicyState | None = None,
        episode_start: NDArray[Any] | None = None,
        deterministic: bool = False,
        *,
        epsilon: float | None = None,
        rng: np.random.Generator | Sequence[np.random.Generator] | None = None,
    ) -> tuple[NDArray[np.int64], PolicyState | None]:
        """The action for one observation or a batch of them, single frames; the state is their stack of frames.

        DQN takes the action of highest value. A2C draws from its policy, or takes its likeliest action if
        `deterministic`. `epsilon` of all actions are random: `evaluation_epsilon` of them, or none if `deterministic`,
        unless given.
        """
        envs = self.env.envs
        single = envs.seeing.is_one(observation)
        batch = envs.seeing.one(observation) if single else envs.seeing.batch(observation)
        chance = (0.0 if deterministic else self.evaluation_epsilon) if epsilon is None else epsilon
        dice = [rng or np.random.default_rng()] if rng is None or isinstance(rng, np.random.Generator) else list(rng)
        dice = dice * len(batch) if len(dice) == 1 else dice
        shown: Any = batch - int(getattr(envs.observation_space, "start", 0))
        after: PolicyState | None = None
        if self.env.stacked:
            before = np.zeros((len(batch), *(self.env.observation_space.shape or ())), batch.dtype)
            if state is not None:
                before = state[0].copy()
                before[np.zeros(len(batch), np.bool_) if episode_start is None else episode_start] = 0
            shown = np.concatenate([before[:, 1:], batch[:, None]], axis=1)
            after = (shown,)
        chosen = [self._choose(own, chance, deterministic, die) for own, die in zip(shown, dice, strict=True)]
        actions = envs.acting.own(np.array(chosen, np.int64))
        return (actions[0] if single else actions), after

    def _choose(self, shown: NDArray[Any], epsilon: float, deterministic: bool, rng: np.random.Generator) -> int:
        if rng.random() < epsilon:
            return int(rng.integers(self.model.action_space.n))  # type: ignore[attr-defined]
        if isinstance(self.model, A2C) and not deterministic:
            return _draw(self.model, shown, rng)
        return int(self.model.policy.predict(shown, deterministic=True)[0])

    # -- Storage ------------------------------------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write everything that it takes to go on, replay too, atomically."""
        model, tensors = model_state(self.model)
        state = {
            "algorithm": self.algorithm,
            "settings": asdict(self.settings),
            "frame_stack": self._frame_stack,
            "seed": self.seed,
            "frames": self.frames,
            "scores": list(self.scores),
            "model": model,
            "games_in_progress": self.env.summary(),
        }
        write_checkpoint(path, kind=KIND, state=state, tensors={**tensors, "games": self.env.tensors()})

    @classmethod
    def load(
        cls,
        path: str | Path,
        env: gymnasium.Env[Any, Any] | VectorEnv[Any, Any, Any],
        *,
        device: DeviceName | None = None,
        playing: bool = False,
    ) -> Baseline:
        """Read what `save` wrote; the device may be another. playing: the networks alone, which is enough to play."""
        state, tensors = read_checkpoint(path, kind=KIND, only={"policy"} if playing else None)
        try:
            kind = SETTINGS[state["algorithm"]]
            settings: Any = kind(**state["settings"])
            settings = replace(settings, device=device or settings.device)
            # Who only plays has nothing to replay.
            made = replace(settings, replay_capacity=1) if playing and isinstance(settings, DQNConfig) else settings
            options = {"algorithm": state["algorithm"], "frame_stack": state["frame_stack"], "seed": state["seed"]}
            baseline = cls(env, made, **options)
            baseline.settings = settings
            if playing:
                restore_policy(baseline.model, tensors)
                return baseline
            baseline.scores.extend(state["scores"])
            baseline.env.restore(state["games_in_progress"], tensors["games"])
            restore_model(baseline.model, state["model"], tensors)
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"{path} is no complete baseline: {error}") from None
        return baseline


class _EndOfTraining(Exception):
    """A callback has asked for it."""


def _draw(model: A2C, observation: NDArray[Any], rng: np.random.Generator) -> int:
    """An action of A2C's policy. Stable-Baselines3 draws with torch's own generator, which learning goes on with."""
    with torch.no_grad():
        shown, _ = model.policy.obs_to_tensor(observation)
        logits = model.policy.get_distribution(shown).distribution.logits  # type: ignore[union-attr]
    chances = np.exp(logits[0].double().cpu().numpy())
    return int(rng.choice(len(chances), p=chances / chances.sum()))


class _Rollouts(BaseCallback):
    """Tells of progress between two rollouts, when the model is in a state that can be saved."""

    def __init__(self, baseline: Baseline, callbacks: CallbackList) -> None:
        super().__init__()
        self._baseline = baseline
        self._callbacks = callbacks
        self._begun = False

    def _on_rollout_start(self) -> None:
        if self._begun:
            self._baseline._tell(self._callbacks)
        self._begun = True

    def _on_step(self) -> bool:
        return True
