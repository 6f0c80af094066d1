"""Environments: seeds, groups in flight, games brought back after a stop, and the reset step that is not experience."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache, partial

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import TransformAction

from mfec.envs import make_atari
from mfec.envs.atari import AtariVector
from mfec.envs.environments import (
    AutoresetEnvironments,
    Environments,
    EnvsError,
    SingleEnvironment,
    Step,
    VectorEnvironments,
    make_environments,
)

from ..playing import InGroups, Pictures


def seed(number: int = 0) -> np.random.SeedSequence:
    return np.random.SeedSequence(number)


def cart_poles(n: int, mode: AutoresetMode) -> SyncVectorEnv:
    return SyncVectorEnv([partial(gymnasium.make, "CartPole-v1")] * n, autoreset_mode=mode)


def step_all(envs: Environments, actions: np.ndarray) -> Step:
    """One step in every environment, whatever the groups."""
    for group, own in enumerate(envs.groups):
        envs.send(group, actions[own])
    steps = [envs.receive(group) for group in range(len(envs.groups))]
    columns = zip(*(vars(step).values() for step in steps), strict=True)
    return Step(*(None if column[0] is None else np.concatenate(column) for column in columns))


def play(envs: Environments, steps: int, rng: np.random.Generator, stop_chance: float = 0.0) -> list[tuple]:
    """Random actions, with new games where games end and, by chance, elsewhere; everything that was shown."""
    shown = []
    for _ in range(steps):
        actions = rng.integers(envs.action_space.n, size=envs.n)
        step = step_all(envs, actions)
        lives = None if step.lives is None else step.lives.tolist()
        shown.append((envs.observations.tobytes(), step.rewards.tolist(), step.ended.tolist(), lives))
        again = step.ended | (rng.random(envs.n) < stop_chance)
        if again.any():
            lives = envs.begin(again)
            lives = None if lives is None else lives[again].tolist()
            shown.append((envs.observations.tobytes(), lives))
    return shown


def begin(envs: Environments) -> Environments:
    envs.begin(np.ones(envs.n, np.bool_))
    return envs


def assert_brought_back(make_env, steps: int, after: int, stop_chance: float) -> list[int]:
    """Play, bring the games back in new environments, compare what follows; the numbers of the games brought back."""
    envs = begin(make_environments(make_env(), seed()))
    play(envs, steps, np.random.default_rng(1), stop_chance)
    history = json.loads(json.dumps(envs.history()))
    again = make_environments(make_env(), seed())
    again.restore(history)
    assert np.array_equal(again.observations, envs.observations)
    assert again.observations.dtype == envs.observations.dtype
    assert again.history() == history
    once, twice = (play(own, after, np.random.default_rng(2), stop_chance) for own in (envs, again))
    assert once == twice
    assert again.history() == envs.history()
    return history["games"]


# -- Which environments -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("env", "kind"),
    [
        (gymnasium.make("CartPole-v1"), SingleEnvironment),
        (cart_poles(2, AutoresetMode.DISABLED), VectorEnvironments),
        (cart_poles(2, AutoresetMode.NEXT_STEP), AutoresetEnvironments),
        (cart_poles(2, AutoresetMode.SAME_STEP), AutoresetEnvironments),
        (gymnasium.make_vec("CartPole-v1", 2), AutoresetEnvironments),
    ],
)
def test_every_kind_of_gymnasium_environment_can_be_played(env, kind):
    envs = make_environments(env, seed())
    assert type(envs) is kind
    assert envs.n == (1 if kind is SingleEnvironment else 2)
    assert envs.groups == [slice(0, envs.n)], "only some environments can step in groups"
    assert envs.observation_space.shape == (4,)
    assert envs.action_space == spaces.Discrete(2)
    assert envs.frame_skip == 1


def test_a_step_of_atari_is_four_frames():
    env, vector = make_atari("qbert"), frostbites(0)
    wrapped = (
        gymnasium.wrappers.TimeLimit(env, 100),
        gymnasium.vector.VectorWrapper(vector),
        SyncVectorEnv([lambda: env]),
    )
    for each in (env, vector, *wrapped):
        assert make_environments(each, seed()).frame_skip == 4


@pytest.mark.parametrize("n", [None, 2])
def test_actions_that_cannot_be_numbered_are_refused(n):
    def make():
        return TransformAction(gymnasium.make("CartPole-v1"), lambda a: int(a[0] > 0), spaces.Box(-1, 1, (1,)))

    with pytest.raises(TypeError, match=r"the action space is Box.* at most 1,024 numbered actions"):
        make_environments(make() if n is None else SyncVectorEnv([make] * n), seed())


# -- Seeds ------------------------------------------------------------------------------------------------------------


def test_games_differ_between_environments_numbers_and_seeds():
    starts = []
    for number in range(3):
        envs = make_environments(cart_poles(4, AutoresetMode.DISABLED), seed(number))
        for _ in range(3):
            begin(envs)
            starts += [observation.tobytes() for observation in envs.observations]
    assert len(set(starts)) == len(starts) == 36


def test_environment_0_of_many_plays_the_games_of_one():
    one, many = (begin(make_environments(cart_poles(n, AutoresetMode.DISABLED), seed())) for n in (1, 3))
    single = begin(make_environments(gymnasium.make("CartPole-v1"), seed()))
    for _ in range(3):
        assert np.array_equal(one.observations[0], many.observations[0])
        assert np.array_equal(one.observations[0], single.observations[0])
        for envs in (one, many, single):
            begin(envs)


def test_an_environment_that_begins_leaves_the_others_alone():
    envs = begin(make_environments(cart_poles(3, AutoresetMode.DISABLED), seed()))
    step_all(envs, np.array([0, 1, 0]))
    before, games = envs.observations.copy(), envs.history()["games"]
    envs.begin(np.array([False, True, False]))
    assert np.array_equal(envs.observations[[0, 2]], before[[0, 2]])
    assert not np.array_equal(envs.observations[1], before[1])
    assert envs.history() == {"games": [games[0], games[1] + 1, games[2]], "actions": [[0], [], [0]]}


# -- Groups -----------------------------------------------------------------------------------------------------------


@cache
def frostbites(which: int) -> AtariVector:
    """Three environments, two in a group, for one test after the other: each begins games on its own seeds."""
    env = make_atari("frostbite", n_envs=3, max_frames=60)
    env.reseed_every = 4
    return env


def groups_of(make: Callable[[], gymnasium.Env]) -> InGroups:
    """Three environments, two in a group."""
    return InGroups(lambda env_id: make(), (2, 1))


@pytest.fixture(scope="module", autouse=True)
def _switch_off():
    yield
    frostbites.cache_clear()


def test_a_wrapped_environment_is_one_group_for_its_wrapper_may_change_what_is_shown():
    class Inverted(gymnasium.vector.VectorObservationWrapper):
        def observations(self, observations):
            return 255 - observations

    plain = begin(make_environments(frostbites(0), seed()))
    envs = begin(make_environments(Inverted(frostbites(1)), seed()))
    assert envs.groups == [slice(0, 3)]
    for action in (1, 2, 3):
        for own in (plain, envs):
            step_all(own, np.full(3, action))
        assert np.array_equal(envs.observations, 255 - plain.observations)


def test_groups_in_turn_play_the_games_that_environments_play_together():
    """Each environment's games depend on its seeds and actions: not on when other groups step or begin games."""
    n, steps = 3, 50
    actions = np.random.default_rng(0).integers(6, size=(steps, n))
    together = begin(make_environments(frostbites(0), seed()))
    expected = {env_id: [] for env_id in range(n)}
    for chosen in actions:
        step = step_all(together, chosen)
        for env_id in range(n):
            expected[env_id].append((together.observations[env_id].tobytes(), step.rewards[env_id], step.lives[env_id]))
        if step.ended.any():
            together.begin(step.ended)
    assert max(together.history()["games"]) >= 3

    envs = begin(make_environments(frostbites(1), seed()))
    assert envs.groups == [slice(0, 2), slice(2, 3)]
    shown = {env_id: [] for env_id in range(n)}
    ticks = [0] * len(envs.groups)
    flying: set[int] = set()
    rng = np.random.default_rng(1)
    while min(ticks) < steps:
        group = int(rng.integers(len(envs.groups)))
        own = envs.groups[group]
        if group not in flying and ticks[group] < steps:
            envs.send(group, actions[ticks[group], own])
            flying.add(group)
        elif group in flying:
            elsewhere = {other: envs.shown(other).copy() for other in range(len(envs.groups)) if other != group}
            step = envs.receive(group)
            flying.remove(group)
            ticks[group] += 1
            for i, env_id in enumerate(range(own.start, own.stop)):
                shown[env_id].append((envs.observations[env_id].tobytes(), step.rewards[i], step.lives[i]))
            if step.ended.any():
                mask = np.zeros(n, np.bool_)
                mask[own] = step.ended
                envs.begin(mask)
            assert all(np.array_equal(envs.shown(other), kept) for other, kept in elsewhere.items())
    assert shown == expected
    assert envs.history() == together.history()


