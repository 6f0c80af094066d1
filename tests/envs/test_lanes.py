"""Lanes: seeds, games that are brought back after a stop, and the reset step that is not experience."""

from __future__ import annotations

import json
from functools import partial

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import TransformAction, TransformObservation

from mfec.envs import make_atari
from mfec.envs.lanes import AutoresetLanes, LaneError, Lanes, SingleLane, VectorLanes, make_lanes


def seed(number: int = 0) -> np.random.SeedSequence:
    return np.random.SeedSequence(number)


def cart_poles(n: int, mode: AutoresetMode) -> SyncVectorEnv:
    return SyncVectorEnv([partial(gymnasium.make, "CartPole-v1")] * n, autoreset_mode=mode)


def play(lanes: Lanes, steps: int, rng: np.random.Generator, stop_chance: float = 0.0) -> list[tuple]:
    """Random actions, with new games where games end and, by chance, elsewhere; everything that was shown."""
    shown = []
    for _ in range(steps):
        actions = rng.integers(lanes.action_space.n, size=lanes.n)
        step = lanes.step(actions)
        lives = None if step.lives is None else step.lives.tolist()
        shown.append((lanes.observations.tobytes(), step.rewards.tolist(), step.ended.tolist(), lives))
        again = step.ended | (rng.random(lanes.n) < stop_chance)
        if again.any():
            lives = lanes.begin(again)
            lives = None if lives is None else lives[again].tolist()
            shown.append((lanes.observations.tobytes(), lives))
    return shown


def begin(lanes: Lanes) -> Lanes:
    lanes.begin(np.ones(lanes.n, np.bool_))
    return lanes


def assert_brought_back(make_env, steps: int, after: int, stop_chance: float) -> list[int]:
    """Play, bring the games back in new lanes, compare what follows; the numbers of the games brought back."""
    lanes = begin(make_lanes(make_env(), seed()))
    play(lanes, steps, np.random.default_rng(1), stop_chance)
    history = json.loads(json.dumps(lanes.history()))
    again = make_lanes(make_env(), seed())
    again.restore(history)
    assert np.array_equal(again.observations, lanes.observations)
    assert again.observations.dtype == lanes.observations.dtype
    assert again.history() == history
    once, twice = (play(own, after, np.random.default_rng(2), stop_chance) for own in (lanes, again))
    assert once == twice
    assert again.history() == lanes.history()
    return history["games"]


# -- Which lanes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("env", "kind"),
    [
        (gymnasium.make("CartPole-v1"), SingleLane),
        (cart_poles(2, AutoresetMode.DISABLED), VectorLanes),
        (cart_poles(2, AutoresetMode.NEXT_STEP), AutoresetLanes),
        (cart_poles(2, AutoresetMode.SAME_STEP), AutoresetLanes),
        (gymnasium.make_vec("CartPole-v1", 2), AutoresetLanes),
    ],
)
def test_every_kind_of_environment_has_its_lanes(env, kind):
    lanes = make_lanes(env, seed())
    assert type(lanes) is kind
    assert lanes.n == (1 if kind is SingleLane else 2)
    assert lanes.observation_space.shape == (4,)
    assert lanes.action_space == spaces.Discrete(2)
    assert lanes.frame_skip == 1


def test_a_step_of_atari_is_four_frames():
    assert make_lanes(make_atari("qbert"), seed()).frame_skip == 4
    assert make_lanes(gymnasium.wrappers.TimeLimit(make_atari("qbert"), 100), seed()).frame_skip == 4
    vector = make_atari("qbert", n_envs=1)
    assert make_lanes(vector, seed()).frame_skip == 4
    assert make_lanes(gymnasium.vector.VectorWrapper(vector), seed()).frame_skip == 4
    assert make_lanes(SyncVectorEnv([partial(make_atari, "qbert")] * 2), seed()).frame_skip == 4


def unplayable() -> list[gymnasium.Env]:
    env = gymnasium.make("CartPole-v1")
    dictionary = spaces.Dict({"position": env.observation_space})
    return [
        TransformObservation(env, lambda o: {"position": o}, dictionary),
        TransformAction(env, lambda a: int(a[0] > 0), spaces.Box(-1, 1, (1,))),
        TransformAction(env, lambda a: a[0], spaces.MultiDiscrete([2, 3])),
    ]


@pytest.mark.parametrize(("which", "named"), [(0, "space is Dict"), (1, "space is Box"), (2, "space is MultiDiscrete")])
@pytest.mark.parametrize("n", [None, 2])
def test_other_spaces_are_refused_with_what_is_supported(which, named, n):
    env = unplayable()[which] if n is None else SyncVectorEnv([lambda: unplayable()[which]] * n)
    with pytest.raises(TypeError, match=rf"{named}.*supported are Discrete actions, and Box .* or Discrete obs"):
        make_lanes(env, seed())


# -- Seeds ------------------------------------------------------------------------------------------------------------


def test_games_differ_between_lanes_numbers_and_seeds():
    starts = []
    for number in range(3):
        lanes = make_lanes(cart_poles(4, AutoresetMode.DISABLED), seed(number))
        for _ in range(3):
            begin(lanes)
            starts += [observation.tobytes() for observation in lanes.observations]
    assert len(set(starts)) == len(starts) == 36


def test_lane_0_of_many_plays_the_games_of_one():
    one, many = (begin(make_lanes(cart_poles(n, AutoresetMode.DISABLED), seed())) for n in (1, 3))
    single = begin(make_lanes(gymnasium.make("CartPole-v1"), seed()))
    for _ in range(3):
        assert np.array_equal(one.observations[0], many.observations[0])
        assert np.array_equal(one.observations[0], single.observations[0])
        for lanes in (one, many, single):
            begin(lanes)


