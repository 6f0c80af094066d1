"""The scripted player with the map, beside one who plays at random."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from mfec.envs.labyrinth import Labyrinth
from mfec.envs.labyrinth.expert import Expert

from .scenes import ALL, AVOID, FORAGE, MAZE

EPISODES = 10


def episodes(level: str, *, expert: bool) -> list[list[float]]:
    """The rewards of ten episodes."""
    env = Labyrinth(level)
    guide = Expert(env)
    rng = np.random.default_rng(0)
    played = []
    for seed in range(EPISODES):
        env.reset(seed=seed)
        rewards = []
        ended = False
        while not ended:
            _, reward, terminated, truncated, _ = env.step(guide.act() if expert else rng.integers(8))
            rewards.append(reward)
            ended = terminated or truncated
        played.append(rewards)
    return played


@cache
def by_expert(level: str) -> list[list[float]]:
    return episodes(level, expert=True)


def mean_score(played: list[list[float]]) -> float:
    return sum(map(sum, played)) / len(played)


@pytest.mark.parametrize(("level", "least"), [(FORAGE, 12.0), (AVOID, 12.0), (MAZE, 17.0)])
def test_the_expert_scores_about_as_much_as_there_is(level, least):
    assert mean_score(by_expert(level)) > least


@pytest.mark.parametrize(("level", "most"), [(FORAGE, 3.0), (AVOID, 2.5), (MAZE, 1.0)])
def test_random_play_scores_next_to_nothing(level, most):
    assert mean_score(episodes(level, expert=False)) < most


@pytest.mark.parametrize("level", ALL)
def test_the_expert_does_well_in_every_episode(level):
    assert min(map(sum, by_expert(level))) >= 10.0


def test_the_expert_of_the_maze_eats_no_lemon():
    assert min(min(rewards) for rewards in by_expert(MAZE)) == 0.0


def test_the_expert_walks_around_lemons():
    eaten = sum(rewards.count(-1.0) for rewards in by_expert(AVOID))
    assert eaten <= EPISODES // 2


def test_the_expert_of_the_maze_finds_several_apples_in_an_episode():
    assert all(rewards.count(1.0) >= 15 for rewards in by_expert(MAZE))


def test_the_expert_can_finish_an_arena_before_time_is_up():
    lengths = [len(rewards) for rewards in by_expert(FORAGE) if sum(rewards) == 15.0]
    assert lengths
    assert min(lengths) < 300


def test_the_expert_leaves_the_level_as_it_is():
    env = Labyrinth(AVOID)
    env.reset(seed=0)
    before = env.clone_state()
    Expert(env).act()
    assert all(np.array_equal(now, then) for now, then in zip(env.clone_state(), before, strict=True))
