"""Replay of single frames against a plain list of whole stacks."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.type_aliases import ReplayBufferSamples

from mfec.algorithms.baselines.replay import FrameReplay, PrioritisedReplay

from .episodes import ACTIONS, Episodes, Stored, replay_of


def stored(
    seed: int = 0,
    *,
    capacity: int,
    steps: int,
    n_envs: int = 1,
    depth: int = 4,
    ends: float = 0.2,
    kind: type[FrameReplay] = FrameReplay,
    **options: float,
) -> Stored:
    """A buffer after some steps, beside what it must hold."""
    episodes = Episodes(seed, n_envs=n_envs, depth=depth, ends=ends)
    return Stored(replay_of(episodes, capacity, kind, **options), episodes).play(steps)


@st.composite
def buffers(draw: st.DrawFn, depths: tuple[int, ...] = (0, 1, 2, 4)) -> Stored:
    """Buffers of all kinds, filled in part, just full, or written over several times."""
    capacity, n_envs = draw(st.integers(1, 40)), draw(st.sampled_from([1, 3]))
    kind, options = draw(st.sampled_from([(FrameReplay, {}), (PrioritisedReplay, {"alpha": 0.6})]))
    return stored(
        draw(st.integers(0, 2**32)),
        capacity=capacity,
        steps=draw(st.integers(1, 4 * max(capacity // n_envs, 5))),
        n_envs=n_envs,
        depth=draw(st.sampled_from(depths)),
        ends=draw(st.sampled_from([0.0, 0.1, 0.5, 1.0])),
        kind=kind,
        **options,
    )


def assert_right(batch: ReplayBufferSamples, buffer: Stored, rows: np.ndarray, envs: np.ndarray) -> None:
    """What was drawn is what was put into these places."""
    drawn = [tensor.numpy() for tensor in batch[:5] if tensor is not None]
    observations, actions, following, over, rewards = drawn
    assert actions.dtype == np.int64
    assert len(rows)
    assert rewards.dtype == over.dtype == np.float32
    assert actions.shape == rewards.shape == over.shape == (len(rows), 1)
    for number, (row, env) in enumerate(zip(rows.tolist(), envs.tolist(), strict=True)):
        true = buffer.at(row, env)
        assert observations[number].dtype == true.observation.dtype
        assert observations[number].tolist() == true.observation.tolist()
        assert (actions[number, 0], rewards[number, 0], over[number, 0]) == (true.action, true.reward, true.over)
        if not true.over:  # where it is, nothing is learned from what comes after
            assert following[number].tolist() == true.following.tolist()


def times_drawn(batch: ReplayBufferSamples, buffer: Stored) -> np.ndarray:
    """How often each place that can be drawn was drawn."""
    newest = [buffer.at(row, env).observation[-1].tobytes() for row, env in zip(*buffer.places(), strict=True)]
    number = {frame: place for place, frame in enumerate(newest)}
    drawn = [number[frame.tobytes()] for frame in batch.observations.numpy()[:, -1]]
    return np.bincount(drawn, minlength=len(newest))


# -- Against whole stacks ---------------------------------------------------------------------------------------------


@given(buffers())
@settings(max_examples=150)
def test_every_step_that_can_be_drawn_comes_back_whole(buffer):
    rows, envs = buffer.places()
    assert len(rows)
    assert_right(buffer.replay._transitions((rows, envs)), buffer, rows, envs)


@given(buffers())
@settings(max_examples=100)
def test_nothing_is_drawn_that_has_lost_frames(buffer):
    """Each frame is shown once, so the newest one of a stack tells where it was kept."""
    replay = buffer.replay
    batch = replay.draw(64, 0.4).batch if isinstance(replay, PrioritisedReplay) else replay.sample(64)
    newest = batch.observations.numpy()[:, -1] if buffer.episodes.depth else batch.observations.numpy()
    can_be = {buffer.at(row, env).observation[-1 if buffer.episodes.depth else ...].tobytes(): (row, env)
              for row, env in zip(*(each.tolist() for each in buffer.places()), strict=True)}  # fmt: skip
    places = [can_be[frame.tobytes()] for frame in newest]
    assert_right(batch, buffer, *(np.array(each) for each in zip(*places, strict=True)))


@pytest.mark.parametrize("n_envs", [1, 3])
@pytest.mark.parametrize("steps", [5, 29, 30, 31, 33, 34, 35, 200])
def test_all_that_is_whole_can_be_drawn_and_nothing_else(n_envs, steps):
    """With uniform and with prioritised replay alike: the oldest steps of a full buffer cannot."""
    for kind, options in ((FrameReplay, {}), (PrioritisedReplay, {"alpha": 0.0})):
        buffer = stored(capacity=30 * n_envs, steps=steps, n_envs=n_envs, kind=kind, **options)
        replay = buffer.replay
        batch = replay.draw(4000, 0.4).batch if isinstance(replay, PrioritisedReplay) else replay.sample(4000)
        counts = times_drawn(batch, buffer)  # an error where a frame is none of those that can be drawn
        assert counts.all()
        assert len(counts) == n_envs * (steps if steps < 30 else 26)
        assert replay.size() == min(steps, 30)


def test_a_stack_does_not_reach_back_over_the_beginning_of_an_episode():
    """Every step ends one."""
    buffer = stored(capacity=20, steps=70, ends=1.0)
    batch = buffer.replay.sample(50)
    assert not batch.observations[:, :-1].any()
    assert (batch.observations[:, -1].reshape(50, -1) > 0).any(dim=1).all()


def test_a_time_limit_is_learned_through_from_the_frame_that_it_cut_off_at():
    """A new game has begun in the next row, and what was shown last must not be lost to it."""
    episodes = Episodes(0, n_envs=1, depth=4)
    replay = replay_of(episodes, 13)
    frames = np.arange(1, 90, dtype=np.uint8).repeat(4).reshape(-1, 2, 2)
    for step in range(40):  # a game is 3 steps long, and shows 4 frames
        shown = step + step // 3
        if step % 3 == 0:
            stack = np.zeros((1, 4, 2, 2), np.uint8)
            stack[:, -1] = frames[shown]
        after = np.concatenate([stack[:, 1:], frames[None, None, shown + 1]], axis=1)
        cut_off = step % 3 == 2
        replay.add(stack, after, np.zeros(1), np.ones(1), np.array([cut_off]), [{"TimeLimit.truncated": cut_off}])
        stack = after
    batch = replay.sample(300)
    assert not batch.dones.any()
    newest, following = batch.observations[:, -1, 0, 0].int(), batch.next_observations[:, -1, 0, 0].int()
    assert (following == newest + 1).all()
    assert set(replay._after_cut) == {(step % 13, 0) for step in (29, 32, 35, 38)}, "others were written over"


def test_vectors_and_numbers_are_kept_whole():
    buffer = stored(capacity=50, steps=120, depth=0, n_envs=3)
    assert buffer.replay.sample(7).observations.shape == (7, 2)

    replay = FrameReplay(10, spaces.Discrete(6), ACTIONS, "cpu", 2, seed=np.random.SeedSequence(0), stacked=False)
    for step in range(23):
        now = np.array([step % 6, (step + 3) % 6])
        replay.add(now, (now + 1) % 6, np.array([1, 2]), np.zeros(2), np.zeros(2, np.bool_), [{}, {}])
    batch = replay.sample(40)
    assert batch.observations.shape == (40,)
    assert (batch.next_observations == (batch.observations + 1) % 6).all()
    assert set(batch.actions.flatten().tolist()) == {1, 2}


def test_what_is_handed_in_may_be_written_over_afterwards():
    episodes = Episodes(0, n_envs=2, depth=4, ends=0.5)
    careless, careful = replay_of(episodes, 30), replay_of(episodes, 30)
    for arguments, _ in episodes.steps(40):
        careful.add(*arguments)
        copies = [np.array(each) for each in arguments[:5]]
        careless.add(*copies, arguments[5])  # type: ignore[call-arg]
        for each in copies:
            each.fill(1)
    for ours, theirs in zip(careless.sample(500)[:5], careful.sample(500)[:5], strict=True):
        assert torch.equal(ours, theirs)


def test_the_smallest_buffer_holds_one_step_that_is_whole():
    buffer = stored(capacity=1, steps=50, n_envs=3)
    assert buffer.replay.buffer_size == 5
    assert (times_drawn(buffer.replay.sample(100), buffer) > 0).tolist() == [True] * 3


# -- Chances ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("steps", [30, 39, 40, 137])
@pytest.mark.parametrize("n_envs", [1, 3])
def test_all_steps_are_drawn_with_the_same_chance(steps, n_envs):
    buffer = stored(capacity=40 * n_envs, steps=steps, n_envs=n_envs)
    counts = times_drawn(buffer.replay.sample(30_000), buffer)
    assert len(counts) == n_envs * (steps if steps < 40 else 36)
    assert chisquare(counts).pvalue > 0.001


def test_draws_depend_on_the_seed_alone():
    first, same, other = (stored(capacity=40, steps=90, kind=FrameReplay).replay for _ in range(3))
    other._rng = np.random.default_rng(1)
    np.random.seed(0)
    drawn = first.sample(50).observations
    np.random.seed(1)
    assert torch.equal(drawn, same.sample(50).observations)
    assert not torch.equal(drawn, other.sample(50).observations)


# -- Storage ----------------------------------------------------------------------------------------------------------


@given(buffers(), st.integers(0, 60))
@settings(max_examples=60)
def test_what_was_stored_goes_on_as_if_it_had_never_stopped(buffer, more):
    replay = buffer.replay
    options = {"alpha": 0.6} if isinstance(replay, PrioritisedReplay) else {}
    again = replay_of(buffer.episodes, replay.buffer_size * replay.n_envs, type(replay), seed=99, **options)
    if isinstance(replay, PrioritisedReplay):
        replay.update(replay.draw(8, 0.4).items, np.linspace(0.0, 3.0, 8))
    again.restore(replay.summary(), {name: tensor.copy() for name, tensor in replay.tensors().items()})
    for arguments, _ in buffer.episodes.steps(more):
        replay.add(*arguments)
        again.add(*arguments)
    if isinstance(replay, PrioritisedReplay):
        (batch, weights, items), (same, same_weights, same_items) = replay.draw(20, 0.4), again.draw(20, 0.4)  # type: ignore[attr-defined]
        assert torch.equal(weights, same_weights)
        assert items.tolist() == same_items.tolist()
    else:
        batch, same = replay.sample(20), again.sample(20)
    for ours, theirs in zip(batch[:5], same[:5], strict=True):
        assert torch.equal(ours, theirs)
    assert again.nbytes == replay.nbytes
    assert again.tensors().keys() == replay.tensors().keys()
    for name, tensor in replay.tensors().items():
        assert np.array_equal(tensor, again.tensors()[name])


def test_what_is_stored_is_no_more_than_what_is_there():
    """A checkpoint of a run that has just begun must not hold a million empty frames."""
    replay = stored(capacity=1000, steps=10).replay
    assert {len(tensor) for name, tensor in replay.tensors().items() if "cut" not in name} == {11}


def test_a_buffer_of_another_size_is_refused():
    replay = stored(capacity=40, steps=100).replay
    for other in (stored(capacity=20, steps=1), stored(capacity=80, steps=1, n_envs=2)):
        with pytest.raises(ValueError, match=r"replay of \(40, 1, 2, 2\) frames does not fit into"):
            other.replay.restore(replay.summary(), replay.tensors())


# -- Memory -----------------------------------------------------------------------------------------------------------

ATARI = spaces.Box(0, 255, (4, 84, 84), np.uint8)


def resident_bytes() -> int:
    """Memory of this process that is its own, as the system counts it."""
    with open("/proc/self/status") as status:
        return next(1024 * int(line.split()[1]) for line in status if line.startswith("RssAnon"))


def test_a_million_atari_steps_take_less_than_eight_gigabytes_and_none_before_they_are_played():
    before = resident_bytes()
    replay = PrioritisedReplay(1_000_000, ATARI, ACTIONS, "cpu", seed=np.random.SeedSequence(0), alpha=0.6)
    whole = sum(array.nbytes for array in replay.arrays.values()) + replay._tree.nbytes
    assert whole < 8e9
    peer = ReplayBuffer(1, ATARI, ACTIONS, "cpu")
    assert 1_000_000 * (peer.observations.nbytes + peer.next_observations.nbytes) > 7 * whole

    stack = np.full((1, 4, 84, 84), 200, np.uint8)
    for _ in range(1000):
        replay.add(stack, stack, np.zeros(1), np.zeros(1), np.zeros(1, np.bool_), [{}])
    replay.sample(32)
    assert 1000 * 84 * 84 < replay.nbytes - replay._tree.nbytes < 1000 * (84 * 84 + 20)
    assert resident_bytes() - before < 0.1e9
