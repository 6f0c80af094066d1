"""Environments as Stable-Baselines3 sees them, against the same ones played by hand."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import TimeLimit
from stable_baselines3.common.vec_env import VecCheckNan, VecMonitor

from mfec import MFEC
from mfec.algorithms.baselines.baseline import Baseline
from mfec.algorithms.baselines.settings import A2CConfig, DQNConfig, scheduled
from mfec.algorithms.baselines.vec_env import EnvironmentsVecEnv, NotANumber
from mfec.config import EnvConfig
from mfec.envs import make_atari, make_env
from mfec.envs.environments import Environments, EnvsError, make_environments
from mfec.interface import Game

from ...playing import Recorder, Shifted, Walk, side_by_side

Make = Callable[[], Any]


def vec_env(env: Any, seed: int = 0, **options: Any) -> tuple[EnvironmentsVecEnv, deque[Game]]:
    """An environment as a baseline plays it, and the games that it tells of."""
    settings = {"frame_stack": 4, "clip_rewards": True, "episode": "life"} | options
    made = EnvironmentsVecEnv(make_environments(env, np.random.SeedSequence(seed)), **settings)
    return made, made.finished


def step_environments(envs: Environments, actions: np.ndarray) -> list[dict[str, Any]]:
    """What a step by hand brings to each environment, with what is shown after it."""
    for group, own in enumerate(envs.groups):
        envs.send(group, actions[own])
    steps = [envs.receive(group) for group in range(len(envs.groups))]
    columns = {
        name: np.concatenate([getattr(step, name) for step in steps])
        for name in ("rewards", "ended", "cut_off", "lives")
    }
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return [{**row, "frame": frame.copy()} for row, frame in zip(rows, envs.observations, strict=True)]


class ByHand:
    """One environment's frames, score and lives, kept as plainly as can be; without a depth nothing is stacked."""

    def __init__(self, depth: int, by_life: bool) -> None:
        self.depth, self.by_life = depth, by_life

    def begin(self, frame: np.ndarray, lives: int | None) -> None:
        self.frames, self.score, self.steps, self.lives = [frame], 0.0, 0, lives

    def shown(self) -> np.ndarray:
        if not self.depth:
            return self.frames[-1]
        frames = self.frames[-self.depth :]
        return np.stack([np.zeros_like(frames[0])] * (self.depth - len(frames)) + frames)

    def step(self, step: dict[str, Any]) -> tuple[np.ndarray, bool, bool]:
        """What is shown at the end of this step, whether an episode ended, and whether by a time limit."""
        self.frames.append(step["frame"])
        self.score += step["rewards"]
        self.steps += 1
        lost = self.by_life and step["lives"] is not None and step["lives"] < self.lives
        self.lives = step["lives"]
        shown = self.shown()
        if lost:
            self.frames = [step["frame"]]
        return shown, bool(step["ended"] or lost), bool(step["cut_off"] and not lost)


def compare(make: Make, steps: int, *, by_life: bool = True, clip: bool = True, seed: int = 0) -> dict[str, int]:
    """Play the same actions both ways; what was seen on the way."""
    episode = "life" if by_life else "game"
    env, games = vec_env(make(), seed, clip_rewards=clip, episode=episode)
    envs = make_environments(make(), np.random.SeedSequence(seed))
    hands = [ByHand(env.observation_space.shape[0] if env.stacked else 0, by_life) for _ in range(envs.n)]
    lives = envs.begin(np.ones(envs.n, np.bool_))
    for env_id, hand in enumerate(hands):
        hand.begin(envs.observations[env_id].copy(), None if lives is None else int(lives[env_id]))
    shown = env.reset()
    rng = np.random.default_rng(seed)
    true_games: list[Game] = []
    seen = {"lost": 0, "over": 0, "cut off": 0, "clipped": 0}
    for number in range(steps):
        for env_id, hand in enumerate(hands):
            assert env.observation_space.contains(shown[env_id])
            assert np.array_equal(shown[env_id], hand.shown())
        actions = rng.integers(env.action_space.n, size=envs.n)  # type: ignore[attr-defined]
        shown, rewards, dones, infos = env.step(actions)
        assert rewards.dtype == np.float32
        outcome = step_environments(envs, actions)
        for env_id, (hand, step) in enumerate(zip(hands, outcome, strict=True)):
            terminal, done, cut_off = hand.step(step)
            assert rewards[env_id] == (np.sign(step["rewards"]) if clip else step["rewards"])
            assert dones[env_id] == done
            assert infos[env_id].get("TimeLimit.truncated", False) == cut_off
            assert ("terminal_observation" in infos[env_id]) == done
            if done:
                assert np.array_equal(infos[env_id]["terminal_observation"], terminal)
            if step["ended"]:
                frames = (number * envs.n + env_id + 1) * envs.frame_skip
                true_games.append(Game(frames, len(true_games) + 1, hand.score, hand.steps * envs.frame_skip))
            seen["clipped"] += abs(step["rewards"]) > 1
            seen["cut off"] += cut_off
            seen["over"] += bool(step["ended"] and not step["cut_off"])
            seen["lost"] += bool(done and not step["ended"])
        ended = np.array([step["ended"] for step in outcome])
        if ended.any():
            lives = envs.begin(ended)
            for env_id in np.flatnonzero(ended).tolist():
                hands[env_id].begin(envs.observations[env_id].copy(), None if lives is None else int(lives[env_id]))
    assert list(games) == true_games
    assert env.frames == steps * envs.n * envs.frame_skip
    assert env.games == len(games)
    return seen


