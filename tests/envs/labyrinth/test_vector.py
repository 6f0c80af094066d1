"""Players side by side: each equals the single environment bit for bit, however they are stepped."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from mfec.envs.labyrinth import Labyrinth, LabyrinthVector

from .scenes import ALL, AVOID, FORAGE, MAZE, wandering


@pytest.fixture(params=[1, 2])
def threads(request, monkeypatch) -> int:
    monkeypatch.setenv("MFEC_THREADS", str(request.param))
    return request.param


def by_hand(level: str, n: int, **settings: int) -> LabyrinthVector:
    """Episodes begin when told to."""
    return LabyrinthVector(level, n, autoreset_mode=AutoresetMode.DISABLED, **settings)


def actions_of(n: int, steps: int, seed: int = 0) -> np.ndarray:
    """A wanderer in each environment, (steps, n)."""
    return np.array([wandering(steps, seed=100 * seed + env_id) for env_id in range(n)]).T


class Alone:
    """What an environment should show: a single environment that is reset by hand, or in the step after an end."""

    def __init__(self, level: str, seed: int | None, *, by_itself: bool, **settings: int) -> None:
        self.env = Labyrinth(level, **settings)
        self.by_itself = by_itself
        self.ended = False
        self.reset(seed)

    def reset(self, seed: int | None = None) -> np.ndarray:
        self.ended = False
        self.shown = self.env.reset(seed=seed)[0]
        return self.shown

    def step(self, action: int) -> tuple[bytes, float, bool, bool]:
        if self.ended and self.by_itself:
            return self.reset().tobytes(), 0.0, False, False
        self.shown, reward, terminated, truncated, _ = self.env.step(action)
        self.ended = terminated or truncated
        return self.shown.tobytes(), reward, terminated, truncated


def rows(outcome: tuple) -> list[tuple[bytes, float, bool, bool]]:
    """What each environment of a step shows."""
    observations, rewards, terminated, truncated, info = outcome
    assert info == {}
    assert [array.dtype for array in outcome[:4]] == [np.uint8, np.float64, np.bool_, np.bool_]
    return [
        (observation.tobytes(), reward, over, cut_off)
        for observation, reward, over, cut_off in zip(
            observations, rewards.tolist(), terminated.tolist(), truncated.tolist(), strict=True
        )
    ]


# -- Vector and single ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", ALL)
@pytest.mark.parametrize("n", [1, 5])
def test_environments_that_begin_by_themselves_equal_single_environments(level, n, threads):
    """The step after an end begins the next episode: no action, no reward, no time goes by."""
    settings = {"frame_skip": 20}  # ends come soon
    vector = LabyrinthVector(level, n, **settings)
    observations, _ = vector.reset(seed=10)
    alone = [Alone(level, 10 + env_id, by_itself=True, **settings) for env_id in range(n)]
    assert all(np.array_equal(shown, env.shown) for shown, env in zip(observations, alone, strict=True))
    ends = 0
    for actions in actions_of(n, 200, seed=n):
        outcome = rows(vector.step(actions))
        assert outcome == [env.step(int(action)) for env, action in zip(alone, actions, strict=True)]
        ends += sum(over or cut_off for *_, over, cut_off in outcome)
    assert ends >= n


@pytest.mark.parametrize("level", ALL)
@pytest.mark.parametrize("n", [1, 5])
def test_environments_that_begin_when_told_to_equal_single_environments(level, n, threads):
    settings = {"frame_skip": 20}
    vector = by_hand(level, n, **settings)
    vector.reset(seed=20)
    alone = [Alone(level, 20 + env_id, by_itself=False, **settings) for env_id in range(n)]
    rng = np.random.default_rng(n)
    began = 0
    for actions in actions_of(n, 200, seed=n):
        outcome = vector.step(actions)
        assert rows(outcome) == [env.step(int(action)) for env, action in zip(alone, actions, strict=True)]
        mask = outcome[2] | outcome[3] | (rng.random(n) < 0.02)
        if mask.any():
            observations, info = vector.reset(options={"reset_mask": mask})
            expected = [env.reset() if own else env.shown for env, own in zip(alone, mask, strict=True)]
            assert np.array_equal(observations, expected)
            assert info == {}
            began += int(mask.sum())
    assert began >= 2 * n


def test_full_episodes_of_decisions_equal_single_environments(threads):
    vector = LabyrinthVector(AVOID, 3)
    vector.reset(seed=1)
    alone = [Alone(AVOID, 1 + env_id, by_itself=True) for env_id in range(3)]
    for actions in actions_of(3, 320):
        assert rows(vector.step(actions)) == [env.step(int(a)) for env, a in zip(alone, actions, strict=True)]


def test_environments_are_as_many_as_asked_for():
    assert LabyrinthVector(FORAGE, 7).reset(seed=0)[0].shape == (7, 84, 84)
    with pytest.raises(ValueError, match="at least 1, not 0"):
        LabyrinthVector(FORAGE, 0)


# -- Seeds ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", ALL)
def test_environments_are_seeded_in_a_row_from_a_number(level):
    observations, _ = LabyrinthVector(level, 4).reset(seed=7)
    for env_id in range(4):
        assert np.array_equal(observations[env_id], Labyrinth(level).reset(seed=7 + env_id)[0])


def test_environments_can_have_their_own_seeds():
    observations, _ = LabyrinthVector(FORAGE, 3).reset(seed=[5, 2, 5])
    for env_id, seed in enumerate([5, 2, 5]):
        assert np.array_equal(observations[env_id], Labyrinth(FORAGE).reset(seed=seed)[0])


def test_environments_without_a_seed_go_on_with_theirs():
    vector = by_hand(FORAGE, 3)
    alone = [Labyrinth(FORAGE) for _ in range(3)]
    vector.reset(seed=0)
    for env_id, env in enumerate(alone):
        env.reset(seed=env_id)
    observations, _ = vector.reset(seed=[None, 9, None])
    expected = [env.reset(seed=seed)[0] for env, seed in zip(alone, (None, 9, None), strict=True)]
    assert np.array_equal(observations, expected)


def test_environments_that_were_never_seeded_differ():
    observations, _ = LabyrinthVector(FORAGE, 3).reset()
    assert len({shown.tobytes() for shown in observations}) == 3


def test_the_first_step_after_an_end_ignores_the_action():
    vectors = [LabyrinthVector(FORAGE, 2, frame_skip=1200) for _ in range(2)]
    shown = []
    for vector, action in zip(vectors, (0, 7), strict=True):
        vector.reset(seed=3)
        assert vector.step(np.zeros(2, np.int64))[3].all()
        shown.append(rows(vector.step(np.full(2, action))))
    assert shown[0] == shown[1]
    assert [row[1:] for row in shown[0]] == [(0.0, False, False)] * 2


def test_the_first_step_after_a_reset_is_played_also_where_an_episode_had_ended():
    vector, same = LabyrinthVector(FORAGE, 2, frame_skip=1200), LabyrinthVector(FORAGE, 2, frame_skip=1200)
    vector.reset(seed=3)
    assert vector.step(np.zeros(2, np.int64))[3].all()
    for own in (vector, same):
        own.reset(seed=4)
    assert rows(vector.step(np.full(2, 4))) == rows(same.step(np.full(2, 4)))


def test_actions_are_left_as_they_were_given():
    vector = LabyrinthVector(FORAGE, 2, frame_skip=1200)
    vector.reset(seed=3)
    actions = np.array([4, 4])
    vector.step(actions)
    vector.step(actions)
    assert actions.tolist() == [4, 4]


def test_what_was_shown_stays_as_it_was():
    vector = by_hand(AVOID, 2)
    shown = [vector.reset(seed=0)[0]]
    kept = [shown[0].copy()]
    for actions in actions_of(2, 10):
        shown.append(vector.step(actions)[0])
        kept.append(shown[-1].copy())
        shown.append(vector.reset(options={"reset_mask": np.array([True, False])})[0])
        kept.append(shown[-1].copy())
    assert all(np.array_equal(now, then) for now, then in zip(shown, kept, strict=True))


# -- Groups -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 5])
def test_groups_are_the_halves_of_the_environments(n):
    groups = by_hand(FORAGE, n).groups
    assert [env_id for own in groups for env_id in range(own.start, own.stop)] == list(range(n))
    assert [own.stop - own.start for own in groups] == ([1] if n == 1 else [(n + 1) // 2, n // 2])


@pytest.mark.parametrize("level", [AVOID, MAZE])
@pytest.mark.parametrize("n", [1, 5])
def test_groups_in_turn_equal_single_environments(level, n, threads):
    """Groups are sent and received at random, and begin episodes while the other one may be in flight."""
    settings = {"frame_skip": 20}
    steps = 150
    vector = by_hand(level, n, **settings)
    vector.reset(seed=30)
    alone = [Alone(level, 30 + env_id, by_itself=False, **settings) for env_id in range(n)]
    actions = actions_of(n, steps, seed=n)
    rng = np.random.default_rng(n)
    ticks = [0] * len(vector.groups)
    flying: set[int] = set()
    began_beside_a_flight = 0
    while min(ticks) < steps:
        group = int(rng.integers(len(vector.groups)))
        own = vector.groups[group]
        if group in flying:
            outcome = vector.receive(group)
            flying.remove(group)
            chosen = actions[ticks[group], own].tolist()
            assert rows(outcome) == [env.step(action) for env, action in zip(alone[own], chosen, strict=True)]
            ticks[group] += 1
            mask = np.zeros(n, np.bool_)
            mask[own] = outcome[2] | outcome[3] | (rng.random(own.stop - own.start) < 0.05)
            if mask.any():
                observations, _ = vector.reset(options={"reset_mask": mask})
                expected = [env.reset() if begins else env.shown for env, begins in zip(alone, mask, strict=True)]
                assert np.array_equal(observations, expected), "environments in flight are shown as they were last seen"
                began_beside_a_flight += bool(flying)
        elif ticks[group] < steps:
            vector.send(group, actions[ticks[group], own])
            flying.add(group)
    assert began_beside_a_flight > 0 or n == 1


def test_groups_equal_steps_of_all_environments(threads):
    together, in_turn = by_hand(FORAGE, 5), by_hand(FORAGE, 5)
    together.reset(seed=0)
    in_turn.reset(seed=0)
    for actions in actions_of(5, 50):
        for group in (1, 0):
            in_turn.send(group, actions[in_turn.groups[group]])
        received = [row for group in (0, 1) for row in rows(in_turn.receive(group))]
        assert received == rows(together.step(actions))


def test_a_step_in_flight_is_forgotten_where_all_its_environments_begin_episodes(threads):
    vector = by_hand(FORAGE, 3)
    first, _ = vector.reset(seed=0)
    for mask in (np.ones(3, np.bool_), np.array([True, True, False])):
        vector.send(0, np.array([4, 5]))
        again, _ = vector.reset(seed=0, options={"reset_mask": mask})
        assert np.array_equal(again, first)
    vector.step(np.array([1, 2, 3]))


# -- Errors -----------------------------------------------------------------------------------------------------------


def test_there_is_no_step_before_the_first_episode():
    vector = by_hand(FORAGE, 3)
    for call in (lambda: vector.step(np.zeros(3, np.int64)), lambda: vector.send(0, np.zeros(2, np.int64))):
        with pytest.raises(gymnasium.error.ResetNeeded, match="before the first step"):
            call()


@pytest.mark.parametrize("actions", [[0, 8], [-1, 0], [0], [0, 0, 0], [[0, 0]]])
def test_bad_actions_are_errors_and_nothing_happens(actions):
    vector, same = LabyrinthVector(FORAGE, 2), LabyrinthVector(FORAGE, 2)
    vector.reset(seed=0)
    same.reset(seed=0)
    with pytest.raises(ValueError, match=r"2 actions in 0\.\.7 are needed"):
        vector.step(np.array(actions))
    assert rows(vector.step(np.array([6, 6]))) == rows(same.step(np.array([6, 6])))


def test_episodes_do_not_begin_in_the_step_that_ends_one():
    with pytest.raises(ValueError, match="in the next step or when told to"):
        LabyrinthVector(FORAGE, 2, autoreset_mode=AutoresetMode.SAME_STEP)
