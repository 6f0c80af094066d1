"""The levels as Gymnasium environments: names, errors, seeds, states that are kept, and pictures of any size."""

from __future__ import annotations

import inspect
import pickle
import subprocess
import sys
import warnings
from functools import partial

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode

from mfec.config import EnvConfig
from mfec.envs import make_env
from mfec.envs.labyrinth import LEVELS, Labyrinth, LabyrinthVector
from mfec.envs.labyrinth.expert import Expert

from ...waiting import PATIENCE
from .scenes import ALL, AVOID, FORAGE, FORWARD, MAZE, TURN_LEFT, begun, play, put, wandering

IDS = {
    FORAGE: "mfec/Labyrinth-Forage-v0",
    AVOID: "mfec/Labyrinth-ForageAndAvoid-v0",
    MAZE: "mfec/Labyrinth-DoubleTMaze-v0",
}


# -- Gymnasium --------------------------------------------------------------------------------------------------------


def test_there_are_three_levels():
    assert {level.name: level.id for level in LEVELS.values()} == IDS


@pytest.mark.parametrize("level", ALL)
def test_gymnasiums_checker_finds_nothing(level):
    env = gymnasium.make(IDS[level], render_mode="rgb_array")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(env.unwrapped)


@pytest.mark.parametrize("level", ALL)
def test_gymnasium_makes_a_level_by_its_id(level):
    env = gymnasium.make(IDS[level])
    assert type(env.unwrapped) is Labyrinth
    assert env.unwrapped.level.name == level
    assert env.action_space == spaces.Discrete(8)
    assert env.observation_space == spaces.Box(0, 255, (84, 84), np.uint8)
    observation, info = env.reset(seed=0)
    assert observation in env.observation_space
    assert info == {}


@pytest.mark.parametrize("level", ALL)
def test_gymnasium_makes_players_side_by_side(level):
    vector = gymnasium.make_vec(IDS[level], num_envs=3)
    assert type(vector.unwrapped) is LabyrinthVector
    assert vector.num_envs == 3
    assert vector.observation_space.shape == (3, 84, 84)
    assert vector.single_action_space == spaces.Discrete(8)
    assert vector.metadata["autoreset_mode"] == AutoresetMode.NEXT_STEP
    observations, _ = vector.reset(seed=0)
    assert observations in vector.observation_space


@pytest.mark.parametrize("level", ALL)
@pytest.mark.parametrize("by_id", [False, True])
def test_make_env_knows_short_names_and_ids(level, by_id):
    name = IDS[level] if by_id else level
    one, many = make_env(name), make_env(name, EnvConfig(n_envs=2))
    assert (type(one), one.level.name) == (Labyrinth, level)
    assert (type(many), many.num_envs) == (LabyrinthVector, 2)
    assert many.metadata["autoreset_mode"] == AutoresetMode.DISABLED
    assert np.array_equal(one.reset(seed=1)[0], many.reset(seed=1)[0][0])


def test_make_env_passes_the_render_mode_on():
    env = make_env(FORAGE, render_mode="rgb_array")
    env.reset(seed=0)
    assert env.render().shape == (240, 320, 3)


# -- Errors -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [Labyrinth, partial(LabyrinthVector, num_envs=2)])
def test_an_unknown_level_is_an_error_that_names_all(make):
    with pytest.raises(ValueError, match=f"unknown level 'forage'; there are {FORAGE}, {AVOID}, {MAZE}"):
        make("forage")


@pytest.mark.parametrize("name", ["labyrinth_forrage", "mfec/Labyrinth-Forage-v1"])
def test_make_env_names_the_nearest_level(name):
    with pytest.raises(ValueError, match=rf"unknown environment {name!r}; did you mean '.*[Ff]orage.*'\?"):
        make_env(name)


def test_an_unknown_render_mode_is_an_error():
    with pytest.raises(ValueError, match="None or 'rgb_array', not 'ansi'"):
        Labyrinth(FORAGE, render_mode="ansi")


@pytest.mark.parametrize("make", [Labyrinth, partial(LabyrinthVector, num_envs=2)])
@pytest.mark.parametrize("frame_skip", [0, -1])
def test_frame_skip_is_at_least_1(make, frame_skip):
    with pytest.raises(ValueError, match=f"at least 1, not {frame_skip}"):
        make(FORAGE, frame_skip=frame_skip)