# -- Against environments played by hand ------------------------------------------------------------------------------


def test_q_bert_is_shown_in_stacks_by_lives_and_signs_and_told_of_by_games_and_scores():
    seen = compare(lambda: make_atari("qbert", n_envs=2, max_frames=1300), 420)
    assert min(seen.values()) > 0, seen  # games end or are cut off, lives are lost, and rewards are of 25 and more


def test_whole_games_and_their_rewards_are_shown_where_they_are_asked_for():
    seen = compare(lambda: make_atari("qbert", max_frames=600), 160, by_life=False, clip=False)
    assert seen["lost"] == 0
    assert seen["cut off"] == 1
    assert seen["clipped"] > 0, "they would have been"


def test_the_labyrinth_is_shown_in_stacks_and_its_limit_is_no_end():
    seen = compare(lambda: make_env("labyrinth_forage", EnvConfig(n_envs=2)), 330)
    assert seen == {"lost": 0, "over": 0, "cut off": 2, "clipped": 0}


@pytest.mark.parametrize("n_envs", [1, 2])
def test_vectors_are_shown_as_they_are(n_envs):
    def cart_pole() -> gymnasium.Env:
        return gymnasium.make("CartPole-v1", max_episode_steps=20)

    seen = compare(cart_pole if n_envs == 1 else lambda: side_by_side(cart_pole, n_envs), 300)
    assert seen["over"] > 1
    assert seen["cut off"] > 1


def test_lives_are_those_of_each_environment():
    """A game that begins in one environment says nothing of the lives in another."""
    makers = [partial(Walk, length=3, lives=2), partial(Walk, length=4, lives=5)]
    seen = compare(lambda: SyncVectorEnv(makers, autoreset_mode=AutoresetMode.DISABLED), 60)
    assert (seen["over"], seen["lost"]) == (10 + 3, 10 + 12)


def test_a_life_lost_at_the_time_limit_is_an_end():
    """The game is cut off, but where lives end episodes there is nothing after a lost one to learn from."""
    for episode, truncated in (("life", False), ("game", True)):
        env, games = vec_env(TimeLimit(Walk(length=5, lives=3), 10), episode=episode)
        env.reset()
        ends = [
            (step, infos[0]["TimeLimit.truncated"])
            for step in range(1, 11)
            for *_, dones, infos in [env.step(np.zeros(1))]
            if dones[0]
        ]
        assert ends == ([(5, False), (10, False)] if episode == "life" else [(10, truncated)])
        assert len(games) == 1


def test_an_environment_may_tell_of_lives_only_when_it_steps():
    class Silent(gymnasium.Wrapper):
        def reset(self, **arguments):
            observation, _ = self.env.reset(**arguments)
            return observation, {}

    class Forgetful(gymnasium.Wrapper):
        def step(self, action):
            *outcome, _ = self.env.step(action)
            return *outcome, {}

    for wrapper, ends in ((Silent, [3, 6]), (Forgetful, [6])):
        env, _ = vec_env(wrapper(Walk(length=3, lives=2)))
        env.reset()
        assert [step for step in range(1, 7) if env.step(np.zeros(1))[2][0]] == ends


# -- The same games as MFEC -------------------------------------------------------------------------------------------


def test_games_are_those_of_mfec_with_the_same_seed():
    played = Recorder(make_atari("qbert", max_frames=400))
    MFEC(played, seed=5, capacity=1000).learn(600)
    assert len(played.games) > 1
    for seed, same in ((5, True), (6, False)):
        env = Baseline(make_atari("qbert", max_frames=400), A2CConfig(), algorithm="a2c", seed=seed).env
        shown = [env.reset()[0, -1]]
        for action in played.actions:
            shown.append(env.step(np.array([action]))[0][0, -1])  # type: ignore[call-overload]
        theirs = [step[0] for game in played.games for step in game]
        assert all(np.array_equal(*pair) for pair in zip(shown, theirs, strict=False)) == same


def test_games_side_by_side_are_those_of_mfec_with_the_same_seed():
    agent = MFEC(make_atari("qbert", n_envs=2), seed=5, capacity=1000).learn(400)
    assert agent._in_progress.envs is not None
    history = agent._in_progress.envs.history()
    assert history is not None
    assert history["games"] == [0, 0]
    env = Baseline(make_atari("qbert", n_envs=2), scheduled(DQNConfig(), 25), algorithm="dqn", seed=5).env
    shown = env.reset()
    longest = max(map(len, history["actions"]))
    for step in range(longest + 1):
        for env_id, actions in enumerate(history["actions"]):
            if step == len(actions):  # the environments take turns, so one may be a step behind
                assert np.array_equal(shown[env_id, -1], agent._in_progress.envs.observations[env_id])
        shown = env.step(np.array([own[step] if step < len(own) else 0 for own in history["actions"]]))[0]