def test_a_lane_that_begins_leaves_the_others_alone():
    lanes = begin(make_lanes(cart_poles(3, AutoresetMode.DISABLED), seed()))
    lanes.step(np.array([0, 1, 0]))
    before, games = lanes.observations.copy(), lanes.history()["games"]
    lanes.begin(np.array([False, True, False]))
    assert np.array_equal(lanes.observations[[0, 2]], before[[0, 2]])
    assert not np.array_equal(lanes.observations[1], before[1])
    assert lanes.history() == {"games": [games[0], games[1] + 1, games[2]], "actions": [[0], [], [0]]}


# -- Games brought back -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("steps", [0, 1, 10, 137])
def test_a_single_game_is_brought_back(steps):
    assert_brought_back(partial(gymnasium.make, "CartPole-v1"), steps, 60, stop_chance=0.02)


def test_a_single_atari_game_is_brought_back():
    (game,) = assert_brought_back(partial(make_atari, "qbert"), 400, 60, stop_chance=0.01)
    assert game >= 2


def test_a_single_sticky_game_is_brought_back():
    """Each game has its own seed, and sticky actions draw from it."""
    assert_brought_back(partial(make_atari, "space_invaders", sticky_actions=0.25), 150, 60, stop_chance=0.02)


@pytest.mark.parametrize("steps", [0, 1, 40, 91])
def test_games_of_a_vector_environment_are_brought_back(steps):
    games = assert_brought_back(partial(cart_poles, 5, AutoresetMode.DISABLED), steps, 60, stop_chance=0.03)
    assert len(set(games)) > 1 or steps < 40


@pytest.mark.parametrize(
    ("game", "reseed_every", "steps", "settings"),
    [("frostbite", 5, 130, {}), ("qbert", 4, 31, {}), ("space_invaders", 1, 25, {"sticky_actions": 0.25})],
)
def test_games_of_an_atari_vector_are_brought_back(game, reseed_every, steps, settings):
    """Lanes are in different games, of different lengths, some of them several games after their last seed."""

    def make_env():
        env = make_atari(game, n_envs=3, max_frames=240, **settings)
        env.reseed_every = reseed_every  # 64 is many games
        return env

    games = assert_brought_back(make_env, steps, 40, stop_chance=0.05)
    assert len(set(games)) > 1
    assert reseed_every == 1 or any(number % reseed_every for number in games)


def test_games_are_brought_back_in_lanes_that_played_others():
    lanes, again = (begin(make_lanes(cart_poles(3, AutoresetMode.DISABLED), seed())) for _ in range(2))
    play(lanes, 50, np.random.default_rng(1), stop_chance=0.05)
    play(again, 80, np.random.default_rng(3), stop_chance=0.05)
    again.restore(lanes.history())
    assert np.array_equal(again.observations, lanes.observations)
    assert play(again, 50, np.random.default_rng(2)) == play(lanes, 50, np.random.default_rng(2))


@pytest.mark.parametrize(
    "make_env", [partial(gymnasium.make, "CartPole-v1"), partial(cart_poles, 3, AutoresetMode.DISABLED)]
)
def test_a_retracted_step_is_not_brought_back(make_env):
    lanes, again = begin(make_lanes(make_env(), seed())), make_lanes(make_env(), seed())
    for _ in range(3):
        before = lanes.observations
        lanes.step(np.ones(lanes.n, np.int64))
    lanes.retract(before)
    assert lanes.history()["actions"] == [[1, 1]] * lanes.n
    again.restore(lanes.history())
    assert np.array_equal(lanes.observations, again.observations)


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
    lanes = begin(make_lanes(vector, seed()))
    references = [Reference(number) for number in vector.np_random_seed]
    rng = np.random.default_rng(0)
    ended = np.zeros(3, np.bool_)
    games = 0
    for _ in range(200):
        actions = rng.integers(2, size=3)
        step = lanes.step(actions)
        assert np.array_equal(step.valid, ~ended), "the step after the end only resets"
        for lane, reference in enumerate(references):
            if ended[lane]:
                reference.reset()
                ended[lane] = False
            else:
                reward, ended[lane] = reference.step(int(actions[lane]))
                assert step.rewards[lane] == reward
            assert step.ended[lane] == ended[lane]
            assert np.array_equal(lanes.observations[lane], reference.observation)
        games += int(ended.sum())
        if ended.any():
            lanes.begin(ended)
    assert games > 10


def test_same_step_resets_are_all_experience():
    vector = cart_poles(3, AutoresetMode.SAME_STEP)
    lanes = begin(make_lanes(vector, seed()))
    references = [Reference(number) for number in vector.np_random_seed]
    rng = np.random.default_rng(0)
    games = 0
    for _ in range(200):
        actions = rng.integers(2, size=3)
        step = lanes.step(actions)
        assert step.valid.all()
        for lane, reference in enumerate(references):
            reward, ended = reference.step(int(actions[lane]))
            assert (step.rewards[lane], step.ended[lane]) == (reward, ended)
            if ended:
                reference.reset()
                games += 1
            assert np.array_equal(lanes.observations[lane], reference.observation)
        if step.ended.any():
            lanes.begin(step.ended)
    assert games > 10


@pytest.mark.parametrize("mode", [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
def test_games_that_begin_by_themselves_cannot_be_brought_back(mode):
    lanes = begin(make_lanes(cart_poles(2, mode), seed()))
    lanes.step(np.array([0, 1]))
    assert lanes.history() is None
    with pytest.raises(LaneError, match="begins games by itself"):
        lanes.restore({"games": [0, 0], "actions": [[0], [1]]})
