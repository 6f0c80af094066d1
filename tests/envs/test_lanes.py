"""Lanes: seeds, groups in flight, games brought back after a stop, and the reset step that is not experience."""

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
from mfec.envs.atari import AtariVector
from mfec.envs.lanes import AutoresetLanes, LaneError, Lanes, SingleLane, Step, VectorLanes, make_lanes


def seed(number: int = 0) -> np.random.SeedSequence:
    return np.random.SeedSequence(number)


def cart_poles(n: int, mode: AutoresetMode) -> SyncVectorEnv:
    return SyncVectorEnv([partial(gymnasium.make, "CartPole-v1")] * n, autoreset_mode=mode)


def step_all(lanes: Lanes, actions: np.ndarray) -> Step:
    """One step in every lane, whatever the groups."""
    for group, own in enumerate(lanes.groups):
        lanes.send(group, actions[own])
    steps = [lanes.receive(group) for group in range(len(lanes.groups))]
    columns = zip(*(vars(step).values() for step in steps), strict=True)
    return Step(*(None if column[0] is None else np.concatenate(column) for column in columns))


def play(lanes: Lanes, steps: int, rng: np.random.Generator, stop_chance: float = 0.0) -> list[tuple]:
    """Random actions, with new games where games end and, by chance, elsewhere; everything that was shown."""
    shown = []
    for _ in range(steps):
        actions = rng.integers(lanes.action_space.n, size=lanes.n)
        step = step_all(lanes, actions)
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
    assert lanes.groups == [slice(0, lanes.n)], "only some environments can step in groups"
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
    step_all(lanes, np.array([0, 1, 0]))
    before, games = lanes.observations.copy(), lanes.history()["games"]
    lanes.begin(np.array([False, True, False]))
    assert np.array_equal(lanes.observations[[0, 2]], before[[0, 2]])
    assert not np.array_equal(lanes.observations[1], before[1])
    assert lanes.history() == {"games": [games[0], games[1] + 1, games[2]], "actions": [[0], [], [0]]}


# -- Groups -----------------------------------------------------------------------------------------------------------


