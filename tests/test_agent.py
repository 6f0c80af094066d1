"""MFEC: what it remembers, how it acts, and that it learns, on whatever device."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import TimeLimit, TransformObservation

from mfec.agent import MFEC, BadEnvironmentData, Changes
from mfec.callbacks import Callback, CallbackList
from mfec.checkpoint import CheckpointError
from mfec.config import AgentConfig
from mfec.device import open_channel
from mfec.embeddings import Identity, RandomProjection
from mfec.envs import make_atari
from mfec.memory import EpisodicMemory
from mfec.memory.identities import array_keys

from .playing import (
    LITTLE,
    Keep,
    Pictures,
    Recorder,
    Shifted,
    Walk,
    _switch_off,  # noqa: F401
    entries,
    everything,
    qbert,
    remembered,
    side_by_side,
)

# -- What it remembers ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "gamma", "update", "few_neighbours"),
    [
        (partial(gymnasium.make, "CartPole-v1"), 1.0, "max", "infinity"),
        (partial(gymnasium.make, "FrozenLake-v1"), 0.9, "replace", "mean"),
        (Pictures, 0.9, "max", "zero"),
        (Shifted, 1.0, "replace", "infinity"),
    ],
    ids=["CartPole", "FrozenLake", "pictures", "shifted"],
)
def test_the_memory_is_the_dictionary_of_equation_1(make, gamma, update, few_neighbours):
    env = Recorder(make())
    agent = MFEC(
        env, gamma=gamma, update=update, few_neighbours=few_neighbours, k=3, epsilon=0.1, capacity=1000, seed=1
    )
    seen = Keep()
    agent.learn(total_frames=200, callback=seen)
    assert agent.frames == 200 == len(env.actions)
    finished = [game for game in env.games if game and game[-1][-1]]
    assert agent.games == len(finished) == len(seen.games) > 3
    assert [game.score for game in seen.games] == [sum(step[2] for step in game) for game in finished]
    assert [game.length_frames for game in seen.games] == [len(game) for game in finished]
    assert [game.episode for game in seen.games] == list(range(1, agent.games + 1))
    assert list(agent.scores) == [game.score for game in seen.games][-100:]
    assert entries(agent) == remembered(env.games, gamma, update=update)


def test_states_are_what_the_embedding_makes_of_observations():
    env = Recorder(Pictures())
    agent = MFEC(env, k=3, capacity=100, seed=0).learn(100)
    assert (agent.embedding.name, agent.embedding.dim) == ("random_projection", 64)
    shown = {array_keys(step[0][None]).tobytes(): step[0] for game in env.games for step in game}
    tensors = agent.memory.tensors()
    for key, state in zip(tensors["keys"], tensors["states"], strict=True):
        pixels = shown[key.tobytes()].reshape(-1).astype(np.float64)
        assert np.array_equal(state, (agent.embedding.matrix @ pixels).astype(np.float32))  # type: ignore[attr-defined]


@pytest.mark.parametrize("episode", ["life", "game"])
def test_a_lost_life_ends_an_episode_or_not_while_the_score_is_the_games(episode):
    env = Recorder(Walk(lives=3, length=4))
    agent = MFEC(env, episode=episode, k=2, capacity=500, seed=3).learn(total_frames=90)
    assert agent.games == 90 // 12
    assert list(agent.scores) == [sum(step[2] for step in game) for game in env.games if len(game) == 12]
    expected = remembered(env.games, 1.0, lives=episode == "life")
    assert entries(agent) == expected
    assert expected != remembered(env.games, 1.0, lives=episode != "life")


def test_lives_of_qbert_end_episodes():
    env = Recorder(make_atari("qbert", max_frames=1000))
    games = Keep()
    agent = MFEC(env, capacity=2000, seed=0).learn(total_frames=2100, callback=games)
    finished = [game for game in env.games if game and game[-1][-1]]
    assert len(finished) >= 2
    assert [game.score for game in games.games] == [sum(step[2] for step in game) for game in finished]
    assert [game.length_frames for game in games.games] == [4 * len(game) for game in finished]
    expected = remembered(env.games, 1.0, lives=True)
    assert entries(agent) == expected
    assert expected != remembered(env.games, 1.0)


def test_episodes_cut_off_by_a_time_limit_are_written():
    env = Recorder(gymnasium.make("CartPole-v1", max_episode_steps=8))
    agent = MFEC(env, truncated="write", k=3, capacity=1000, seed=0).learn(80)
    assert agent.games == 10, "no pole falls within 8 steps"
    assert len(agent.memory) == 80
    assert entries(agent) == remembered(env.games, 1.0)


def test_episodes_cut_off_by_a_time_limit_can_be_skipped():
    """Of a game with lives, what came before the last lost life is written all the same."""
    env = Recorder(TimeLimit(Walk(lives=3, length=4), 6))
    agent = MFEC(env, truncated="skip", k=3, capacity=1000, seed=0).learn(60)
    assert agent.games == 10
    assert entries(agent) == remembered([[*game[:3], (*game[3][:4], True)] for game in env.games if game], 1.0)


@pytest.mark.parametrize("mode", [None, AutoresetMode.DISABLED, AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_episodes_cut_off_by_a_time_limit_can_end_in_the_value_of_their_last_state(mode):
    """The states of a lake are known by their numbers, so values are those of a dictionary."""

    class Line(gymnasium.Env):
        """To the right, a step a time, until 9; the limit cuts it off."""

        observation_space, action_space = spaces.Discrete(10), spaces.Discrete(1)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self.games = getattr(self, "games", 0) + 1
            self.at = 5 if self.games == 1 else 2  # from 5 the limit does not matter
            return self.at, {}

        def step(self, action):
            self.at += 1
            return self.at, 1.0, self.at == 9, False, {}

    def make():
        return TimeLimit(Line(), 4)

    env = make() if mode is None else SyncVectorEnv([make], autoreset_mode=mode)
    agent = MFEC(env, gamma=0.5, truncated="bootstrap", capacity=100, seed=0).learn(8)
    values = {at: float(agent.explain(at).values[0]) for at in range(2, 9)}
    assert [values[at] for at in (8, 7, 6, 5)] == [1.0, 1.5, 1.75, 1.875], "the first game reached the end"
    assert [values[at] for at in (4, 3, 2)] == [1.9375, 1.96875, 1.984375], "the second was cut off in 6, worth 1.75"
    skipped = MFEC(TimeLimit(Walk(length=100), 5), truncated="bootstrap", capacity=100, seed=0).learn(5)
    assert len(skipped.memory) == 0, "nothing was known of the state in which it was cut off"


@pytest.mark.parametrize("seed", range(5))
def test_a_known_state_that_was_cut_off_in_is_not_worth_what_its_neighbours_promise(seed):
    """Opening pays at the end of a corridor alone. Were it believed elsewhere, an agent would stand there for good."""

    class Corridor(gymnasium.Env):
        observation_space, action_space = spaces.MultiBinary(8), spaces.MultiDiscrete([3, 2])

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self.at = 0
            return np.eye(8, dtype=np.int8)[0], {}

        def step(self, action):
            self.at = min(max(self.at + action[0] - 1, 0), 7)
            opened = self.at == 7 and action[1] == 1
            return np.eye(8, dtype=np.int8)[self.at], float(opened), bool(opened), False, {}

    agent = MFEC(TimeLimit(Corridor(), 40), gamma=0.99, capacity=1000, seed=seed).learn(6000)
    assert np.mean(agent.scores) == 1.0


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_the_reset_step_of_other_vector_environments_is_not_experience(mode):
    recorders = [Recorder(Walk(length=5)) for _ in range(3)]
    vector = SyncVectorEnv([lambda own=own: own for own in recorders], autoreset_mode=mode)
    games = Keep()
    agent = MFEC(vector, k=2, capacity=1000, seed=0).learn(150, callback=games)
    played = [game for recorder in recorders for game in recorder.games]
    assert agent.frames == sum(len(game) for game in played)
    assert {game.length_frames for game in games.games} == {5}
    assert agent.games == sum(len(game) == 5 for game in played)
    assert entries(agent) == remembered(played, 1.0)


def test_vector_environments_of_gymnasium_are_played():
    vector = gymnasium.make_vec("CartPole-v1", 4)
    games = Keep()
    agent = MFEC(vector, k=3, capacity=5000, seed=0).learn(400, callback=games)
    assert agent.games == len(games.games) > 10
    assert len(agent.memory) == sum(game.length_frames for game in games.games), "no cart stands twice in one place"
    assert {game.score - game.length_frames for game in games.games} == {0.0}


def test_many_environments_write_what_they_played_when_games_end():
    recorders = [Recorder(Walk(length=3 + env_id, lives=2)) for env_id in range(4)]
    vector = SyncVectorEnv([lambda own=own: own for own in recorders], autoreset_mode=AutoresetMode.DISABLED)
    agent = MFEC(vector, k=2, capacity=1000, gamma=0.8, seed=0).learn(200)
    played = [game for recorder in recorders for game in recorder.games]
    assert agent.frames == sum(len(game) for game in played) == 200
    assert entries(agent) == remembered(played, 0.8, lives=True)


def test_an_environment_is_made_by_its_name():
    agent = MFEC("FrozenLake-v1", capacity=100, seed=0).learn(100)
    assert agent.frames == 100
    assert repr(agent) == f"MFEC(embedding=table, k=11, frames=100, entries={len(agent.memory)})"


def test_another_embedding_can_be_given():
    embedding = RandomProjection(2, 5, seed=0)
    agent = MFEC(Walk(), embedding=embedding, capacity=100, seed=0).learn(50)
    assert agent.memory.dim == 5
    assert MFEC(Walk(), embedding=Identity(2), capacity=100, seed=0).learn(50).memory.dim == 2


def test_frames_already_seen_are_a_warning():
    agent = MFEC(Walk(), capacity=100, seed=0).learn(20)
    with pytest.warns(UserWarning, match="already seen 20 of 10 frames"):
        agent.learn(10)
    assert agent.frames == 20


def test_functions_are_called_after_every_step_and_end_it_by_saying_false():
    frames: list[int] = []
    agent = MFEC(Walk(), capacity=100, seed=0).learn(100, [lambda agent: frames.append(agent.frames)])
    assert frames == list(range(1, 101))
    for stop in (lambda agent: agent.frames < 120, lambda agent: np.mean([agent.frames]) < 120):
        agent = MFEC(Walk(), capacity=100, seed=0).learn(200, stop)
        assert agent.frames == 120
    nested = CallbackList([CallbackList([lambda agent: agent.frames < 5]), Callback()])
    assert MFEC(Walk(), capacity=100, seed=0).learn(200, nested, progress_bar=True).frames == 5


# -- Which environments -----------------------------------------------------------------------------------------------


def test_settings_are_fixed_and_can_be_read():
    agent = MFEC(Walk(), k=3, epsilon=0.1, capacity=100, seed=0)
    assert (agent.k, agent.epsilon, agent.gamma, agent.episode) == (3, 0.1, 1.0, "life")
    for name, value in (("k", 5), ("epsilon", 0.5), ("capacity", 10), ("ties", "first")):
        with pytest.raises(AttributeError, match=f"{name} is fixed when an agent is made"):
            setattr(agent, name, value)
    with pytest.raises(AttributeError, match="k is fixed when a memory is made"):
        agent.memory.k = 5
    assert agent.memory.k == agent.config.k == 3


@pytest.mark.parametrize("n", [None, 3])
def test_another_environment_begins_new_games_and_keeps_what_is_remembered(tmp_path, n):
    """The games that it gives up leave nothing behind, and later ones have seeds that none has had."""

    def make(length: int = 7) -> Any:
        return Recorder(Walk(length=length)) if n is None else side_by_side(lambda: Walk(length=length), n)

    first, second = make(), make(5)
    agent = MFEC(first, k=2, capacity=500, seed=0).learn(12 * (n or 1))
    assert agent.env is first
    entries_before, games = entries(agent), agent.games
    agent.set_env(second)
    assert agent.env is second
    assert entries(agent) == entries_before
    begun = agent.games_begun
    assert begun == 2 * (n or 1)
    agent.learn(agent.frames + (n or 1))
    assert agent.games_begun == begun + (n or 1)
    assert (agent._in_progress.envs.games == begun).all()  # their numbers make their seeds
    assert agent.learn(60 * (n or 1)).games > games
    agent.save(tmp_path)
    loaded = MFEC.load(tmp_path, make(5))
    more = agent.frames + 40
    expected = everything(agent.learn(more), tmp_path / "on")
    assert everything(loaded.learn(more), tmp_path / "loaded") == expected
    with pytest.raises(ValueError, match=r"was trained on .*, this environment has .*"):
        agent.set_env(Pictures())
    assert agent.env is second


def test_a_callback_may_set_another_environment():
    """From easy to hard, in one call of `learn`."""
    envs = [Recorder(Walk(length=length)) for length in (2, 4, 6)]

    def harder(agent: MFEC) -> None:
        if agent.frames % 20 == 0 and agent.frames < 60:
            agent.set_env(envs[agent.frames // 20])

    MFEC(envs[0], k=2, capacity=500, seed=0).learn(60, harder)
    assert [len(env.actions) for env in envs] == [20, 20, 20]


def test_steps_are_counted_as_stable_baselines3_does():
    assert MFEC(Walk(), capacity=100, seed=0).learn(30).num_timesteps == 30
    assert MFEC(side_by_side(Walk, 3), capacity=100, seed=0).learn(30).num_timesteps == 30
    agent = MFEC(qbert(2), capacity=1000, seed=0).learn(80)
    assert (agent.frames, agent.num_timesteps) == (80, 20)


@pytest.mark.parametrize("index", ["exact", "cells"])
def test_a_loaded_agent_takes_other_settings_and_is_saved_with_them(tmp_path, index):
    """As if it had had them all along, where they only read what is there."""
    agent = MFEC("CartPole-v1", k=3, capacity=400, epsilon=0.5, index=index, seed=0).learn(1200)
    assert agent.memory.sizes.tolist() == [400, 400]
    agent.save(tmp_path / "saved")
    changes: Any = {
        "k": 7, "kernel": "inverse", "gamma": 0.5, "epsilon": 0.0, "capacity": 900, "recall": 0.999, "eviction": "used",
        "update": "replace", "few_neighbours": "zero", "ties": "first", "episode": "game", "truncated": "skip",
    }  # fmt: skip
    assert set(changes) == set(Changes.__annotations__)
    loaded = MFEC.load(tmp_path / "saved", "CartPole-v1", **changes)
    loaded.save(tmp_path / "changed")
    again = MFEC.load(tmp_path / "changed")
    for one in (loaded, again):
        assert {name: getattr(one, name) for name in changes} == changes
        assert {
            name: getattr(one.memory, name) for name in changes if hasattr(one.memory, name)
        }.items() <= changes.items()
        assert entries(one) == entries(agent)
    other = EpisodicMemory(2, 4, k=7, kernel="inverse", few_neighbours="zero", capacity=900, index="exact")
    held = agent.memory.tensors()
    other.write(held["states"], np.repeat([0, 1], held["sizes"]), held["values"])
    states = held["states"][:100] + np.float32(0.01)
    same = np.isclose(loaded.memory.estimate(states).values, other.estimate(states).values, rtol=1e-5)
    assert same.mean() > (0.95 if index == "cells" else 0.999)  # a neighbour in a thousand may be another
    assert loaded.learn(2500).memory.sizes.max() > 400


def test_settings_that_would_make_nonsense_of_a_memory_cannot_change(tmp_path):
    agent = MFEC(Walk(), k=3, capacity=50, seed=0).learn(300)
    agent.save(tmp_path)
    with pytest.raises(TypeError, match="cannot be loaded with another dim, vae; what can change is device, index, k,"):
        MFEC.load(tmp_path, dim=3, vae="qbert")  # type: ignore[call-arg]
    with pytest.raises(ValueError, match="k, capacity and dim must be at least 1"):
        MFEC.load(tmp_path, k=0)
    most = int(agent.memory.sizes.max())
    with pytest.raises(ValueError, match=f"capacity must be at least {most}, the entries of its fullest buffer, not 5"):
        MFEC.load(tmp_path, capacity=5)
    assert MFEC.load(tmp_path, capacity=most).memory.capacity == most


def test_a_notebook_shows_a_table_with_nothing_in_it_that_a_browser_runs():
    class Evil(Walk):
        pass

    Evil.__name__ = "<script>alert(1)</script>"
    agent = MFEC(Evil(), k=3, capacity=100, seed=0).learn(100)
    page = agent._repr_html_()
    assert "<script" not in page
    rows = dict(re.findall(r"<th[^>]*>(.*?)</th><td[^>]*>(.*?)</td>", page))
    assert rows == {
        "environment": "&lt;script&gt;alert(1)&lt;/script&gt;", "settings": "k=3, capacity=100", "frames": "100",
        "games": "14", "entries": str(len(agent.memory)),
        "mean of last 14 games": f"{sum(agent.scores) / 14:,.1f}",
    }  # fmt: skip
    assert 'environment</th><td style="text-align: left">none' in MFEC(None)._repr_html_()


@pytest.mark.parametrize(("name", "wrong"), [("episode", "lives"), ("ties", "last"), ("truncated", "cut"), ("k", 2.5)])
def test_settings_that_mean_nothing_are_refused(name, wrong):
    with pytest.raises(ValueError, match=f"{name} must be .*{wrong}"):
        MFEC(Walk(), **{name: wrong})


def test_numbers_of_numpy_are_settings_like_others(tmp_path):
    settings = {"k": np.int64(3), "gamma": np.float32(0.5), "epsilon": np.float64(0.1), "capacity": np.int32(100)}
    agent = MFEC(Walk(), **settings, seed=np.int64(4)).learn(30)
    agent.save(tmp_path)
    assert MFEC.load(tmp_path).config == agent.config == AgentConfig(k=3, gamma=0.5, epsilon=0.1, capacity=100)


def test_many_numbered_states_need_room_for_those_that_were_seen():
    """Of 20,000 one-hot vectors a memory of the default size would take 298 GiB."""

    class Many(Shifted):
        observation_space = spaces.Discrete(20_000)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self.at = int(self.np_random.integers(19_000))
            return self.at, {}

        def step(self, action):
            self.at += 1
            return self.at, float(action), bool(self.at % 7 == 0), False, {}

    env = Recorder(Many())
    agent = MFEC(env, seed=0).learn(300)
    assert (agent.embedding.name, agent.memory.dim, agent.memory.active_index) == ("table", 1, "none")
    assert entries(agent) == remembered(env.games, 1.0)
    assert agent.memory.bytes_when_full(3, 1, 1_000_000, "none") < 500e6


@pytest.mark.parametrize(("few_neighbours", "unknown"), [("mean", np.inf), ("infinity", np.inf), ("zero", 0.0)])
def test_numbered_states_are_no_neighbours_of_each_other(few_neighbours, unknown, tmp_path):
    """An action that was not tried in a state is tried there, or worth 0: other states say nothing of it."""
    agent = MFEC(Shifted(), few_neighbours=few_neighbours, capacity=100, seed=0).learn(200)
    known = entries(agent)
    keys = [array_keys(np.array([at]))[0].tobytes() for at in range(-2, 4)]
    for again in (agent, _saved_and_loaded(agent, tmp_path), _saved_and_loaded(agent, tmp_path, index="exact")):
        for at, key in zip(range(-2, 4), keys, strict=True):
            expected = [known.get((action, key), unknown) for action in range(3)]
            assert again.explain(at).values.tolist() == expected
            assert not any(len(own.neighbours.values) for own in again.explain(at).actions if not own.exact)
    near = MFEC(Shifted(), embedding="identity", k=1, capacity=100, seed=0).learn(200)
    assert near.memory.active_index != "none", "where an embedding is asked for, near numbers are near states"


def _saved_and_loaded(agent, path, **options):
    agent.save(path)
    return MFEC.load(path, **options)


class Halved(RandomProjection):
    def __call__(self, observations):
        return super().__call__(observations) / 2


@pytest.mark.parametrize("index", ["exact", pytest.param("cuda", marks=pytest.mark.torch)])
def test_an_embedding_of_ones_own_is_used_saved_and_asked_for(index, tmp_path):
    """Also one that is a subclass of ours: another class would be loaded, and a device would make other states."""
    embedding = Halved(20 * 30 * 3, seed=0)
    agent = MFEC(Pictures(), embedding=embedding, index=index, k=3, capacity=100, seed=0).learn(60)
    states = agent.memory.tensors()["states"]
    plain = MFEC(Pictures(), embedding=RandomProjection(20 * 30 * 3, seed=0), index=index, k=3, capacity=100, seed=0)
    assert np.array_equal(states[0] * 2, plain.learn(60).memory.tensors()["states"][0])
    agent.save(tmp_path)
    with pytest.raises(CheckpointError, match=r"Halved, which is not one of mfec's: give it to `load`"):
        MFEC.load(tmp_path)
    picture = Pictures.observation_space.sample()
    loaded = MFEC.load(tmp_path, embedding=embedding)
    assert np.array_equal(loaded.explain(picture).values, agent.explain(picture).values)
    with pytest.raises(CheckpointError, match="its states have 64 numbers, not 5"):
        MFEC.load(tmp_path, embedding=Halved(20 * 30 * 3, 5, seed=0))


@pytest.mark.parametrize("n", [None, 3])
def test_spaces_need_not_begin_at_0(n):
    env = Shifted() if n is None else side_by_side(Shifted, n)
    agent = MFEC(env, k=2, capacity=100, epsilon=0.2, seed=0).learn(150)
    assert agent.games > 5
    assert set(agent.predict(np.array([-2, 0, 2]))[0]) <= {5, 6, 7}
    assert agent.predict(-2, deterministic=True)[0] == 7, "the only action that is rewarded"


@pytest.mark.parametrize("mode", [None, AutoresetMode.DISABLED, AutoresetMode.SAME_STEP])
def test_what_was_learned_is_known_again_where_a_wrapper_changed_the_type(mode):
    """`o / 255` is float64 in a space of float32: learning, `predict` and `explain` must see the same states."""

    def make():
        space = spaces.Box(0, 1, (2,), np.float32)
        return Recorder(TransformObservation(Walk(), lambda o: np.asarray(o, np.float64) / 255.0, space))

    recorder = make()
    env = recorder if mode is None else SyncVectorEnv([lambda: recorder], autoreset_mode=mode)
    agent = MFEC(env, k=1, capacity=500, seed=0).learn(60)
    for observation, action, *_ in recorder.games[0]:
        assert agent.explain(observation).exact[action]


def test_observations_that_do_not_fit_are_refused_and_not_cut_to_zeros():
    halves = TransformObservation(Pictures(), lambda o: o / 255.0, Pictures.observation_space)
    with pytest.raises(BadEnvironmentData, match="an observation of float64, where the space has uint8"):
        MFEC(halves, capacity=100, seed=0).learn(50)
    agent = MFEC(Pictures(), capacity=100, seed=0).learn(50)
    for ask in (agent.predict, agent.explain):
        with pytest.raises(ValueError, match="an observation of float64, where the space has uint8"):
            ask(np.full((20, 30, 3), 0.5))
    for ask in (MFEC(Shifted(), seed=0).predict, MFEC(Shifted(), seed=0).explain):
        with pytest.raises(ValueError, match="not in Discrete"):
            ask(4)


class Told(Walk):
    """Tells of its lives in the steps of `when` alone, 0 being the reset."""

    def __init__(self, when: range, **settings) -> None:
        super().__init__(**settings)
        self.when = when

    def reset(self, *, seed=None, options=None):
        observation, info = super().reset(seed=seed)
        return observation, info if 0 in self.when else {}

    def step(self, action):
        *outcome, info = super().step(action)
        return *outcome, info if self.t in self.when else {}


def test_lives_that_are_told_after_the_start_are_not_lost_in_it():
    """An episode that begins with no lives known: the first step that tells of some does not end it."""
    env = Recorder(Told(range(2, 100), lives=2, length=4))
    agent = MFEC(env, k=2, capacity=500, seed=0).learn(64)
    whole = [[(*step[:3], 2 - (i >= 3), step[4]) for i, step in enumerate(game)] for game in env.games]
    assert entries(agent) == remembered(whole, 1.0, lives=True)


def test_an_environment_that_tells_of_no_lives_loses_none_beside_one_that_does():
    """Gymnasium writes 0 for it, and a mask that says so."""
    recorders = [Recorder(Told(range(100 * own), lives=2, length=4)) for own in (0, 1)]
    vector = SyncVectorEnv([lambda own=own: own for own in recorders], autoreset_mode=AutoresetMode.DISABLED)
    agent = MFEC(vector, k=2, capacity=500, seed=0).learn(128)
    silent, telling = (recorder.games for recorder in recorders)
    expected = remembered(silent, 1.0)
    for pair, value in remembered(telling, 1.0, lives=True).items():
        expected[pair] = max(value, expected.get(pair, -np.inf))
    assert entries(agent) == expected


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_a_life_lost_in_the_first_step_after_an_automatic_reset_ends_an_episode(mode):
    recorders = [Recorder(Walk(lives=4, length=1)) for _ in range(2)]
    vector = SyncVectorEnv([lambda own=own: own for own in recorders], autoreset_mode=mode)
    agent = MFEC(vector, k=2, capacity=500, seed=0).learn(80)
    returns = agent.memory.tensors()["values"]
    assert agent.games > 5
    assert returns.max() <= 3, "every step is an episode, and no action brings more than 3"


def test_resets_are_not_counted_among_the_look_ups():
    recorders = [Recorder(Walk(length=2)) for _ in range(3)]
    vector = SyncVectorEnv([lambda own=own: own for own in recorders], autoreset_mode=AutoresetMode.NEXT_STEP)
    counted = []

    class Rows(Callback):
        def on_progress(self, agent, row):
            counted.append((agent._tally.steps, agent._tally.lookups))

    agent = MFEC(vector, k=2, capacity=500, seed=0).learn(60, Rows())
    made = sum(len(recorder.actions) for recorder in recorders)
    assert np.sum(counted, axis=0).tolist() == [made, 4 * made]
    assert agent.frames == made


# -- A state's identity -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_states_and_their_keys_do_not_depend_on_the_batch(dtype):
    env = qbert(None)
    frames = [env.reset(seed=0)[0]]
    frames += [env.step(i % env.action_space.n)[0] for i in range(150)]  # type: ignore[attr-defined]
    frames = np.stack(frames[::-10]).astype(dtype)
    assert len(frames) == 16
    embedding = RandomProjection(84 * 84, seed=0)
    keys, states = array_keys(frames), embedding(frames).copy()
    assert len(np.unique(keys, axis=0)) > 5
    for i in np.random.default_rng(0).permutation(16):
        assert np.array_equal(array_keys(frames[i : i + 1])[0], keys[i])
        assert embedding(frames[i : i + 1])[0].tobytes() == states[i].tobytes()
    assert embedding(frames[5:9]).tobytes() == states[5:9].tobytes()
    exact = embedding.matrix @ frames.reshape(16, -1).T.astype(np.float64)  # type: ignore[attr-defined]
    assert np.array_equal(states, exact.T.astype(np.float32))


def test_what_many_environments_stored_matches_exactly_for_one_observation():
    recorders = [Recorder(make_atari("qbert", max_frames=120)) for _ in range(2)]
    vector = SyncVectorEnv([lambda own=own: own for own in recorders], autoreset_mode=AutoresetMode.DISABLED)
    agent = MFEC(vector, capacity=1000, seed=0).learn(2 * 40 * 4)
    game = next(game for recorder in recorders for game in recorder.games if game and game[-1][-1])
    for observation, action, *_ in game:
        one = observation[None]
        assert agent.memory.estimate(agent.embedding(one), array_keys(one), mark_used=False).exact[0, action]


# -- Acting -----------------------------------------------------------------------------------------------------------


def test_predict_takes_one_observation_or_many():
    agent = MFEC(gymnasium.make("CartPole-v1"), capacity=500, k=3, seed=0).learn(300)
    observations = np.random.default_rng(0).normal(size=(20, 4)).astype(np.float32)
    actions, state = agent.predict(observations, deterministic=True)
    assert state is None
    assert (actions.shape, actions.dtype) == ((20,), np.int64)
    assert len(set(actions.tolist())) == 2
    for observation, action in zip(observations, actions, strict=True):
        one, state = agent.predict(observation, deterministic=True)
        assert state is None
        assert np.shape(one) == ()
        assert one == action
        assert agent.action_space.contains(one)
    values = agent.memory.estimate(agent.embedding(observations), array_keys(observations), mark_used=False).values
    assert np.array_equal(actions, values.argmax(axis=1))


def test_predict_takes_numbers_where_observations_are_numbers():
    agent = MFEC("FrozenLake-v1", capacity=100, k=1, seed=0).learn(100)
    actions, _ = agent.predict(np.arange(16), deterministic=True)
    assert [agent.predict(i, deterministic=True)[0] for i in range(16)] == actions.tolist()


def test_observations_of_another_shape_are_refused():
    agent = MFEC(gymnasium.make("CartPole-v1"), capacity=100, seed=0)
    for shape in ((5,), (2, 5), (2, 2, 4), ()):
        with pytest.raises(ValueError, match=r"an observation has the shape \(4,\) here"):
            agent.predict(np.zeros(shape, np.float32))


def test_predict_leaves_the_memory_and_learning_alone(tmp_path):
    """Even where reading an entry counts as using it, and between any two steps."""
    frames = np.random.default_rng(0).integers(256, size=(3, 84, 84), dtype=np.uint8)

    class Disturb(Callback):
        def on_step(self, agent):
            agent.predict(frames, deterministic=True)
            agent.predict(frames[0], epsilon=0.5)

    alone, disturbed = (MFEC(qbert(None), **LITTLE, seed=0) for _ in range(2))
    expected = everything(alone.learn(600), tmp_path / "alone", but=("playing",))
    disturbed.learn(600, callback=Disturb())
    assert everything(disturbed, tmp_path / "disturbed", but=("playing",)) == expected


def test_a_generator_of_ones_own_decides_what_predict_draws():
    agent = MFEC(Walk(), capacity=100, seed=0)
    observations = np.zeros((100, 2), np.float32)
    once, again, other = (agent.predict(observations, rng=np.random.default_rng(i))[0] for i in (1, 1, 2))
    assert np.array_equal(once, again)
    assert not np.array_equal(once, other)


@pytest.mark.parametrize(("ties", "few_neighbours"), [("random", "infinity"), ("random", "zero"), ("first", "zero")])
def test_actions_of_equal_value_are_all_taken_or_the_first(ties, few_neighbours):
    env = Recorder(Walk(reward=lambda action: 0.0))
    settings = {"few_neighbours": few_neighbours, "ties": ties, "k": 1000, "capacity": 2000, "epsilon": 0.0}
    agent = MFEC(env, **settings, seed=0)
    before, _ = agent.predict(np.zeros((200, 2), np.float32))
    agent.learn(300)
    expected = {0, 1, 2, 3} if ties == "random" else {0}
    assert set(before.tolist()) == expected, "an empty memory"
    if few_neighbours == "zero":  # elsewhere an action that was never tried comes before those that were
        assert set(env.actions) == expected, "a memory of zeros"
    assert set(env.actions[:7]) <= expected
    unknown = np.full((200, 2), 1e6, np.float32)
    assert set(agent.predict(unknown)[0].tolist()) == expected, "all equally far"
    assert set(agent.predict(unknown, deterministic=True)[0].tolist()) == {0}


def test_ties_are_broken_evenly():
    agent = MFEC(Walk(), capacity=100, seed=0)
    actions, _ = agent.predict(np.zeros((4000, 2), np.float32), epsilon=0.0)
    assert all(abs(count - 1000) < 150 for count in np.bincount(actions, minlength=4))  # 5 standard deviations


@pytest.mark.parametrize("epsilon", [0.0, 0.5])
def test_epsilon_of_the_actions_are_random(epsilon):
    """Only action 0 is ever rewarded, and the first game finds it: all else is exploration."""
    env = Recorder(Walk(reward=lambda action: float(action == 0), length=1))
    agent = MFEC(env, epsilon=epsilon, k=1, capacity=10_000, few_neighbours="zero", ties="first", seed=0).learn(600)
    counts = np.bincount(env.actions, minlength=4)
    assert agent.games == 600
    assert all(abs(count - 150 * epsilon) < 41 for count in counts[1:])  # 5 standard deviations
    assert (counts[1:] > 0).all() == (epsilon > 0)


@pytest.mark.filterwarnings("ignore:Evaluation environment is not wrapped")
@pytest.mark.torch
def test_stable_baselines3_evaluates_the_agent(tmp_path):
    from stable_baselines3.common.evaluation import evaluate_policy
    from stable_baselines3.common.vec_env import DummyVecEnv

    agent = MFEC(gymnasium.make("CartPole-v1"), capacity=2000, k=5, seed=0).learn(300)
    before = everything(agent, tmp_path / "before", but=("playing",))
    vector = DummyVecEnv([partial(gymnasium.make, "CartPole-v1")])
    vector.seed(7)
    scores, lengths = evaluate_policy(agent, vector, n_eval_episodes=3, return_episode_rewards=True)

    env, expected = gymnasium.make("CartPole-v1"), []
    observation, _ = env.reset(seed=7)
    for _ in range(3):
        score, ended = 0.0, False
        while not ended:
            observation, reward, terminated, truncated, _ = env.step(agent.predict(observation, deterministic=True)[0])
            score, ended = score + reward, terminated or truncated
        expected.append(score)
        observation, _ = env.reset()
    assert scores == expected == lengths
    assert everything(agent, tmp_path / "after", but=("playing",)) == before


# -- Learning ---------------------------------------------------------------------------------------------------------


class Maze(gymnasium.Env):
    """Each step costs 0.1. A crumb worth 1 lies near the start, gold worth 10 far from it; either ends the game."""

    PLAN = ("S...", ".##.", "c#..", "##.#", "G...")
    MOVES = ((-1, 0), (0, 1), (1, 0), (0, -1))
    WORTH = {"c": 1.0, "G": 10.0}  # noqa: RUF012

    observation_space = spaces.Box(0, 4, (2,), np.float32)
    action_space = spaces.Discrete(4)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = (0, 0)
        return np.array(self.at, np.float32), {}

    def step(self, action):
        self.at, reward, ended = self.move(self.at, int(action))
        return np.array(self.at, np.float32), reward, ended, False, {}

    def move(self, at, action):
        y, x = at[0] + self.MOVES[action][0], at[1] + self.MOVES[action][1]
        if not (0 <= y < len(self.PLAN) and 0 <= x < len(self.PLAN[0])) or self.PLAN[y][x] == "#":
            y, x = at
        cell = self.PLAN[y][x]
        return (y, x), self.WORTH.get(cell, 0.0) - 0.1, cell in self.WORTH

    def optimum(self, gamma: float, steps: int) -> float:
        """The best discounted return of `steps` steps from the start, by dynamic programming over all paths."""
        cells = [(y, x) for y, row in enumerate(self.PLAN) for x, cell in enumerate(row) if cell in "S."]
        values = dict.fromkeys(cells, 0.0)
        for _ in range(steps):
            values = {cell: max(self._backup(cell, a, values, gamma) for a in range(4)) for cell in cells}
        return values[0, 0]

    def _backup(self, cell, action, values, gamma):
        to, reward, ended = self.move(cell, action)
        return reward + (0.0 if ended else gamma * values[to])


def greedy_return(agent: MFEC, env: gymnasium.Env, gamma: float) -> tuple[float, list[float]]:
    """Discounted return and rewards of one game played greedily."""
    observation, _ = env.reset(seed=0)
    rewards, ended = [], False
    while not ended:
        observation, reward, terminated, truncated, _ = env.step(agent.predict(observation, deterministic=True)[0])
        rewards.append(reward)
        ended = terminated or truncated
    return sum(gamma**t * reward for t, reward in enumerate(rewards)), rewards


@pytest.mark.parametrize(("gamma", "end", "n", "numbered"), [(1.0, "gold", None, False), (0.6, "crumb", 4, True)])
def test_the_optimum_of_a_maze_is_learned(gamma, end, n, numbered):
    def make():
        env = TimeLimit(Maze(), 60)
        if numbered:  # the same maze with numbers for places instead of coordinates
            return TransformObservation(env, lambda o: int(o[0] * 4 + o[1]), spaces.Discrete(20))
        return env

    env = make() if n is None else side_by_side(make, n)
    agent = MFEC(env, gamma=gamma, epsilon=0.8, k=3, capacity=100, seed=0).learn(4000)
    reached, rewards = greedy_return(agent, make(), gamma)
    assert reached == pytest.approx(Maze().optimum(gamma, steps=60), rel=1e-12)
    assert rewards[-1] == {"gold": 9.9, "crumb": 0.9}[end]


# -- Imports ----------------------------------------------------------------------------------------------------------


def test_the_package_needs_neither_torch_nor_ale_py():
    code = """
