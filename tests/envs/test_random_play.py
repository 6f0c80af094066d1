"""A random policy: the same for the same seed, brought back bit for bit, and every frame of an Atari game."""

from __future__ import annotations

import json
from hashlib import sha256
from itertools import pairwise

import ale_py
import cv2
import numpy as np
import pytest

from mfec.config import EnvConfig
from mfec.envs import make_atari
from mfec.envs.atari import AtariVector
from mfec.envs.environments import make_environments
from mfec.envs.random_play import RandomPlay

from ..dots import Dots


@pytest.fixture(autouse=True)
def _few_environments(monkeypatch):
    """A load of a ROM takes 0.1 seconds, and every environment has its own."""
    monkeypatch.setattr("mfec.envs.random_play.N_ENVS", 2)


def play(env: str = "qbert", config: EnvConfig | None = None, seed: int = 0) -> RandomPlay:
    return RandomPlay(env, config or EnvConfig(), np.random.SeedSequence(seed))


def digests(playing: RandomPlay, looks: int) -> list[str]:
    return [sha256(playing.look().tobytes()).hexdigest() for _ in range(looks)]


# -- Seeds ------------------------------------------------------------------------------------------------------------


def test_the_same_seed_sees_the_same_and_another_seed_something_else():
    first = digests(play("Dots-v0"), 40)
    assert digests(play("Dots-v0"), 40) == first
    assert not set(digests(play("Dots-v0", seed=1), 40)) & set(first)


@pytest.mark.parametrize(("env", "config", "looks"), [
    ("qbert", EnvConfig(max_frames=60), 70),  # games have ended; in the middle of an action
    ("qbert", EnvConfig(max_frames=60, sticky_actions=0.25, frame_stack=2), 17),
    ("Dots-v0", EnvConfig(), 70),
])  # fmt: skip
def test_brought_back_it_goes_on_bit_for_bit(env, config, looks):
    playing = play(env, config)
    digests(playing, looks)
    state = json.loads(json.dumps(playing.state()))
    later = play(env, config)
    later.restore(state)
    assert digests(later, 12) == digests(playing, 12)
    assert later.state() == playing.state()


# -- Atari ------------------------------------------------------------------------------------------------------------


def emulated(no_ops: int, actions: list[int]) -> list[np.ndarray]:
    """Frames of Q*bert by a console of our own, with an action for each."""
    ale = ale_py.ALEInterface()
    ale.setFloat("repeat_action_probability", 0.0)
    ale.loadROM(ale_py.roms.get_rom_path("qbert"))
    ale.reset_game()
    for _ in range(no_ops):
        ale.act(0)
    screens = [ale.getScreenGrayscale()]
    for action in actions:
        ale.act(ale.getMinimalActionSet()[action])
        screens.append(ale.getScreenGrayscale())
    return [cv2.resize(screen, (84, 84), interpolation=cv2.INTER_AREA) for screen in screens]


def test_every_frame_of_an_atari_game_is_seen_and_an_action_is_held_for_four_of_them():
    playing = play(seed=3)
    assert playing.frames_each == 1
    _, actions_seed = np.random.SeedSequence(3).spawn(2)
    rng = np.random.default_rng(actions_seed)
    actions = np.array([rng.integers(6, size=2) for _ in range(20)])
    seen = [playing.look() for _ in range(1 + 4 * len(actions))]
    env = make_atari("qbert")
    starts = [env.reset(options={"no_ops": n})[0] for n in range(30)]
    for env_id in range(2):
        shown = [observations[env_id] for observations in seen]
        assert len({frame.tobytes() for frame in shown}) > 20
        equal = []
        for no_ops in (n for n in range(30) if np.array_equal(starts[n], shown[0])):  # several look alike
            frames = emulated(no_ops, np.repeat(actions[:, env_id], 4).tolist())
            pairs = [frames[0], *(np.maximum(*two) for two in pairwise(frames))]
            equal.append(np.array_equal(shown, pairs))
        assert equal.count(True) == 1


def test_every_fourth_frame_is_what_an_agent_sees_of_the_same_game():
    """Almost: an agent's frame is the maximum of two screens made small, this one the maximum of two small ones."""
    games, actions_seed = np.random.SeedSequence(3).spawn(2)
    actions = np.random.default_rng(actions_seed)
    playing = play(seed=3)
    agent = make_environments(AtariVector("qbert", 2), games)
    agent.begin(np.ones(2, np.bool_))
    assert np.array_equal(playing.look(), agent.observations)
    for _ in range(15):
        seen = [playing.look() for _ in range(4)]
        chosen = actions.integers(int(agent.action_space.n), size=2)
        for group, own in enumerate(agent.groups):
            agent.send(group, chosen[own])
            assert not agent.receive(group).ended.any()
        assert (seen[-1] == agent.observations).mean(axis=(1, 2)).min() >= 0.995


def test_stacked_frames_are_those_of_an_agent():
    config = EnvConfig(frame_stack=2)
    games, actions_seed = np.random.SeedSequence(3).spawn(2)
    playing = play(config=config, seed=3)
    assert playing.frames_each == 4
    agent = make_environments(AtariVector("qbert", 2, frame_stack=2), games)
    agent.begin(np.ones(2, np.bool_))
    actions = np.random.default_rng(actions_seed)
    for _ in range(6):
        assert np.array_equal(playing.look(), agent.observations)
        chosen = actions.integers(6, size=2)
        for group, own in enumerate(agent.groups):
            agent.send(group, chosen[own])
            agent.receive(group)


# -- Gymnasium --------------------------------------------------------------------------------------------------------


def test_an_environment_of_gymnasium_is_seen_step_by_step():
    playing = play("Dots-v0")
    assert playing.frames_each == 1
    assert playing.observation_space == Dots.observation_space
    seen = np.array([playing.look() for _ in range(200)])
    assert seen.shape == (200, 2, 60, 60)
    actions = (seen.max(axis=(2, 3)) - 100) // 10
    steps = seen[:, :, -1, -1].astype(int)
    for env_id in range(2):
        assert steps[0, env_id] == 0
        assert (steps[:, env_id] == 0).sum() > 3  # games
        begun = steps[1:, env_id] == 0
        assert (np.diff(steps[:, env_id])[~begun] == 1).all()
        counts = np.bincount(actions[steps[:, env_id] > 0, env_id], minlength=4)
        assert len(counts) == 4
        assert counts.min() > 20
