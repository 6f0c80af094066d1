"""Atari games: thirty starts, determinism, raw rewards, and a vector environment that equals the single one."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from typing import Any

import ale_py
import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.wrappers import AtariPreprocessing

from mfec.envs.atari import Atari, AtariVector, atari_games, make_atari

from ..waiting import PATIENCE


@cache
def single(game: str) -> Atari:
    """One environment for several tests: a test must not depend on what was played before, by design."""
    return make_atari(game)


@cache
def three_frostbites() -> AtariVector:
    return make_atari("frostbite", n_envs=3)


def random_actions(env, n: int, seed: int = 0) -> list[int]:
    return np.random.default_rng(seed).integers(env.action_space.n, size=n).tolist()


def play(env, actions) -> list[tuple]:
    """What the actions lead to, up to the end of the game."""
    shown = []
    for action in actions:
        observation, reward, terminated, truncated, info = env.step(action)
        shown.append((observation.tobytes(), reward, terminated, truncated, info["lives"]))
        if terminated or truncated:
            break
    return shown


@pytest.fixture(scope="module", autouse=True)
def _switch_off():
    yield
    single.cache_clear()
    three_frostbites.cache_clear()


# -- Starts -----------------------------------------------------------------------------------------------------------


def test_a_game_has_exactly_thirty_starts_whatever_was_played_before():
    """Of frostbite, which has two states after power-on."""
    env, fresh = single("frostbite"), make_atari("frostbite")
    named = {}
    for no_ops in range(30):
        observation, info = fresh.reset(options={"no_ops": no_ops})
        assert info["no_ops"] == no_ops
        named[no_ops] = observation.tobytes(), fresh.emulator_state()
    assert len({state for _, state in named.values()}) == 30
    actions = iter(random_actions(env, 3000))
    met = set()
    for seed in range(60):
        observation, info = env.reset(seed=seed)
        assert (observation.tobytes(), env.emulator_state()) == named[info["no_ops"]]
        met.add(info["no_ops"])
        play(env, (next(actions) for _ in range(2000 if seed == 0 else 3)))  # once to the end of the game
    assert len(met) > 20


def test_starts_differ_by_their_no_ops_only():
    """Start j followed by a no-op frame is start j + 1."""
    env = make_atari("qbert")
    ale = ale_py.ALEInterface()
    ale.setFloat("repeat_action_probability", 0.0)
    ale.loadROM(ale_py.roms.get_rom_path("qbert"))
    ale.reset_game()
    for no_ops in range(30):
        env.reset(options={"no_ops": no_ops})
        assert env.emulator_state()[:128] == bytes(ale.getRAM())
        ale.act(0)


def test_the_seed_decides_the_start():
    first, second = make_atari("qbert"), single("qbert")
    drawn = [first.reset(seed=seed)[1]["no_ops"] for seed in range(6)]
    assert drawn == [second.reset(seed=seed)[1]["no_ops"] for seed in range(6)]
    assert len(set(drawn)) > 1
    first.reset(seed=7)
    second.reset(seed=7)
    followed = [first.reset()[1]["no_ops"] for _ in range(6)]
    assert followed == [second.reset()[1]["no_ops"] for _ in range(6)]
    assert len(set(followed)) > 1


def test_a_game_that_began_but_was_not_played_leaves_no_trace():
    first, second = make_atari("frostbite"), single("frostbite")
    actions = random_actions(first, 40, seed=5)
    for no_ops in (21, 0):
        first.reset(options={"no_ops": 13})
        first.reset(options={"no_ops": no_ops})
        second.reset(options={"no_ops": no_ops})
        assert play(first, actions) == play(second, actions)


def test_a_negative_start_is_refused():
    with pytest.raises(ValueError, match=r"no_ops must not be negative, and -1 is"):
        single("qbert").reset(options={"no_ops": -1})


def test_the_first_start_is_found_again_where_resets_alone_never_lead_to_it():
    """Surround's memory differs after every reset of the console."""
    env = make_atari("surround")
    states = set()
    for _ in range(3):
        env.reset(options={"no_ops": 0})
        states.add(env.emulator_state())
    assert len(states) == 1


