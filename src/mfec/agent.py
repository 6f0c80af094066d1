"""MFEC: model-free episodic control (Blundell et al., 2016, Algorithm 1)."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

from mfec.checkpoint import CheckpointError, Files, read_checkpoint
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
from mfec.envs.crashes import EnvironmentCrash
from mfec.episode import Episode
from mfec.episodic_agent import EpisodicAgent
from mfec.games import BadEnvironmentData, Decision
from mfec.memory import EpisodicMemory
from mfec.memory.identities import array_keys
from mfec.resumable_agent import AnyEnv, complete_agent
from mfec.schedule import Linear
from mfec.tally import Tally

__all__ = ["MFEC", "BadEnvironmentData", "EnvironmentCrash", "Tally"]


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


class MFEC(EpisodicAgent):
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

    _settings = AgentConfig
    config: AgentConfig
    embedding: Embedding

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
        config = AgentConfig(
            k=k, kernel=kernel, gamma=gamma, epsilon=str(epsilon) if isinstance(epsilon, Linear) else epsilon,
            capacity=capacity,
            embedding=named if isinstance(embedding, str) or named in EMBEDDINGS else "auto", vae=vae, dim=dim,
            index=index, device=device_name(device), recall=recall, eviction=eviction, update=update,
            few_neighbours=few_neighbours, ties=ties, episode=episode, truncated=truncated,
        )  # fmt: skip
        super().__init__(env, config=config, seed=seed)
        if env is None:  # `load` fills in the rest
            return
        self.embedding = make_embedding(embedding, self.observation_space, dim, self._projection, vae)
        self.memory = EpisodicMemory(
            self.n_actions, self.embedding.dim, capacity=capacity, k=k, kernel=kernel,
            index=self._index(index) or index, device=device,
            recall=recall, eviction=eviction, update=update, few_neighbours=few_neighbours,
        )  # fmt: skip
        self._hand_over_embedding()

    # -- Algorithm 1 --------------------------------------------------------------------------------------------------
    # Its loop is `EpisodicAgent.learn`: act, make the step, and where an episode ends, update.

    def _act(self, observations: NDArray[Any]) -> Decision:
        """Actions for some environments, (m, ...): those of the highest value there, or with epsilon any."""
        states = self._embed(observations)  # s_t = phi(o_t)
        keys = array_keys(observations)
        began = time.perf_counter()
        estimates = self.memory.estimate(states, keys)  # Eq. 2 for every action
        self._tally.lookup_seconds += time.perf_counter() - began
        actions, _ = self.choose(estimates.values, self.epsilon, self._exploration, self._ties)
        return Decision(estimates.states, keys, actions, estimates.exact)

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

    # -- Storage ------------------------------------------------------------------------------------------------------

    def _state(self) -> dict[str, Any]:
        return {**super()._state(), "embedding": embedding_kind(self.embedding)}

    def _tensors(self) -> dict[str, dict[str, NDArray[Any]]]:
        tensors = {"embedding": self.embedding.tensors(), **super()._tensors()}
        if embedding_kind(self.embedding) not in EMBEDDINGS:  # of the user's own, which no checkpoint can hold
            tensors["fingerprint"] = fingerprint(self.embedding, self.observation_space)
        return tensors

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
        state, tensors = read_checkpoint(path, kind=cls.kind)
        _refuse_smaller_capacity(changes, tensors)
        if device_name(device) == "cuda" and state.get("config", {}).get("index") not in ("cuda", "auto"):
            index = index or "cuda"  # the exact index of a GPU, whatever searched on the CPU
        with complete_agent(path):
            replaced = {"device": device, "index": index or state["config"]["index"], **changes}
            agent = cls._restored(state, tensors, **replaced)
            agent.embedding = agent._load_embedding(embedding, state, tensors, path)
            agent.memory = EpisodicMemory.restore(
                _with_changes(state["memory"], changes), tensors["memory"], device=device, index=agent._index(index)
            )
            agent._hand_over_embedding()
        if env is not None:
            agent._play_in(env)
        return agent

    def __repr__(self) -> str:
        return (
            f"MFEC(embedding={self.embedding.name}, k={self.config.k}, frames={self.frames}, "
            f"entries={len(self.memory)})"
        )

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

    def _hand_over_embedding(self) -> None:
        if check := getattr(self.embedding, "check_fits", None):
            check(self.observation_space.dtype, self.observation_space.shape)
        super()._hand_over_embedding()


def _refuse_other_changes(changes: Changes) -> None:
    unknown = changes.keys() - Changes.__annotations__.keys()
    if unknown:
        raise TypeError(
            f"an agent cannot be loaded with another {', '.join(sorted(unknown))}; what can change is "
            f"device, index, {', '.join(Changes.__annotations__)}"
        )
    AgentConfig(**changes)  # type: ignore[arg-type]  # senseless ones are no fault of the checkpoint


def _refuse_smaller_capacity(changes: Changes, tensors: dict[str, Any]) -> None:
    if "capacity" not in changes:
        return
    memory = tensors.get("memory", {})
    columns = memory[-1] if isinstance(memory, Files) else memory
    sizes = columns.get("sizes", np.zeros(1, np.int64))
    if changes["capacity"] < sizes.max():
        raise ValueError(
            f"capacity must be at least {sizes.max()}, the entries of its fullest buffer, not {changes['capacity']}"
        )


def _with_changes(memory: dict[str, Any], changes: Changes) -> dict[str, Any]:
    """The settings of a memory, with these changed where they are its own."""
    own = {name: value for name, value in changes.items() if name in memory}
    # How many cells an approximate search reads was found for the k and the recall that it had, so it begins anew.
    anew = any(own.get(name, memory[name]) != memory[name] for name in ("k", "recall"))
    return {**memory, **own, **({"index_kind": "none"} if anew else {})}
