"""MFEC: what it remembers, how it acts, and that a run is its seed: repeated, stopped and resumed bit for bit."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable
from functools import cache, partial
from hashlib import sha256
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.vector.utils import batch_space
from gymnasium.wrappers import TimeLimit, TransformAction, TransformObservation
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import DummyVecEnv

from mfec.agent import MFEC, BadEnvironmentData
from mfec.callback import Callback, Game
from mfec.checkpoint import CheckpointError, read_checkpoint, write_checkpoint
from mfec.device import open_channel
from mfec.embeddings import Identity, RandomProjection
from mfec.envs import make_atari
from mfec.envs.atari import AtariVector
from mfec.envs.lanes import LaneError
from mfec.memory import EpisodicMemory
from mfec.memory.identities import array_keys

# -- Environments -----------------------------------------------------------------------------------------------------


class Walk(gymnasium.Env):
    """A walk on the whole numbers, `length` steps a life; its rewards, faults and lives are as a test needs them.

    faults: step of this environment, counted over all games and from 1, to what is not a number then: `nan reward`,
    `inf reward` or `nan observation`.
    """

    def __init__(
        self,
        *,
        length: int = 7,
        lives: int = 1,
        n_actions: int = 4,
        reward: Callable[[int], float] = float,
        faults: dict[int, str] | None = None,
    ) -> None:
        self.length, self.all_lives, self.reward, self.faults = length, lives, reward, faults or {}
        self.observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.action_space = spaces.Discrete(n_actions)
        self.steps = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at, self.t, self.lives = int(self.np_random.integers(3)), 0, self.all_lives
        return self._observe(), {"lives": self.lives}

    def step(self, action):
        assert self.action_space.contains(action)
        self.at, self.t, self.steps = self.at + int(action), self.t + 1, self.steps + 1
        self.lives -= self.t % self.length == 0
        observation, reward = self._observe(), self.reward(int(action))
        fault = self.faults.get(self.steps)
        if fault == "nan observation":
            observation[0] = np.nan
        elif fault:
            reward = float(fault.split()[0])
        return observation, reward, self.lives == 0, False, {"lives": self.lives}

    def _observe(self):
        return np.array([self.at, self.t], np.float32)


class Pictures(gymnasium.Env):
    """Colour pictures that depend on the last actions."""

    observation_space = spaces.Box(0, 255, (20, 30, 3), np.uint8)
    action_space = spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.history = [int(self.np_random.integers(2))]
        return self._observe(), {}

    def step(self, action):
        self.history.append(int(action))
        return self._observe(), float(action == len(self.history) % 3), len(self.history) > 5, False, {}

    def _observe(self):
        return np.random.default_rng(self.history).integers(256, size=(20, 30, 3), dtype=np.uint8)


class Shifted(gymnasium.Env):
    """Observations -2 to 3, actions 5 to 7: neither begins at 0."""

    observation_space = spaces.Discrete(6, start=-2)
    action_space = spaces.Discrete(3, start=5)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = -2
        return self.at, {}

    def step(self, action):
        assert self.action_space.contains(action)
        self.at = min(self.at + int(action) - 5, 3)
        return self.at, 1.0 if action == 7 else -1.0, self.at == 3, False, {}


class Recorder(gymnasium.Wrapper):
    """Keeps what happened: games, each a list of (observation, action, reward, lives after it, ended)."""

    def __init__(self, env):
        super().__init__(env)
        self.games = []

    def reset(self, **arguments):
        self.before, info = self.env.reset(**arguments)
        self.games.append([])
        return self.before, info

    def step(self, action):
        observation, reward, terminated, truncated, info = self.env.step(action)
        step = (self.before, int(action - self.action_space.start), reward, info.get("lives"), terminated or truncated)
        self.games[-1].append(step)
        self.before = observation
        return observation, reward, terminated, truncated, info

    @property
    def actions(self) -> list[int]:
        return [action for game in self.games for _, action, *_ in game]


def side_by_side(make: Callable[[], gymnasium.Env], n: int) -> SyncVectorEnv:
    return SyncVectorEnv([make] * n, autoreset_mode=AutoresetMode.DISABLED)


class InGroups(VectorEnv):
    """Environments that step in groups of these sizes, one group after the other; `interrupt` counts receptions."""

    metadata = {"autoreset_mode": AutoresetMode.DISABLED}  # noqa: RUF012

    def __init__(
        self, make: Callable[[int], gymnasium.Env], sizes: tuple[int, ...], interrupt: int | None = None
    ) -> None:
        stops = np.cumsum(sizes).tolist()
        self.groups = [slice(stop - size, stop) for stop, size in zip(stops, sizes, strict=True)]
        self._parts = [
            SyncVectorEnv(
                [partial(make, lane) for lane in range(own.start, own.stop)], autoreset_mode=AutoresetMode.DISABLED
            )
            for own in self.groups
        ]
        self.num_envs = sum(sizes)
        self.single_observation_space = self._parts[0].single_observation_space
        self.single_action_space = self._parts[0].single_action_space
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self._sent: dict[int, np.ndarray] = {}
        self._shown = np.zeros(self.observation_space.shape, self.observation_space.dtype)
        self._lives = np.zeros(self.num_envs, np.int64)
        self.until_interrupt = interrupt

    def reset(self, *, seed=None, options=None):
        mask = options["reset_mask"] if options else np.ones(self.num_envs, np.bool_)
        for group, own in enumerate(self.groups):
            if mask[own].any():
                self._sent.pop(group, None)
                some = {"reset_mask": mask[own]} if options else None
                self._shown[own], info = self._parts[group].reset(seed=seed[own], options=some)
                self._lives[own] = np.where(mask[own], info.get("lives", 0), self._lives[own])
        return self._shown.copy(), {"lives": self._lives.copy()}

    def send(self, group, actions):
        assert group not in self._sent
        self._sent[group] = actions

    def receive(self, group):
        if self.until_interrupt is not None:
            self.until_interrupt -= 1
            if self.until_interrupt == 0:
                raise KeyboardInterrupt
        own = self.groups[group]
        self._shown[own], *outcome, info = self._parts[group].step(self._sent.pop(group))
        self._lives[own] = info.get("lives", 0)
        return self._shown[own], *outcome, {"lives": self._lives[own]}


@cache
def qbert(n_envs: int | None) -> gymnasium.Env | gymnasium.vector.VectorEnv:
    """Short games of Q*bert, for one agent after the other: each begins its games on its own seeds."""
    return make_atari("qbert", n_envs=n_envs, max_frames=420)


@pytest.fixture(scope="module", autouse=True)
def _switch_off():
    yield
    qbert.cache_clear()


# -- Helpers ----------------------------------------------------------------------------------------------------------


def remembered(games: list[list[tuple]], gamma: float, *, lives: bool = False, update: str = "max") -> dict:
    """What the memory must hold by Eq. 1, from a plain dictionary: (action, key of the observation) to return."""
    episodes, open_episode = [], []
    for game in games:
        lives_before = None
        for observation, action, reward, lives_after, ended in game:
            open_episode.append((action, array_keys(np.asarray(observation)[None]).tobytes(), reward))
            lost = lives and lives_before is not None and lives_after < lives_before
            lives_before = lives_after
            if ended or lost:
                episodes.append(open_episode)
                open_episode = []
        open_episode = []
    values: dict = {}
    for episode in episodes:
        ret = 0.0
        for action, key, reward in reversed(episode):
            ret = reward + gamma * ret
            kept = values.get((action, key), -np.inf) if update == "max" else -np.inf
            values[action, key] = max(np.float32(ret), kept)
    return values


def entries(agent: MFEC) -> dict:
    """(action, key) to value, for all that the memory holds."""
    tensors = agent.memory.tensors()
    actions = np.repeat(np.arange(len(tensors["sizes"])), tensors["sizes"]).tolist()
    rows = zip(actions, tensors["keys"], tensors["values"], strict=True)
    found = {(action, key.tobytes()): value for action, key, value in rows}
    assert len(found) == len(agent.memory)
    return found


def everything(agent: MFEC, path: Path, *, but: tuple[str, ...] = ()) -> tuple[dict, dict]:
    """All that makes an agent, as `save` writes it, but for the seconds it took and what is named."""
    agent.save(path)
    state, tensors = read_checkpoint(path, kind="agent")
    del state["tally"]["lookup_seconds"], state["tally"]["write_seconds"]
    for name in but:
        del state[name]
    digests = {
        (file, name): sha256(t.tobytes()).hexdigest() for file, own in tensors.items() for name, t in own.items()
    }
    return state, digests


class Keep(Callback):
    """Saves the agent after some steps; after the step `stop` it raises."""

    class Stopped(Exception):
        pass

    def __init__(self, folder: Path | None = None, after: tuple[int, ...] = (), stop: int | None = None) -> None:
        self.folder, self.after, self.stop = folder, after, stop
        self.steps = 0
        self.games: list[Game] = []

    def on_game(self, agent, game):
        self.games.append(game)

    def on_step(self, agent):
        self.steps += 1
        if self.steps in self.after:
            agent.save(self.folder / str(self.steps))
        if self.steps == self.stop:
            raise self.Stopped


# -- What it remembers ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("few_neighbours", ["infinity", "mean", "zero"])
@pytest.mark.parametrize("update", ["max", "replace"])
@pytest.mark.parametrize("gamma", [1.0, 0.9])
@pytest.mark.parametrize(
    "make",
    [partial(gymnasium.make, "CartPole-v1"), partial(gymnasium.make, "FrozenLake-v1"), Pictures, Shifted],
    ids=["CartPole", "FrozenLake", "pictures", "shifted"],
)
def test_the_memory_is_the_dictionary_of_equation_1(make, gamma, update, few_neighbours):
    env = Recorder(make())
    agent = MFEC(
        env, gamma=gamma, update=update, few_neighbours=few_neighbours, k=3, epsilon=0.1, capacity=1000, seed=1
    )
    seen = Keep()
    agent.learn(total_frames=400, callback=seen)
    assert agent.frames == 400 == len(env.actions)
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
        assert np.array_equal(state, (agent.embedding.matrix @ pixels).astype(np.float32))


@pytest.mark.parametrize("episode", ["life", "game"])
def test_a_lost_life_ends_an_episode_or_not_while_the_score_is_the_games(episode):
    env = Recorder(Walk(lives=3, length=4))
    agent = MFEC(env, episode=episode, k=2, capacity=500, seed=3).learn(total_frames=90)
    assert agent.games == 90 // 12
    assert list(agent.scores) == [sum(step[2] for step in game) for game in env.games if len(game) == 12]
    expected = remembered(env.games, 1.0, lives=episode == "life")
    assert entries(agent) == expected
    assert expected != remembered(env.games, 1.0, lives=episode != "life")


@pytest.mark.parametrize("episode", ["life", "game"])
def test_lives_of_qbert_end_episodes_or_not(episode):
    env = Recorder(make_atari("qbert", max_frames=1600))
    games = Keep()
    agent = MFEC(env, episode=episode, capacity=2000, seed=0).learn(total_frames=3600, callback=games)
    finished = [game for game in env.games if game and game[-1][-1]]
    assert len(finished) >= 2
    assert [game.score for game in games.games] == [sum(step[2] for step in game) for game in finished]
    assert [game.length_frames for game in games.games] == [4 * len(game) for game in finished]
    expected = remembered(env.games, 1.0, lives=episode == "life")
    assert entries(agent) == expected
    assert expected != remembered(env.games, 1.0, lives=episode != "life")


def test_episodes_cut_off_by_a_time_limit_are_written():
    env = Recorder(gymnasium.make("CartPole-v1", max_episode_steps=8))
    agent = MFEC(env, k=3, capacity=1000, seed=0).learn(80)
    assert agent.games == 10, "no pole falls within 8 steps"
    assert len(agent.memory) == 80
    assert entries(agent) == remembered(env.games, 1.0)


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
    agent = MFEC(vector, k=3, capacity=5000, seed=0).learn(1000, callback=games)
    assert agent.games == len(games.games) > 10
    assert len(agent.memory) == sum(game.length_frames for game in games.games), "no cart stands twice in one place"
    assert {game.score - game.length_frames for game in games.games} == {0.0}


def test_many_lanes_write_what_they_played_when_games_end():
    recorders = [Recorder(Walk(length=3 + lane, lives=2)) for lane in range(4)]
    vector = SyncVectorEnv([lambda own=own: own for own in recorders], autoreset_mode=AutoresetMode.DISABLED)
    agent = MFEC(vector, k=2, capacity=1000, gamma=0.8, seed=0).learn(200)
    played = [game for recorder in recorders for game in recorder.games]
    assert agent.frames == sum(len(game) for game in played) == 200
    assert entries(agent) == remembered(played, 0.8, lives=True)


def test_an_environment_is_made_by_its_name():
    agent = MFEC("FrozenLake-v1", capacity=100, seed=0).learn(100)
    assert agent.frames == 100
    assert repr(agent) == f"MFEC(embedding=identity, k=11, frames=100, entries={len(agent.memory)})"


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


# -- Which environments -----------------------------------------------------------------------------------------------


def test_other_spaces_are_refused_with_what_is_supported():
    env = Walk()
    for bad, named in (
        (TransformObservation(env, lambda o: {"at": o}, spaces.Dict({"at": env.observation_space})), "Dict"),
        (TransformAction(env, lambda a: 0, spaces.Box(-1, 1, (1,))), "Box"),
        (TransformAction(env, lambda a: 0, spaces.MultiDiscrete([2, 2])), "MultiDiscrete"),
    ):
        with pytest.raises(TypeError, match=rf"{named}.*supported are Discrete actions, and Box .* or Discrete obs"):
            MFEC(bad)


@pytest.mark.parametrize("n", [None, 3])
def test_spaces_need_not_begin_at_0(n):
    env = Shifted() if n is None else side_by_side(Shifted, n)
    agent = MFEC(env, k=2, capacity=100, epsilon=0.2, seed=0).learn(300)
    assert agent.games > 5
    assert set(agent.predict(np.array([-2, 0, 2]))[0]) <= {5, 6, 7}
    assert agent.predict(-2, deterministic=True)[0] == 7, "the only action that is rewarded"


def test_observations_are_known_again_whatever_type_the_environment_gives_them():
    """An environment of float32 that returns float64, or lists, as many do."""

    class Loose(Walk):
        def _observe(self):
            return np.array([self.at, self.t], np.float64)

    env = Recorder(Loose())
    agent = MFEC(env, k=1, capacity=500, seed=0).learn(50)
    observation, action, *_ = env.games[0][3]
    keys = array_keys(np.asarray(observation, np.float32)[None])
    estimates = agent.memory.estimate(np.asarray(observation, np.float32)[None], keys, mark_used=False)
    assert estimates.exact[0, action]


# -- A state's identity -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_states_and_their_keys_do_not_depend_on_the_batch(dtype):
    env = qbert(None)
    frames = [env.reset(seed=0)[0]]
    frames += [env.step(i % env.action_space.n)[0] for i in range(150)]
    frames = np.stack(frames[::-10]).astype(dtype)
    assert len(frames) == 16
    embedding = RandomProjection(84 * 84, seed=0)
    keys, states = array_keys(frames), embedding(frames).copy()
    assert len(np.unique(keys, axis=0)) > 5
    for i in np.random.default_rng(0).permutation(16):
        assert np.array_equal(array_keys(frames[i : i + 1])[0], keys[i])
        assert embedding(frames[i : i + 1])[0].tobytes() == states[i].tobytes()
    assert embedding(frames[5:9]).tobytes() == states[5:9].tobytes()
    exact = embedding.matrix @ frames.reshape(16, -1).T.astype(np.float64)
    assert np.array_equal(states, exact.T.astype(np.float32))


def test_what_many_lanes_stored_matches_exactly_for_one_observation():
    recorders = [Recorder(make_atari("qbert", max_frames=120)) for _ in range(3)]
    vector = SyncVectorEnv([lambda own=own: own for own in recorders], autoreset_mode=AutoresetMode.DISABLED)
    agent = MFEC(vector, capacity=1000, seed=0).learn(3 * 40 * 4)
    game = next(game for recorder in recorders for game in recorder.games if game and game[-1][-1])
    for observation, action, *_ in game:
        one = observation[None]
        assert agent.memory.estimate(agent.embedding(one), array_keys(one), mark_used=False).exact[0, action]


# -- One seed makes a run ---------------------------------------------------------------------------------------------

CART_POLE = partial(gymnasium.make, "CartPole-v1")
LITTLE = {"capacity": 30, "k": 4, "eviction": "used"}
CELLS = {"index": "cells"}
RUNS = {  # environment, frames, when it is saved (as shares of the run), settings
    "cart pole": (CART_POLE, 600, (0.0, 0.3, 0.9), {"epsilon": 0.1}),
    "8 cart poles": (partial(side_by_side, CART_POLE, 8), 1600, (0.0, 0.5, 0.99), {"epsilon": 0.1}),
    "8 walks": (partial(side_by_side, partial(Walk, lives=2), 8), 800, (0.1, 0.33, 0.8), LITTLE | {"capacity": 10}),
    "qbert": (partial(qbert, None), 3000, (0.1, 0.7), {}),
    "qbert, little memory": (partial(qbert, None), 3000, (0.3, 0.9), LITTLE),
    "2 qberts": (partial(qbert, 2), 2400, (0.0, 0.31, 0.77), {}),
    "3 qberts, little memory": (partial(qbert, 3), 3600, (0.0, 0.31, 0.77), LITTLE),
    "5 qberts": (partial(qbert, 5), 4000, (0.52,), {"episode": "game"}),
    "8 qberts": (partial(qbert, 8), 4800, (0.2, 0.9), {}),
    "8 qberts, little memory": (partial(qbert, 8), 4800, (0.8,), LITTLE),
    "cart pole, cells": (CART_POLE, 2400, (0.0, 0.3, 0.6, 0.9), CELLS | {"epsilon": 0.1, "capacity": 700}),
    "8 cart poles, cells": (partial(side_by_side, CART_POLE, 8), 2400, (0.3, 0.8), CELLS | {"epsilon": 0.1}),
    # Whole numbers: most neighbours are as far as others, and as many bytes of code.
    "walk, cells": (partial(Walk, length=40), 2400, (0.2, 0.5, 0.8), CELLS | {"k": 4}),
    "8 walks, cells": (partial(side_by_side, partial(Walk, length=40), 8), 2400, (0.2, 0.7), CELLS | {"k": 4}),
    "8 walks, little memory, cells": (
        partial(side_by_side, partial(Walk, lives=2), 8), 800, (0.1, 0.33, 0.8), CELLS | LITTLE | {"capacity": 10},
    ),
    "qbert, cells": (partial(qbert, None), 3000, (0.2, 0.7), CELLS),
    "walks in groups": (
        partial(InGroups, lambda lane: Walk(length=4 + lane, lives=2), (3, 1, 2)), 900, (0.0, 0.004, 0.4, 0.9), LITTLE,
    ),
    "3 qberts, cells": (partial(qbert, 3), 3000, (0.4,), CELLS),
}  # fmt: skip


@pytest.fixture(autouse=True)
def _make_cells_often(monkeypatch):
    """So that short runs make them anew as well."""
    monkeypatch.setattr("mfec.memory.neighbours.cells.SMALLEST_CHANGE", 100)


def make_agent(name: str, seed: int = 0) -> MFEC:
    make_env, _, _, settings = RUNS[name]
    return MFEC(make_env(), **{"capacity": 5000, **settings}, seed=seed)


@pytest.mark.parametrize("name", RUNS)
def test_the_same_seed_gives_the_same_run_and_a_stopped_one_goes_on(name, tmp_path):
    """Bit for bit: the memory, the scores, the random streams, the games in progress."""
    make_env, total_frames, shares, _ = RUNS[name]
    counted = Keep()
    whole = make_agent(name).learn(total_frames, callback=counted)
    expected = everything(whole, tmp_path / "whole")
    assert len(whole.memory) > 0
    assert whole.games > 0

    moments = tuple(1 + int(share * counted.steps) for share in shares)
    kept = make_agent(name).learn(total_frames, callback=Keep(tmp_path, moments))
    assert everything(kept, tmp_path / "kept") == expected, "the same seed, saved along the way"
    for moment in moments:
        resumed = MFEC.load(tmp_path / str(moment), env=make_env())
        assert resumed.frames < total_frames
        resumed.learn(total_frames)
        assert everything(resumed, tmp_path / "resumed") == expected, f"saved after step {moment}"


@pytest.mark.parametrize("name", ["cart pole", "8 walks", "qbert", "2 qberts"])
def test_different_seeds_give_different_runs(name, tmp_path):
    _, total_frames, *_ = RUNS[name]
    runs = [everything(make_agent(name, seed).learn(total_frames // 2), tmp_path / str(seed))[1] for seed in range(3)]
    assert len({run["memory", "states"] for run in runs}) == 3


@pytest.mark.parametrize("name", ["8 walks", "walks in groups"])
def test_an_agent_stopped_by_an_error_goes_on_as_if_it_were_not(name, tmp_path):
    make_env, total_frames, *_ = RUNS[name]
    expected = everything(make_agent(name).learn(total_frames), tmp_path / "whole")
    agent = make_agent(name)
    for stop in (5, 17, 30):
        with pytest.raises(Keep.Stopped):
            agent.learn(total_frames, callback=Keep(stop=stop))
        agent.save(tmp_path / "stopped")
        agent = MFEC.load(tmp_path / "stopped", env=make_env())
    assert everything(agent.learn(total_frames), tmp_path / "end") == expected
    assert agent.frames >= total_frames


@pytest.mark.parametrize("after", [1, 2, 3, 50])
@pytest.mark.parametrize("saved", [False, True])
def test_a_step_that_was_interrupted_is_made_after_all(after, saved, tmp_path):
    """By Ctrl-C, say, while the agent waits for a group. Saved and loaded it goes on as well."""
    _, total_frames, _, settings = RUNS["walks in groups"]
    expected = everything(make_agent("walks in groups").learn(total_frames), tmp_path / "whole")
    make_env = partial(InGroups, lambda lane: Walk(length=4 + lane, lives=2), (3, 1, 2))
    agent = MFEC(make_env(interrupt=after), **settings, seed=0)
    with pytest.raises(KeyboardInterrupt):
        agent.learn(total_frames)
    if saved:
        agent.save(tmp_path / "saved")
        agent = MFEC.load(tmp_path / "saved", env=make_env())
    assert everything(agent.learn(total_frames), tmp_path / "end") == expected


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("cart pole", (1, 130, 131, 500)),
        ("3 qberts, little memory", (4, 9, 1000, 1013, 1800)),
        ("walks in groups", (1, 4, 300, 310, 500)),
    ],
)
def test_learning_in_parts_is_learning_at_once(name, parts, tmp_path):
    """Between two parts, groups of lanes may be in flight."""
    expected = everything(make_agent(name).learn(parts[-1]), tmp_path / "whole")
    agent = make_agent(name)
    for frames in parts:
        agent.learn(frames)
    assert everything(agent, tmp_path / "parts") == expected


def test_an_agent_saved_before_it_learned_goes_on(tmp_path):
    expected = everything(make_agent("cart pole").learn(300), tmp_path / "whole")
    make_agent("cart pole").save(tmp_path / "fresh")
    agent = MFEC.load(tmp_path / "fresh", env=RUNS["cart pole"][0]())
    assert everything(agent.learn(300), tmp_path / "end") == expected


@pytest.mark.parametrize("name", ["8 walks", "walks in groups"])
def test_a_loaded_agent_that_did_not_learn_is_saved_as_it_was(name, tmp_path):
    agent = make_agent(name).learn(100)
    expected = everything(agent, tmp_path / "first")
    for env in (None, RUNS[name][0]()):
        assert everything(MFEC.load(tmp_path / "first", env=env), tmp_path / "second") == expected


def test_without_a_seed_runs_differ_and_can_be_repeated(tmp_path):
    first, second = MFEC(Walk(), capacity=100), MFEC(Walk(), capacity=100)
    assert first.seed != second.seed
    again = MFEC(Walk(), capacity=100, seed=first.seed)
    assert everything(first.learn(100), tmp_path / "a") == everything(again.learn(100), tmp_path / "b")


# -- Groups in turn ---------------------------------------------------------------------------------------------------


def reference(n: int, total_frames: int, *, k: int, capacity: int, eviction: str, epsilon: float, seed: int):
    """Algorithm 1 by two groups in turn, written down plainly: each lane has an environment and steps only when
    its group is received. Memory, scores and random streams."""
    env_seed, explore_seed, ties_seed, projection, _ = np.random.SeedSequence(seed).spawn(5)
    exploration, ties = np.random.default_rng(explore_seed), np.random.default_rng(ties_seed)
    embedding = RandomProjection(84 * 84, seed=projection)
    envs = [make_atari("qbert", n_envs=1, max_frames=420) for _ in range(n)]
    n_actions = int(envs[0].single_action_space.n)
    memory = EpisodicMemory(n_actions, 64, k=k, capacity=capacity, eviction=eviction, index="exact")
    observations, lives, games, steps, scores = [None] * n, [0] * n, [-1] * n, [[] for _ in range(n)], [0.0] * n
    finished: deque[float] = deque(maxlen=100)

    def begin(lane: int) -> None:
        games[lane] += 1
        key = (*env_seed.spawn_key, lane, games[lane])
        drawn = int(np.random.SeedSequence(env_seed.entropy, spawn_key=key).generate_state(1)[0] >> 1)
        given = drawn if games[lane] % envs[lane].reseed_every == 0 else None
        shown, info = envs[lane].reset(seed=[given])
        observations[lane], lives[lane], scores[lane], steps[lane] = shown[0], info["lives"][0], 0.0, []

    for lane in range(n):
        begin(lane)
    groups, in_flight, group, frames = [range((n + 1) // 2), range((n + 1) // 2, n)], {}, 0, 0
    while frames < total_frames:
        shown = np.stack([observations[lane] for lane in groups[group]])
        states, keys = embedding(shown), array_keys(shown)
        values = memory.estimate(states, keys).values
        exploring = exploration.random(len(values)) < epsilon
        actions = []
        for row, at_random in zip(values, exploring, strict=True):
            best = np.flatnonzero(row == row.max())
            greedy = best[ties.integers(len(best))] if len(best) > 1 else best[0]
            actions.append(int(exploration.integers(n_actions) if at_random else greedy))
        in_flight[group] = list(zip(groups[group], states, keys, actions, strict=True))
        group = (group + 1) % 2
        ended = []
        for lane, state, key, action in in_flight.pop(group, []):
            shown, reward, terminated, truncated, info = envs[lane].step(np.array([action]))
            frames += 4
            observations[lane], scores[lane] = shown[0], scores[lane] + reward[0]
            steps[lane].append((state, key, action, reward[0]))
            over = bool(terminated[0] or truncated[0])
            if over or info["lives"][0] < lives[lane]:
                ret = 0.0
                for state, key, action, reward in reversed(steps[lane]):
                    ret = reward + ret
                    memory.write(state[None], [action], [ret], key[None])
                steps[lane] = []
            lives[lane] = info["lives"][0]
            if over:
                finished.append(scores[lane])
                ended.append(lane)
        for lane in ended:
            begin(lane)
    return memory, frames, list(finished), exploration, ties


@pytest.mark.parametrize("n", [2, 3])
def test_two_groups_in_turn_play_what_the_plain_reference_plays(n):
    settings = {"k": 4, "capacity": 150, "eviction": "used", "epsilon": 0.02, "seed": 5}
    agent = MFEC(qbert(n), index="exact", **settings).learn(5000)
    memory, frames, finished, exploration, ties = reference(n, 5000, **settings)
    assert len(finished) > 5
    assert len(memory) > 400
    assert (agent.frames, list(agent.scores)) == (frames, finished)
    assert agent._exploration.bit_generator.state == exploration.bit_generator.state
    assert agent._ties.bit_generator.state == ties.bit_generator.state
    ours, theirs = agent.memory.tensors(), memory.tensors()
    assert ours.keys() == theirs.keys()
    assert all(np.array_equal(ours[name], theirs[name]) for name in ours)


class Unsteady(AtariVector):
    """Steps that take as long as they please."""

    rng = np.random.default_rng()

    def send(self, group, actions):
        super().send(group, actions)
        time.sleep(self.rng.choice([0.0, 0.004]))

    def receive(self, group):
        time.sleep(self.rng.choice([0.0, 0.004]))
        return super().receive(group)


def test_results_do_not_depend_on_how_long_steps_take(tmp_path):
    expected = everything(make_agent("3 qberts, little memory").learn(2400), tmp_path / "steady")
    agent = MFEC(Unsteady("qbert", 3, max_frames=420), **LITTLE, seed=0).learn(2400)
    assert everything(agent, tmp_path / "unsteady") == expected


def test_states_may_become_arrays_only_when_they_are_looked_up(tmp_path):
    """As those of an embedding that computes them on a device, while the memory waits there as well."""

    class Later(RandomProjection):
        ready = False

        def __call__(self, observations):
            embedding, states = self, super().__call__(observations)
            embedding.ready = False

            class States:
                def __array__(self, dtype=None, copy=None):
                    assert embedding.ready, "not before the estimate"
                    return np.asarray(states, dtype)

                def __len__(self):
                    return len(states)

            return States()

    expected = everything(MFEC(qbert(3), capacity=300, seed=0).learn(1500), tmp_path / "now", but=("config",))
    embedding = Later(84 * 84, seed=np.random.SeedSequence(0).spawn(5)[3])
    agent = MFEC(qbert(3), capacity=300, embedding=embedding, seed=0)
    estimate = agent.memory.estimate

    def estimate_later(*arguments, **settings):
        embedding.ready = True
        return estimate(*arguments, **settings)

    agent.memory.estimate = estimate_later
    assert everything(agent.learn(1500), tmp_path / "later", but=("config",)) == expected


# -- Loading ----------------------------------------------------------------------------------------------------------


def test_without_an_environment_an_agent_plays_but_does_not_learn(tmp_path):
    agent = MFEC(gymnasium.make("CartPole-v1"), capacity=500, k=3, seed=0).learn(200)
    agent.save(tmp_path)
    loaded = MFEC.load(tmp_path)
    observations = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
    assert np.array_equal(loaded.predict(observations)[0], agent.predict(observations)[0])
    with pytest.raises(ValueError, match="loaded without an environment"):
        loaded.learn(300)


def test_other_spaces_than_the_agents_are_refused(tmp_path):
    MFEC(gymnasium.make("CartPole-v1"), capacity=100, seed=0).learn(50).save(tmp_path)
    for other in ("FrozenLake-v1", "Acrobot-v1", Pictures()):
        with pytest.raises(ValueError, match=r"the agent was trained on .*4.*float32.*, this environment has"):
            MFEC.load(tmp_path, env=other)


@pytest.mark.parametrize("n", [None, 2])
def test_games_that_lead_elsewhere_are_an_error_every_time(tmp_path, n):
    def make(gravity):
        def pole():
            env = gymnasium.make("CartPole-v1")
            env.unwrapped.gravity = gravity
            return env

        return pole() if n is None else side_by_side(pole, n)

    agent = MFEC(make(9.8), capacity=100, seed=0)
    with pytest.raises(Keep.Stopped):
        agent.learn(100, callback=Keep(stop=5))
    agent.save(tmp_path / "good")
    loaded = MFEC.load(tmp_path / "good", env=make(2.0))
    for _ in range(2):
        with pytest.raises(LaneError, match="led elsewhere"):
            loaded.learn(100)
    loaded.save(tmp_path / "after")
    assert MFEC.load(tmp_path / "after", env=make(9.8)).learn(100).frames == 100


def test_another_number_of_environments_is_an_error_every_time(tmp_path):
    MFEC(side_by_side(Walk, 2), capacity=100, seed=0).learn(20).save(tmp_path)
    loaded = MFEC.load(tmp_path, env=side_by_side(Walk, 3))
    for _ in range(2):
        with pytest.raises(LaneError, match="played 2 environments, these are 3"):
            loaded.learn(100)


def test_other_groups_of_environments_are_an_error_every_time(tmp_path):
    MFEC(qbert(3), capacity=100, seed=0).learn(200).save(tmp_path)
    together = side_by_side(partial(make_atari, "qbert", max_frames=420), 3)
    loaded = MFEC.load(tmp_path, env=together)
    for _ in range(2):
        with pytest.raises(LaneError, match=r"in the groups \[\[0, 2\], \[2, 3\]\], these are \[\[0, 3\]\]"):
            loaded.learn(400)


@pytest.mark.parametrize("name", ["cart pole", "8 walks", "3 qberts, little memory"])
def test_checkpoints_from_before_there_were_groups_are_read(name, tmp_path):
    """With one group it makes no difference; several begin with the games at rest, as after a fresh start."""
    make_env, total_frames, *_ = RUNS[name]
    agent = make_agent(name).learn(total_frames // 2)
    agent.save(tmp_path / "new")
    state, tensors = read_checkpoint(tmp_path / "new", kind="agent")
    for key in ("groups", "turn", "in_flight"):
        del state["games_in_progress"][key]
    tensors["episodes"] = {key: t for key, t in tensors["episodes"].items() if not key.startswith("in_flight")}
    write_checkpoint(tmp_path / "old", kind="agent", state=state, tensors=tensors)
    old, new = (MFEC.load(tmp_path / when, env=make_env()) for when in ("old", "new"))
    assert old.learn(total_frames).frames >= total_frames
    if "qbert" not in name:
        assert everything(old, tmp_path / "a") == everything(new.learn(total_frames), tmp_path / "b")


def test_games_that_cannot_be_brought_back_begin_anew_with_a_warning(tmp_path):
    make = partial(gymnasium.make_vec, "CartPole-v1", 2)
    MFEC(make(), capacity=1000, seed=0).learn(100).save(tmp_path)
    loaded = MFEC.load(tmp_path, env=make())
    with pytest.warns(UserWarning, match="could not be brought back"):
        loaded.learn(200)
    assert loaded.frames >= 200


def test_an_incomplete_agent_is_a_checkpoint_error(tmp_path):
    MFEC(Walk(), capacity=100, seed=0).learn(20).memory.save(tmp_path)
    with pytest.raises(CheckpointError, match="not of a"):
        MFEC.load(tmp_path)


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
    agent = MFEC("FrozenLake-v1", capacity=100, k=1, seed=0).learn(500)
    actions, _ = agent.predict(np.arange(16), deterministic=True)
    assert [agent.predict(i, deterministic=True)[0] for i in range(16)] == actions.tolist()


def test_observations_of_another_shape_are_refused():
    agent = MFEC(gymnasium.make("CartPole-v1"), capacity=100, seed=0)
    for shape in ((5,), (2, 5), (2, 2, 4), ()):
        with pytest.raises(ValueError, match=r"an observation has the shape \(4,\) here"):
            agent.predict(np.zeros(shape, np.float32))


@pytest.mark.parametrize("deterministic", [True, False])
def test_predict_leaves_the_memory_and_learning_alone(deterministic, tmp_path):
    """Even where reading an entry counts as using it, and between any two steps."""
    frames = np.random.default_rng(0).integers(256, size=(3, 84, 84), dtype=np.uint8)

    class Disturb(Callback):
        def on_step(self, agent):
            agent.predict(frames, deterministic=deterministic)
            agent.predict(frames[0], deterministic=deterministic, epsilon=0.5)

    expected = everything(make_agent("qbert, little memory").learn(1500), tmp_path / "alone", but=("playing",))
    disturbed = make_agent("qbert, little memory").learn(1500, callback=Disturb())
    assert everything(disturbed, tmp_path / "disturbed", but=("playing",)) == expected


@pytest.mark.parametrize("name", ["cart pole, cells", "8 walks, cells"])
def test_looking_into_an_agent_leaves_its_cells_alone(name, tmp_path):
    """They set themselves by what was looked up to learn, not by what was asked between steps."""
    _, total_frames, *_ = RUNS[name]
    watched = CART_POLE() if "cart pole" in name else Walk(length=40)
    rng = np.random.default_rng(0)

    class Watch(Callback):
        def on_step(self, agent):
            far = rng.normal(0, 100, (5, agent.memory.dim)).astype(np.float32)
            agent.predict(far)
            agent.predict(far[0], deterministic=True)
            agent.memory.estimate(far, mark_used=False)
            agent.memory.neighbours(far[0], action=1)
            if agent.frames % 480 == 0:
                evaluate_policy(agent, watched, n_eval_episodes=2, warn=False)

    expected = everything(make_agent(name).learn(total_frames), tmp_path / "alone", but=("playing",))
    disturbed = make_agent(name).learn(total_frames, callback=Watch())
    assert disturbed.memory.active_index == "cells"
    assert everything(disturbed, tmp_path / "watched", but=("playing",)) == expected


def test_a_generator_of_ones_own_decides_what_predict_draws():
    agent = MFEC(Walk(), capacity=100, seed=0)
    observations = np.zeros((100, 2), np.float32)
    once, again, other = (agent.predict(observations, rng=np.random.default_rng(i))[0] for i in (1, 1, 2))
    assert np.array_equal(once, again)
    assert not np.array_equal(once, other)


@pytest.mark.parametrize("ties", ["random", "first"])
@pytest.mark.parametrize("few_neighbours", ["infinity", "mean", "zero"])
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


@pytest.mark.parametrize("epsilon", [0.0, 0.5, 1.0])
def test_epsilon_of_the_actions_are_random(epsilon):
    """Only action 0 is ever rewarded, and the first game finds it: all else is exploration."""
    env = Recorder(Walk(reward=lambda action: float(action == 0), length=1))
    agent = MFEC(env, epsilon=epsilon, k=1, capacity=10_000, few_neighbours="zero", ties="first", seed=0).learn(4000)
    counts = np.bincount(env.actions, minlength=4)
    assert agent.games == 4000
    assert all(abs(count - 1000 * epsilon) < 150 for count in counts[1:])
    assert (counts[1:] > 0).all() == (epsilon > 0)


@pytest.mark.filterwarnings("ignore:Evaluation environment is not wrapped")
def test_stable_baselines3_evaluates_the_agent(tmp_path):
    agent = MFEC(gymnasium.make("CartPole-v1"), capacity=2000, k=5, seed=0).learn(1000)
    before = everything(agent, tmp_path / "before", but=("playing",))
    vector = DummyVecEnv([partial(gymnasium.make, "CartPole-v1")])
    vector.seed(7)
    scores, lengths = evaluate_policy(agent, vector, n_eval_episodes=5, return_episode_rewards=True)

    env, expected = gymnasium.make("CartPole-v1"), []
    observation, _ = env.reset(seed=7)
    for _ in range(5):
        score, ended = 0.0, False
        while not ended:
            observation, reward, terminated, truncated, _ = env.step(agent.predict(observation, deterministic=True)[0])
            score, ended = score + reward, terminated or truncated
        expected.append(score)
        observation, _ = env.reset()
    assert scores == expected == lengths
    assert everything(agent, tmp_path / "after", but=("playing",)) == before


@pytest.mark.filterwarnings("ignore:Evaluation environment is not wrapped")
def test_stable_baselines3_evaluates_the_agent_on_atari():
    agent = MFEC(make_atari("qbert"), capacity=1000, seed=0).learn(800)
    env = make_atari("qbert", max_frames=240)
    scores, lengths = evaluate_policy(agent, env, n_eval_episodes=2, deterministic=False, return_episode_rewards=True)
    assert len(scores) == 2
    assert all(50 <= length <= 60 for length in lengths)


# -- Bad data ---------------------------------------------------------------------------------------------------------

FAULTS = ["nan reward", "inf reward", "-inf reward", "nan observation"]
# A repeated step draws random numbers and looks its state up again, so these agents make no use of either.
PLAIN = {"epsilon": 0.0, "ties": "first", "k": 2, "capacity": 200, "index": "exact"}
STREAMS = ("exploration", "ties")


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("n", [None, 3])
@pytest.mark.parametrize("at", [1, 7, 25])
def test_bad_data_is_an_error_that_leaves_a_good_agent(fault, n, at, tmp_path):
    """The error comes before anything is learned of that step; saved and loaded, the agent repeats it."""
    total_frames = 120

    def make(faults):
        if n is None:
            return Walk(faults=faults)
        makers = [partial(Walk, length=4 + lane) for lane in range(n)]
        makers[1] = partial(Walk, length=5, faults=faults)
        return SyncVectorEnv(makers, autoreset_mode=AutoresetMode.DISABLED)

    expected = everything(MFEC(make({}), **PLAIN, seed=0).learn(total_frames), tmp_path / "good", but=STREAMS)
    agent = MFEC(make({at: fault}), **PLAIN, seed=0)
    named = "observation" if "observation" in fault else "rewards"
    with pytest.raises(BadEnvironmentData, match=rf"returned .*{named}.* after frame {(at - 1) * (n or 1)}"):
        agent.learn(total_frames)
    assert agent.frames == (at - 1) * (n or 1)
    assert all(np.isfinite(values).all() for values in agent.memory.tensors().values())
    agent.save(tmp_path / "kept")
    loaded = MFEC.load(tmp_path / "kept", env=make({}))
    assert everything(loaded.learn(total_frames), tmp_path / "end", but=STREAMS) == expected


@pytest.mark.parametrize("n", [None, 3])
def test_after_bad_data_the_same_agent_goes_on_from_the_good_state(n, tmp_path):
    """A fault that passes: the environment is already behind the bad step, so the game has to be brought back."""
    makes = [partial(Walk, faults=faults) for faults in ({}, {10: "nan reward"})]
    good, bad = (make() if n is None else side_by_side(make, n) for make in makes)
    expected = everything(MFEC(good, **PLAIN, seed=0).learn(90), tmp_path / "good", but=STREAMS)
    agent = MFEC(bad, **PLAIN, seed=0)
    with pytest.raises(BadEnvironmentData):
        agent.learn(90)
    assert everything(agent.learn(90), tmp_path / "end", but=STREAMS) == expected


@pytest.mark.parametrize("fault", ["nan reward", "nan observation"])
@pytest.mark.parametrize("lane", [0, 2, 3])
@pytest.mark.parametrize("at", [1, 2, 25])
@pytest.mark.parametrize("saved", [False, True])
def test_bad_data_of_a_group_leaves_a_good_agent_with_all_that_was_decided(fault, lane, at, saved, tmp_path):
    """The bad step stays in flight beside those of other groups, and is made again: no draw, no look-up is lost."""

    def make(faults):
        return InGroups(lambda own: Walk(length=4 + own, faults=faults if own == lane else None), (2, 1, 1))

    settings = {"capacity": 12, "k": 2, "eviction": "used", "epsilon": 0.1}
    expected = everything(MFEC(make({}), **settings, seed=0).learn(200), tmp_path / "good")
    agent = MFEC(make({at: fault}), **settings, seed=0)
    with pytest.raises(BadEnvironmentData, match=fault.split()[1]):
        agent.learn(200)
    assert agent.frames < 200
    if saved:
        agent.save(tmp_path / "kept")
        agent = MFEC.load(tmp_path / "kept", env=make({}))
    assert everything(agent.learn(200), tmp_path / "end") == expected


def test_bad_data_at_the_start_of_a_game_is_the_same_error(tmp_path):
    class Rotten(Walk):
        def reset(self, *, seed=None, options=None):
            observation, info = super().reset(seed=seed)
            self.begun = getattr(self, "begun", 0) + 1
            if self.begun == 3:
                observation[1] = np.inf
            return observation, info

    agent = MFEC(Rotten(), **PLAIN, seed=0)
    with pytest.raises(BadEnvironmentData, match="not finite"):
        agent.learn(100)
    assert (agent.frames, agent.games) == (14, 2)
    agent.save(tmp_path)
    assert MFEC.load(tmp_path, env=Walk()).learn(100).frames == 100


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


@pytest.mark.parametrize(("gamma", "end"), [(1.0, "gold"), (0.95, "gold"), (0.6, "crumb")])
@pytest.mark.parametrize(("n", "numbered"), [(None, False), (4, True)])
def test_the_optimum_of_a_maze_is_learned(gamma, end, n, numbered):
    def make():
        env = TimeLimit(Maze(), 60)
        if numbered:  # the same maze with numbers for places instead of coordinates
            return TransformObservation(env, lambda o: int(o[0] * 4 + o[1]), spaces.Discrete(20))
        return env

    env = make() if n is None else side_by_side(make, n)
    agent = MFEC(env, gamma=gamma, epsilon=0.8, k=3, capacity=100, seed=0).learn(16_000)
    reached, rewards = greedy_return(agent, make(), gamma)
    assert reached == pytest.approx(Maze().optimum(gamma, steps=60), rel=1e-12)
    assert rewards[-1] == {"gold": 9.9, "crumb": 0.9}[end]


# -- Imports ----------------------------------------------------------------------------------------------------------


def test_the_package_needs_neither_torch_nor_ale_py():
    code = """