import sys
for extra in ("torch", "ale_py", "cv2", "stable_baselines3", "tensorboard"):
    sys.modules[extra] = None
from mfec import *
agent = MFEC("CartPole-v1", capacity=100, seed=0).learn(total_frames=50)
assert agent.frames == 50
import mfec
wanting = {"atari": lambda: make_atari("qbert"), "torch": lambda: mfec.NEC}
for extra, use in wanting.items():
    try:
        use()
    except ImportError as error:
        assert f"mfec[{extra}]" in str(error), error
    else:
        raise AssertionError("no error")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_checkpoint_is_json_and_safetensors(tmp_path):
    MFEC(Walk(), capacity=100, seed=0).learn(50).save(tmp_path)
    assert {file.suffix for file in tmp_path.iterdir()} == {".json", ".safetensors"}
    json.loads((tmp_path / "manifest.json").read_text())


# -- Devices ----------------------------------------------------------------------------------------------------------


def but_for_the_index(agent: MFEC, path: Path) -> tuple[dict, dict]:
    """All that makes an agent, however its neighbours are searched."""
    state, digests = everything(agent, path)
    assert state["config"].pop("index") == state["memory"].pop("index")
    del state["memory"]["index_kind"], state["memory"]["index_state"]
    return state, {key: digest for key, digest in digests.items() if not key[1].startswith("index.")}


