"""Observations and actions of every kind, as an agent sees and numbers them, and the way back."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from mfec.agent import MFEC, BadEnvironmentData
from mfec.envs.flattening import Actions, NotInSpace, Observations

PICTURE = spaces.Box(0, 255, (4, 5, 3), np.uint8)
KINDS = {
    "Dict": spaces.Dict({"door": spaces.Discrete(3, start=1), "at": spaces.Box(-9, 9, (2, 2), np.float32)}),
    "Tuple": spaces.Tuple([spaces.Discrete(32), spaces.Discrete(11), spaces.Discrete(2)]),
    "MultiDiscrete": spaces.MultiDiscrete([2, 3], start=[1, -1]),
    "MultiBinary": spaces.MultiBinary([2, 2]),
    "Text": spaces.Text(5, charset="abc"),
    "nested": spaces.Dict({"a": spaces.Tuple([spaces.MultiBinary(2), PICTURE]), "b": spaces.Text(3, charset="xyz")}),
}


@pytest.mark.parametrize("own", KINDS.values(), ids=KINDS)
def test_observations_become_the_vector_that_gymnasium_makes_of_them_one_by_one_and_in_batches(own):
    own.seed(0)
    seen = Observations(own)
    samples = [own.sample() for _ in range(7)]
    expected = np.array([spaces.flatten(own, sample) for sample in samples])
    batch = seen.together(samples)
    assert seen.space == spaces.flatten_space(own)
    assert np.array_equal(seen.batch(batch), expected)
    assert np.array_equal(np.concatenate([seen.one(sample) for sample in samples]), expected)
    assert seen.batch(batch).dtype == seen.space.dtype
    assert seen.is_one(samples[0])
    assert not seen.is_one(batch)
    assert not seen.is_one(seen.together(samples[:1]))


@pytest.mark.parametrize("inner", [PICTURE, spaces.Discrete(5, start=2)], ids=str)
@pytest.mark.parametrize("wrap", [
    lambda inner: inner,
    lambda inner: spaces.Dict({"only": inner}),
    lambda inner: spaces.Tuple([spaces.Dict({"only": inner})]),
])  # fmt: skip
def test_a_picture_stays_a_picture_also_as_the_only_member(inner, wrap):
    seen = Observations(wrap(inner))
    sample = seen.own_space.sample()
    assert seen.space is inner
    assert seen.as_they_are == (seen.own_space is inner)
    assert seen.one(sample).shape == (1, *inner.shape)
    assert np.array_equal(seen.batch(seen.together([sample, sample]))[1], seen.one(sample)[0])


@pytest.mark.parametrize(("own", "named"), [
    (spaces.Dict({"a": spaces.Dict({"path": spaces.Sequence(spaces.Discrete(2))})}), "the part a.path .* a Sequence"),
    (spaces.Graph(spaces.Discrete(2), None), "the observation space is a Graph"),
    (spaces.Dict({}), "is empty"),
])  # fmt: skip
def test_what_has_no_numbers_is_refused_with_the_key_that_has_none(own, named):
    with pytest.raises(TypeError, match=named):
        Observations(own)


def test_the_mission_of_minigrid_is_refused_with_the_wrapper_that_helps():
    minigrid = pytest.importorskip("minigrid")
    space = minigrid.envs.EmptyEnv(size=5).observation_space
    with pytest.raises(TypeError, match=r"part mission .* --wrapper minigrid.wrappers:ImgObsWrapper"):
        Observations(space)


@pytest.mark.parametrize(("given", "named"), [
    ({"door": 4, "at": np.zeros((2, 2))}, "not in Discrete.* as its part door"),
    ({"door": 1, "at": np.full((2, 2), np.nan)}, "not finite as its part at"),
    ({"door": 1, "at": np.zeros(4)}, r"shape \(4,\) as its part at"),
    ({"door": 1}, "without the part at"),
])  # fmt: skip
def test_what_is_not_in_the_space_is_named_by_its_part(given, named):
    with pytest.raises(NotInSpace, match=named):
        Observations(KINDS["Dict"]).one(given)


@pytest.mark.parametrize("own", [
    spaces.Discrete(4, start=2),
    spaces.MultiDiscrete([2, 3, 2], start=[0, 1, -1]),
    spaces.MultiDiscrete([[2, 3], [1, 2]]),
    spaces.MultiBinary(3),
    spaces.MultiBinary([2, 2]),
    spaces.MultiDiscrete([32, 32]),
], ids=str)  # fmt: skip
def test_every_action_has_one_number(own):
    actions = Actions(own)
    everything = actions.own(np.arange(actions.space.n))
    assert all(own.contains(action) for action in everything)
    assert len({action.tobytes() for action in everything}) == actions.space.n
    assert np.array_equal(actions.one(1), everything[1])


@pytest.mark.parametrize(("own", "named"), [
    (spaces.MultiDiscrete([32, 33]), "1,056 combinations, at most 1,024"),
    (spaces.MultiBinary(70), "1,180,591,620,717,411,303,424 combinations"),
    (spaces.Box(-1, 1, (2,)), "the action space is Box"),
])  # fmt: skip
def test_too_many_actions_are_refused_with_their_number(own, named):
    with pytest.raises(TypeError, match=named):
        Actions(own)


# -- An environment that shows a Dict and takes a MultiDiscrete -------------------------------------------------------


class Vault(gymnasium.Env):
    """Turn two wheels to the number that is shown; right after two turns."""

    observation_space = spaces.Dict({"wanted": spaces.MultiDiscrete([3, 2]), "turns": spaces.Discrete(3)})
    action_space = spaces.MultiDiscrete([3, 2], start=[0, 1])
    bad_at = -1

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.wanted, self.turns = self.np_random.integers([3, 2]), 0
        return self._observe(), {}

    def step(self, action: Any) -> Any:
        assert self.action_space.contains(action), action
        self.turns += 1
        right = bool((action - self.action_space.start == self.wanted).all())
        return self._observe(), float(right), self.turns == 2, False, {}

    def _observe(self) -> dict[str, Any]:
        if self.turns == self.bad_at:
            return {"wanted": self.wanted, "turns": 5}
        return {"wanted": self.wanted, "turns": self.turns}


MODES = [None, *AutoresetMode]


def vault(mode: AutoresetMode | None) -> Any:
    return Vault() if mode is None else SyncVectorEnv([Vault] * 3, autoreset_mode=mode)


@pytest.mark.parametrize("mode", MODES)
def test_an_agent_learns_to_open_the_vault(mode):
    agent = MFEC(vault(mode), epsilon=0.1, k=1, capacity=500, seed=0).learn(4_000)
    env, opened = Vault(), []
    for seed in range(20):
        observation, _ = env.reset(seed=seed)
        ended, score = False, 0.0
        while not ended:
            observation, reward, ended, *_ = env.step(agent.predict(observation, deterministic=True)[0])
            score += reward
        opened.append(score)
    assert np.mean(opened) == 2.0
    assert len(agent.explain(observation).actions) == 6


def test_a_saved_agent_takes_its_own_observations_without_an_environment(tmp_path):
    agent = MFEC(Vault(), k=1, capacity=500, seed=0).learn(500)
    agent.save(tmp_path)
    loaded = MFEC.load(tmp_path)
    env = SyncVectorEnv([Vault] * 4)
    batch, _ = env.reset(seed=3)
    actions, _ = loaded.predict(batch, deterministic=True)
    assert env.action_space.contains(actions)
    assert np.array_equal(actions, agent.predict(batch, deterministic=True)[0])
    with pytest.raises(ValueError, match="the agent was trained on"):
        MFEC.load(tmp_path, env="CartPole-v1")
    assert MFEC.load(tmp_path, env=Vault()).learn(600).frames == 600


def test_an_observation_that_is_not_in_its_part_is_bad_data_that_leaves_a_good_agent(tmp_path):
    env = Vault()
    agent = MFEC(env, capacity=100, seed=0).learn(101)
    env.bad_at = 2
    with pytest.raises(BadEnvironmentData, match=r"not in Discrete\(3\) as its part turns after frame 101"):
        agent.learn(300)
    agent.save(tmp_path)
    assert MFEC.load(tmp_path, env=Vault()).learn(300).frames == 300


@pytest.mark.torch
def test_stable_baselines3_evaluates_an_agent_of_a_dict_environment():
    from stable_baselines3.common.evaluation import evaluate_policy
    from stable_baselines3.common.monitor import Monitor
    from stable_baselines3.common.vec_env import DummyVecEnv

    agent = MFEC(Vault(), epsilon=0.1, k=1, capacity=500, seed=0).learn(4_000)
    env = DummyVecEnv([lambda: Monitor(Vault()), lambda: Monitor(Vault())])
    env.seed(0)
    mean, _ = evaluate_policy(agent, env, n_eval_episodes=10, deterministic=True)
    assert mean == 2.0


@pytest.mark.torch
@pytest.mark.parametrize("name", ["dqn", "a2c"])
def test_baselines_play_it_too(name, tmp_path):
    from mfec.algorithms.baselines.baseline import Baseline
    from mfec.algorithms.baselines.settings import A2CConfig, DQNConfig

    quick = DQNConfig(replay_start=20, replay_capacity=100, target_every=50, epsilon_steps=50)
    agent = Baseline(vault(AutoresetMode.DISABLED), quick if name == "dqn" else A2CConfig(), algorithm=name).learn(120)
    batch, _ = SyncVectorEnv([Vault] * 4).reset(seed=3)
    actions, _ = agent.predict(batch)
    assert all(Vault.action_space.contains(action) for action in actions)
    assert Vault.action_space.contains(agent.predict(Vault().reset(seed=0)[0])[0])