def test_vector_environments_start_like_the_single_environment_after_many_resets():
    """The console's timer gives some games two power-on states, which show 14 to 16 steps later."""
    env, vector, resets = single("frostbite"), make_atari("frostbite", n_envs=1), 40
    actions = random_actions(env, 20, seed=1)
    mask = np.array([True])
    for reset in range(resets):
        options = {"reset_mask": mask} if reset else None
        seed = [reset] if reset % vector.reseed_every == 0 else [None]
        observations, info = vector.reset(seed=seed, options=options)
        if reset < resets - 7 and reset % 10:
            continue
        observation, _ = env.reset(options={"no_ops": int(info["episode_frame_number"][0])})
        assert np.array_equal(observations[0], observation)
        for action in actions:
            assert np.array_equal(vector.step(np.array([action]))[0][0], env.step(action)[0]), f"reset {reset}"


# -- Determinism and rewards ------------------------------------------------------------------------------------------


def test_the_same_actions_give_the_same_frames():
    shown = []
    for env in (single("frostbite"), make_atari("frostbite")):
        env.reset(options={"no_ops": 13})
        shown.append(play(env, random_actions(env, 1500, seed=2)))
    assert shown[0] == shown[1]
    assert len({frame for frame, *_ in shown[0]}) > 20
    assert shown[0][-1][2], "the game ended"


@pytest.mark.parametrize("game", ["ms_pacman", "river_raid"])
def test_rewards_are_the_emulators_own(game):
    """Neither clipped nor discounted: each step brings what four frames of the plain emulator bring."""
    env = single(game)
    ale = ale_py.ALEInterface()
    ale.setFloat("repeat_action_probability", 0.0)
    ale.loadROM(ale_py.roms.get_rom_path("riverraid" if game == "river_raid" else game))
    ale.reset_game()
    env.reset(options={"no_ops": 0})
    legal = ale.getMinimalActionSet()
    assert env.action_space.n == len(legal)
    rewards = []
    for action in random_actions(env, 250, seed=3):
        expected = 0
        for _ in range(4):
            expected += ale.act(legal[action])
        _, reward, terminated, _, info = env.step(action)
        assert (reward, terminated, info["lives"]) == (expected, ale.game_over(), ale.lives())
        rewards.append(reward)
        if terminated:
            break
    assert set(rewards) - {-1.0, 0.0, 1.0}


def test_frames_equal_gymnasiums_preprocessing():
    reference = AtariPreprocessing(
        ale_py.AtariEnv("qbert", frameskip=1, repeat_action_probability=0.0, full_action_space=False), noop_max=0
    )
    env = single("qbert")
    expected, _ = reference.reset(seed=0)
    observation, _ = env.reset(options={"no_ops": 0})
    assert np.array_equal(observation, expected)
    for action in random_actions(env, 1500):
        expected, *outcome, info = reference.step(action)
        observation, *ours, shown = env.step(action)
        assert np.array_equal(observation, expected)
        assert (ours, shown["lives"]) == (outcome, info["lives"])
        if ours[1]:
            break
    assert ours[1], "the game ended"


def test_frames_equal_gymnasiums_preprocessing_after_its_no_ops():
    reference = AtariPreprocessing(
        ale_py.AtariEnv("ms_pacman", frameskip=1, repeat_action_probability=0.0), noop_max=29
    )
    env = single("ms_pacman")
    expected, info = reference.reset(seed=1)
    observation, _ = env.reset(options={"no_ops": info["episode_frame_number"]})
    assert np.array_equal(observation, expected)
    for action in random_actions(env, 30):
        assert np.array_equal(env.step(action)[0], reference.step(action)[0])


# -- Vector and single ------------------------------------------------------------------------------------------------


