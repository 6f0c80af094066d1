"""Games in progress: one seed makes a run, in groups or not; stopped, broken or loaded, it goes on bit for bit."""

from __future__ import annotations

import itertools
import time
from collections import deque
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from mfec.agent import MFEC, BadEnvironmentData, EnvironmentCrash
from mfec.callbacks import Callback
from mfec.checkpoint import CheckpointError
from mfec.embeddings import RandomProjection
from mfec.envs import make_atari
from mfec.envs.atari import AtariVector
from mfec.envs.environments import EnvsError
from mfec.memory import EpisodicMemory
from mfec.memory.identities import array_keys

from .playing import (
    LITTLE,
    InGroups,
    Keep,
    Pictures,
    Recorder,
    Walk,
    _switch_off,  # noqa: F401
    entries,
    everything,
    qbert,
    remembered,
    side_by_side,
)

# -- One seed makes a run ---------------------------------------------------------------------------------------------

CART_POLE = partial(gymnasium.make, "CartPole-v1")
CELLS = {"index": "cells"}
RUNS: dict[str, Any] = {  # environment, frames, when it is saved (as shares of the run), settings
    "cart pole": (CART_POLE, 200, (0.0, 0.6), {"epsilon": 0.1}),
    "8 walks": (partial(side_by_side, partial(Walk, lives=2), 8), 400, (0.33, 0.8), LITTLE | {"capacity": 10}),
    "qbert": (partial(qbert, None), 500, (0.9,), {}),
    "2 qberts, little memory": (partial(qbert, 2), 900, (0.31,), LITTLE | {"episode": "game"}),
    "cart pole, cells": (CART_POLE, 600, (0.6,), CELLS | {"epsilon": 0.1, "capacity": 200}),
    # Whole numbers: most neighbours are as far as others, and as many bytes of code.
    "8 walks, cells": (
        partial(side_by_side, partial(Walk, length=20), 8), 800, (0.7,), CELLS | LITTLE | {"capacity": 60},
    ),
    "walks in groups": (
        partial(InGroups, lambda i: Walk(length=4 + i, lives=2), (3, 1, 2)), 300, (0.0, 0.02, 0.7), LITTLE,
    ),
}  # fmt: skip


def make_agent(name: str, seed: int = 0) -> MFEC:
    make_env, _, _, settings = RUNS[name]
    return MFEC(make_env(), **{"capacity": 5000, **settings}, seed=seed)


SLOW = pytest.mark.slow(reason="makes the run of several emulators three times")


@pytest.mark.parametrize("name", [pytest.param(name, marks=SLOW if "qberts" in name else ()) for name in RUNS])
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


def test_different_seeds_give_different_runs(tmp_path):
    runs = [everything(make_agent("8 walks", seed).learn(200), tmp_path / str(seed))[1] for seed in range(2)]
    assert len({run["memory", "states"] for run in runs}) == 2


@pytest.mark.parametrize(("after", "saved"), [(1, True), (20, False)])
def test_a_step_that_was_interrupted_is_made_after_all(after, saved, tmp_path):
    """By Ctrl-C, say, while the agent waits for a group. Saved and loaded it goes on as well."""
    _, total_frames, _, settings = RUNS["walks in groups"]
    expected = everything(make_agent("walks in groups").learn(total_frames), tmp_path / "whole")
    make_env = partial(InGroups, lambda i: Walk(length=4 + i, lives=2), (3, 1, 2))
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
        ("cart pole", (1, 130, 131, 200)),
        ("walks in groups", (1, 4, 100, 110, 200)),
    ],
)
def test_learning_in_parts_is_learning_at_once(name, parts, tmp_path):
    """Between two parts, groups of environments may be in flight."""
    expected = everything(make_agent(name).learn(parts[-1]), tmp_path / "whole")
    agent = make_agent(name)
    for frames in parts:
        agent.learn(frames)
    assert everything(agent, tmp_path / "parts") == expected


def test_an_agent_saved_before_it_learned_goes_on(tmp_path):
    expected = everything(make_agent("cart pole").learn(100), tmp_path / "whole")
    make_agent("cart pole").save(tmp_path / "fresh")
    agent = MFEC.load(tmp_path / "fresh", env=RUNS["cart pole"][0]())
    assert everything(agent.learn(100), tmp_path / "end") == expected


def test_a_loaded_agent_that_did_not_learn_is_saved_as_it_was(tmp_path):
    expected = everything(make_agent("walks in groups").learn(100), tmp_path / "first")
    for env in (None, RUNS["walks in groups"][0]()):
        assert everything(MFEC.load(tmp_path / "first", env=env), tmp_path / "second") == expected


