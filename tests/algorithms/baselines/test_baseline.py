"""Baselines as a library: what they learn on problems with a known optimum, how they play, what a seed makes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch

from mfec.algorithms import RunConfig
from mfec.algorithms.baselines.baseline import Baseline
from mfec.algorithms.baselines.settings import A2CConfig, DQNConfig, scheduled
from mfec.callbacks import Callback
from mfec.checkpoint import CheckpointError, read_checkpoint
from mfec.config import EnvConfig
from mfec.envs import make_env
from mfec.interface import Agent, Game, PolicyState

from ...playing import Shifted
from .bars import BEST

ALL: list[str] = ["dqn", "prioritised_dqn", "a2c"]


def settings_of(algorithm: str, frames: int, **options: Any) -> DQNConfig | A2CConfig:
    return A2CConfig(**options) if algorithm == "a2c" else scheduled(DQNConfig(**options), frames)


def make(algorithm: str, env: str, frames: int, *, n_envs: int = 1, seed: int = 0, **options: Any) -> Baseline:
    """A baseline; options are those of its algorithm."""
    settings = settings_of(algorithm, frames, **options)
    return Baseline(make_env(env, EnvConfig(n_envs=n_envs)), settings, algorithm=algorithm, frame_stack=2, seed=seed)


def mean_score(of: Baseline, env: str, *, games: int) -> float:
    """Mean score of greedy play."""
    playing, rng = gymnasium.make(env), np.random.default_rng(0)
    scores: list[float] = []
    for game in range(games):
        observation, _ = playing.reset(seed=game)
        state: PolicyState | None = None
        score, ended = 0.0, False
        while not ended:
            action, state = of.predict(observation, state, epsilon=0.0, rng=rng)
            observation, reward, over, cut_off, _ = playing.step(action)
            score, ended = score + float(reward), over or cut_off
        scores.append(score)
    return sum(scores) / games


class Watch(Callback):
    """Calls something every so many frames."""

    def __init__(self, look: Callable[[Any], None], every: int = 1) -> None:
        self.look, self.every, self.last = look, every, 0

    def on_step(self, agent: Agent) -> None:
        if agent.frames - self.last >= self.every:
            self.last = agent.frames
            self.look(agent)


# -- Learning ---------------------------------------------------------------------------------------------------------

PICTURES: dict[str, Any] = {
    "gamma": 0.5, "replay_start": 100, "replay_capacity": 900, "target_every": 50, "epsilon_steps": 300,
    "batch_size": 16, "learning_rate": 0.001,
}  # fmt: skip


@pytest.mark.parametrize(("algorithm", "optimizer"), [("dqn", "rmsprop"), ("prioritised_dqn", "adam")])
def test_dqn_learns_what_takes_two_frames_to_see(algorithm, optimizer):
    of = make(algorithm, "Bars-v0", 500, **PICTURES, optimizer=optimizer).learn(500)
    assert mean_score(of, "Bars-v0", games=10) == BEST


def test_a2c_learns_what_takes_two_frames_to_see():
    of = make("a2c", "Bars-v0", 2000, n_envs=8, gamma=0.5).learn(2000)
    assert mean_score(of, "Bars-v0", games=10) > 0.9 * BEST, "it plays by chance, and is hardly ever wrong"


# -- Playing ----------------------------------------------------------------------------------------------------------


def test_epsilon_is_the_published_one_unless_given():
    assert make("dqn", "CartPole-v1", 10).evaluation_epsilon == 0.05
    assert make("prioritised_dqn", "CartPole-v1", 10, evaluation_epsilon=0.01).evaluation_epsilon == 0.01
    assert make("a2c", "CartPole-v1", 10).evaluation_epsilon == 0.0


def actions(of: Baseline, observation: Any, n: int = 500, **options: Any) -> list[int]:
    """What it does there, again and again."""
    rng = np.random.default_rng(0)
    return [int(of.predict(observation, rng=rng, **options)[0]) for _ in range(n)]


@pytest.mark.parametrize(("options", "share"), [
    ({}, 0.025), ({"deterministic": True}, 0.0), ({"epsilon": 0.5}, 0.25),
])  # fmt: skip
def test_dqn_takes_the_best_action_but_for_epsilon(options, share):
    of = make("dqn", "CartPole-v1", 10)
    with torch.no_grad():
        of.model.policy.q_net.q_net[-1].bias[1] += 100.0
    others = 1.0 - np.mean(actions(of, np.zeros(4, np.float32), **options))
    assert abs(others - share) < 0.06
    assert (others == 0.0) == (share == 0.0)


def test_a2c_draws_from_its_policy():
    of = make("a2c", "CartPole-v1", 10)
    observation = np.array([0.1, -0.2, 0.3, 0.4], np.float32)
    with torch.no_grad():
        of.model.policy.action_net.bias[1] += 1.0
        chances = of.model.policy.get_distribution(torch.tensor(observation)[None]).distribution.probs[0].numpy()
    assert 0.6 < chances[1] < 0.9
    drawn = actions(of, observation)
    assert abs(np.mean(drawn) - chances[1]) < 0.06
    assert actions(of, observation) == drawn
    assert set(actions(of, observation, 20, deterministic=True)) == {1}
    assert abs(np.mean(actions(of, observation, epsilon=1.0)) - 0.5) < 0.06


def test_the_state_of_a_policy_is_the_frames_of_a_game_and_of_no_other():
    """It must choose as the baseline does where it learns: from stacks that begin with zeros."""
    of = make("dqn", "Bars-v0", 10)
    shown = []
    predict = of.model.policy.predict
    of.model.policy.predict = lambda stack, **options: (shown.append(stack.copy()), predict(stack, **options))[1]
    state: PolicyState | None = None
    for frame, begins in ((1, True), (2, False), (3, False), (4, True), (5, False)):
        one = np.full((36, 36), frame, np.uint8)
        action, state = of.predict(one, state, np.array([begins]), epsilon=0.0)
        assert action.shape == ()
    assert [stack[:, 0, 0].tolist() for stack in shown] == [[0, 1], [1, 2], [2, 3], [0, 4], [4, 5]]

    shown.clear()
    state = None
    for frames, begin in (((1, 11), (True, True)), ((2, 12), (False, True)), ((3, 13), (False, False))):
        two = np.stack([np.full((36, 36), frame, np.uint8) for frame in frames])
        chosen, state = of.predict(two, state, np.array(begin), epsilon=0.0)
        assert chosen.shape == (2,)
    assert [stack[:, 0, 0].tolist() for stack in shown] == [[0, 1], [0, 11], [1, 2], [0, 12], [2, 3], [12, 13]]


@pytest.mark.parametrize("algorithm", ALL)
def test_spaces_need_not_begin_at_0(algorithm):
    """Observations -2 to 3, actions 5 to 7: an environment that is shown others refuses them."""
    options: dict[str, Any] = {} if algorithm == "a2c" else {"replay_start": 50, "replay_capacity": 100}
    of = Baseline(Shifted(), settings_of(algorithm, 200, **options), algorithm=algorithm).learn(200)
    assert of.games > 5
    assert {int(of.predict(observation)[0]) for observation in range(-2, 4)} <= {5, 6, 7}
    assert set(of.predict(np.arange(-2, 4))[0]) <= {5, 6, 7}


# -- Runs -------------------------------------------------------------------------------------------------------------


def saved(of: Baseline, path: Any) -> tuple[dict[str, Any], dict[tuple[str, str], bytes]]:
    """All that makes a baseline, as `save` writes it."""
    of.save(path)
    state, tensors = read_checkpoint(path, kind="baseline")
    return state, {(file, name): own.tobytes() for file, tensor in tensors.items() for name, own in tensor.items()}


@pytest.mark.parametrize("algorithm", ALL)
def test_one_seed_makes_a_run_whether_or_not_somebody_looks_how_well_it_plays(tmp_path, algorithm):
    options: dict[str, Any] = {} if algorithm == "a2c" else {"replay_start": 50, "epsilon_steps": 100}
    look = Watch(lambda agent: mean_score(agent, "CartPole-v1", games=1), every=50)
    first, same, other = (
        saved(make(algorithm, "CartPole-v1", 150, seed=seed, n_envs=2, **options).learn(150, watch), tmp_path / name)
        for name, seed, watch in (("first", 7, None), ("same", 7, look), ("other", 8, None))
    )
    assert look.last > 0
    assert first == same
    assert first[0]["games_in_progress"] != other[0]["games_in_progress"]
    names = [name for name in first[1] if name[0] == "policy"]
    assert names
    assert all(first[1][name] != other[1][name] for name in names if "weight" in name[1])


@pytest.mark.parametrize("algorithm", ["dqn", "a2c"])
def test_frames_and_games_are_counted(algorithm):
    games: list[Game] = []

    class Count(Watch):
        def on_game(self, agent: Agent, game: Game) -> None:
            games.append(game)
            assert list(agent.scores) == [each.score for each in games][-100:]

    of = make(algorithm, "CartPole-v1", 200, n_envs=2).learn(200, Count(lambda agent: None))
    assert of.frames == 200
    assert of.games == len(games) > 5
    assert sum(game.length_frames for game in games) <= 200
    assert all(game.score == game.length_frames for game in games)
    assert of.learn(200).frames == 200, "there is nothing left to do"
    assert of.metrics().get("memory_entries") == (None if algorithm == "a2c" else 200)
    assert repr(of).endswith("frames=200)")


@pytest.mark.parametrize("algorithm", ALL)
def test_a_baseline_saved_when_a_game_ends_goes_on_as_if_it_were_not(tmp_path, algorithm):
    """Games are told of between two rollouts, where everything can be saved; after an exception, the rest of them."""
    options: dict[str, Any] = {"n_envs": 2} if algorithm == "a2c" else {"n_envs": 2, "replay_start": 50}
    whole = saved(make(algorithm, "CartPole-v1", 200, **options).learn(200), tmp_path / "whole")
    games: list[Game] = []

    class Save(Watch):
        def on_game(self, agent: Agent, game: Game) -> None:
            games.append(game)
            if game.episode == 3:
                agent.save(tmp_path / "best")
                raise KeyboardInterrupt

    stopped = make(algorithm, "CartPole-v1", 200, **options)
    with pytest.raises(KeyboardInterrupt):
        stopped.learn(200, Save(lambda agent: None))
    assert saved(stopped.learn(200, Save(lambda agent: None)), tmp_path / "on") == whole
    again = Baseline.load(tmp_path / "best", make_env("CartPole-v1", EnvConfig(n_envs=2)))
    assert saved(again.learn(200), tmp_path / "again") == whole
    assert [game.episode for game in games] == list(range(1, stopped.games + 1))


def test_a_longer_run_begins_as_a_shorter_one_did(tmp_path):
    options: dict[str, Any] = {"replay_start": 50, "epsilon_steps": 150}
    short = saved(make("dqn", "CartPole-v1", 100, **options).learn(100), tmp_path / "short")
    other = make("dqn", "CartPole-v1", 200, **options).learn(100)
    assert saved(other, tmp_path / "part")[1] == short[1]
    parts = saved(other.learn(200), tmp_path / "parts")
    whole = saved(make("dqn", "CartPole-v1", 200, **options).learn(200), tmp_path / "whole")
    assert parts == whole


# -- Storage ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", ["dqn", "a2c"])
def test_what_was_saved_plays_the_same(tmp_path, algorithm):
    of = make(algorithm, "Bars-v0", 60, n_envs=2).learn(60)
    of.save(tmp_path)
    frames = np.random.default_rng(0).integers(256, size=(40, 36, 36), dtype=np.uint8)

    def played(by: Baseline) -> list[int]:
        rng, chosen = np.random.default_rng(0), []
        state: PolicyState | None = None
        for number, frame in enumerate(frames):
            action, state = by.predict(frame, state, np.array([number % 7 == 0]), rng=rng)
            chosen.append(int(action))
        return chosen

    again = Baseline.load(tmp_path, make_env("Bars-v0"), playing=True)  # one environment is enough to play
    assert played(again) == played(of)
    assert again.frames == 0


@pytest.mark.parametrize("playing", [False, True])
def test_checkpoints_of_others_are_refused(tmp_path, playing):
    def config(algorithm: str, seed: int = 0, **options: Any) -> RunConfig:
        settings = settings_of(algorithm, 60, **options)
        return RunConfig("CartPole-v1", 60, seed, settings, EnvConfig(n_envs=2), algorithm)

    def carts() -> Any:
        return make_env("CartPole-v1", EnvConfig(n_envs=2))

    own = config("dqn")
    own.kind.make(carts(), own).learn(60).save(tmp_path)
    assert own.kind.load(tmp_path, carts(), own, playing=playing).seed == 0
    for other in (config("dqn", seed=1), config("dqn", gamma=0.5), config("prioritised_dqn"), config("a2c")):
        with pytest.raises(CheckpointError, match="is of another run: its settings are not those"):
            other.kind.load(tmp_path, carts(), other, playing=playing)
    with pytest.raises(CheckpointError, match="is no complete baseline: the networks do not fit"):
        Baseline.load(tmp_path, make_env("Acrobot-v1", EnvConfig(n_envs=2)), playing=True)