def compare(vector: AtariVector, single_envs: list[Atari], steps: int, seed: int = 0) -> dict[str, int]:
    """Play random actions in both and compare everything; how many games ended, and of those by time."""
    rng = np.random.default_rng(seed)
    n = vector.num_envs
    observations, info = vector.reset(seed=[100 + seed + env_id for env_id in range(n)])
    ended = np.ones(n, np.bool_)
    counts = {"over": 0, "cut off": 0, "began": 0}
    for _ in range(steps):
        for env_id in np.flatnonzero(ended):
            no_ops = int(info["episode_frame_number"][env_id])
            observation, shown = single_envs[env_id].reset(options={"no_ops": no_ops})
            assert np.array_equal(observations[env_id], observation)
            assert info["lives"][env_id] == shown["lives"]
            counts["began"] += 1
        actions = rng.integers(vector.single_action_space.n, size=n)  # type: ignore[attr-defined]
        observations, rewards, terminated, truncated, info = vector.step(actions)
        for env_id, env in enumerate(single_envs):
            observation, reward, over, cut_off, shown = env.step(int(actions[env_id]))
            assert np.array_equal(observations[env_id], observation)
            assert (rewards[env_id], terminated[env_id], truncated[env_id]) == (reward, over, cut_off)
            assert info["lives"][env_id] == shown["lives"]
        ended = terminated | truncated
        counts["over"] += int(terminated.sum())
        counts["cut off"] += int(truncated.sum())
        if ended.any():
            observations, info = vector.reset(options={"reset_mask": ended})
    return counts


@pytest.mark.slow(reason="plays two environments twice until a game ends")
def test_vector_and_single_environments_agree_frame_for_frame():
    """For as many steps as environments need to end a game and begin another."""
    vector, envs = make_atari("frostbite", n_envs=2), [make_atari("frostbite"), single("frostbite")]
    assert vector.single_action_space == envs[0].action_space
    assert vector.single_observation_space == envs[0].observation_space
    counts = compare(vector, envs, steps=330)
    assert counts["over"] >= 1
    assert counts["began"] > 2, "games began after others had ended"


def test_max_frames_cuts_games_off_alike_in_vector_and_single_environments():
    settings = {"frame_stack": 4, "max_frames": 83}
    vector, env = make_atari("frostbite", n_envs=1, **settings), make_atari("frostbite", **settings)
    counts = compare(vector, [env], steps=50)
    assert counts["cut off"] >= 2


def test_max_frames_cuts_off_but_does_not_end_a_game():
    env = make_atari("space_invaders", max_frames=80)
    env.reset(seed=0)
    shown = play(env, [0] * 100)
    assert len(shown) <= 20
    assert shown[-1][2:4] == (False, True)
    assert not any(terminated or truncated for _, _, terminated, truncated, _ in shown[:-1])


def test_environments_depend_on_their_seeds_not_on_other_environments():
    many, one = three_frostbites(), make_atari("frostbite", n_envs=1)
    first, _ = many.reset(seed=5)
    assert np.array_equal(one.reset(seed=[7])[0][0], first[2])
    for action in random_actions(single("frostbite"), 15):
        before = many.step(np.full(3, action))[0]
        assert np.array_equal(one.step(np.array([action]))[0][0], before[2])
    before = before.copy()
    after, _ = many.reset(seed=[None, 6, None], options={"reset_mask": np.array([False, True, False])})
    assert np.array_equal(after[[0, 2]], before[[0, 2]]), "outside the mask nothing happens"
    assert not np.array_equal(after[1], before[1])
    assert np.array_equal(after[1], first[1]), "environment 1 began on seed 6 at first, too"


