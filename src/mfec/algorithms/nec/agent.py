"""Neural Episodic Control (Pritzel et al., 2017): an episodic memory whose embedding is learned through the memory."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mfec.algorithms.nec.dictionary import NeuralDictionary
from mfec.algorithms.nec.minibatch import Minibatch, RecordedMinibatch
from mfec.algorithms.nec.network import Diverged, KeyNetwork, NetworkEmbedding
from mfec.algorithms.nec.replay import Replay
from mfec.algorithms.nec.settings import NECConfig, stacked
from mfec.algorithms.torch_state import module_tensors, optimizer_tensors, restore_module, restore_optimizer
from mfec.checkpoint import read_checkpoint
from mfec.config import DeviceName, EpisodeEnd, FewNeighbours, IndexName, Ties, Truncated
from mfec.device import Channel, device_name, refuse_missing
from mfec.envs import make_env
from mfec.envs.spaces import n_planes
from mfec.episode import Episode
from mfec.episodic_agent import EpisodicAgent
from mfec.games import Decision, Played
from mfec.interface import CallbackList, Metrics
from mfec.memory import EpisodicMemory
from mfec.memory.identities import array_keys
from mfec.resumable_agent import AnyEnv, complete_agent
from mfec.schedule import Linear
from mfec.threads import n_threads

import torch  # isort: skip  # after the modules above have said what is missing

CHANGEABLE = {
    "gamma", "epsilon", "alpha", "learning_rate", "key_learning_rate", "value_learning_rate", "batch_size",
    "leave_one_out", "train_frames", "ties", "episode", "truncated",
}  # fmt: skip
"""The settings that `NEC.load` can change; with another of the rest, what is remembered would not fit."""


class NEC(EpisodicAgent):
    """Neural Episodic Control.

    A network makes keys of observations. For each action a dictionary says what was worth how much: a value is the mean
    of the p nearest keys' values, the nearer the more. N-step returns are written as soon as they are known, and every
    16 frames a minibatch from replay moves the network, and the keys and values that were found, towards them.

    Defaults are the paper's where it has them; see `NECConfig` for every setting, and `docs/nec.md` for the choices.

    Args:
        env: a Gymnasium environment or vector environment, or its name. Atari games by name show four frames, as in the
            paper; that is `make_atari("qbert", frame_stack=4)`.
        epsilon: the chance of a random action: a number, or `Linear(1.0, 0.005, frames=50_000)`.
        seed: makes the run: environment, exploration, ties, network and minibatches. None draws one.

    >>> agent = NEC("CartPole-v1", capacity=1000, replay_start=100, seed=0)
    >>> agent.learn(total_frames=200)
    NEC(p=50, frames=200, entries=...)
    """

    kind = "nec"
    _settings = NECConfig

    def __init__(
        self,
        env: AnyEnv | str | None,
        *,
        p: int = NECConfig.p,
        delta: float = NECConfig.delta,
        gamma: float = NECConfig.gamma,
        n_step: int = NECConfig.n_step,
        epsilon: float | str | Linear = NECConfig.epsilon,
        capacity: int = NECConfig.capacity,
        dim: int = NECConfig.dim,
        alpha: float = NECConfig.alpha,
        learning_rate: float = NECConfig.learning_rate,
        key_learning_rate: float = NECConfig.key_learning_rate,
        value_learning_rate: float = NECConfig.value_learning_rate,
        leave_one_out: bool = NECConfig.leave_one_out,
        batch_size: int = NECConfig.batch_size,
        train_frames: int = NECConfig.train_frames,
        replay_capacity: int = NECConfig.replay_capacity,
        replay_start: int = NECConfig.replay_start,
        index: IndexName = NECConfig.index,
        device: DeviceName | Channel = NECConfig.device,
        recall: float = NECConfig.recall,
        few_neighbours: FewNeighbours = NECConfig.few_neighbours,
        ties: Ties = NECConfig.ties,
        episode: EpisodeEnd = NECConfig.episode,
        truncated: Truncated = NECConfig.truncated,
        seed: int | None = None,
    ) -> None:
        config = NECConfig(
            p=p, delta=delta, gamma=gamma, n_step=n_step,
            epsilon=str(epsilon) if isinstance(epsilon, Linear) else epsilon, capacity=capacity, dim=dim, alpha=alpha,
            learning_rate=learning_rate, key_learning_rate=key_learning_rate, value_learning_rate=value_learning_rate,
            leave_one_out=leave_one_out, batch_size=batch_size, train_frames=train_frames,
            replay_capacity=replay_capacity, replay_start=replay_start, index=index, device=device_name(device),
            recall=recall, few_neighbours=few_neighbours, ties=ties, episode=episode, truncated=truncated,
        )  # fmt: skip
        super().__init__(env, config=config, seed=seed)
        self._due = 0  # minibatches
        self._draws = np.random.default_rng(self._projection.spawn(1)[0])
        self._updates = 0
        self._losses = (0, 0.0)  # how many since the last row of progress, and their sum
        if env is not None:
            self._make(device)
            self._connect()

    def _make(self, device: DeviceName | Channel) -> None:
        """Make network, dictionary and replay for the environment's spaces."""
        config = self.config
        refuse_missing(config.device)
        # A small network is ten times slower on two threads than on one, where another process is busy.
        torch.set_num_threads(n_threads() if n_planes(self.observation_space) else 1)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(self._projection.generate_state(1)[0]))
            network = KeyNetwork(self.observation_space, config.dim)
        self.embedding: NetworkEmbedding = NetworkEmbedding(network, config.dim, config.device)
        self.dictionary = NeuralDictionary(
            self.n_actions, config.dim, capacity=config.capacity, p=config.p, delta=config.delta, alpha=config.alpha,
            index=config.index, recall=config.recall, few_neighbours=config.few_neighbours, device=device,
        )  # fmt: skip
        space = self.observation_space
        self.replay = Replay(config.replay_capacity, space.shape or (), space.dtype, planes=n_planes(space) or 1)

    def _connect(self) -> None:
        """Let memory and minibatches have what they need of each other; another memory must be connected again."""
        self.memory: EpisodicMemory = self.dictionary.memory
        self._hand_over_embedding()
        channel = self.dictionary.channel
        buffers = None if isinstance(channel, str) else channel.buffers
        parts = self.embedding, self.dictionary, self.config
        self._minibatch = (
            RecordedMinibatch(*parts, buffers, (self.observation_space.shape or (), self.observation_space.dtype))
            if buffers is not None and buffers.by_kernels
            else Minibatch(*parts)
        )

    # -- The algorithm ------------------------------------------------------------------------------------------------

    def _act(self, observations: NDArray[Any]) -> Decision:
        """Actions for some environments, (m, ...): those of the highest value there, or with epsilon any."""
        states = self._embed(observations)  # h = f(o)
        keys = array_keys(observations)
        began = time.perf_counter()
        estimates = self.memory.estimate(states, keys)
        values = estimates.values  # Q(s, a) for every action
        self._tally.lookup_seconds += time.perf_counter() - began
        actions, _ = self.choose(values, self.epsilon, self._exploration, self._ties)
        known = np.where(np.isfinite(values), values, -np.inf).max(axis=1)
        highest = np.where(np.isfinite(known), known, np.float32(0.0))  # of nothing nothing is known
        return Decision(estimates.states, keys, actions, estimates.exact, highest)

    def _remember(self, played: Played, callbacks: CallbackList) -> None:
        """Write the steps that N further ones are now known of, and keep what was seen."""
        self._finish_minibatch()
        began = time.perf_counter()
        assert played.values is not None
        seen = played.steps.observations[played.steps.valid]
        envs = np.arange(played.steps.envs.start, played.steps.envs.stop)[played.steps.valid]
        rows = zip(played.outcomes, played.values.tolist(), seen, envs.tolist(), strict=True)
        for (episode, *_), value, observation, env in rows:
            if len(episode.actions) == self.config.n_step:
                # Q_N = r_0 + gamma r_1 + ... + gamma^(N-1) r_(N-1) + gamma^N max_a Q(s_N, a), as it was just looked up.
                ret = value
                for reward in reversed(episode.rewards):
                    ret = reward + self.config.gamma * ret
                self._write(episode, [ret])
            episode.places.append(self.replay.keep(env, observation))
        self._tally.write_seconds += time.perf_counter() - began
        due = self.frames % self.config.train_frames + len(played.outcomes) * self.frame_skip
        self._due += due // self.config.train_frames
        super()._remember(played, callbacks)

    def _meanwhile(self) -> None:
        """Learn from replay: the minibatches that are due."""
        while self._due:
            self._due -= 1
            if len(self.replay) >= self.config.replay_start:
                self._finish_minibatch()
                drawn = self.replay.draw(self.config.batch_size, self._draws)
                self._minibatch.begin(drawn, array_keys(drawn.observations) if self.config.leave_one_out else None)

    def _finish_minibatch(self) -> None:
        loss = self._minibatch.finish()
        if loss is not None:
            if not math.isfinite(loss):
                raise Diverged("losses")
            self._updates += 1
            self._losses = self._losses[0] + 1, self._losses[1] + loss

    def _update(self, episode: Episode, cut_off: NDArray[Any] | None) -> None:
        """Write the last N steps of an episode, whose returns end with it.

        cut_off: what it showed when a time limit cut it off, (1, ...); None where it ended by itself.
        """
        began = time.perf_counter()
        after = 0.0 if cut_off is None else self._value_after(episode, cut_off)
        if after is None and self._truncated == "bootstrap":  # nothing is known yet
            after = 0.0
        if after is not None:
            *_, returns = episode.backwards(self.config.gamma, after)
            self._write(episode, returns[::-1].tolist())
        self.replay.give_up(episode.places)
        episode.forget_steps()
        self._tally.write_seconds += time.perf_counter() - began

    def _write(self, episode: Episode, returns: list[float]) -> None:
        """Write the first steps of an episode, as many as there are returns, into the dictionaries and into replay."""
        steps = [episode.take_first(self.frame_skip) for _ in returns]
        states, keys, actions, places, origins = zip(*steps, strict=True)
        self.dictionary.write(np.array(states), np.array(actions), returns, np.array(keys), np.array(origins))
        for place, action, ret in zip(places, actions, returns, strict=True):
            self.replay.add(place, action, ret)

    # -- Storage ------------------------------------------------------------------------------------------------------

    def _state(self) -> dict[str, Any]:
        self._finish_minibatch()
        return {
            **super()._state(),
            "replay": self.replay.summary(),
            "minibatches": self._draws.bit_generator.state,
            "updates": self._updates,
            "due": self._due,
            "losses": self._losses,
            "mean_square": float(self.dictionary.mean_square),
        }

    def _tensors(self) -> dict[str, dict[str, NDArray[Any]]]:
        return {
            **super()._tensors(),
            "network": module_tensors(self.embedding.network),
            "optimizer": optimizer_tensors(self._minibatch.optimizer),
            "replay": self.replay.tensors(),
        }

    @classmethod
    def load(
        cls,
        path: str | Path,
        env: AnyEnv | str | None = None,
        *,
        device: DeviceName | Channel = NECConfig.device,
        index: IndexName | None = None,
        playing: bool = False,
        **changes: Any,
    ) -> NEC:
        """Read an agent that `save` wrote. With `env` it can go on learning; without, it can play.

        It may have been saved on another device; `index` takes the place of the one it had. Settings that can change
        without what is remembered losing its meaning may be others from here on, and are saved with the agent.
        playing: it will only play, so its replay, which can be gigabytes, is not read.
        """
        if unknown := changes.keys() - CHANGEABLE:
            raise TypeError(
                f"an agent cannot be loaded with another {', '.join(sorted(unknown))}; what can change is "
                f"device, index, {', '.join(sorted(CHANGEABLE))}"
            )
        asked = {"index": index, "device": device_name(device), **changes} if index else changes
        NECConfig(**asked)  # what is senseless is no fault of the checkpoint
        own = {"memory", "episodes", "network"}
        state, tensors = read_checkpoint(path, kind=cls.kind, only=own if playing else None)
        if device_name(device) == "cuda" and state.get("config", {}).get("index") not in ("cuda", "auto"):
            index = index or "cuda"  # the exact index of a GPU, whatever searched on the CPU
        with complete_agent(path):
            agent = cls._restored(
                state, tensors, **{"device": device, "index": index or state["config"]["index"], **changes}
            )
            agent._make(device)
            restore_module(agent.embedding.network, tensors["network"])
            # What `auto` stands for is settled by NEC: a memory's own `auto` goes over to an approximate index.
            agent.dictionary.take_over(
                {**state["memory"], **_of_memory(changes)}, tensors["memory"], index=agent.config.resolved_index()
            )
            agent._connect()
            agent.dictionary.mean_square.fill_(state["mean_square"])
            agent._draws.bit_generator.state = state["minibatches"]
            agent._updates, agent._losses, agent._due = state["updates"], tuple(state["losses"]), state["due"]
            if not playing:
                restore_optimizer(agent._minibatch.optimizer, tensors["optimizer"])
                agent.replay.restore(state["replay"], tensors["replay"])
                if (games := state["games_in_progress"]) and games["history"] is None:
                    agent.replay.give_up()  # new games begin: steps of these will never be complete
        if env is not None:
            agent._play_in(env)
        return agent

    # -- What hangs around the loop -----------------------------------------------------------------------------------

    def _play_in(self, env: AnyEnv | str) -> None:
        super()._play_in(make_env(env, stacked(env)) if isinstance(env, str) else env)

    def states(self, observations: NDArray[Any]) -> NDArray[np.float32]:
        """The keys, float32 (n, dim), of observations (n, ...)."""
        return self.embedding(observations)

    def set_env(self, env: AnyEnv | str) -> None:
        """Play in another environment from now on, which must have the same spaces; games in progress are given up."""
        super().set_env(env)
        self.replay.give_up()

    @property
    def n_step(self) -> int | None:
        """N."""
        return int(self.config.n_step)

    def metrics(self) -> Metrics:
        """Minibatches so far and their mean loss since the last row, the steps in replay, and what the memory says."""
        number, total = self._losses
        matches = ("exact_match_rate", "exact_match_rate_chosen")  # nothing is matched here
        return {
            **{name: value for name, value in super().metrics().items() if name not in matches},
            "updates": self._updates,
            "loss": round(total / number, 6) if number else None,
            "replay_entries": len(self.replay),
        }

    def begin_row(self) -> None:
        """Count anew."""
        super().begin_row()
        self._losses = (0, 0.0)

    def __repr__(self) -> str:
        return f"NEC(p={self.config.p}, frames={self.frames}, entries={len(self.memory)})"


def _of_memory(changes: dict[str, Any]) -> dict[str, Any]:
    """Those changes that are settings of the memory."""
    return {name: value for name, value in changes.items() if name == "alpha"}
