"""The base of agents with an episodic memory: what another algorithm than MFEC needs of it, and MFEC does not use."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest

from mfec.checkpoint import CheckpointError, read_checkpoint
from mfec.config import EpisodeEnd, Settings, Ties, Truncated
from mfec.embeddings import Identity
from mfec.episodic_agent import EpisodicAgent
from mfec.games import Decision
from mfec.memory import EpisodicMemory
from mfec.memory.identities import array_keys
from mfec.resumable_agent import complete_agent

from .playing import InGroups, Recorder, Walk

GAMMA = 0.9


@dataclass(frozen=True)
class TwoStepsConfig(Settings):
    """Its settings."""

    gamma: float = GAMMA
    epsilon: float | str = "linear:1:0.2:100"
    ties: Ties = "random"
    episode: EpisodeEnd = "life"
    truncated: Truncated = "write"
    capacity: int = 60


class TwoSteps(EpisodicAgent):
    """Writes while the episode goes on: two rewards, and the highest value of the state that they led to."""

    kind = "two steps"
    _settings = TwoStepsConfig

    def __init__(self, env, *, seed=None, **settings: Any) -> None:
        super().__init__(env, config=TwoStepsConfig(**settings), seed=seed)
        self.places_given = 0
        self.written: list[list[int]] = []  # place, number of the game, and frame, as it wrote them
        self.trusted: list[float] = []
        if env is not None:
            self.embedding = Identity(dim=2)
            self.memory = EpisodicMemory(
                self.n_actions, self.embedding.dim, capacity=self.capacity, k=3, few_neighbours="zero"
            )

    def _act(self, observations):
        keys = array_keys(observations)
        estimates = self.memory.estimate(self._embed(observations), keys)
        actions, _ = self.choose(estimates.values, self.epsilon, self._exploration, self._ties)
        return Decision(estimates.states, keys, actions, estimates.exact, estimates.values.max(axis=1))

    def _remember(self, played, callbacks):
        for (episode, *_), value in zip(played.outcomes, played.values, strict=True):
            if len(episode.actions) == 2:
                first, second = episode.rewards
                self.trusted.append(float(value))
                self._write_first(episode, first + GAMMA * second + GAMMA**2 * float(value))
            episode.places.append(self.places_given)
            self.places_given += 1
        super()._remember(played, callbacks)

    def _update(self, episode, cut_off):
        *_, returns = episode.backwards(GAMMA)
        for ret in returns[::-1]:
            self._write_first(episode, ret)
        episode.forget_steps()

    def _write_first(self, episode, ret):
        state, key, action, place, origin = episode.take_first(self.frame_skip)
        self.memory.write(state[None], np.array([action]), np.array([ret]), key[None], np.array([origin], np.int32))
        self.written.append([place, *origin])

    def _state(self):
        return {**super()._state(), "written": self.written, "trusted": self.trusted, "given": self.places_given}

    @classmethod
    def load(cls, path, env=None):
        state, tensors = read_checkpoint(path, kind=cls.kind)
        with complete_agent(path):
            agent = cls._restored(state, tensors)
            agent.embedding = Identity(dim=2)
            agent.memory = EpisodicMemory.restore(state["memory"], tensors["memory"])
            agent.written, agent.trusted, agent.places_given = state["written"], state["trusted"], state["given"]
        if env is not None:
            agent._play_in(env)
        return agent


def all_of(agent, path):
    agent.save(path)
    state, tensors = read_checkpoint(path, kind=TwoSteps.kind)
    return state, {(file, name): array.tobytes() for file, own in tensors.items() for name, array in own.items()}


@pytest.mark.parametrize("stop", [4, 33, 92])
def test_an_agent_of_another_kind_goes_on_bit_for_bit(tmp_path, stop):
    """Also with steps in flight: of what was decided for them, and of where a replay keeps what was seen."""
    make = partial(InGroups, lambda _: Walk(length=5, lives=2), (1, 2))
    whole = TwoSteps(make(), seed=4).learn(200)
    TwoSteps(make(), seed=4).learn(stop).save(tmp_path / "stopped")
    _, tensors = read_checkpoint(tmp_path / "stopped", kind=TwoSteps.kind)
    assert {"in_flight.0.values", "in_flight.1.values"} & set(tensors["episodes"])
    assert "places" in tensors["episodes"]
    resumed = TwoSteps.load(tmp_path / "stopped", make()).learn(200)
    assert all_of(resumed, tmp_path / "a") == all_of(whole, tmp_path / "b")
    assert any(whole.trusted), "values that were looked up came back"
    assert sorted(place for place, *_ in whole.written) != [place for place, *_ in whole.written]
    assert len({place for place, *_ in whole.written}) == len(whole.written)


def test_a_step_that_is_taken_out_knows_where_it_was_made():
    env = Recorder(Walk(length=5, lives=2))
    agent = TwoSteps(env, seed=4).learn(100)
    places = [(number, frame) for number, game in enumerate(env.games, start=1) for frame in range(len(game))]
    assert [tuple(origin) for _, *origin in agent.written] == places[: len(agent.written)]
    assert [place for place, *_ in agent.written] == list(range(len(agent.written)))
    assert len(agent.written) == 100 - sum(len(e.actions) for e in agent._in_progress.episodes) >= 98
    tensors = agent.memory.tensors()
    actions = np.repeat(np.arange(agent.n_actions), tensors["sizes"])
    for action, (number, frame), state in zip(actions, tensors["origins"], tensors["states"], strict=True):
        seen, taken, *_ = env.games[number - 1][frame]
        assert (state.tolist(), action) == (seen.tolist(), taken)


def test_its_settings_are_its_own_and_errors_name_it(tmp_path):
    agent = TwoSteps(Walk(), seed=0, capacity=7).learn(20)
    assert (agent.capacity, agent.episode, agent.epsilon) == (7, "life", 1.0 - 0.8 * 20 / 100)
    with pytest.raises(
        AttributeError, match=r"capacity is fixed .* TwoSteps\(env, capacity=\.\.\.\), .*`TwoSteps.load`"
    ):
        agent.capacity = 8
    with pytest.raises(AttributeError, match="'TwoSteps' object has no attribute 'kernel'"):
        agent.kernel  # noqa: B018
    agent.save(tmp_path)
    with pytest.raises(ValueError, match=r"without an environment: TwoSteps.load\(path, env=\.\.\.\)"):
        TwoSteps.load(tmp_path).learn(30)
    with pytest.raises(CheckpointError, match="holds the checkpoint of a 'two steps', not of a 'agent'"):
        read_checkpoint(tmp_path, kind="agent")