@pytest.mark.torch
def test_an_agent_on_a_device_plays_what_one_on_the_cpu_plays(tmp_path):
    """Bit for bit, also where it was saved under one index and went on under the other."""
    total_frames = 100
    agents = {index: MFEC(side_by_side(Pictures, 2), index=index, seed=5, **LITTLE) for index in ("exact", "cuda")}
    half = {index: Keep(tmp_path / index, after=(25,)) for index in agents}
    for index, agent in agents.items():
        agent.learn(total_frames, callback=half[index])
        assert agent.memory.active_index == index
    expected = but_for_the_index(agents["exact"], tmp_path / "whole")
    assert expected[0]["games"] >= 2
    assert but_for_the_index(agents["cuda"], tmp_path / "other") == expected
    for before, after in (("exact", "cuda"), ("cuda", "exact")):
        (saved,) = half[before].after
        env = side_by_side(Pictures, 2)
        agent = MFEC.load(tmp_path / before / str(saved), env=env, index=after, device="cpu")
        assert (agent.config.index, agent.memory.active_index) == (after, after)
        assert 0 < agent.frames < total_frames
        agent.learn(total_frames)
        assert but_for_the_index(agent, tmp_path / "moved") == expected


@pytest.mark.torch
def test_pictures_are_projected_on_the_device_and_other_observations_before():
    """A picture crosses over once; it becomes a state there, of the same bits."""
    on_cpu, on_device = (MFEC(Pictures(), index=index, k=3, capacity=100, seed=0) for index in ("exact", "cuda"))
    for agent in (on_cpu, on_device):
        agent.learn(40)
    assert on_cpu.memory.tensors()["states"].tobytes() == on_device.memory.tensors()["states"].tobytes()
    on_device.embedding = None  # nobody asks it any more
    on_device.learn(50)
    walk = MFEC(Walk(), index="cuda", embedding="random_projection", dim=3, capacity=100, seed=0).learn(50)
    same = MFEC(Walk(), index="exact", embedding="random_projection", dim=3, capacity=100, seed=0).learn(50)
    assert walk.memory.tensors()["states"].tobytes() == same.memory.tensors()["states"].tobytes()
    assert list(walk.scores) == list(same.scores)