# -- As Stable-Baselines3 uses it -------------------------------------------------------------------------------------


def test_the_monitor_of_stable_baselines_counts_the_same_games():
    inner, games = vec_env(side_by_side(lambda: Walk(length=4, lives=3), 3), clip_rewards=False, episode="game")
    env = VecMonitor(VecCheckNan(inner, raise_exception=True))
    env.reset()
    rng = np.random.default_rng(0)
    episodes = []
    for _ in range(40):
        *_, infos = env.step(rng.integers(4, size=3))
        episodes += [info["episode"] for info in infos if "episode" in info]
    assert [(round(each["r"]), each["l"]) for each in episodes] == [(game.score, game.length_frames) for game in games]
    assert len(games) == 9


def test_spaces_begin_at_0_whatever_they_are_inside():
    env, _ = vec_env(Shifted(), clip_rewards=False)
    assert (env.observation_space, env.action_space) == (spaces.Discrete(6), spaces.Discrete(3))
    assert env.reset().tolist() == [0]
    shown, rewards, dones, infos = env.step(np.array([2]))
    assert (shown.tolist(), rewards.tolist(), dones.tolist()) == ([2], [1.0], [False])
    for _ in range(2):
        shown, rewards, dones, infos = env.step(np.array([2]))
    assert (shown.tolist(), dones.tolist(), infos[0]["terminal_observation"]) == ([0], [True], 5)


def test_what_was_shown_is_not_written_over():
    """Stable-Baselines3 keeps it until after the next step."""
    env, _ = vec_env(make_atari("qbert", n_envs=2, max_frames=120))
    kept = [env.reset()]
    copies = [kept[0].copy()]
    for step in range(70):
        shown, _, _, infos = env.step(np.array([step % 6, 2]))
        arrays = [shown, *(info["terminal_observation"] for info in infos if info)]
        kept += arrays
        copies += [array.copy() for array in arrays]
    assert all(np.array_equal(*pair) for pair in zip(kept, copies, strict=True))


def test_an_environment_that_begins_games_by_itself_is_refused():
    env = SyncVectorEnv([Walk] * 2, autoreset_mode=AutoresetMode.NEXT_STEP)
    with pytest.raises(EnvsError, match=r"autoreset_mode=AutoresetMode\.DISABLED"):
        vec_env(env)


@pytest.mark.parametrize(("fault", "message"), [
    ("nan reward", r"the environment returned the rewards \[nan\] after frame 4; the last checkpoint is kept"),
    ("inf reward", r"the environment returned the rewards \[inf\] after frame 4"),
    ("nan observation", r"the environment returned an observation that is not finite after frame \d"),
])  # fmt: skip
def test_what_is_no_number_is_refused(fault, message):
    env, _ = vec_env(Walk(faults={5: fault}))
    env.reset()
    for _ in range(4):
        env.step(np.zeros(1))
    with pytest.raises(NotANumber, match=message):
        env.step(np.zeros(1))


# -- Storage ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [
    lambda: make_atari("qbert", n_envs=2, max_frames=420),
    lambda: make_env("labyrinth_forage", EnvConfig(n_envs=2)),
    lambda: gymnasium.make("CartPole-v1"),
    lambda: side_by_side(lambda: Walk(length=5, lives=3), 2),
])  # fmt: skip
def test_games_in_progress_go_on_as_if_they_had_never_stopped(make):
    env, games = vec_env(make())
    env.reset()
    rng = np.random.default_rng(0)
    for _ in range(130):
        env.step(rng.integers(env.action_space.n, size=env.num_envs))  # type: ignore[attr-defined]
    summary = json.loads(json.dumps(env.summary()))
    tensors = {name: tensor.copy() for name, tensor in env.tensors().items()}
    again, more = vec_env(make())
    again.restore(summary, tensors)
    assert (again.frames, again.games) == (env.frames, env.games)
    for _ in range(100):
        actions = rng.integers(env.action_space.n, size=env.num_envs)  # type: ignore[attr-defined]
        (shown, rewards, dones, infos), (same, same_rewards, same_dones, same_infos) = (
            env.step(actions),
            again.step(actions),
        )
        assert np.array_equal(shown, same)
        assert np.array_equal(rewards, same_rewards)
        assert np.array_equal(dones, same_dones)
        for info, same_info in zip(infos, same_infos, strict=True):
            assert info.keys() == same_info.keys()
            assert all(np.array_equal(info[name], same_info[name]) for name in info)
    assert games == more, "also those that had ended before, of which nobody had taken notice"


def test_another_environment_is_refused():
    env, _ = vec_env(make_atari("qbert"))
    env.reset()
    env.step(np.zeros(1))
    other, _ = vec_env(make_atari("ms_pacman"))
    with pytest.raises(EnvsError, match="repeating the actions of the games in progress led elsewhere"):
        other.restore(env.summary(), env.tensors())