def test_what_was_shown_stays_as_it_was():
    """States may be views of observations, and a group's last observation is needed while others step."""
    envs = begin(make_environments(frostbites(0), seed()))
    shown, kept = [], []
    for i in range(6):
        for group in range(2):
            shown.append(envs.shown(group))
            kept.append(shown[-1].copy())
        step_all(envs, np.full(3, i % 6))
        envs.begin(np.array([i % 2 == 0, i % 3 == 0, i % 4 == 0]))
    assert all(np.array_equal(now, then) for now, then in zip(shown, kept, strict=True))


def test_actions_in_flight_are_not_history():
    envs = begin(make_environments(groups_of(Pictures), seed()))
    step_all(envs, np.array([0, 1, 2]))
    envs.send(1, np.array([1]))
    before = envs.observations
    assert envs.history()["actions"] == [[0], [1], [2]]
    envs.begin(np.array([False, True, False]))
    assert np.array_equal(envs.observations[[0, 2]], before[[0, 2]])
    assert envs.history()["actions"] == [[0], [], [2]]
    envs.receive(1)
    assert envs.history()["actions"] == [[0], [], [2, 1]]
    envs.retract(1)
    assert envs.history()["actions"] == [[0], [], [2]]
    assert np.array_equal(envs.observations[2], before[2])


