"""ViZDoom: what is seen of a scenario, that its seed makes the game, and that the engine leaves nothing behind."""

from __future__ import annotations

import sys
import tempfile

import numpy as np
import pytest
from gymnasium import spaces

from mfec.cli import main
from mfec.config import EnvConfig
from mfec.envs import env_names, make_env
from mfec.envs.environments import make_environments

BASIC = "VizdoomBasic-v1"

pytestmark = pytest.mark.slow(reason="every test starts the engine")


@pytest.fixture
def make():
    """Environments that are closed at the end."""
    made = []

    def make_one(name=BASIC, **options):
        made.append(make_env(name, **options))
        return made[-1]

    yield make_one
    for env in made:
        env.close()


def play(env, seed, steps):
    """Observations, rewards and ends of a game with random actions."""
    actions = np.random.default_rng(seed)
    seen = [env.reset(seed=seed)[0].tobytes()]
    for _ in range(steps):
        observation, *rest, _ = env.step(int(actions.integers(env.action_space.n)))
        seen += [observation.tobytes(), *rest]
        if rest[1] or rest[2]:
            break
    return seen


# -- What is seen -----------------------------------------------------------------------------------------------------


def area_mean(side, covered):
    """Rows that average `covered` pixels into `side`, by how much of each lies inside."""
    edges = np.arange(side + 1) * covered / side
    pixels = np.arange(covered)
    inside = np.minimum(edges[1:, None], pixels + 1) - np.maximum(edges[:-1, None], pixels)
    return np.clip(inside, 0, None) / (covered / side)


def test_an_observation_is_the_luminance_of_the_screen(make):
    env = make(render_mode="rgb_array")
    observation, _ = env.reset(seed=0)
    assert observation.shape == (84, 84)
    assert observation.dtype == np.uint8
    screen = env.render()
    assert screen.shape == (240, 320, 3)
    grey = screen @ np.array([0.299, 0.587, 0.114])
    expected = area_mean(84, 240) @ grey @ area_mean(84, 320).T
    assert expected.std() > 10
    np.testing.assert_allclose(observation, expected, atol=1.01)  # rounded twice


@pytest.mark.parametrize("scenario", ["VizdoomHealthGathering-v1", "VizdoomMyWayHome-v1"])
def test_a_scenario_is_played_with_all_of_its_actions(make, scenario):
    env = make(scenario)
    assert isinstance(env.action_space, spaces.Discrete)
    observation, _ = env.reset(seed=0)
    for action in range(env.action_space.n):
        assert env.observation_space.contains(observation)
        assert observation.any()
        observation, reward, ended, cut_off, _ = env.step(action)
        assert isinstance(reward, float)
        if ended or cut_off:
            observation, _ = env.reset(seed=0)


def test_the_buttons_of_the_deathmatch_are_pressed_one_at_a_time(make):
    env = make("VizdoomDeathmatch-v1")
    assert env.action_space == spaces.Discrete(18)  # 17 buttons, or none; its three axes stay at rest
    env.reset(seed=0)
    for action in range(18):
        env.step(action)
        pressed = env.unwrapped.game.get_last_action()
        assert sum(pressed) == (action > 0), pressed


def test_a_video_plays_at_the_speed_of_the_game_and_does_not_end_in_black(make):
    env = make(render_mode="rgb_array")
    assert env.metadata["render_fps"] == 35 / 4
    env.reset(seed=0)
    ended = cut_off = False
    while not (ended or cut_off):
        observation, _, ended, cut_off, _ = env.step(0)
    assert not observation.any()
    assert env.render().std() > 10


# -- Frames -----------------------------------------------------------------------------------------------------------


def test_a_step_is_four_frames_of_the_engine(make):
    env = make()
    assert make_environments(env, np.random.SeedSequence(0)).frame_skip == 4
    env.reset(seed=0)
    begun = env.unwrapped.game.get_episode_time()
    for _ in range(5):
        _, reward, *_ = env.step(0)
        assert reward == -4  # a point a frame
    assert env.unwrapped.game.get_episode_time() - begun == 20


# -- Seeds ------------------------------------------------------------------------------------------------------------


def test_the_same_seed_and_actions_give_the_same_game(make):
    one, other = make(), make()
    games = [play(one, seed, 30) for seed in range(3)]
    assert len({game[0] for game in games}) == 3
    assert [play(other, seed, 30) for seed in range(3)] == games