def qberts(n: int, **settings: int) -> AtariVector:
    env = make_atari("qbert", n_envs=n, max_frames=60, **settings)
    env.reseed_every = 4
    return env


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_groups_are_the_halves_of_the_lanes(n):
    lanes = make_lanes(qberts(n), seed())
    assert [lane for own in lanes.groups for lane in range(own.start, own.stop)] == list(range(n))
    assert [own.stop - own.start for own in lanes.groups] == ([1] if n == 1 else [(n + 1) // 2, n // 2])


def test_a_wrapped_environment_is_one_group_for_its_wrapper_may_change_what_is_shown():
    class Inverted(gymnasium.vector.VectorObservationWrapper):
        def observations(self, observations):
            return 255 - observations

    plain = begin(make_lanes(qberts(3), seed()))
    lanes = begin(make_lanes(Inverted(qberts(3)), seed()))
    assert lanes.groups == [slice(0, 3)]
    for action in (1, 2, 3):
        for own in (plain, lanes):
            step_all(own, np.full(3, action))
        assert np.array_equal(lanes.observations, 255 - plain.observations)


@pytest.mark.parametrize("n", [2, 3])
def test_groups_in_turn_play_the_games_that_lanes_play_together(n):
    """Each lane's games depend on its seeds and actions: not on when other groups step or begin games."""
    steps = 50
    actions = np.random.default_rng(0).integers(6, size=(steps, n))
    together = begin(make_lanes(qberts(n), seed()))
    expected = {lane: [] for lane in range(n)}
    for chosen in actions:
        step = step_all(together, chosen)
        for lane in range(n):
            expected[lane].append((together.observations[lane].tobytes(), step.rewards[lane], step.lives[lane]))
        if step.ended.any():
            together.begin(step.ended)
    assert max(together.history()["games"]) >= 3

    lanes = begin(make_lanes(qberts(n), seed()))
    shown = {lane: [] for lane in range(n)}
    ticks = [0] * len(lanes.groups)
    flying: set[int] = set()
    rng = np.random.default_rng(1)
    while min(ticks) < steps:
        group = int(rng.integers(len(lanes.groups)))
        own = lanes.groups[group]
        if group not in flying and ticks[group] < steps:
            lanes.send(group, actions[ticks[group], own])
            flying.add(group)
        elif group in flying:
            elsewhere = {other: lanes.shown(other).copy() for other in range(len(lanes.groups)) if other != group}
            step = lanes.receive(group)
            flying.remove(group)
            ticks[group] += 1
            for i, lane in enumerate(range(own.start, own.stop)):
                shown[lane].append((lanes.observations[lane].tobytes(), step.rewards[i], step.lives[i]))
            if step.ended.any():
                mask = np.zeros(n, np.bool_)
                mask[own] = step.ended
                lanes.begin(mask)
            assert all(np.array_equal(lanes.shown(other), kept) for other, kept in elsewhere.items())
    assert shown == expected
    assert lanes.history() == together.history()


def test_what_was_shown_stays_as_it_was():
    """States may be views of observations, and a group's last observation is needed while others step."""
    lanes = begin(make_lanes(qberts(3), seed()))
    shown, kept = [], []
    for i in range(8):
        for group in range(2):
            shown.append(lanes.shown(group))
            kept.append(shown[-1].copy())
        step_all(lanes, np.full(3, i % 6))
        lanes.begin(np.array([i % 2 == 0, i % 3 == 0, i % 4 == 0]))
    assert all(np.array_equal(now, then) for now, then in zip(shown, kept, strict=True))


def test_actions_in_flight_are_not_history():
    lanes = begin(make_lanes(qberts(3), seed()))
    step_all(lanes, np.array([1, 2, 3]))
    lanes.send(1, np.array([4]))
    before = lanes.observations
    assert lanes.history()["actions"] == [[1], [2], [3]]
    lanes.begin(np.array([False, True, False]))
    assert np.array_equal(lanes.observations[[0, 2]], before[[0, 2]])
    assert lanes.history()["actions"] == [[1], [], [3]]
    lanes.receive(1)
    assert lanes.history()["actions"] == [[1], [], [3, 4]]
    lanes.retract(1)
    assert lanes.history()["actions"] == [[1], [], [3]]
    assert np.array_equal(lanes.observations[2], before[2])


def test_what_was_in_flight_is_forgotten_when_games_are_brought_back():
    lanes = begin(make_lanes(qberts(3), seed()))
    play(lanes, 20, np.random.default_rng(0))
    history, shown = lanes.history(), lanes.observations
    lanes.send(0, np.array([1, 2]))
    lanes.send(1, np.array([3]))
    lanes.restore(history)
    assert lanes.history() == history
    assert np.array_equal(lanes.observations, shown)
    again = make_lanes(qberts(3), seed())
    again.restore(history)
    assert play(lanes, 30, np.random.default_rng(1)) == play(again, 30, np.random.default_rng(1))


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
    "make_env",
    [
        partial(gymnasium.make, "CartPole-v1"),
        partial(cart_poles, 3, AutoresetMode.DISABLED),
        partial(make_atari, "qbert", n_envs=3),
    ],
)
def test_a_retracted_step_is_not_brought_back(make_env):
    lanes, again = begin(make_lanes(make_env(), seed())), make_lanes(make_env(), seed())
    for _ in range(3):
        before = lanes.observations
        step_all(lanes, np.ones(lanes.n, np.int64))
    for group in range(len(lanes.groups)):
        lanes.retract(group)
    assert lanes.history()["actions"] == [[1, 1]] * lanes.n
    assert np.array_equal(lanes.observations, before)
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
        step = step_all(lanes, actions)
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
        step = step_all(lanes, actions)
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
    step_all(lanes, np.array([0, 1]))
    assert lanes.history() is None
    with pytest.raises(LaneError, match="begins games by itself"):
        lanes.restore({"games": [0, 0], "actions": [[0], [1]]})