def test_what_was_in_flight_is_forgotten_when_games_are_brought_back():
    envs = begin(make_environments(frostbites(0), seed()))
    play(envs, 20, np.random.default_rng(0))
    history, shown = envs.history(), envs.observations
    envs.send(0, np.array([1, 2]))
    envs.send(1, np.array([3]))
    envs.restore(history)
    assert envs.history() == history
    assert np.array_equal(envs.observations, shown)


# -- Games brought back -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("steps", [0, 137])
def test_a_single_game_is_brought_back(steps):
    assert_brought_back(partial(gymnasium.make, "CartPole-v1"), steps, 60, stop_chance=0.02)


def test_a_single_sticky_game_is_brought_back():
    """Each game has its own seed, and sticky actions draw from it."""
    make_env = partial(make_atari, "space_invaders", sticky_actions=0.25)
    (game,) = assert_brought_back(make_env, 80, 30, stop_chance=0.04)
    assert game >= 1


@pytest.mark.parametrize("steps", [1, 40])
def test_games_of_a_vector_environment_are_brought_back(steps):
    games = assert_brought_back(partial(cart_poles, 5, AutoresetMode.DISABLED), steps, 60, stop_chance=0.03)
    assert len(set(games)) > 1 or steps < 40


def test_games_of_an_atari_vector_are_brought_back():
    """Environments are in different games, of different lengths, some of them several games after their last seed."""
    games = assert_brought_back(iter([frostbites(0), frostbites(1)]).__next__, 50, 20, stop_chance=0.05)
    assert len(set(games)) > 1
    assert any(number % 4 for number in games)


