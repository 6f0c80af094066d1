"""MFEC: model-free episodic control (Blundell et al., 2016, Algorithm 1)."""

from __future__ import annotations

import time
import warnings
from collections import deque
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from mfec.checkpoint import CheckpointError, read_checkpoint, write_checkpoint
from mfec.config import (
    EMBEDDINGS,
    AgentConfig,
    DeviceName,
    EmbeddingName,
    EpisodeEnd,
    Eviction,
    FewNeighbours,
    IndexName,
    Kernel,
    Ties,
    Truncated,
    Update,
)
from mfec.device import Channel, device_name
from mfec.embeddings import (
    Embedding,
    embedding_kind,
    make_embedding,
    restore_embedding,
)
from mfec.envs import make_env
from mfec.envs.crashes import EnvironmentCrash
from mfec.envs.environments import make_environments
from mfec.envs.flattening import Actions, Observations
from mfec.envs.spaces import describe_spaces, fits, misfit, spaces_from
from mfec.episode import Episode
from mfec.explanation import Explanation
from mfec.games import LARGEST, BadEnvironmentData, Decision, GamesInProgress, Played
from mfec.interface import Callback, CallbackList, Game, Metrics
from mfec.memory import EpisodicMemory
from mfec.memory.identities import array_keys

__all__ = ["MFEC", "BadEnvironmentData", "EnvironmentCrash"]

AnyEnv = gymnasium.Env[Any, Any] | VectorEnv[Any, Any, Any]
SETTINGS = {field.name for field in fields(AgentConfig)} - {"embedding"}


