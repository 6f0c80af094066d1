"""The replay of NEC against a list of whole copies."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mfec.algorithms.nec.replay import Replay
from mfec.checkpoint import read_checkpoint, write_checkpoint
from mfec.envs import make_atari

STACK = (4, 84, 84)


class Copies:
    """What a replay must hold: copies of all that was kept, and the last items in the order of their addition."""

    def __init__(self, capacity):
        self.capacity, self.kept, self.items = capacity, {}, []

    def keep(self, place, observation):
        assert place not in self.kept
        self.kept[place] = observation.copy()

    def add(self, place, action, value):
        self.items = [*self.items, (self.kept.pop(place), action, np.float32(value))][-self.capacity :]


class Both:
    """A replay and its copies, told the same; `delay` steps of each environment are in flight."""

    def __init__(self, capacity, shape=STACK, dtype=np.uint8, *, planes=4, delay=3):
        self.replay, self.copies = Replay(capacity, shape, dtype, planes=planes), Copies(capacity)
        self.delay, self.waiting, self.rng = delay, {}, np.random.default_rng(7)

    def step(self, env_id, observation, *, ended=False):
        place = self.replay.keep(env_id, observation)
        self.copies.keep(place, observation)
        waiting = self.waiting.setdefault(env_id, [])
        waiting.append(place)
        while len(waiting) > (0 if ended else self.delay):
            told = waiting.pop(0), int(self.rng.integers(18)), float(self.rng.normal())
            self.replay.add(*told)
            self.copies.add(*told)

    def check(self, replay=None):
        """All items, and nothing else, is drawn: bit for bit what was kept."""
        replay = replay or self.replay
        assert len(replay) == len(self.copies.items)
        size = 40 * len(replay)
        observations, actions, values = replay.draw(size, np.random.default_rng(1))
        expected = {(seen.tobytes(), action, value) for seen, action, value in self.copies.items}
        drawn = zip((seen.tobytes() for seen in observations), actions.tolist(), values, strict=True)
        assert set(drawn) == expected
        shape = self.replay.observation_shape
        assert (observations.shape, actions.dtype, values.dtype) == ((size, *shape), np.int64, np.float32)


def play(both, steps, *, game="qbert", seed=0):
    """Two interleaved environments of an Atari game under random actions."""
    envs, rng = make_atari(game, n_envs=2, frame_stack=4), np.random.default_rng(seed)
    observations, _ = envs.reset(seed=seed)
    for _ in range(steps):
        shown = observations
        observations, _, terminated, truncated, _ = envs.step(rng.integers(6, size=2))
        ended = terminated | truncated
        for env_id in range(2):
            both.step(env_id, shown[env_id], ended=bool(ended[env_id]))
        if ended.any():
            observations, _ = envs.reset(options={"reset_mask": ended})
    envs.close()


def restored(replay, capacity, tmp_path, shape=STACK, dtype=np.uint8, planes=4):
    """The replay that a checkpoint makes of another."""
    write_checkpoint(tmp_path, kind="replay", state=replay.summary(), tensors={"replay": replay.tensors()})
    state, tensors = read_checkpoint(tmp_path, kind="replay")
    again = Replay(capacity, shape, dtype, planes=planes)
    again.restore(json.loads(json.dumps(state)), tensors["replay"])
    return again


def same_draws(one, other):
    for a, b in zip(one.draw(64, np.random.default_rng(3)), other.draw(64, np.random.default_rng(3)), strict=True):
        np.testing.assert_array_equal(a, b)


def stacks(rng, length, side=2):
    """A game of small frames, which begins with zeros."""
    frames = np.concatenate([np.zeros((3, side, side), np.uint8), rng.integers(0, 256, (length, side, side), np.uint8)])
    return [frames[i : i + 4] for i in range(length)]


def test_atari_frames_of_two_environments_are_kept_once():
    both = Both(500, delay=10)
    play(both, 900)  # three games or more of each
    both.check()
    planes = both.replay.nbytes / 84**2
    # A plane for each item and step in flight; the newest stacks, and three planes for each game that began.
    assert 500 + 20 <= planes < 500 + 20 + 50


def test_an_item_is_drawn_as_often_as_any_other():
    both = Both(10, (3,), np.float32, planes=1)
    for i in range(25):
        both.step(0, np.full(3, i, np.float32))
    observations, _, _ = both.replay.draw(20_000, np.random.default_rng(0))
    seen, counts = np.unique(observations[:, 0], return_counts=True)
    assert seen.tolist() == list(range(12, 22))  # three are in flight
    assert abs(counts - 2000).max() < 200  # 4.7 standard deviations


@pytest.mark.parametrize("length", [1, 2, 5])
def test_tiny_games_need_more_planes_and_lose_nothing(length):
    both, rng = Both(200, (4, 2, 2)), np.random.default_rng(0)
    for _ in range(600 // length):
        for i, stack in enumerate(stacks(rng, length)):
            both.step(0, stack, ended=i == length - 1)
    both.check()
    # Once full, it takes no more: at most three planes more for each game.
    assert len(both.replay.tensors()["planes"]) <= 200 + 3 * (200 // length + 1) + 8


@pytest.mark.parametrize("capacity", [1, 2, 7, 50])
def test_games_of_any_length_leave_the_last_items(capacity):
    both, rng = Both(capacity, (4, 2, 2)), np.random.default_rng(1)
    games = {env_id: [] for env_id in range(3)}
    for step in range(400):
        env_id = int(rng.integers(3))
        games[env_id] = games[env_id] or stacks(rng, int(rng.integers(1, 30)))
        both.step(env_id, games[env_id].pop(0), ended=not games[env_id])
        if step % 50 == 49:
            both.check()


def test_steps_in_flight_survive_many_items():
    both, rng = Both(5, (4, 2, 2), delay=0), np.random.default_rng(2)
    waits = both.replay.keep(0, (early := stacks(rng, 1)[0]))
    both.copies.keep(waits, early)
    for stack in stacks(rng, 300):
        both.step(1, stack)
    both.replay.add(waits, 3, 0.5)
    both.copies.add(waits, 3, 0.5)
    both.check()


def test_frames_that_repeat_are_still_drawn_in_their_order():
    both = Both(20, (4, 1, 1))
    black, white = np.zeros((4, 1, 1), np.uint8), np.full((4, 1, 1), 255, np.uint8)
    for stack in [black, black, white, black, white, white, np.concatenate([white[:3], black[:1]])] * 5:
        both.step(0, stack)
    both.check()


def test_another_environments_frames_are_not_taken_for_ones_own():
    both, rng = Both(50, (4, 2, 2)), np.random.default_rng(0)
    for one, other in zip(stacks(rng, 60), stacks(rng, 60), strict=True):
        both.step(0, one)
        both.step(1, other)
    both.check()


@pytest.mark.parametrize(("shape", "dtype"), [((4,), np.float32), ((84, 84), np.uint8), ((), np.int64), ((1, 3), "f8")])
def test_other_observations_are_kept_whole(shape, dtype, tmp_path):
    both, rng = Both(30, shape, dtype, planes=1), np.random.default_rng(0)
    for i in range(100):
        both.step(i % 2, rng.integers(0, 200, shape).astype(dtype) if shape else np.int64(i), ended=i % 7 == 0)
    both.check()
    both.check(restored(both.replay, 30, tmp_path, shape, dtype, planes=1))


def test_zeros_of_either_sign_and_nan_are_bytes():
    both = Both(10, (2, 2), np.float32, planes=2)
    for pair in ([[1, 0.0], [np.nan, 2]], [[np.nan, 2], [-0.0, 1]], [[0.0, 1], [3, 3]]) * 3:
        both.step(0, np.array(pair, np.float32))
    both.check()


def test_a_restored_replay_goes_on_bit_for_bit(tmp_path):
    both = Both(300, delay=10)
    play(both, 250)
    again = restored(both.replay, 300, tmp_path)
    both.check(again)
    same_draws(both.replay, again)
    twin = Both(300, delay=10)
    twin.replay, twin.copies, twin.waiting = again, Copies(300), {env: list(own) for env, own in both.waiting.items()}
    twin.copies.kept, twin.copies.items = dict(both.copies.kept), list(both.copies.items)
    twin.rng = np.random.default_rng(both.rng.bit_generator.seed_seq)
    both.rng = np.random.default_rng(both.rng.bit_generator.seed_seq)
    play(both, 200, seed=1)
    play(twin, 200, seed=1)
    twin.check()
    same_draws(both.replay, twin.replay)
    assert both.replay.nbytes == twin.replay.nbytes
    assert both.replay.summary() == twin.replay.summary()


def test_an_empty_replay_is_restored(tmp_path):
    again = restored(Replay(3, STACK, np.uint8, planes=4), 3, tmp_path)
    assert len(again) == 0
    assert again.keep(0, np.zeros(STACK, np.uint8)) == 0


def test_a_grown_replay_is_restored(tmp_path):
    both, rng = Both(20, (4, 2, 2), delay=100), np.random.default_rng(0)
    for _ in range(150):
        both.step(0, rng.integers(0, 256, (4, 2, 2), np.uint8))
    again = restored(both.replay, 20, tmp_path, (4, 2, 2))
    both.check(again)
    same_draws(both.replay, again)


def test_a_replay_of_other_settings_is_refused():
    replay = Replay(10, (4, 2, 2), np.uint8, planes=4)
    replay.add(replay.keep(0, np.ones((4, 2, 2), np.uint8)), 0, 1.0)
    for other in (Replay(10, (4, 3, 3), np.uint8, planes=4), Replay(10, (4, 2, 2), np.uint8, planes=1)):
        with pytest.raises(ValueError, match="does not fit"):
            other.restore(replay.summary(), replay.tensors())


def test_steps_that_are_given_up_leave_no_planes():
    replay, rng = Replay(10, (4, 2, 2), np.uint8, planes=4), np.random.default_rng(0)
    for _ in range(40):
        kept = [replay.keep(0, stack) for stack in stacks(rng, 6)]
        replay.give_up(kept[:2])
        replay.give_up()
    assert len(replay.tensors()["planes"]) <= 12
    with pytest.raises(KeyError):
        replay.add(kept[-1], 0, 0.0)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.booleans()), max_size=60), st.integers(1, 9))
def test_any_play_of_three_environments(steps, capacity):
    """Frames of three kinds only, so that stacks repeat and resemble each other."""
    both, shown = Both(capacity, (2, 1), planes=2, delay=2), {}
    for env_id, frame, ended in steps:
        shown[env_id] = [*shown.get(env_id, [0, 0])[1:], frame]
        both.step(env_id, np.array(shown[env_id], np.uint8)[:, None], ended=ended)
        if ended:
            shown.pop(env_id)
    if both.copies.items:
        both.check()


def test_memory_is_reported_before_it_is_taken():
    report = Replay.bytes_when_full(100_000, STACK, np.uint8, planes=4)
    assert 100_000 * 84**2 < report < 1.01 * 100_000 * 84**2
    both, rng = Both(500, (4, 20, 20)), np.random.default_rng(0)
    for stack in stacks(rng, 700, side=20):
        both.step(0, stack)
    assert both.replay.nbytes == pytest.approx(Replay.bytes_when_full(500, (4, 20, 20), np.uint8, planes=4), rel=0.02)


@pytest.mark.parametrize("planes", [0, 3])
def test_observations_that_are_no_stacks_are_refused(planes):
    with pytest.raises(ValueError, match="no stacks"):
        Replay(10, STACK, np.uint8, planes=planes)