@pytest.mark.torch
@pytest.mark.parametrize("make", [Pictures, Shifted])
def test_an_agent_on_a_device_predicts_what_one_on_the_cpu_predicts(make, tmp_path):
    agent = MFEC(make(), index="cuda", k=3, capacity=100, seed=0).learn(60)
    agent.save(tmp_path)
    other = MFEC.load(tmp_path, index="exact")
    observations = np.stack([agent.observation_space.sample() for _ in range(20)])
    for one in (observations, observations[::-1], observations[0]):
        mine, theirs = (each.predict(one, deterministic=True)[0] for each in (agent, other))
        assert mine.tolist() == theirs.tolist()
    assert str(agent.explain(observations[0])) == str(other.explain(observations[0]))


@pytest.mark.torch
def test_an_agent_of_the_cpus_index_takes_the_exact_one_of_a_gpu(tmp_path, monkeypatch):
    """The GPU is stood in for by the same code on the CPU."""
    MFEC(Walk(), index="exact", capacity=100, seed=0).learn(50).save(tmp_path)
    monkeypatch.setattr("mfec.memory.neighbours.cuda.open_channel", lambda device: open_channel("cpu"))
    agent = MFEC.load(tmp_path, device="cuda")
    assert (agent.memory.index, agent.config.index, agent.config.device) == ("cuda", "cuda", "cuda")