class MFEC:
    """Model-free episodic control.

    It remembers the best return that followed every state and action, looks up the k nearest memories where a state
    is new, and takes the action with the highest value. Defaults are the paper's for Atari; see `AgentConfig` for
    every setting. They are fixed when the agent is made, and can be read as `agent.k`.

    Args:
        env: a Gymnasium environment or vector environment, or its name. Observations that are no `Box` or `Discrete`
            are flattened, `MultiDiscrete` and `MultiBinary` actions numbered (`mfec.envs.flattening`).
        seed: makes the run: environment, exploration, ties and projection. None draws one.

    >>> agent = MFEC("FrozenLake-v1", gamma=0.9, capacity=1000, seed=0)
    >>> agent.learn(total_frames=1000)
    MFEC(embedding=table, k=11, frames=1000, entries=...)
    """

    stochastic = False  # its policy takes the highest value

    def __init__(
        self,
        env: AnyEnv | str | None,
        *,
        k: int = AgentConfig.k,
        kernel: Kernel = AgentConfig.kernel,
        gamma: float = AgentConfig.gamma,
        epsilon: float = AgentConfig.epsilon,
        capacity: int = AgentConfig.capacity,
        embedding: EmbeddingName | Embedding = AgentConfig.embedding,
        vae: str = AgentConfig.vae,
        dim: int = AgentConfig.dim,
        index: IndexName = AgentConfig.index,
        device: DeviceName | Channel = AgentConfig.device,
        recall: float = AgentConfig.recall,
        eviction: Eviction = AgentConfig.eviction,
        update: Update = AgentConfig.update,
        few_neighbours: FewNeighbours = AgentConfig.few_neighbours,
        ties: Ties = AgentConfig.ties,
        episode: EpisodeEnd = AgentConfig.episode,
        truncated: Truncated = AgentConfig.truncated,
        seed: int | None = None,
    ) -> None:
        named: Any = embedding if isinstance(embedding, str) else embedding.name
        self.config = AgentConfig(
            k=k, kernel=kernel, gamma=gamma, epsilon=epsilon, capacity=capacity,
            embedding=named if named in EMBEDDINGS else "auto", vae=vae, dim=dim,
            index=index, device=device_name(device), recall=recall, eviction=eviction, update=update,
            few_neighbours=few_neighbours, ties=ties, episode=episode, truncated=truncated,
        )  # fmt: skip
        self.seed = int(np.random.SeedSequence().generate_state(1)[0]) if seed is None else int(seed)
        env_seed, exploration, ties_seed, projection, playing = np.random.SeedSequence(self.seed).spawn(5)
        self._env_seed = env_seed
        self._exploration = np.random.default_rng(exploration)
        self._ties = np.random.default_rng(ties_seed)
        self._playing = np.random.default_rng(playing)  # for `predict`, so that it leaves learning alone
        self.observation_space: spaces.Box | spaces.Discrete[Any]
        self.action_space: spaces.Discrete[Any]
        self.frames = 0
        self.games = 0
        self.scores: deque[float] = deque(maxlen=100)
        self._tally = Tally()
        self._in_progress = GamesInProgress()
        self._untold: deque[Game] = deque()  # finished games of which the callback does not know yet
        if env is None:  # `load` fills in what an environment would have told
            return
        self._set_env(make_env(env) if isinstance(env, str) else env)
        self.embedding = (
            make_embedding(embedding, self.observation_space, dim, projection, vae)
            if isinstance(embedding, str)
            else embedding
        )
        self.memory = EpisodicMemory(
            self.n_actions, self.embedding.dim, capacity=capacity, k=k, kernel=kernel,
            index=self._index(index) or index, device=device,
            recall=recall, eviction=eviction, update=update, few_neighbours=few_neighbours,
        )  # fmt: skip
        self._memory_embeds = self._hand_over_embedding()

    # -- Algorithm 1 --------------------------------------------------------------------------------------------------

    def learn(self, total_frames: int, callback: Callback | Sequence[Callback] | None = None) -> MFEC:
        """Play and remember until the agent has seen `total_frames` frames in all (Algorithm 1)."""
        if self.frames >= total_frames:
            warnings.warn(f"the agent has already seen {self.frames} of {total_frames} frames", stacklevel=2)
        callbacks, games = CallbackList.of(callback), self._in_progress
        with callbacks.around(self, total_frames, whole_after=(BadEnvironmentData, EnvironmentCrash)):
            self._tell(callbacks)  # what the callbacks of an earlier call left untold
            games.start(self.frames)
            while self.frames < total_frames:
                # Of several environments one half acts, and the other half's step comes in, which was made meanwhile.
                played = games.step(self._act, self.frames)
                if played is not None:
                    self._remember(played, callbacks)
                if not callbacks.on_step(self):
                    break
        return self

    def _act(self, observations: NDArray[Any]) -> Decision:
        """Actions for some environments, (m, ...): those of the highest value there, or with epsilon any."""
        states = self._embed(observations)  # s_t = phi(o_t)
        keys = array_keys(observations)
        began = time.perf_counter()
        estimates = self.memory.estimate(states, keys)  # Eq. 2 for every action
        self._tally.lookup_seconds += time.perf_counter() - began
        actions, _ = self.choose(estimates.values, self.config.epsilon, self._exploration, self._ties)
        return Decision(estimates.states, keys, actions, estimates.exact)

    def _remember(self, played: Played, callbacks: CallbackList) -> None:
        """Add a step to the episodes that it belongs to, and write those that it ended into the memory."""
        self._tally.count(played.exact, played.actions)
        for episode, state, key, action, reward, ended, lives, cut_off in played.outcomes:
            self.frames += self.frame_skip
            episode.append(state, key, action, reward)
            died = self.config.episode == "life" and 0 <= lives < episode.lives
            if ended or died:
                self._update(episode, None if died else cut_off)
            if lives >= 0:
                episode.lives = lives
            if ended:
                self._finish_game(episode)
        try:
            self._in_progress.begin_after(played, self.frames)
        finally:  # a new game that begins with bad data does not undo the step
            callbacks.on_steps(self, played.steps)
            self._tell(callbacks)

    def _update(self, episode: Episode, cut_off: NDArray[Any] | None) -> None:
        """Write an episode into the memory, last step first (Eq. 1).

        cut_off: what it showed when a time limit cut it off, (1, ...); None where it ended by itself.
        """
        began = time.perf_counter()
        after = 0.0 if cut_off is None else self._value_after(episode, cut_off)
        if after is not None:
            states, keys, actions, returns = episode.backwards(self.config.gamma, after)
            self.memory.write(states, actions, returns, keys, episode.origins(self.frame_skip))
        self._tally.write_seconds += time.perf_counter() - began
        episode.forget_steps()

    def _value_after(self, episode: Episode, cut_off: NDArray[Any]) -> float | None:
        """What the memory is told to come after the end of an episode that was cut off; None if it is told nothing."""
        if self._truncated != "bootstrap":
            return 0.0 if self._truncated == "write" else None
        values = self.memory.estimate(self._embed(cut_off), array_keys(cut_off), mark_used=False).values
        known = values[np.isfinite(values)]  # of actions that were tried
        room = LARGEST - episode.magnitude
        return float(np.clip(known.max(), -room, room)) if len(known) else None

    def choose(
        self,
        values: NDArray[np.float32],
        epsilon: float,
        exploration: np.random.Generator,
        ties: np.random.Generator,
    ) -> tuple[NDArray[np.int64], list[bool]]:
        """Actions of the highest value, or with probability epsilon any; and which of them are any.

        values: float32 (n, n_actions).
        """
        actions = []
        explore = (exploration.random(len(values)) < epsilon).tolist()
        draws = ties if self.config.ties == "random" else None
        for row, exploring in zip(values.tolist(), explore, strict=True):  # lists are faster than arrays of six numbers
            highest = max(row)
            action = row.index(highest)
            # Ties are common while buffers fill; always taking action 0 wastes the first episodes.
            if draws is not None and row.count(highest) > 1:
                best = [action for action, value in enumerate(row) if value == highest]
                action = best[draws.integers(len(best))]
            actions.append(exploration.integers(self.n_actions) if exploring else action)
        return np.array(actions, np.int64), explore

    # -- Acting -------------------------------------------------------------------------------------------------------

    def predict(
        self,
        observation: Any,
        state: tuple[NDArray[Any], ...] | None = None,
        episode_start: NDArray[Any] | None = None,
        deterministic: bool = False,
        *,
        epsilon: float | None = None,
        rng: np.random.Generator | Sequence[np.random.Generator] | None = None,
    ) -> tuple[NDArray[np.int64], None]:
        """The action for one observation or a batch of them, as in Stable-Baselines3. The memory stays as it is.

        Observations are the environment's own, and so are the actions; a batch of a `Dict` is a dict of arrays.
        `deterministic` takes the action of highest value, the first among equals; otherwise `epsilon` (by default
        the agent's own) of the actions are random, and ties too, from `rng` (by default the agent's own), or from one
        for each observation.
        """
        single = self._seeing.is_one(observation)
        batch = self._batch(self._seeing.one(observation) if single else self._seeing.batch(observation))
        values = self.memory.estimate(self._embed(batch), array_keys(batch), mark_used=False).values
        if deterministic:
            actions = values.argmax(axis=1)
        else:
            chance = self.config.epsilon if epsilon is None else epsilon
            dice = [rng or self._playing] if rng is None or isinstance(rng, np.random.Generator) else rng
            rows = [values] if len(dice) == 1 else values[:, None]
            chosen = [self.choose(row, chance, own, own)[0] for row, own in zip(rows, dice, strict=True)]
            actions = np.concatenate(chosen)
        own = self._acting.own(actions)
        return (own[0] if single else own), None

    def explain(self, observation: Any) -> Explanation:
        """What every action is worth in one observation of the environment's, and the very memories that say so.

        They stay as they are. The values are those of `memory.estimate`. It prints as a table.
        """
        batch = self._batch(self._seeing.one(observation))
        evidence = self.memory.evidence(self._embed(batch), array_keys(batch))
        return Explanation(tuple(evidence), int(self.action_space.start))

    # -- Storage ------------------------------------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write everything the agent is and was doing to the directory `path`, atomically."""
        state = {
            "config": asdict(self.config),
            "seed": self.seed,
            "frames": self.frames,
            "games": self.games,
            "scores": list(self.scores),
            "tally": asdict(self._tally),
            "untold": [asdict(game) for game in self._untold],
            "embedding": embedding_kind(self.embedding),
            "memory": self.memory.settings(),
            "spaces": describe_spaces(self._seeing.own_space, self._acting.own_space),
            "exploration": self._exploration.bit_generator.state,
            "ties": self._ties.bit_generator.state,
            "playing": self._playing.bit_generator.state,
            "games_in_progress": self._in_progress.summary(),
        }
        tensors = {
            "memory": self.memory.tensors(),
            "embedding": self.embedding.tensors(),
            "episodes": self._in_progress.tensors(self.embedding.dim),
        }
        write_checkpoint(path, kind="agent", state=state, tensors=tensors)

    @classmethod
    def load(
        cls,
        path: str | Path,
        env: AnyEnv | str | None = None,
        *,
        embedding: Embedding | None = None,
        device: DeviceName | Channel = AgentConfig.device,
        index: IndexName | None = None,
    ) -> MFEC:
        """Read an agent that `save` wrote. With `env` it can go on learning; without, it can play.

        The agent may have been saved on another device; `index` takes the place of the one it had. An `embedding` of
        your own was not saved with it, and must be given.
        """
        state, tensors = read_checkpoint(path, kind="agent")
        if device_name(device) == "cuda" and state.get("config", {}).get("index") not in ("cuda", "auto"):
            index = index or "cuda"  # the exact index of a GPU, whatever searched on the CPU
        try:
            saved = {**state["config"], "device": device, "index": index or state["config"]["index"]}
            agent = cls(None, **saved, seed=state["seed"])
            observed, acted = spaces_from(state["spaces"])
            agent._set_spaces(Observations(observed), Actions(acted))
            agent.embedding = embedding or restore_embedding(state["embedding"], tensors["embedding"])
            if agent.embedding.dim != state["memory"]["dim"]:
                raise ValueError(f"its states have {state['memory']['dim']} numbers, not {agent.embedding.dim}")
            agent.memory = EpisodicMemory.restore(
                state["memory"], tensors["memory"], device=device, index=agent._index(index)
            )
            agent._memory_embeds = agent._hand_over_embedding()
            agent.frames, agent.games = state["frames"], state["games"]
            agent.scores.extend(state["scores"])
            agent._untold.extend(Game(**game) for game in state["untold"])
            agent._tally = Tally(**state["tally"])
            agent._exploration.bit_generator.state = state["exploration"]
            agent._ties.bit_generator.state = state["ties"]
            agent._playing.bit_generator.state = state["playing"]
            agent._in_progress.restore(state["games_in_progress"], tensors["episodes"], ended=agent.games)
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

    def __getattr__(self, name: str) -> Any:
        if name in SETTINGS:
            return getattr(self.config, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __setattr__(self, name: str, value: Any) -> None:
        if name in SETTINGS:
            raise AttributeError(
                f"{name} is fixed when an agent is made, MFEC(env, {name}=...), so that its settings say what it did; "
                "`predict` takes another epsilon for playing"
            )
        super().__setattr__(name, value)

    # -- What hangs around the loop -----------------------------------------------------------------------------------

    @property
    def n_actions(self) -> int:
        """Number of actions."""
        return int(self.action_space.n)

    @property
    def games_begun(self) -> int:
        """Games that were begun, whether they have ended or not."""
        return self._in_progress.begun

    @property
    def games_in_progress(self) -> dict[int, int]:
        """Steps so far of the games that have not ended, by their numbers."""
        return {episode.number: episode.steps for episode in self._in_progress.episodes}

    @property
    def frame_skip(self) -> int:
        """Frames in a step."""
        envs = self._in_progress.envs
        return 1 if envs is None else envs.frame_skip

    @property
    def env_seed(self) -> np.random.SeedSequence:
        """What the seeds of all games are made of."""
        return self._env_seed

    @property
    def evaluation_epsilon(self) -> float:
        """Its own epsilon."""
        return self.config.epsilon

    def metrics(self) -> Metrics:
        """Shares of exact matches, milliseconds of look-ups and writes in a step, and what the memory holds."""
        tally, memory = self._tally, self.memory
        recall = memory.measured_recall
        return {
            "exact_match_rate": round(tally.exact / tally.lookups, 6) if tally.lookups else None,
            "exact_match_rate_chosen": round(tally.exact_chosen / tally.steps, 6) if tally.steps else None,
            "memory_entries": len(memory),
            "memory_bytes": memory.nbytes,
            "memory_fill": round(float(max(memory.sizes) / memory.capacity), 6),
            "lookup_ms": round(1000.0 * tally.lookup_seconds / tally.steps, 4) if tally.steps else None,
            "write_ms": round(1000.0 * tally.write_seconds / tally.steps, 4) if tally.steps else None,
            "recall": None if recall is None else round(recall, 4),
        }

    def begin_row(self) -> None:
        """Count anew."""
        self._tally = Tally()

    def states(self, observations: NDArray[Any]) -> NDArray[np.float32]:
        """The states, float32 (n, dim), of observations (n, ...)."""
        if isinstance(self.observation_space, spaces.Discrete):
            observations = observations - int(self.observation_space.start)
        return self.embedding(observations)

    def _embed(self, observations: NDArray[Any]) -> NDArray[Any]:
        """States of observations; or the observations in rows, where the memory makes states of them itself."""
        return observations.reshape(len(observations), -1) if self._memory_embeds else self.states(observations)

    def _index(self, index: IndexName | None) -> IndexName | None:
        """The index that is asked for, unless the states have no neighbours to find."""
        return index if getattr(self.embedding, "has_neighbours", True) else "none"

    def _hand_over_embedding(self) -> bool:
        """Let the memory make states of bytes, if it is on a device: a picture then crosses over once."""
        if check := getattr(self.embedding, "check_fits", None):
            check(self.observation_space.dtype, self.observation_space.shape)
        return self.observation_space.dtype == np.uint8 and self.memory.embed_with(self.embedding)

    def _set_env(self, env: AnyEnv) -> None:
        envs = make_environments(env, self._env_seed)
        if hasattr(self, "observation_space"):
            ours = describe_spaces(self._seeing.own_space, self._acting.own_space)
            theirs = describe_spaces(envs.seeing.own_space, envs.acting.own_space)
            if ours != theirs:
                raise ValueError(f"the agent was trained on {ours}, this environment has {theirs}")
        self._set_spaces(envs.seeing, envs.acting)
        self._in_progress.envs = envs
        self._truncated = self.config.resolved_truncated(envs.facts.published)

    def _set_spaces(self, seeing: Observations, acting: Actions) -> None:
        self._seeing, self._acting = seeing, acting
        self.observation_space, self.action_space = seeing.space, acting.space

    def _batch(self, batch: NDArray[Any]) -> NDArray[Any]:
        """Observations (n, ...) as learning sees them; an error where they are none of the environment's."""
        if batch.shape[1:] != self.observation_space.shape or not batch.ndim:
            raise ValueError(f"an observation has the shape {self.observation_space.shape} here, not {batch.shape}")
        if not fits(batch, self.observation_space):
            raise ValueError(f"this is {misfit(batch, self.observation_space)}")
        return batch

    def _finish_game(self, episode: Episode) -> None:
        self.games += 1
        self.scores.append(episode.score)
        self._untold.append(Game(self.frames, self.games, episode.score, episode.steps * self.frame_skip))

    def _tell(self, callbacks: CallbackList) -> None:
        while self._untold:
            callbacks.on_game(self, self._untold.popleft())


@dataclass
class Tally:
    """Counts since the last row of progress."""

    steps: int = 0
    lookups: int = 0
    exact: int = 0
    exact_chosen: int = 0
    lookup_seconds: float = 0.0
    write_seconds: float = 0.0

    def count(self, exact: NDArray[np.bool_], actions: NDArray[np.int64]) -> None:
        """Look-ups of all actions in some environments, bool (m, n_actions), and the actions taken there, (m,)."""
        self.steps += len(actions)
        self.lookups += exact.size
        self.exact += int(np.count_nonzero(exact))
        self.exact_chosen += int(np.count_nonzero(exact[np.arange(len(actions)), actions]))