@pytest.mark.parametrize(("width", "height"), [(0, 84), (84, 0), (-1, -1)])
def test_pictures_have_pixels(width, height):
    with pytest.raises(ValueError, match=f"at least 1 x 1 pixels, not {width} x {height}"):
        Labyrinth(FORAGE, width=width, height=height)


@pytest.mark.parametrize("action", [8, -1, 2.5, None])
def test_actions_are_0_to_7(action):
    env = begun(FORAGE)
    before = env.clone_state()
    with pytest.raises(ValueError, match=rf"0\.\.7, and {action} does not"):
        env.step(action)
    assert all(np.array_equal(now, then) for now, then in zip(env.clone_state(), before, strict=True))


@pytest.mark.parametrize("kind", [int, np.int8, np.int32, np.int64, np.uint8, np.array])
def test_actions_are_of_any_integer_type(kind):
    one, other = begun(FORAGE), begun(FORAGE)
    assert np.array_equal(one.step(kind(6))[0], other.step(6)[0])


def test_a_step_needs_a_reset():
    with pytest.raises(gymnasium.error.ResetNeeded, match="before the first step"):
        Labyrinth(FORAGE).step(0)


def test_states_of_another_level_are_refused():
    with pytest.raises(ValueError):
        begun(FORAGE).restore_state(begun(MAZE).clone_state())


# -- Seeds ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", ALL)
def test_seed_and_actions_decide_everything(level):
    first, second = Labyrinth(level), Labyrinth(level)
    second.reset(seed=9)
    play(second, wandering(50))
    shown = []
    for env in (first, second, first):
        start = env.reset(seed=3)[0].tobytes()
        shown.append([start, *play(env, wandering(1000, seed=3))])
    assert shown[0] == shown[1] == shown[2]
    assert len({observation for observation, *_ in shown[0][1:]}) > 500
    assert any(truncated for *_, truncated in shown[0][1:]), "more than one episode"


@pytest.mark.parametrize("level", ALL)
def test_seeds_differ(level):
    assert len({Labyrinth(level).reset(seed=seed)[0].tobytes() for seed in range(20)}) == 20


def digest(level, actions):
    """Of all that the actions lead to; the source of this function runs in another process, too."""
    from hashlib import sha256

    from mfec.envs.labyrinth import Labyrinth

    env = Labyrinth(level)
    shown = sha256(env.reset(seed=5)[0].tobytes())
    for action in actions:
        observation, reward, terminated, truncated, _ = env.step(action)
        shown.update(observation.tobytes() + repr((reward, terminated, truncated)).encode())
        if terminated or truncated:
            shown.update(env.reset()[0].tobytes())
    shown.update(env.render().tobytes() + env.players.poses.tobytes())
    return shown.hexdigest()


def test_the_same_happens_in_another_process():
    level = MAZE
    actions = wandering(400, seed=5)
    code = f"{inspect.getsource(digest)}\nprint(digest({level!r}, {actions}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [digest(level, actions)]


def test_a_decision_is_four_frames():
    by_decisions, by_frames = begun(AVOID, 2), begun(AVOID, 2, frame_skip=1)
    assert by_decisions.frame_skip == 4
    for action in wandering(200, seed=2):
        observation, reward, *_ = by_decisions.step(action)
        frames = [by_frames.step(action) for _ in range(4)]
        assert np.array_equal(observation, frames[-1][0])
        assert reward == sum(frame[1] for frame in frames)


def test_observations_are_the_callers_own():
    env = begun(FORAGE)
    first = env.reset(seed=0)[0]
    second = env.step(FORWARD)[0]
    kept = first.copy(), second.copy()
    for _ in range(10):
        env.step(FORWARD)
    env.reset()
    assert np.array_equal(first, kept[0])
    assert np.array_equal(second, kept[1])


def test_looking_changes_nothing():
    """Neither `render` nor `clone_state` has an effect on what follows."""
    one, other = begun(MAZE, 4, render_mode="rgb_array"), begun(MAZE, 4)
    for action in wandering(100, seed=4):
        one.render()
        one.clone_state()
        assert np.array_equal(one.step(action)[0], other.step(action)[0])


# -- States -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", ALL)
@pytest.mark.parametrize("pickled", [False, True])
def test_an_episode_goes_on_from_a_state_that_was_kept(level, pickled):
    env = begun(level, 6)
    for action in wandering(120, seed=6):
        env.step(action)
    state = pickle.loads(pickle.dumps(env.clone_state())) if pickled else env.clone_state()
    seen = env.restore_state(state).tobytes()
    rest = wandering(150, seed=7)
    expected = play(env, rest)
    elsewhere = begun(level, 99)
    play(elsewhere, wandering(30, seed=1))
    for other in (env, Labyrinth(level), elsewhere):
        assert other.restore_state(state).tobytes() == seen
        assert play(other, rest) == expected