def test_a_game_does_not_depend_on_those_before_it(make):
    """Games that were left while the weapon swung are among them: the engine alone goes on swinging it."""
    alone, after = make(), make()
    for seed, before, steps in [(18, 32, 3), (30, 18, 17)]:
        expected = play(alone, seed, 40)
        alone.close()  # it begins with a fresh engine
        play(after, before, steps)
        assert play(after, seed, 40) == expected


def test_games_in_progress_are_brought_back(make):
    n_envs = 2

    def step(envs):
        envs.send(0, actions.integers(4, size=n_envs))
        return envs.receive(0).ended

    actions = np.random.default_rng(0)
    envs, again = (
        make_environments(make(config=EnvConfig(n_envs=n_envs)), np.random.SeedSequence(7)) for _ in range(2)
    )
    assert envs.frame_skip == 4
    envs.begin(np.ones(n_envs, np.bool_))
    for _ in range(85):
        ended = step(envs)
        if ended.any():
            envs.begin(ended)
    history = envs.history()
    assert max(history["games"]) > 0
    assert all(history["actions"])
    again.restore(history)
    np.testing.assert_array_equal(again.observations, envs.observations)
    for _ in range(5):
        state = actions.bit_generator.state
        step(envs)
        actions.bit_generator.state = state
        step(again)
        np.testing.assert_array_equal(again.observations, envs.observations)


# -- The engine -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["closed", "forgotten"])
def test_the_engine_leaves_no_files(tmp_path, monkeypatch, end):
    here, temporary = tmp_path / "here", tmp_path / "temporary"
    here.mkdir()
    temporary.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    env = make_env(BASIC)
    env.reset(seed=0)
    env.step(0)
    assert len(list(temporary.iterdir())) == 1
    if end == "closed":
        env.close()
    else:
        del env
    assert list(here.iterdir()) == []
    assert list(temporary.iterdir()) == []


def test_settings_for_the_engine_in_the_working_folder_change_nothing(tmp_path, monkeypatch, make):
    env = make()
    expected = play(env, 0, 5)
    env.close()  # it can begin again
    (tmp_path / "_vizdoom.cfg").write_text("living_reward = 7\n")
    monkeypatch.chdir(tmp_path)
    assert play(env, 0, 5) == expected


# -- Names ------------------------------------------------------------------------------------------------------------


def test_scenarios_are_listed_without_those_the_agent_cannot_play(capsys):
    listed = env_names()["ViZDoom scenarios (extra `vizdoom`)"]
    assert {BASIC, "VizdoomHealthGathering-v1", "VizdoomMyWayHome-v1", "VizdoomDeathmatch-v1"} <= set(listed)
    assert len(listed) == 12
    assert main(["envs"]) == 0
    shown = capsys.readouterr().out
    assert "ViZDoom scenarios (extra `vizdoom`):\n  VizdoomBasic-v1\n" in shown
    assert shown.count("Vizdoom") == 12  # nor among Gymnasium's own
    assert "MultiBinary" not in shown


@pytest.mark.parametrize(("given", "meant"), [("VizdoomBasic", BASIC), ("vizdoomMyWayHom-v1", "VizdoomMyWayHome-v1")])
def test_an_unknown_scenario_is_an_error_that_names_the_nearest(given, meant):
    with pytest.raises(ValueError, match=rf"unknown environment '{given}'; did you mean '{meant}'\? `mfec envs`"):
        make_env(given)


def test_buttons_that_are_pressed_together_are_numbered(make):
    envs = make_environments(make("VizdoomBasic-MultiBinary-v1"), np.random.SeedSequence(0))
    assert envs.action_space.n == 8
    envs.begin(np.ones(1, np.bool_))
    envs.send(0, np.array([5]))
    assert envs.receive(0).observations.shape == (1, 84, 84)


def test_settings_of_atari_are_refused():
    with pytest.raises(ValueError, match="are for Atari games, not for VizdoomBasic-v1"):
        make_env(BASIC, EnvConfig(frame_stack=4))


@pytest.mark.parametrize("missing", ["vizdoom", "cv2"])
def test_without_vizdoom_its_extra_is_named(missing, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, missing, None)
    assert not any("ViZDoom" in source for source in env_names())
    assert main(["train", BASIC, "--out", "/nonexistent/run"]) == 1
    assert capsys.readouterr().err == "mfec: ViZDoom scenarios need the extra `vizdoom`: pip install 'mfec[vizdoom]'\n"