import sys
for extra in ("torch", "ale_py", "cv2", "stable_baselines3", "tensorboard"):
    sys.modules[extra] = None
import mfec
for name in mfec.__all__:
    getattr(mfec, name)
agent = mfec.MFEC("CartPole-v1", capacity=100, seed=0).learn(total_frames=50)
assert agent.frames == 50
try:
    mfec.make_atari("qbert")
except ImportError as error:
    assert "mfec[atari]" in str(error), error
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


@pytest.mark.parametrize(("n", "settings"), [(None, LITTLE), (2, {"capacity": 5000})])
def test_an_agent_on_a_device_plays_what_one_on_the_cpu_plays(n, settings, tmp_path):
    """Bit for bit, also where it was saved under one index and went on under the other."""
    total_frames = 1000
    agents = {index: MFEC(qbert(n), index=index, seed=5, **settings) for index in ("exact", "cuda")}
    half = {index: Keep(tmp_path / index, after=(total_frames // 4 // (2 * (n or 1)),)) for index in agents}
    for index, agent in agents.items():
        agent.learn(total_frames, callback=half[index])
        assert agent.memory.active_index == index
    expected = but_for_the_index(agents["exact"], tmp_path / "whole")
    assert expected[0]["games"] >= 2
    assert but_for_the_index(agents["cuda"], tmp_path / "other") == expected
    for before, after in (("exact", "cuda"), ("cuda", "exact")):
        (saved,) = half[before].after
        agent = MFEC.load(tmp_path / before / str(saved), env=qbert(n), index=after, device="cpu")
        assert (agent.config.index, agent.memory.active_index) == (after, after)
        assert 0 < agent.frames < total_frames
        agent.learn(total_frames)
        assert but_for_the_index(agent, tmp_path / "moved") == expected


def test_pictures_are_projected_on_the_device_and_other_observations_before():
    """A picture crosses over once; it becomes a state there, of the same bits."""
    on_cpu, on_device = (MFEC(Pictures(), index=index, k=3, capacity=100, seed=0) for index in ("exact", "cuda"))
    for agent in (on_cpu, on_device):
        agent.learn(100)
    assert on_cpu.memory.tensors()["states"].tobytes() == on_device.memory.tensors()["states"].tobytes()
    on_device.embedding = None  # nobody asks it any more
    on_device.learn(110)
    walk = MFEC(Walk(), index="cuda", embedding="random_projection", dim=3, capacity=100, seed=0).learn(50)
    same = MFEC(Walk(), index="exact", embedding="random_projection", dim=3, capacity=100, seed=0).learn(50)
    assert walk.memory.tensors()["states"].tobytes() == same.memory.tensors()["states"].tobytes()
    assert list(walk.scores) == list(same.scores)


@pytest.mark.parametrize("make", [Pictures, Walk, Shifted])
def test_an_agent_on_a_device_predicts_what_one_on_the_cpu_predicts(make, tmp_path):
    agent = MFEC(make(), index="cuda", k=3, capacity=100, seed=0).learn(200)
    agent.save(tmp_path)
    other = MFEC.load(tmp_path, index="exact")
    observations = np.stack([agent.observation_space.sample() for _ in range(20)])
    for one in (observations, observations[::-1], observations[0]):
        mine, theirs = (each.predict(one, deterministic=True)[0] for each in (agent, other))
        assert mine.tolist() == theirs.tolist()


def test_an_agent_of_the_cpus_index_takes_the_exact_one_of_a_gpu(tmp_path, monkeypatch):
    """The GPU is stood in for by the same code on the CPU."""
    MFEC(Walk(), index="exact", capacity=100, seed=0).learn(50).save(tmp_path)
    monkeypatch.setattr("mfec.memory.episodic_memory.open_channel", lambda device: open_channel("cpu"))
    agent = MFEC.load(tmp_path, device="cuda")
    assert (agent.memory.index, agent.config.index, agent.config.device) == ("cuda", "cuda", "cuda")
