"""Environments by name."""

from __future__ import annotations

import subprocess
import sys

import gymnasium
import pytest
from gymnasium.vector import AutoresetMode, VectorEnv

from mfec.config import EnvConfig
from mfec.envs import env_names, make_env


def test_a_gymnasium_id_gives_that_environment():
    env = make_env("CartPole-v1")
    assert isinstance(env, gymnasium.Env)
    assert env.spec.id == "CartPole-v1"


def test_several_environments_begin_games_only_when_told_to():
    vector = make_env("CartPole-v1", EnvConfig(n_envs=3))
    assert isinstance(vector, VectorEnv)
    assert vector.num_envs == 3
    assert vector.metadata["autoreset_mode"] == AutoresetMode.DISABLED


@pytest.mark.parametrize("n_envs", [1, 2])
def test_a_game_has_the_settings_of_the_configuration(n_envs):
    env = make_env("qbert", EnvConfig(n_envs=n_envs, frame_stack=2, max_frames=40))
    space = env.observation_space if n_envs == 1 else env.single_observation_space
    assert space.shape == (2, 84, 84)
    env.reset(seed=0)
    steps = 0
    cut_off = False
    while not cut_off:
        *_, truncated, _ = env.step(env.action_space.sample())
        cut_off = truncated if n_envs == 1 else truncated.any()
        steps += 1
    assert steps <= 10


def test_sticky_actions_reach_the_game():
    """The same actions on the same seed lead elsewhere."""
    plain, sticky = make_env("space_invaders"), make_env("space_invaders", EnvConfig(sticky_actions=0.5))
    plain.reset(seed=0)
    sticky.reset(seed=0)
    assert any((plain.step(2 + i % 2)[0] != sticky.step(2 + i % 2)[0]).any() for i in range(60))


def test_the_screen_is_rendered_where_asked_for():
    env = make_env("qbert", render_mode="rgb_array")
    env.reset(seed=0)
    assert env.render().shape == (210, 160, 3)


def test_ids_of_ale_py_are_known():
    assert make_env("ALE/Pong-v5").observation_space.shape == (210, 160, 3)


@pytest.mark.parametrize("setting", [{"frame_stack": 4}, {"sticky_actions": 0.25}, {"max_frames": 1000}])
def test_settings_of_atari_are_refused_elsewhere(setting):
    with pytest.raises(ValueError, match=r"are for Atari games, not for CartPole-v1"):
        make_env("CartPole-v1", EnvConfig(**setting))


@pytest.mark.parametrize(
    ("given", "meant"),
    [("CartPole-v7", "CartPole-v1"), ("FrozenLaek-v1", "FrozenLake-v1"), ("ALE/Pong-v9", "ALE/Pong")],
)
def test_an_unknown_id_is_an_error_that_names_the_nearest(given, meant):
    with pytest.raises(ValueError, match=rf"unknown environment '{given}'; did you mean '{meant}.*mfec envs"):
        make_env(given)


def test_an_unknown_game_is_an_error_that_names_the_nearest():
    with pytest.raises(ValueError, match=r"unknown game 'qbart'; did you mean 'qbert'\?"):
        make_env("qbart")


@pytest.mark.parametrize("n_envs", [0, -1])
def test_there_is_at_least_one_environment(n_envs):
    with pytest.raises(ValueError, match="n_envs must be at least 1"):
        EnvConfig(n_envs=n_envs)


def test_names_are_listed_by_where_they_come_from():
    games, levels, _, ids = env_names().values()
    assert {"ms_pacman", "qbert", "river_raid", "frostbite", "space_invaders"} <= set(games)
    assert levels == ["labyrinth_forage", "labyrinth_forage_and_avoid", "labyrinth_double_t_maze"]
    assert "CartPole-v1" in ids


def test_without_ale_py_gymnasium_environments_remain():
    code = """
import sys
sys.modules["ale_py"] = None
from mfec.envs import env_names, make_env
games, *_, ids = env_names().values()
assert games == [], games
assert "CartPole-v1" in ids
make_env("CartPole-v1").reset(seed=0)
try:
    make_env("qbert")
except ImportError as error:
    assert "mfec[atari]" in str(error), error
else:
    raise AssertionError("no error")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