# -- Groups -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow(reason="loads six emulators, and loads them again")
def test_environments_in_groups_equal_environments_run_alone():
    """An environment's seeds, starts and skipped resets do not depend on others: masks, turns and seeds are random."""
    n_envs, settings = 3, {"frame_stack": 2, "max_frames": 80}
    vector = make_atari("frostbite", n_envs=n_envs, **settings)
    alone = [make_atari("frostbite", n_envs=1, **settings) for _ in range(n_envs)]
    rng = np.random.default_rng(n_envs)
    everyone = np.ones(n_envs, np.bool_)

    def reset(mask: np.ndarray, seeds: list[int | None]) -> None:
        observations, info = vector.reset(seed=seeds, options={"reset_mask": mask})
        assert info["env_id"].tolist() == list(range(n_envs))
        for env_id in np.flatnonzero(mask):
            shown, facts = alone[env_id].reset(seed=[seeds[env_id]])
            assert np.array_equal(observations[env_id], shown[0])
            for name in ("lives", "frame_number", "episode_frame_number"):
                assert info[name][env_id] == facts[name][0]

    reset(everyone, [100 + env_id for env_id in range(n_envs)])
    for tick in range(40):
        actions = rng.integers(vector.single_action_space.n, size=n_envs)  # type: ignore[attr-defined]
        outcome: Any
        if tick % 3:
            outcome = vector.step(actions)
        else:
            for group in rng.permutation(len(vector.groups)).tolist():
                vector.send(group, actions[vector.groups[group]])
            received = [vector.receive(group) for group in range(len(vector.groups))]
            outcome = [np.concatenate([part[i] for part in received]) for i in range(4)]
            outcome.append({name: np.concatenate([part[4][name] for part in received]) for name in received[0][4]})
        *arrays, info = outcome
        assert [array.dtype for array in arrays] == [np.uint8, np.float64, np.bool_, np.bool_]
        assert info["env_id"].tolist() == list(range(n_envs))
        for env_id, env in enumerate(alone):
            *expected, facts = env.step(actions[env_id : env_id + 1])
            assert all(np.array_equal(array[env_id], own[0]) for array, own in zip(arrays, expected, strict=True))
            assert (info["lives"][env_id], info["frame_number"][env_id]) == (
                facts["lives"][0],
                facts["frame_number"][0],
            )
        mask = arrays[2] | arrays[3] | (rng.random(n_envs) < 0.08)
        if mask.any():
            reset(mask, [int(rng.integers(1000)) if rng.random() < 0.1 else None for _ in range(n_envs)])


def test_a_group_in_flight_is_left_alone_by_resets_of_the_other():
    vector, same = three_frostbites(), make_atari("frostbite", n_envs=3)
    for env in (vector, same):
        env.reset(seed=0)
        before = env.step(np.array([1, 2, 3]))[0]
    vector.send(1, np.array([4]))
    observations, _ = vector.reset(seed=[7, None, None], options={"reset_mask": np.array([True, False, False])})
    assert np.array_equal(observations[1:], before[1:]), "as they were last seen"
    assert not np.array_equal(observations[0], before[0])
    expected = same.step(np.array([0, 0, 4]))
    for ours, theirs in zip(vector.receive(1)[:4], expected, strict=False):
        assert np.array_equal(ours[0], theirs[2])


def test_a_step_in_flight_is_forgotten_where_all_its_environments_begin_games():
    vector = three_frostbites()
    first, _ = vector.reset(seed=0)
    for mask in (np.ones(3, np.bool_), np.array([True, True, False])):
        vector.send(0, np.array([1, 2]))
        again, _ = vector.reset(seed=0, options={"reset_mask": mask})
        assert np.array_equal(again, first)
    vector.step(np.array([1, 2, 3]))