@pytest.mark.parametrize("level", ALL)
def test_a_state_that_was_kept_stays_as_it_was(level):
    env = begun(level, 6)
    state = env.clone_state()
    before = pickle.dumps(state)
    for action in wandering(60):
        env.step(action)
    env.restore_state(state)
    for action in wandering(60):
        env.step(action)
    assert pickle.dumps(state) == before


@pytest.mark.parametrize("pickled", [False, True])
def test_later_trials_of_the_maze_are_the_same_from_a_state_after_the_first(pickled):
    env = begun(MAZE, 8)
    expert = Expert(env)
    eaten = 0
    while eaten < 2:
        eaten += env.step(expert.act())[1] == 1.0
    state = pickle.loads(pickle.dumps(env.clone_state())) if pickled else env.clone_state()

    def rest_of_episode(own: Labyrinth) -> list[tuple]:
        guide = Expert(own)
        shown = []
        ended = False
        while not ended:
            observation, reward, terminated, truncated, _ = own.step(guide.act())
            shown.append((observation.tobytes(), reward, own.players.fruit.tolist(), own.players.cues.tolist()))
            ended = terminated or truncated
        return shown

    expected = rest_of_episode(env)
    assert sum(reward for _, reward, *_ in expected) > 10
    other = Labyrinth(MAZE)
    other.restore_state(state)
    assert rest_of_episode(other) == expected


def test_a_restored_state_can_be_stepped_without_a_reset():
    state = begun(FORAGE, 1).clone_state()
    env = Labyrinth(FORAGE)
    assert np.array_equal(env.restore_state(state), begun(FORAGE, 1).reset(seed=1)[0])
    env.step(0)


# -- Pictures ---------------------------------------------------------------------------------------------------------


def reduced(picture: np.ndarray, height: int, width: int) -> np.ndarray:
    """A smaller picture, each of its pixels the mean of those that it covers."""
    for axis, n in ((0, height), (1, width)):
        bounds = np.linspace(0, picture.shape[axis], n, endpoint=False).round().astype(int)
        sums = np.add.reduceat(picture.astype(float), bounds, axis=axis)
        counts = np.diff([*bounds, picture.shape[axis]])
        picture = sums / np.expand_dims(counts, [own for own in range(3) if own != axis])
    return picture


@pytest.mark.parametrize(("width", "height"), [(84, 84), (320, 240), (240, 320), (1, 1), (641, 480)])
def test_pictures_are_as_large_as_asked_for(width, height):
    for level in ALL:
        picture = begun(level, render_mode="rgb_array", width=width, height=height).render()
        assert picture.shape == (height, width, 3)
        assert picture.dtype == np.uint8
        assert picture.flags.c_contiguous


@pytest.mark.parametrize("level", ALL)
@pytest.mark.parametrize(
    ("small", "large"),
    [((84, 84), (336, 336)), ((160, 120), (641, 480)), ((120, 160), (240, 320)), ((320, 240), (640, 480))],
)
def test_the_same_scene_is_seen_in_every_size(level, small, large):
    for seed in range(5):
        one, other = (begun(level, seed, width=width, height=height).render() for width, height in (small, large))
        elsewhere = begun(level, seed + 1, width=small[0], height=small[1]).render()
        difference = abs(reduced(other, *one.shape[:2]) - one).mean()
        assert difference < 5.0
        assert difference < abs(elsewhere - one.astype(float)).mean() / 4


def test_wide_and_high_pictures_span_90_degrees_across():
    """A square picture has the same middle rows as one that is less high."""
    wide = begun(FORAGE, 1, width=320, height=240).render()
    square = begun(FORAGE, 1, width=320, height=320).render()
    high = begun(FORAGE, 1, width=320, height=400).render()
    assert np.array_equal(square[40:280], wide)
    assert np.array_equal(high[40:360], square)


def test_the_picture_follows_the_player():
    env = begun(FORAGE, render_mode="rgb_array")
    put(env, 792.0, 664.0, 0.0)
    pictures = [env.render()]
    for action in (TURN_LEFT, FORWARD):
        env.step(action)
        pictures.append(env.render())
    assert all((one != other).any() for one, other in zip(pictures, pictures[1:] + pictures[:1], strict=True))