def test_games_are_brought_back_in_environments_that_played_others():
    envs, again = (begin(make_environments(cart_poles(3, AutoresetMode.DISABLED), seed())) for _ in range(2))
    play(envs, 50, np.random.default_rng(1), stop_chance=0.05)
    play(again, 80, np.random.default_rng(3), stop_chance=0.05)
    again.restore(envs.history())
    assert np.array_equal(again.observations, envs.observations)
    assert play(again, 50, np.random.default_rng(2)) == play(envs, 50, np.random.default_rng(2))


@pytest.mark.parametrize(
    "make_env",
    [
        partial(gymnasium.make, "CartPole-v1"),
        partial(cart_poles, 3, AutoresetMode.DISABLED),
        partial(groups_of, Pictures),
    ],
)
def test_a_retracted_step_is_not_brought_back(make_env):
    envs = begin(make_environments(make_env(), seed()))
    for _ in range(3):
        before = envs.observations
        step_all(envs, np.ones(envs.n, np.int64))
    for group in range(len(envs.groups)):
        envs.retract(group)
    assert envs.history()["actions"] == [[1, 1]] * envs.n
    assert np.array_equal(envs.observations, before)
    again = make_environments(make_env(), seed())
    again.restore(envs.history())
    assert np.array_equal(before, again.observations)


# -- Environments that begin games by themselves ----------------------------------------------------------------------


class Reference:
    """A cart pole that is reset by hand."""

    def __init__(self, number: int) -> None:
        self.env = gymnasium.make("CartPole-v1")
        self.observation, _ = self.env.reset(seed=number)

    def step(self, action: int) -> tuple[float, bool]:
        self.observation, reward, terminated, truncated, _ = self.env.step(action)
        return reward, terminated or truncated

    def reset(self) -> None:
        self.observation, _ = self.env.reset()


def test_the_reset_step_is_masked():
    vector = cart_poles(3, AutoresetMode.NEXT_STEP)
    envs = begin(make_environments(vector, seed()))
    references = [Reference(number) for number in vector.np_random_seed]
    rng = np.random.default_rng(0)
    ended = np.zeros(3, np.bool_)
    games = 0
    for _ in range(200):
        actions = rng.integers(2, size=3)
        step = step_all(envs, actions)
        assert np.array_equal(step.valid, ~ended), "the step after the end only resets"
        for env_id, reference in enumerate(references):
            if ended[env_id]:
                reference.reset()
                ended[env_id] = False
            else:
                reward, ended[env_id] = reference.step(int(actions[env_id]))
                assert step.rewards[env_id] == reward
            assert step.ended[env_id] == ended[env_id]
            assert np.array_equal(envs.observations[env_id], reference.observation)
        games += int(ended.sum())
        if ended.any():
            envs.begin(ended)
    assert games > 10


def test_same_step_resets_are_all_experience():
    vector = cart_poles(3, AutoresetMode.SAME_STEP)
    envs = begin(make_environments(vector, seed()))
    references = [Reference(number) for number in vector.np_random_seed]
    rng = np.random.default_rng(0)
    games = 0
    for _ in range(200):
        actions = rng.integers(2, size=3)
        step = step_all(envs, actions)
        assert step.valid.all()
        for env_id, reference in enumerate(references):
            reward, ended = reference.step(int(actions[env_id]))
            assert (step.rewards[env_id], step.ended[env_id]) == (reward, ended)
            if ended:
                reference.reset()
                games += 1
            assert np.array_equal(envs.observations[env_id], reference.observation)
        if step.ended.any():
            envs.begin(step.ended)
    assert games > 10


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_games_that_begin_by_themselves_cannot_be_brought_back(mode):
    envs = begin(make_environments(cart_poles(2, mode), seed()))
    step_all(envs, np.array([0, 1]))
    assert envs.history() is None
    with pytest.raises(EnvsError, match="begins games by itself"):
        envs.restore({"games": [0, 0], "actions": [[0], [1]]})