def test_what_a_group_received_stays_as_it_was():
    vector = three_frostbites()
    vector.reset(seed=0)
    received, kept = [], []
    for i in range(12):
        for group in range(2):
            vector.send(group, np.full(2 - group, i % 6))
        for group in range(2):
            *arrays, info = vector.receive(group)
            received += [*arrays, *info.values()]
            kept += [array.copy() for array in received[-8:]]
        if i % 5 == 0:
            vector.reset(options={"reset_mask": np.arange(3) == i // 5})
    assert len(received) == len(kept) == 12 * 2 * 8
    assert all(np.array_equal(now, then) for now, then in zip(received, kept, strict=True))


@pytest.mark.slow(reason="plays in a process")
def test_an_environment_may_be_dropped_while_it_steps():
    """In the middle of a program and at its end: neither waits forever nor crashes."""
    code = """
import numpy as np
from mfec.envs import make_atari
for close in (True, False):
    vector = make_atari("qbert", n_envs=2)
    vector.reset(seed=0)
    for group in range(2):
        vector.send(group, np.zeros(1, np.int64))
    if close:
        vector.close()
    kept = vector if not close else None
    del vector
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE)
    assert (done.returncode, done.stderr) == (0, "")


# -- Options ----------------------------------------------------------------------------------------------------------


def test_stacked_frames_are_the_last_ones_with_zeros_first():
    plain, stacked = single("qbert"), make_atari("qbert", frame_stack=4)
    assert stacked.observation_space.shape == (4, 84, 84)
    for no_ops in (3, 8):
        frames = [np.zeros((84, 84), np.uint8)] * 3 + [plain.reset(options={"no_ops": no_ops})[0]]
        observation, _ = stacked.reset(options={"no_ops": no_ops})
        assert np.array_equal(observation, frames)
        for action in random_actions(plain, 8):
            frames = [*frames[1:], plain.step(action)[0]]
            assert np.array_equal(stacked.step(action)[0], frames)


@pytest.mark.parametrize("frame_stack", [1, 4])
def test_an_observation_stays_as_it_was_shown(frame_stack):
    """The last observation of a game is still needed when the next game has begun."""
    env = make_atari("qbert", frame_stack=frame_stack)
    shown = [env.reset(seed=0)[0]]
    shown += [env.step(action)[0] for action in random_actions(env, 5)]
    kept = [observation.copy() for observation in shown]
    env.reset()
    env.step(1)
    assert all(np.array_equal(now, then) for now, then in zip(shown, kept, strict=True))


def test_sticky_actions_change_a_game_and_repeat_under_a_seed():
    plain = single("space_invaders")
    actions = random_actions(plain, 60)
    plain.reset(seed=1)
    trajectories = {"plain": play(plain, actions)}
    env = make_atari("space_invaders", sticky_actions=0.25)
    for name, seed in (("sticky", 1), ("other", 2), ("again", 1)):
        env.reset(seed=seed, options={"no_ops": plain.reset(seed=1)[1]["no_ops"]})
        trajectories[name] = play(env, actions)
    assert trajectories["sticky"] == trajectories["again"]
    assert trajectories["sticky"] != trajectories["plain"]
    assert trajectories["sticky"] != trajectories["other"]


def test_the_last_action_of_a_game_does_not_stick_to_the_next():
    used, fresh = (make_atari("freeway", sticky_actions=0.99) for _ in range(2))
    used.reset(seed=0)
    play(used, [1] * 40)  # up
    used.reset(seed=1)
    fresh.reset(seed=1)
    assert play(used, [0] * 20) == play(fresh, [0] * 20)


def test_sticky_actions_of_a_vector_environment_repeat_under_a_seed():
    actions = random_actions(single("frostbite"), 60)

    def frames(vector: AtariVector, seed: int) -> list[bytes]:
        vector.reset(seed=[seed])
        return [vector.step(np.array([action]))[0].tobytes() for action in actions]

    sticky = make_atari("frostbite", n_envs=1, sticky_actions=0.25)
    once = frames(sticky, 1)
    assert once != frames(sticky, 2)
    assert once == frames(sticky, 1), "after other games, too"
    assert once != frames(make_atari("frostbite", n_envs=1), 1)


def test_render_shows_the_screen_in_colour():
    env = make_atari("qbert", render_mode="rgb_array")
    env.reset(seed=0)
    env.step(0)
    screen = env.render()
    assert screen.shape == (210, 160, 3)
    assert screen.dtype == np.uint8
    assert not np.array_equal(screen[..., 0], screen[..., 2])


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_gymnasiums_checker_passes():
    check_env(make_atari("qbert", frame_stack=4), skip_render_check=True)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"frame_stack": 0}, "frame_stack"),
        ({"sticky_actions": 1.0}, "sticky_actions"),
        ({"sticky_actions": -0.1}, "sticky_actions"),
        ({"max_frames": 0}, "max_frames"),
        ({"n_envs": 0}, "n_envs"),
    ],
)
def test_impossible_settings_are_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        make_atari("qbert", **settings)


# -- Names ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_envs", [None, 2])
def test_an_unknown_game_is_an_error_that_names_the_nearest(n_envs):
    with pytest.raises(ValueError, match=r"unknown game 'Qbert'; did you mean 'qbert.*mfec envs"):
        make_atari("Qbert", n_envs=n_envs)


def test_games_are_listed_by_names_that_can_be_made():
    assert {"qbert", "frostbite"} <= set(atari_games())
    assert "combat" not in atari_games(), "two players"
    assert isinstance(make_atari("riverraid"), gymnasium.Env), "ale-py's own name is taken, too"


@pytest.mark.parametrize("missing", ["ale_py", "cv2"])
def test_without_the_extra_the_error_names_it(missing, monkeypatch):
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ImportError, match=r"pip install 'mfec\[atari\]'"):
        make_atari("qbert")
