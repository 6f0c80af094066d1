"""MFEC: model-free episodic control (Blundell et al., 2016, Algorithm 1)."""

from __future__ import annotations

import time
import warnings
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, TypedDict, Unpack

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
    EpisodeEnd,
    Eviction,
    FewNeighbours,
    IndexName,
    Kernel,
    Ties,
    Truncated,
    Update,
    is_import_name,
)
from mfec.device import Channel, device_name
from mfec.embeddings import (
    Embedding,
    embedding_kind,
    fingerprint,
    given_embedding,
    make_embedding,
    mismatch,
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
from mfec.interface import CallbackList, Callbacks, Game, Metrics
from mfec.memory import EpisodicMemory
from mfec.memory.identities import array_keys
from mfec.progress import ProgressBar
from mfec.schedule import Linear
from mfec.summary import agent_html

__all__ = ["MFEC", "BadEnvironmentData", "EnvironmentCrash"]

AnyEnv = gymnasium.Env[Any, Any] | VectorEnv[Any, Any, Any]
SETTINGS = {field.name for field in fields(AgentConfig)} - {"embedding"}


class Changes(TypedDict, total=False):
    """The settings that `MFEC.load` can change; with another of the rest, what is remembered would mean nothing."""

    k: int
    kernel: Kernel
    gamma: float
    epsilon: float | str | Linear
    capacity: int
    recall: float
    eviction: Eviction
    update: Update
    few_neighbours: FewNeighbours
    ties: Ties
    episode: EpisodeEnd
    truncated: Truncated


class MFEC:
    """Model-free episodic control.

    It remembers the best return that followed every state and action, looks up the k nearest memories where a state
    is new, and takes the action with the highest value. Defaults are the paper's for Atari; see `AgentConfig` for
    every setting. They are fixed when the agent is made, and can be read as `agent.k`.

    Args:
        env: a Gymnasium environment or vector environment, or its name. Observations that are no `Box` or `Discrete`
            are flattened, `MultiDiscrete` and `MultiBinary` actions numbered (`mfec.envs.flattening`).
        epsilon: the chance of a random action: a number, or `Linear(1.0, 0.005, frames=100_000)`, which is over after
            so many frames; `agent.epsilon` is the chance at present.
        embedding: a name, or one of your own: a callable or a torch module that makes states (n, dim) of observations
            (n, ...), an `Embedding`, or `package.module:object`.
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
        epsilon: float | str | Linear = AgentConfig.epsilon,
        capacity: int = AgentConfig.capacity,
        embedding: str | Embedding | Callable[[Any], Any] = AgentConfig.embedding,
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
        named = embedding if isinstance(embedding, str) else getattr(embedding, "name", "auto")
        self.config = AgentConfig(
            k=k, kernel=kernel, gamma=gamma, epsilon=str(epsilon) if isinstance(epsilon, Linear) else epsilon,
            capacity=capacity,
            embedding=named if isinstance(embedding, str) or named in EMBEDDINGS else "auto", vae=vae, dim=dim,
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
        self.env: AnyEnv | None = None  # that it plays in; `set_env` gives it another
        self.run_directory: Path | None = None  # that it was trained in, if `mfec.train` has trained it
        self.frames = 0
        self.games = 0
        self.scores: deque[float] = deque(maxlen=100)
        self._tally = Tally()
        self._in_progress = GamesInProgress()
        self._untold: deque[Game] = deque()  # finished games of which the callback does not know yet
        if env is None:  # `load` fills in what an environment would have told
            return
        self._play_in(env)
        self.embedding = make_embedding(embedding, self.observation_space, dim, projection, vae)
        self.memory = EpisodicMemory(
            self.n_actions, self.embedding.dim, capacity=capacity, k=k, kernel=kernel,
            index=self._index(index) or index, device=device,
            recall=recall, eviction=eviction, update=update, few_neighbours=few_neighbours,
        )  # fmt: skip
        self._memory_embeds = self._hand_over_embedding()

    # -- Algorithm 1 --------------------------------------------------------------------------------------------------

    def learn(self, total_frames: int, callback: Callbacks | None = None, *, progress_bar: bool = False) -> MFEC:
        """Play and remember until the agent has seen `total_frames` frames in all (Algorithm 1).

        callback: a `Callback`, a function of the agent that is called after every step, or several of them; one that
        returns False ends it. progress_bar: show one, on a terminal and in a notebook.

        >>> agent = MFEC("FrozenLake-v1", capacity=1000, seed=0)
        >>> agent.learn(10_000, lambda agent: agent.games < 5).games
        5
        """
        if self.frames >= total_frames:
            warnings.warn(f"the agent has already seen {self.frames} of {total_frames} frames", stacklevel=2)
        callbacks = CallbackList.of(callback, *([ProgressBar()] if progress_bar else []))
        games = self._in_progress
        with callbacks.around(self, total_frames, whole_after=(BadEnvironmentData, EnvironmentCrash)):
            self._tell(callbacks)  # what the callbacks of an earlier call left untold
            while self.frames < total_frames:
                games.start(self.frames)  # at first, and where a callback has set another environment
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
        actions, _ = self.choose(estimates.values, self.epsilon, self._exploration, self._ties)
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
        estimate = self.memory.estimate(self._embed(cut_off), array_keys(cut_off), mark_used=False)
        # Neighbours of a known state can promise more than it ever paid; written, that would be believed for good. A
        # corridor with a door at its end was learned by all of five seeds instead of one, MiniGrid-Empty by three.
        known = estimate.values[estimate.exact if estimate.exact.any() else np.isfinite(estimate.values)]
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
            chance = self.epsilon if epsilon is None else epsilon
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
        if state["embedding"] not in EMBEDDINGS:  # of the user's own, which no checkpoint can hold
            tensors["fingerprint"] = fingerprint(self.embedding, self.observation_space)
        write_checkpoint(path, kind="agent", state=state, tensors=tensors)

    @classmethod
    def load(
        cls,
        path: str | Path,
        env: AnyEnv | str | None = None,
        *,
        embedding: str | Embedding | Callable[[Any], Any] | None = None,
        device: DeviceName | Channel = AgentConfig.device,
        index: IndexName | None = None,
        **changes: Unpack[Changes],
    ) -> MFEC:
        """Read an agent that `save` wrote. With `env` it can go on learning; without, it can play.

        The agent may have been saved on another device; `index` takes the place of the one it had. An `embedding` of
        your own was not saved with it, and must be given; it is an error if it makes other states than those that the
        agent remembers. Settings that can change without what is remembered losing its meaning may be others from here
        on (see `Changes`), and are saved with the agent: values that are there already stay as they are, also those of
        another `gamma` or `update`.

        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     MFEC("FrozenLake-v1", capacity=1000, seed=0).learn(1000).save(folder)
        ...     agent = MFEC.load(folder, "FrozenLake-v1", k=3, epsilon=0.0)
        >>> agent.k, agent.epsilon, agent.num_timesteps
        (3, 0.0, 1000)
        """
        _refuse_other_changes(changes)
        state, tensors = read_checkpoint(path, kind="agent")
        _refuse_smaller_capacity(changes, tensors)
        if device_name(device) == "cuda" and state.get("config", {}).get("index") not in ("cuda", "auto"):
            index = index or "cuda"  # the exact index of a GPU, whatever searched on the CPU
        try:
            saved = {**state["config"], "device": device, "index": index or state["config"]["index"]}
            agent = cls(None, **{**saved, **changes}, seed=state["seed"])
            observed, acted = spaces_from(state["spaces"])
            agent._set_spaces(Observations(observed), Actions(acted))
            agent.embedding = agent._load_embedding(embedding, state, tensors, path)
            agent.memory = EpisodicMemory.restore(
                _with_changes(state["memory"], changes), tensors["memory"], device=device, index=agent._index(index)
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
            agent._play_in(env)
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
                "`predict` takes another epsilon for playing, `MFEC.load` other settings for what comes"
            )
        super().__setattr__(name, value)

    def _repr_html_(self) -> str:
        facts = {"entries": f"{len(self.memory):,}"} if hasattr(self, "memory") else {}
        return agent_html(self, "MFEC", env=self.env, settings=self.config, facts=facts)

    # -- What hangs around the loop -----------------------------------------------------------------------------------

    @property
    def epsilon(self) -> float:
        """Chance of a random action, at present."""
        return self.config.epsilon_at(self.frames)

    @property
    def num_timesteps(self) -> int:
        """Steps of environments so far, as Stable-Baselines3 counts them: frames, by the frames in a step."""
        return self.frames // self.frame_skip

    def set_env(self, env: AnyEnv | str) -> None:
        """Play in another environment from now on, which must have the same spaces.

        Games in progress are given up, without a trace in the memory; `MFEC.load(path, env)` is what goes on with them.
        New ones begin, on seeds that the agent has not played yet.

        >>> agent = MFEC("FrozenLake-v1", capacity=1000, seed=0).learn(1000)
        >>> agent.set_env(gymnasium.make("FrozenLake-v1", is_slippery=False))
        >>> agent.learn(2000).num_timesteps
        2000
        """
        self._play_in(env)
        self._in_progress.give_up()

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
        return self.epsilon

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
            **({"epsilon": round(self.epsilon, 6)} if isinstance(self.config.epsilon, str) else {}),
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

    def _load_embedding(self, given: Any, state: dict[str, Any], tensors: dict[str, Any], path: Any) -> Embedding:
        """The embedding of a checkpoint, or the given one, if it is the same."""
        kind, own, space = state["embedding"], tensors["embedding"], self.observation_space
        if given is not None:
            embedding = given_embedding(given, own, space)
        elif is_import_name(self.config.embedding):  # what it names is not imported without being asked for
            raise CheckpointError(
                f"{path} has an embedding of your own; `load` needs {self.config.embedding!r} as well"
            )
        else:
            embedding = restore_embedding(kind, own)
        if embedding.dim != state["memory"]["dim"]:
            difference = f"its states have {state['memory']['dim']} numbers, not {embedding.dim}"
        elif "fingerprint" in tensors:
            difference = mismatch(embedding, tensors["fingerprint"])
        elif given is not None and kind in EMBEDDINGS:
            difference = mismatch(embedding, fingerprint(restore_embedding(kind, own), space))
        else:
            difference = ""
        if difference:
            raise CheckpointError(f"{path} was saved with another embedding than {embedding.name}: {difference}")
        return embedding

    def _index(self, index: IndexName | None) -> IndexName | None:
        """The index that is asked for, unless the states have no neighbours to find."""
        return index if getattr(self.embedding, "has_neighbours", True) else "none"

    def _hand_over_embedding(self) -> bool:
        """Let the memory make states of bytes, if it is on a device: a picture then crosses over once."""
        if check := getattr(self.embedding, "check_fits", None):
            check(self.observation_space.dtype, self.observation_space.shape)
        return self.observation_space.dtype == np.uint8 and self.memory.embed_with(self.embedding)

    def _play_in(self, env: AnyEnv | str) -> None:
        made = make_env(env) if isinstance(env, str) else env
        envs = make_environments(made, self._env_seed)
        if hasattr(self, "observation_space"):
            ours = describe_spaces(self._seeing.own_space, self._acting.own_space)
            theirs = describe_spaces(envs.seeing.own_space, envs.acting.own_space)
            if ours != theirs:
                raise ValueError(f"the agent was trained on {ours}, this environment has {theirs}")
        self._set_spaces(envs.seeing, envs.acting)
        self.env, self._in_progress.envs = made, envs
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


def _refuse_other_changes(changes: Changes) -> None:
    unknown = changes.keys() - Changes.__annotations__.keys()
    if unknown:
        raise TypeError(
            f"an agent cannot be loaded with another {', '.join(sorted(unknown))}; what can change is "
            f"device, index, {', '.join(Changes.__annotations__)}"
        )
    AgentConfig(**changes)  # type: ignore[arg-type]  # senseless ones are no fault of the checkpoint


def _refuse_smaller_capacity(changes: Changes, tensors: dict[str, Any]) -> None:
    sizes = tensors.get("memory", {}).get("sizes", np.zeros(1, np.int64))
    if "capacity" in changes and changes["capacity"] < sizes.max():
        raise ValueError(
            f"capacity must be at least {sizes.max()}, the entries of its fullest buffer, not {changes['capacity']}"
        )


def _with_changes(memory: dict[str, Any], changes: Changes) -> dict[str, Any]:
    """The settings of a memory, with these changed where they are its own."""
    own = {name: value for name, value in changes.items() if name in memory}
    # How many cells an approximate search reads was found for the k and the recall that it had, so it begins anew.
    anew = any(own.get(name, memory[name]) != memory[name] for name in ("k", "recall"))
    return {**memory, **own, **({"index_kind": "none"} if anew else {})}


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
