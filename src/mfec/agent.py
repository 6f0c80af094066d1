"""MFEC: model-free episodic control (Blundell et al., 2016, Algorithm 1)."""

from __future__ import annotations

import time
import warnings
from collections import deque
from dataclasses import asdict
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from mfec.callback import Callback, Game, Tally
from mfec.checkpoint import CheckpointError, read_checkpoint, write_checkpoint
from mfec.config import (
    AgentConfig,
    EmbeddingName,
    EpisodeEnd,
    Eviction,
    FewNeighbours,
    IndexName,
    Ties,
    Update,
)
from mfec.embeddings import Embedding, make_embedding, restore_embedding
from mfec.envs import make_env
from mfec.envs.lanes import LaneError, Lanes, make_lanes
from mfec.envs.spaces import describe_spaces, spaces_from
from mfec.episode import Episode, episode_tensors, restore_episodes
from mfec.errors import MfecError
from mfec.memory import EpisodicMemory
from mfec.memory.identities import array_keys

AnyEnv = gymnasium.Env[Any, Any] | VectorEnv[Any, Any, Any]


class BadEnvironmentData(MfecError):
    """The environment returned something that is not a finite number."""


class MFEC:
    """Model-free episodic control.

    It remembers the best return that followed every state and action, looks up the k nearest memories where a state
    is new, and takes the action with the highest value. Defaults are the paper's for Atari; see `AgentConfig` for
    every setting.

    Args:
        env: a Gymnasium environment or vector environment with `Discrete` actions and `Box` or `Discrete`
            observations, or its name.
        seed: makes the run: environment, exploration, ties and projection. None draws one.

    >>> agent = MFEC("FrozenLake-v1", gamma=0.9, capacity=1000, seed=0)
    >>> agent.learn(total_frames=1000)
    MFEC(embedding=identity, k=11, frames=1000, entries=...)
    """

    def __init__(
        self,
        env: AnyEnv | str | None,
        *,
        k: int = AgentConfig.k,
        gamma: float = AgentConfig.gamma,
        epsilon: float = AgentConfig.epsilon,
        capacity: int = AgentConfig.capacity,
        embedding: EmbeddingName | Embedding = AgentConfig.embedding,
        dim: int = AgentConfig.dim,
        index: IndexName = AgentConfig.index,
        recall: float = AgentConfig.recall,
        eviction: Eviction = AgentConfig.eviction,
        update: Update = AgentConfig.update,
        few_neighbours: FewNeighbours = AgentConfig.few_neighbours,
        ties: Ties = AgentConfig.ties,
        episode: EpisodeEnd = AgentConfig.episode,
        seed: int | None = None,
    ) -> None:
        named = embedding if isinstance(embedding, str) else "auto"
        self.config = AgentConfig(
            k=k, gamma=gamma, epsilon=epsilon, capacity=capacity, embedding=named, dim=dim, index=index,
            recall=recall, eviction=eviction, update=update, few_neighbours=few_neighbours, ties=ties, episode=episode,
        )  # fmt: skip
        self.seed = int(np.random.SeedSequence().generate_state(1)[0]) if seed is None else int(seed)
        env_seed, exploration, ties_seed, projection, playing = np.random.SeedSequence(self.seed).spawn(5)
        self._env_seed = env_seed
        self._exploration = np.random.default_rng(exploration)
        self._ties = np.random.default_rng(ties_seed)
        self._playing = np.random.default_rng(playing)  # for `predict`, so that it leaves learning alone
        self._lanes: Lanes | None = None
        self.observation_space: spaces.Box | spaces.Discrete[Any]
        self.action_space: spaces.Discrete[Any]
        self._to_restore: dict[str, Any] | None = None
        self.frames = 0
        self.games = 0
        self.scores: deque[float] = deque(maxlen=100)
        self.tally = Tally()
        self._episodes: list[Episode] = []
        if env is None:  # `load` fills in what an environment would have told
            return
        self._set_env(make_env(env) if isinstance(env, str) else env)
        self.embedding = (
            make_embedding(embedding, self.observation_space, dim, projection)
            if isinstance(embedding, str)
            else embedding
        )
        self.memory = EpisodicMemory(
            self.n_actions, self.embedding.dim, capacity=capacity, k=k, index=index,
            recall=recall, eviction=eviction, update=update, few_neighbours=few_neighbours,
        )  # fmt: skip

    # -- Algorithm 1 --------------------------------------------------------------------------------------------------

    def learn(self, total_frames: int, callback: Callback | None = None) -> MFEC:
        """Play and remember until the agent has seen `total_frames` frames in all (Algorithm 1)."""
        callback = callback or Callback()
        if self.frames >= total_frames:
            warnings.warn(f"the agent has already seen {self.frames} of {total_frames} frames", stacklevel=2)
        lanes = self._start()
        while self.frames < total_frames:
            observations = lanes.observations
            states = self._embed(observations)  # s_t = phi(o_t)
            keys = array_keys(observations)
            began = time.perf_counter()
            estimates = self.memory.estimate(states, keys)  # Eq. 2 for every action
            looked_up = time.perf_counter()
            actions = self._choose(estimates.values, self.config.epsilon, self._exploration, self._ties)
            step = lanes.step(actions)
            self._refuse_bad_data(step.rewards, observations)

            self.tally.lookup_seconds += looked_up - began
            for lane in np.flatnonzero(step.valid).tolist():
                self.frames += lanes.frame_skip
                self.tally.count(estimates.exact[lane], actions[lane])
                episode = self._episodes[lane]
                episode.append(states[lane], keys[lane], int(actions[lane]), float(step.rewards[lane]))
                lost_life = step.lives is not None and step.lives[lane] < episode.lives
                if step.ended[lane] or (lost_life and self.config.episode == "life"):
                    self._update(episode)
                if step.lives is not None:
                    episode.lives = int(step.lives[lane])
                if step.ended[lane]:
                    self._finish_game(lane, callback)
            if step.ended.any():
                self._begin_games(step.ended)
            callback.on_step(self)
        return self

    def _update(self, episode: Episode) -> None:
        """Write an episode into the memory, last step first (Eq. 1)."""
        states, keys, actions, returns = episode.backwards(self.config.gamma)
        began = time.perf_counter()
        self.memory.write(states, actions, returns, keys)
        self.tally.write_seconds += time.perf_counter() - began
        episode.forget_steps()

    def _choose(
        self,
        values: NDArray[np.float32],
        epsilon: float,
        exploration: np.random.Generator,
        ties: np.random.Generator | None,
    ) -> NDArray[np.int64]:
        """Actions of the highest value, or with probability epsilon any. Without `ties` the first of equals."""
        actions = np.empty(len(values), np.int64)
        explore = exploration.random(len(values)) < epsilon
        for lane, row in enumerate(values.tolist()):  # a list is faster than an array of six numbers
            highest = max(row)
            best = [action for action, value in enumerate(row) if value == highest]
            # Ties are common while buffers fill; always taking action 0 wastes the first episodes.
            if len(best) > 1 and ties is not None and self.config.ties == "random":
                best = [best[ties.integers(len(best))]]
            actions[lane] = exploration.integers(self.n_actions) if explore[lane] else best[0]
        return actions

    # -- Acting -------------------------------------------------------------------------------------------------------

    def predict(
        self,
        observation: NDArray[Any] | int,
        state: tuple[NDArray[Any], ...] | None = None,
        episode_start: NDArray[np.bool_] | None = None,
        deterministic: bool = False,
        *,
        epsilon: float | None = None,
        rng: np.random.Generator | None = None,
    ) -> tuple[NDArray[np.int64], None]:
        """The action for one observation or a batch of them, as in Stable-Baselines3. The memory stays as it is.

        `deterministic` takes the action of highest value, the first among equals; otherwise `epsilon` (by default
        the agent's own) of the actions are random, and ties too, from `rng` (by default the agent's own).
        """
        observations = np.asarray(observation, self.observation_space.dtype)
        shape = self.observation_space.shape
        single = observations.shape == shape
        if not single and observations.shape[1:] != shape:
            raise ValueError(f"an observation has the shape {shape} here, not {observations.shape}")
        batch = observations[None] if single else observations
        values = self.memory.estimate(self._embed(batch), array_keys(batch), mark_used=False).values
        if deterministic:
            actions = self._choose(values, 0.0, self._playing, None)
        else:
            rng = rng or self._playing
            actions = self._choose(values, self.config.epsilon if epsilon is None else epsilon, rng, rng)
        actions = actions + int(self.action_space.start)
        return (actions[0] if single else actions), None

    # -- Storage ------------------------------------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write everything the agent is and was doing to the directory `path`, atomically."""
        state = {
            "config": asdict(self.config),
            "seed": self.seed,
            "frames": self.frames,
            "games": self.games,
            "scores": list(self.scores),
            "tally": asdict(self.tally),
            "embedding": self.embedding.name,
            "memory": self.memory.settings(),
            "spaces": describe_spaces(self.observation_space, self.action_space),
            "exploration": self._exploration.bit_generator.state,
            "ties": self._ties.bit_generator.state,
            "playing": self._playing.bit_generator.state,
            "games_in_progress": self._games_in_progress(),
        }
        tensors = {
            "memory": self.memory.tensors(),
            "embedding": self.embedding.tensors(),
            "episodes": episode_tensors(self._episodes, self.embedding.dim),
        }
        write_checkpoint(path, kind="agent", state=state, tensors=tensors)

    @classmethod
    def load(cls, path: str | Path, env: AnyEnv | str | None = None) -> MFEC:
        """Read an agent that `save` wrote. With `env` it can go on learning; without, it can play."""
        state, tensors = read_checkpoint(path, kind="agent")
        try:
            agent = cls(None, **state["config"], seed=state["seed"])
            agent.observation_space, agent.action_space = spaces_from(state["spaces"])
            agent.embedding = restore_embedding(state["embedding"], tensors["embedding"])
            agent.memory = EpisodicMemory.restore(state["memory"], tensors["memory"])
            agent.frames, agent.games = state["frames"], state["games"]
            agent.scores.extend(state["scores"])
            agent.tally = Tally(**state["tally"])
            agent._exploration.bit_generator.state = state["exploration"]
            agent._ties.bit_generator.state = state["ties"]
            agent._playing.bit_generator.state = state["playing"]
            agent._to_restore = state["games_in_progress"]
            agent._episodes = restore_episodes(agent._to_restore, tensors["episodes"])
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"{path} is no complete agent: {error}") from None
        if env is not None:
            agent._set_env(make_env(env) if isinstance(env, str) else env)
        return agent

    def __repr__(self) -> str:
        return (
            f"MFEC(embedding={self.embedding.name}, k={self.config.k}, frames={self.frames}, "
            f"entries={len(self.memory)})"
        )

    # -- What hangs around the loop -----------------------------------------------------------------------------------

    @property
    def n_actions(self) -> int:
        """Number of actions."""
        return int(self.action_space.n)

    def _embed(self, observations: NDArray[Any]) -> NDArray[np.float32]:
        if isinstance(self.observation_space, spaces.Discrete):
            observations = observations - int(self.observation_space.start)
        return self.embedding(observations)

    def _set_env(self, env: AnyEnv) -> None:
        lanes = make_lanes(env, self._env_seed)
        if hasattr(self, "observation_space"):
            ours = describe_spaces(self.observation_space, self.action_space)
            theirs = describe_spaces(lanes.observation_space, lanes.action_space)
            if ours != theirs:
                raise ValueError(f"the agent was trained on {ours}, this environment has {theirs}")
        self.observation_space, self.action_space = lanes.observation_space, lanes.action_space
        self._lanes = lanes

    def _start(self) -> Lanes:
        """Begin games in all lanes, or bring back those that were in progress when the agent was saved."""
        if self._lanes is None:
            raise ValueError("this agent was loaded without an environment: MFEC.load(path, env=...)")
        lanes, saved = self._lanes, self._to_restore
        if saved is not None and saved["history"] is not None:
            if len(saved["lanes"]) != lanes.n:
                raise LaneError(f"the agent played {len(saved['lanes'])} environments, these are {lanes.n}")
            lanes.restore(saved["history"])
            self._refuse_bad_start()
            if saved["observations"] is not None and array_keys(lanes.observations).tolist() != saved["observations"]:
                raise LaneError(
                    "repeating the actions of the games in progress led elsewhere: "
                    "this is not the environment that was saved, or it is not deterministic under its seed"
                )
        elif saved is not None or not self._episodes:
            if saved is not None and saved["lanes"]:
                warnings.warn("games in progress could not be brought back; new ones begin", stacklevel=3)
            self._episodes = [Episode() for _ in range(lanes.n)]
            self._to_restore = None
            self._begin_games(np.ones(lanes.n, np.bool_))
        self._to_restore = None
        return lanes

    def _begin_games(self, mask: NDArray[np.bool_]) -> None:
        assert self._lanes is not None
        lives = self._lanes.begin(mask)
        for lane in np.flatnonzero(mask):
            self._episodes[lane] = Episode(lives=int(lives[lane]) if lives is not None else 0)
        self._refuse_bad_start()

    def _refuse_bad_start(self) -> None:
        assert self._lanes is not None
        if _finite(self._lanes.observations):
            return
        self._to_restore = {**(self._games_in_progress() or {}), "observations": None}
        raise BadEnvironmentData(f"a game begins with an observation that is not finite, after frame {self.frames}")

    def _finish_game(self, lane: int, callback: Callback) -> None:
        assert self._lanes is not None
        episode = self._episodes[lane]
        self.games += 1
        self.scores.append(episode.score)
        length_frames = episode.steps * self._lanes.frame_skip
        callback.on_game(self, Game(self.frames, self.games, episode.score, length_frames))

    def _refuse_bad_data(self, rewards: NDArray[np.float64], before: NDArray[Any]) -> None:
        assert self._lanes is not None
        if _finite(rewards) and _finite(self._lanes.observations):
            return
        what = "an observation that is not finite" if _finite(rewards) else f"the rewards {rewards.tolist()}"
        self._lanes.retract(before)
        self._to_restore = self._games_in_progress()  # the environments are already behind the bad step
        raise BadEnvironmentData(f"the environment returned {what} after frame {self.frames}")

    def _games_in_progress(self) -> dict[str, Any] | None:
        if self._to_restore is not None or self._lanes is None or not self._episodes:
            return self._to_restore
        return {
            "history": self._lanes.history(),
            "observations": array_keys(self._lanes.observations).tolist(),
            "lanes": [episode.summary() for episode in self._episodes],
        }


def _finite(numbers: NDArray[Any]) -> bool:
    return numbers.dtype.kind != "f" or bool(np.isfinite(numbers).all())
