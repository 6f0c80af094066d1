"""DQN and A2C: Stable-Baselines3's own algorithms on our frames, with the settings of the publications."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.type_aliases import ReplayBufferSamples
from torch.nn import functional

from mfec.algorithms.baselines.baseline import Baseline
from mfec.algorithms.baselines.models import PrioritisedDQN
from mfec.algorithms.baselines.optimizer import CentredRMSprop
from mfec.algorithms.baselines.replay import FrameReplay, PrioritisedReplay, PrioritisedSamples
from mfec.algorithms.baselines.settings import A2CConfig, DQNConfig, scheduled
from mfec.callbacks import Callback
from mfec.config import EnvConfig
from mfec.envs import make_env
from mfec.interface import Agent

from .bars import Bars

QUICK: dict[str, Any] = {
    "epsilon_steps": 150,
    "replay_start": 40,
    "replay_capacity": 5000,
    "batch_size": 16,
    "target_every": 60,
}


def baseline(
    algorithm: Any = "dqn",
    env: str = "CartPole-v1",
    *,
    n_envs: int = 1,
    frames: int = 300,
    seed: int = 0,
    **options: Any,
) -> Baseline:
    """A small one; options are those of its algorithm."""
    settings = A2CConfig(**options) if algorithm == "a2c" else scheduled(DQNConfig(**QUICK | options), frames)
    return Baseline(make_env(env, EnvConfig(n_envs=n_envs)), settings, algorithm=algorithm, frame_stack=2, seed=seed)


def weights(of: Baseline) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in of.model.policy.state_dict().items()}


def same(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> bool:
    assert first.keys() == second.keys()
    return all(torch.equal(first[name], second[name]) for name in first)


class EachStep(Callback):
    """Calls something with the baseline after every rollout."""

    def __init__(self, look: Any) -> None:
        self.look = look

    def on_step(self, agent: Agent) -> None:
        self.look(agent)


# -- DQN --------------------------------------------------------------------------------------------------------------


class WholeStacks(ReplayBuffer):
    """Stable-Baselines3's own buffer with the draws of ours."""

    def __init__(self, *arguments: Any, seed: np.random.SeedSequence, stacked: bool, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.rng = np.random.default_rng(seed)

    def sample(self, batch_size: int, env: Any = None) -> Any:
        assert not self.full
        rows, envs = self.rng.integers(0, self.pos, batch_size), self.rng.integers(0, self.n_envs, batch_size)
        data = (
            self.observations[rows, envs],
            self.actions[rows, envs],
            self.next_observations[rows, envs],
            (self.dones[rows, envs] * (1 - self.timeouts[rows, envs]))[:, None],
            self.rewards[rows, envs][:, None],
        )
        return ReplayBufferSamples(*map(self.to_torch, data))


@pytest.mark.parametrize(("env", "n_envs", "optimizer"), [("Bars-v0", 3, "rmsprop"), ("CartPole-v1", 1, "adam")])
def test_from_single_frames_dqn_learns_the_same_weights_as_from_whole_stacks(monkeypatch, env, n_envs, optimizer):
    ours = baseline(env=env, n_envs=n_envs, optimizer=optimizer).learn(150)
    began = weights(baseline(env=env, n_envs=n_envs, optimizer=optimizer))
    monkeypatch.setattr("mfec.algorithms.baselines.models.FrameReplay", WholeStacks)
    theirs = baseline(env=env, n_envs=n_envs, optimizer=optimizer).learn(150)
    assert isinstance(theirs.model.replay_buffer, WholeStacks)
    assert same(weights(ours), weights(theirs))
    assert not same(weights(ours), began)
    assert list(ours.scores) == list(theirs.scores)


def test_learning_begins_after_the_first_steps_and_comes_every_few():
    updates = {}
    of = baseline(replay_start=100, train_every=8, gradient_steps=3)
    of.learn(200, EachStep(lambda agent: updates.update({agent.frames: agent.model._n_updates})))
    # The rollout of 8 steps that ends after step 100 is the first that is learned after.
    assert updates == {frames: 3 * max(0, frames // 8 - 12) for frames in range(8, 201, 8)}


@pytest.mark.parametrize(("n_envs", "train_every", "updates"), [(1, 4, 50), (4, 4, 50), (8, 4, 25)])
def test_several_environments_learn_as_often_but_not_more_than_once_a_step(n_envs, train_every, updates):
    of = baseline(n_envs=n_envs, train_every=train_every, replay_start=0, frames=200).learn(200)
    assert of.model._n_updates == updates
    assert of.frames == 200


def test_the_target_network_follows_every_so_many_steps():
    seen = []

    def look(agent: Any) -> None:
        networks = weights(agent)
        target = torch.cat([networks[name].flatten() for name in networks if "target" in name])
        own = torch.cat([networks[name].flatten() for name in networks if "target" not in name])
        seen.append((agent.frames, target, own))

    baseline(n_envs=2, target_every=60, train_every=4).learn(180, EachStep(look))
    changes = [(before, now) for before, now in pairwise(seen) if not torch.equal(before[1], now[1])]
    assert [now[0] for _, now in changes] == [60, 120, 180]
    for before, now in changes:  # it takes over what there was before that rollout was learned from
        assert torch.equal(now[1], before[2])


@pytest.mark.parametrize("total", [100, 1000, 10_000_000])
def test_epsilon_falls_by_steps_however_long_the_run(total):
    of = baseline(frames=total, epsilon=0.1, epsilon_steps=1_000_000)
    for steps, epsilon in ((0, 1.0), (250_000, 0.775), (500_000, 0.55), (1_000_000, 0.1), (9_000_000, 0.1)):
        of.model.num_timesteps = steps
        assert of.model.exploration_schedule(0.5) == pytest.approx(epsilon)


def test_actions_are_random_as_often_as_epsilon_says():
    """Where the network always prefers action 1."""

    def prefer(of: Baseline) -> Baseline:
        with torch.no_grad():
            of.model.policy.q_net.q_net[-1].bias[1] += 100.0
        return of

    of = prefer(baseline(frames=1000, epsilon=0.2, epsilon_steps=1, replay_start=0, train_every=1000)).learn(1000)
    chosen = of.model.replay_buffer.arrays["actions"][:1000]
    assert 0.07 < 1.0 - chosen.mean() < 0.13, "half of the random ones"
    of = prefer(baseline(frames=300, epsilon=0.0, epsilon_steps=1, replay_start=150, train_every=300)).learn(300)
    chosen = of.model.replay_buffer.arrays["actions"][:300]
    assert 0.4 < chosen[:150].mean() < 0.6, "at random before learning begins"
    assert chosen[150:].all()


def test_the_published_settings_are_the_defaults():
    of = Baseline(make_env("CartPole-v1"), scheduled(DQNConfig(), 10_000_000), algorithm="dqn")
    model = of.model
    settings = (model.learning_rate, model.gamma, model.batch_size, model.buffer_size, model.learning_starts)
    assert settings == (0.00025, 0.99, 32, 1_000_000, 50_000)
    assert (model.train_freq.frequency, model.gradient_steps, model.target_update_interval) == (4, 1, 10_000)
    assert isinstance(model.policy.optimizer, CentredRMSprop)
    assert type(model.replay_buffer) is FrameReplay


# -- Prioritised DQN --------------------------------------------------------------------------------------------------


class Evenly(PrioritisedReplay):
    """Draws as plain replay does."""

    def draw(self, batch_size: int, beta: float) -> PrioritisedSamples:
        return PrioritisedSamples(self.sample(batch_size), torch.ones(batch_size, 1), np.zeros(batch_size, np.int64))


def test_with_even_draws_prioritised_dqn_is_dqn(monkeypatch):
    plain = baseline(frames=150).learn(150)
    monkeypatch.setattr("mfec.algorithms.baselines.models.PrioritisedReplay", Evenly)
    of = baseline("prioritised_dqn", frames=150).learn(150)
    assert of.model._n_updates == plain.model._n_updates > 20
    for name, tensor in weights(of).items():
        assert torch.allclose(tensor, weights(plain)[name], rtol=0.0, atol=1e-5), name


def test_a_gradient_is_weighted_and_gives_new_priorities(monkeypatch):
    of = baseline("prioritised_dqn", frames=200, replay_start=199, beta=0.7).learn(200)
    model, replay = of.model, of.model.replay_buffer
    assert isinstance(replay, PrioritisedReplay)
    assert model._n_updates == 1
    replay.update(np.arange(200), np.random.default_rng(0).exponential(size=200))
    state = replay._rng.bit_generator.state
    batch, importance, items = replay.draw(16, model.beta)
    replay._rng.bit_generator.state = state  # what `train` draws now is this
    values = model.q_net(batch.observations).gather(1, batch.actions)
    with torch.no_grad():
        best = model.q_net_target(batch.next_observations).max(dim=1).values[:, None]
        targets = batch.rewards + 0.99 * best * (1.0 - batch.dones)
    losses = functional.smooth_l1_loss(values, targets, reduction="none")
    expected = torch.autograd.grad((importance * losses).sum() / 16, list(model.q_net.parameters()))
    model.train(1, 16)  # type: ignore[call-arg]
    for gradient, parameter in zip(expected, model.q_net.parameters(), strict=True):
        assert torch.allclose(gradient, parameter.grad, rtol=1e-5, atol=1e-8)
    assert importance.min() < 0.9, "the test could not fail"
    errors = (targets - values).detach().numpy().reshape(-1)
    assert np.allclose(replay._tree.priorities[items], (np.abs(errors) + 1e-6) ** 0.6)


def test_beta_rises_to_1_by_the_end_and_not_above(monkeypatch):
    betas = []
    draw = PrioritisedReplay.draw

    def watched(replay: PrioritisedReplay, batch_size: int, beta: float) -> PrioritisedSamples:
        betas.append(beta)
        return draw(replay, batch_size, beta)

    monkeypatch.setattr(PrioritisedReplay, "draw", watched)
    of = baseline("prioritised_dqn", frames=100, replay_start=0, train_every=30, beta=0.4).learn(100)
    assert of.frames == 120, "a rollout is played to its end"
    assert betas == pytest.approx([0.58, 0.76, 0.94, 1.0])


def test_alpha_and_the_kind_of_replay_reach_the_model():
    of = baseline("prioritised_dqn", alpha=0.25, beta=0.5)
    assert isinstance(of.model, PrioritisedDQN)
    assert of.model.first_beta == 0.5
    assert of.model.replay_buffer._alpha == 0.25
    assert type(baseline("dqn").model.replay_buffer) is FrameReplay


# -- A2C and networks -------------------------------------------------------------------------------------------------


def test_a2c_has_the_settings_of_stable_baselines_for_atari():
    model = baseline("a2c", n_envs=2).model
    settings = (model.learning_rate, model.gamma, model.n_steps, model.ent_coef, model.vf_coef, model.gae_lambda)
    assert settings == (0.0007, 0.99, 5, 0.01, 0.25, 1.0)
    assert isinstance(model.policy.optimizer, torch.optim.RMSprop)
    assert model.policy.optimizer.param_groups[0]["eps"] == 1e-5
    other = baseline("a2c", learning_rate=0.1, gamma=0.5, rollout_steps=7, entropy=0.3, value_weight=0.6).model
    settings = (other.learning_rate, other.gamma, other.n_steps, other.ent_coef, other.vf_coef, other.gae_lambda)
    assert settings == (0.1, 0.5, 7, 0.3, 0.6, 1.0)


def test_pictures_go_through_the_network_of_dqns_paper():
    network = baseline(env="Bars-v0").model.q_net
    kernels = [(layer.in_channels, layer.out_channels, layer.kernel_size, layer.stride)
               for layer in network.modules() if isinstance(layer, torch.nn.Conv2d)]  # fmt: skip
    assert kernels == [(2, 32, (8, 8), (4, 4)), (32, 64, (4, 4), (2, 2)), (64, 64, (3, 3), (1, 1))]
    units = [layer.out_features for layer in network.modules() if isinstance(layer, torch.nn.Linear)]
    assert units == [512, 2]


@pytest.mark.parametrize("algorithm", ["dqn", "a2c"])
def test_pictures_that_are_too_small_for_it_are_refused(algorithm):
    class Small(Bars):
        observation_space = spaces.Box(0, 255, (36, 35), np.uint8)

    settings = A2CConfig() if algorithm == "a2c" else DQNConfig(**QUICK)
    message = "the network for pictures needs at least 36x36 pixels, not 36x35"
    with pytest.raises(ValueError, match=message):
        Baseline(Small(), settings, algorithm=algorithm)
    assert isinstance(Baseline(Bars(), settings, algorithm=algorithm), Baseline)


def test_colour_pictures_are_taken_as_vectors():
    """Frames are stacked where they are grey; others go through the small network."""

    class Colours(gymnasium.Env):
        observation_space = spaces.Box(0, 255, (6, 7, 3), np.uint8)
        action_space = spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            return self.observation_space.sample(), {}

        def step(self, action):
            return np.full((6, 7, 3), 9, np.uint8), 1.0, False, False, {}

    of = Baseline(Colours(), DQNConfig(**QUICK), algorithm="dqn").learn(120)
    assert not of.env.stacked
    action, state = of.predict(np.full((6, 7, 3), 9, np.uint8))
    assert action in (0, 1)
    assert state is None