def test_without_a_seed_runs_differ_and_can_be_repeated(tmp_path):
    first, second = MFEC(Walk(), capacity=100), MFEC(Walk(), capacity=100)
    assert first.seed != second.seed
    again = MFEC(Walk(), capacity=100, seed=first.seed)
    assert everything(first.learn(100), tmp_path / "a") == everything(again.learn(100), tmp_path / "b")


def test_looking_into_an_agent_leaves_its_cells_alone(tmp_path):
    """They set themselves by what was looked up to learn, not by what was asked between steps."""
    name, total_frames = "8 walks, cells", 800
    rng = np.random.default_rng(0)

    class Watch(Callback):
        def on_step(self, agent):
            far = rng.normal(0, 100, (5, agent.memory.dim)).astype(np.float32)
            agent.predict(far)
            agent.predict(far[0], deterministic=True)
            agent.memory.estimate(far, mark_used=False)
            agent.memory.neighbours(far[0], action=1)

    expected = everything(make_agent(name).learn(total_frames), tmp_path / "alone", but=("playing",))
    disturbed = make_agent(name).learn(total_frames, callback=Watch())
    assert disturbed.memory.active_index == "cells"
    assert everything(disturbed, tmp_path / "watched", but=("playing",)) == expected


# -- Callbacks --------------------------------------------------------------------------------------------------------


class Raise(Keep):
    """Raises in the n-th call of one of its methods, once."""

    def __init__(self, method: str, n: int) -> None:
        super().__init__()
        self.method, self.left = method, n

    def _call(self, method: str) -> None:
        self.left -= method == self.method
        if self.left == 0:
            self.left = -1
            raise self.Stopped

    def on_steps(self, agent, steps):
        self._call("on_steps")

    def on_game(self, agent, game):
        super().on_game(agent, game)
        self._call("on_game")

    def on_step(self, agent):
        self._call("on_step")


@pytest.mark.parametrize(
    ("name", "method", "n", "saved"),
    [
        ("walks in groups", "on_steps", 20, True),
        ("walks in groups", "on_game", 4, True),
        ("walks in groups", "on_step", 9, True),
        ("8 walks", "on_steps", 20, False),
        ("cart pole", "on_game", 4, False),
    ],
)
def test_after_an_exception_from_a_callback_the_agent_goes_on_as_if_there_were_none(name, method, n, saved, tmp_path):
    make_env, total_frames, *_ = RUNS[name]
    told = Keep()
    expected = everything(make_agent(name).learn(total_frames, callback=told), tmp_path / "whole")
    agent, callback = make_agent(name), Raise(method, n)
    with pytest.raises(Keep.Stopped):
        agent.learn(total_frames, callback=callback)
    if saved:
        agent.save(tmp_path / "saved")
        agent = MFEC.load(tmp_path / "saved", env=make_env())
    assert everything(agent.learn(total_frames, callback=callback), tmp_path / "end") == expected
    assert callback.games == told.games, "each game is told once"


def test_an_agent_saved_when_a_game_ends_goes_on_as_if_it_were_not(tmp_path):
    """Keeping the best agent, say: where `on_game` is called, new games have begun and every step was taken in."""
    name = "walks in groups"
    make_env, total_frames, *_ = RUNS[name]
    expected = everything(make_agent(name).learn(total_frames), tmp_path / "whole")

    class SaveAtGames(Callback):
        def on_game(self, agent, game):
            if game.episode in (1, 4):
                agent.save(tmp_path / str(game.episode))

    make_agent(name).learn(total_frames, callback=SaveAtGames())
    for episode in (1, 4):
        resumed = MFEC.load(tmp_path / str(episode), env=make_env()).learn(total_frames)
        assert everything(resumed, tmp_path / "resumed") == expected


# -- Groups in turn ---------------------------------------------------------------------------------------------------


def reference(n: int, total_frames: int, *, k: int, capacity: int, eviction: str, epsilon: float, seed: int):
    """Algorithm 1 by two groups in turn, written down plainly: each environment has an environment and steps only when
    its group is received. Memory, scores and random streams."""
    env_seed, explore_seed, ties_seed, projection, _ = np.random.SeedSequence(seed).spawn(5)
    exploration, ties = np.random.default_rng(explore_seed), np.random.default_rng(ties_seed)
    embedding = RandomProjection(84 * 84, seed=projection)
    envs = [make_atari("qbert", n_envs=1, max_frames=420) for _ in range(n)]
    n_actions = int(envs[0].single_action_space.n)  # type: ignore[attr-defined]
    memory = EpisodicMemory(n_actions, 64, k=k, capacity=capacity, eviction=eviction, index="exact")
    observations, lives, games, steps, scores = [None] * n, [0] * n, [-1] * n, [[] for _ in range(n)], [0.0] * n
    finished: deque[float] = deque(maxlen=100)
    numbers, made, begun = [0] * n, [0] * n, itertools.count(1)  # of the games in all environments, and frames of each

    def begin(env_id: int) -> None:
        games[env_id] += 1
        numbers[env_id], made[env_id] = next(begun), 0
        key = (*env_seed.spawn_key, env_id, games[env_id])
        drawn = int(np.random.SeedSequence(env_seed.entropy, spawn_key=key).generate_state(1)[0] >> 1)
        given = drawn if games[env_id] % envs[env_id].reseed_every == 0 else None
        shown, info = envs[env_id].reset(seed=[given])
        observations[env_id], lives[env_id], scores[env_id], steps[env_id] = shown[0], info["lives"][0], 0.0, []

    for env_id in range(n):
        begin(env_id)
    groups, in_flight, group, frames = [range((n + 1) // 2), range((n + 1) // 2, n)], {}, 0, 0
    while frames < total_frames:
        shown = np.stack([observations[env_id] for env_id in groups[group]])
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
        for env_id, state, key, action in in_flight.pop(group, []):
            shown, reward, terminated, truncated, info = envs[env_id].step(np.array([action]))
            frames += 4
            observations[env_id], scores[env_id] = shown[0], scores[env_id] + reward[0]
            steps[env_id].append((state, key, action, reward[0], (numbers[env_id], made[env_id])))
            made[env_id] += 4
            over = bool(terminated[0] or truncated[0])
            if over or info["lives"][0] < lives[env_id]:
                ret = 0.0
                for state, key, action, reward, origin in reversed(steps[env_id]):
                    ret = reward + ret
                    memory.write(state[None], [action], [ret], key[None], [origin])
                steps[env_id] = []
            lives[env_id] = info["lives"][0]
            if over:
                finished.append(scores[env_id])
                ended.append(env_id)
        for env_id in ended:
            begin(env_id)
    return memory, frames, list(finished), exploration, ties


def test_two_groups_in_turn_play_what_the_plain_reference_plays():
    settings = {"k": 4, "capacity": 30, "eviction": "used", "epsilon": 0.02, "seed": 5}
    agent = MFEC(qbert(2), index="exact", **settings).learn(900)
    memory, frames, finished, exploration, ties = reference(2, 900, **settings)
    assert len(finished) == 2
    assert memory.sizes.max() == 30
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
    expected = everything(make_agent("2 qberts, little memory").learn(400), tmp_path / "steady")
    agent = MFEC(Unsteady("qbert", 2, max_frames=420), **LITTLE, episode="game", seed=0).learn(400)
    assert everything(agent, tmp_path / "unsteady") == expected


def test_states_may_become_arrays_only_when_they_are_looked_up(tmp_path):
    """As those of an embedding that computes them on a device, while the memory waits there as well."""

    class Later(RandomProjection):
        ready = False
        learning = True

        def __call__(self, observations):
            embedding, states = self, super().__call__(observations)
            embedding.ready = False

            class States:
                def __array__(self, dtype=None, copy=None):
                    assert embedding.ready or not embedding.learning, "not before the estimate"
                    return np.asarray(states, dtype)

                def __len__(self):
                    return len(states)

            return States()

    now = MFEC(qbert(2), capacity=300, seed=0).learn(400)
    expected = everything(now, tmp_path / "now", but=("config", "embedding"))
    embedding = Later(84 * 84, seed=np.random.SeedSequence(0).spawn(5)[3])
    agent = MFEC(qbert(2), capacity=300, embedding=embedding, seed=0)
    estimate = agent.memory.estimate

    def estimate_later(*arguments, **settings):
        embedding.ready = True
        return estimate(*arguments, **settings)

    agent.memory.estimate = estimate_later
    agent.learn(400)
    embedding.learning = False
    state, digests = everything(agent, tmp_path / "later", but=("config", "embedding"))
    assert (state, {name: own for name, own in digests.items() if name[0] != "fingerprint"}) == expected


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
            env.unwrapped.gravity = gravity  # type: ignore[attr-defined]
            return env

        return pole() if n is None else side_by_side(pole, n)

    agent = MFEC(make(9.8), capacity=100, seed=0)
    with pytest.raises(Keep.Stopped):
        agent.learn(100, callback=Keep(stop=5))
    agent.save(tmp_path / "good")
    loaded = MFEC.load(tmp_path / "good", env=make(2.0))
    for _ in range(2):
        with pytest.raises(EnvsError, match="led elsewhere"):
            loaded.learn(100)
    loaded.save(tmp_path / "after")
    assert MFEC.load(tmp_path / "after", env=make(9.8)).learn(100).frames == 100


def test_another_number_of_environments_is_an_error_every_time(tmp_path):
    MFEC(side_by_side(Walk, 2), capacity=100, seed=0).learn(20).save(tmp_path)
    loaded = MFEC.load(tmp_path, env=side_by_side(Walk, 3))
    for _ in range(2):
        with pytest.raises(EnvsError, match="played 2 environments, these are 3"):
            loaded.learn(100)


def test_other_groups_of_environments_are_an_error_every_time(tmp_path):
    MFEC(InGroups(lambda _: Walk(), (2, 1)), capacity=100, seed=0).learn(200).save(tmp_path)
    loaded = MFEC.load(tmp_path, env=side_by_side(Walk, 3))
    for _ in range(2):
        with pytest.raises(EnvsError, match=r"in the groups \[\[0, 2\], \[2, 3\]\], these are \[\[0, 3\]\]"):
            loaded.learn(400)


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


# -- Bad data ---------------------------------------------------------------------------------------------------------

# A repeated step draws random numbers and looks its state up again, so these agents make no use of either.
PLAIN = {"epsilon": 0.0, "ties": "first", "k": 2, "capacity": 200, "index": "exact"}
STREAMS = ("exploration", "ties")


@pytest.mark.parametrize(
    ("fault", "n", "at"), [("nan reward", None, 1), ("1e39 reward", 3, 25), ("nan observation", 3, 1)]
)
def test_bad_data_is_an_error_that_leaves_a_good_agent(fault, n, at, tmp_path):
    """The error comes before anything is learned of that step; saved and loaded, the agent repeats it."""
    total_frames = 120

    def make(faults):
        if n is None:
            return Walk(faults=faults)
        makers = [partial(Walk, length=4 + env_id) for env_id in range(n)]
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


@pytest.mark.parametrize(
    ("fault", "env_id", "at", "saved"), [("nan reward", 0, 1, False), ("nan observation", 3, 25, True)]
)
def test_bad_data_of_a_group_leaves_a_good_agent_with_all_that_was_decided(fault, env_id, at, saved, tmp_path):
    """The bad step stays in flight beside those of other groups, and is made again: no draw, no look-up is lost."""

    def make(faults):
        return InGroups(lambda own: Walk(length=4 + own, faults=faults if own == env_id else None), (2, 1, 1))

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
    """The game that ended before it is told, so that a table has all the games that a checkpoint knows of."""

    class Rotten(Walk):
        def reset(self, *, seed=None, options=None):
            observation, info = super().reset(seed=seed)
            self.begun = getattr(self, "begun", 0) + 1
            if self.begun == 3:
                observation[1] = np.inf
            return observation, info

    told = Keep()
    agent = MFEC(Rotten(), **PLAIN, seed=0)
    with pytest.raises(BadEnvironmentData, match="not finite"):
        agent.learn(100, callback=told)
    assert (agent.frames, agent.games) == (14, 2)
    assert [game.episode for game in told.games] == [1, 2]
    agent.save(tmp_path)
    assert MFEC.load(tmp_path, env=Walk()).learn(100).frames == 100


def test_returns_beyond_float32_are_refused_before_they_are_written(tmp_path):
    """Each reward fits, their sum does not."""
    agent = MFEC(Walk(reward=lambda action: 1e38), **PLAIN, seed=0)
    with pytest.raises(BadEnvironmentData, match=r"rewards \[1e\+38\] after frame 3"):
        agent.learn(100)
    agent.save(tmp_path)
    assert MFEC.load(tmp_path, env=Walk()).learn(100).frames == 100


@pytest.mark.parametrize(
    ("mode", "fault"), [(AutoresetMode.NEXT_STEP, "nan observation"), (AutoresetMode.SAME_STEP, "crash")]
)
def test_after_bad_data_games_that_reset_themselves_begin_anew(mode, fault):
    """They cannot be brought back, so they are reset, and the next action is filed under what they show then."""

    class Crashing(Walk):
        def step(self, action):
            if self.faults.get(self.steps + 1) == "crash":
                self.steps += 1
                raise RuntimeError("out of order")
            return super().step(action)

    recorders = [Recorder(Crashing(faults={11: fault} if env_id == 1 else {})) for env_id in range(3)]
    vector = SyncVectorEnv([lambda own=own: own for own in recorders], autoreset_mode=mode)
    agent = MFEC(vector, **PLAIN, seed=0)
    with pytest.raises((BadEnvironmentData, EnvironmentCrash)):
        agent.learn(120)
    before = [len(recorder.games) for recorder in recorders]
    with pytest.warns(UserWarning, match="new ones begin"):
        agent.learn(120)
    assert all(len(recorder.games) > games for recorder, games in zip(recorders, before, strict=True))
    whole = [game for recorder in recorders for game in recorder.games if len(game) == 7]
    told = entries(agent)
    assert told.items() <= remembered(whole, 1.0).items(), "nothing but whole games, filed under what they showed"
    assert len(told) > 50
