"""DQN (Mnih et al., 2015) with uniform or prioritised replay (Schaul et al., 2016), and A2C: Stable-Baselines3's."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from stable_baselines3 import A2C, DQN
from torch.nn import functional

from mfec.algorithms.baselines.optimizer import CentredRMSprop
from mfec.algorithms.baselines.replay import FrameReplay, PrioritisedReplay
from mfec.algorithms.baselines.settings import A2CConfig, DQNConfig
from mfec.algorithms.baselines.vec_env import EnvironmentsVecEnv
from mfec.envs.spaces import SMALLEST_SIDE


def make_model(
    algorithm: str, env: EnvironmentsVecEnv, settings: DQNConfig | A2CConfig, *, seed: np.random.SeedSequence
) -> DQN | A2C:
    """The model of that name."""
    if isinstance(settings, A2CConfig):
        return make_a2c(env, settings, seed=seed)
    return make_dqn(env, settings, seed=seed, prioritised=algorithm == "prioritised_dqn")


def make_dqn(env: EnvironmentsVecEnv, config: DQNConfig, *, seed: np.random.SeedSequence, prioritised: bool) -> DQN:
    """Stable-Baselines3's DQN with the published settings; `config` has numbers for its schedule (`scheduled`)."""
    replay_start, target_every, epsilon_steps = config.replay_start, config.target_every, config.epsilon_steps
    if replay_start is None or target_every is None or epsilon_steps is None:
        raise ValueError("the schedule of DQN has no numbers yet; `scheduled` gives them")
    networks, replay = seed.spawn(2)
    kind: type[DQN] = PrioritisedDQN if prioritised else DQN
    adam = config.optimizer == "adam"
    options: dict[str, Any] = {"seed": replay, "stacked": env.stacked}
    model = kind(
        policy_of(env),
        env,
        learning_rate=config.learning_rate,
        buffer_size=config.replay_capacity,
        learning_starts=replay_start,
        batch_size=config.batch_size,
        gamma=config.gamma,
        train_freq=max(1, config.train_every // env.num_envs),
        gradient_steps=config.gradient_steps,
        replay_buffer_class=PrioritisedReplay if prioritised else FrameReplay,
        replay_buffer_kwargs=options | ({"alpha": config.alpha} if prioritised else {}),
        target_update_interval=target_every,
        max_grad_norm=10.0 if adam else float("inf"),
        policy_kwargs={} if adam else {"optimizer_class": CentredRMSprop},
        seed=_number(networks),
        device=config.device,
    )
    model.action_space.seed(_number(networks))

    def epsilon(progress_remaining: float) -> float:
        """By the steps that were made and not by the share of a run: so a longer one begins as a shorter one did."""
        fallen = (1.0 - config.epsilon) * model.num_timesteps / epsilon_steps
        return max(config.epsilon, 1.0 - fallen)

    model.exploration_schedule = epsilon
    if isinstance(model, PrioritisedDQN):
        model.first_beta = config.beta
    return model


def make_a2c(env: EnvironmentsVecEnv, config: A2CConfig, *, seed: np.random.SeedSequence) -> A2C:
    """Stable-Baselines3's A2C with its settings for Atari."""
    return A2C(
        policy_of(env),
        env,
        learning_rate=config.learning_rate,
        n_steps=config.rollout_steps,
        gamma=config.gamma,
        ent_coef=config.entropy,
        vf_coef=config.value_weight,
        seed=_number(seed),
        device=config.device,
    )


def policy_of(env: EnvironmentsVecEnv) -> str:
    """The network of DQN's paper for pictures, a small one for anything else."""
    if not env.stacked:
        return "MlpPolicy"
    _, *sides = env.observation_space.shape or ()
    if min(sides) < SMALLEST_SIDE:
        raise ValueError(
            f"the network for pictures needs at least {SMALLEST_SIDE}x{SMALLEST_SIDE} pixels, not {sides[0]}x{sides[1]}"
        )
    return "CnnPolicy"


def _number(seed: np.random.SeedSequence) -> int:
    return int(seed.generate_state(1)[0] >> 1)


class PrioritisedDQN(DQN):
    """DQN whose gradient steps are on what prioritised replay draws."""

    first_beta = DQNConfig.beta

    @property
    def beta(self) -> float:
        """The power of the importance weights now: it rises to 1 by the end of training."""
        return 1.0 - (1.0 - self.first_beta) * max(0.0, self._current_progress_remaining)

    def train(self, gradient_steps: int, batch_size: int = 100) -> None:
        """Make gradient steps, and give what was drawn its new priorities."""
        self.policy.set_training_mode(True)
        self._update_learning_rate(self.policy.optimizer)
        replay = self.replay_buffer
        assert isinstance(replay, PrioritisedReplay)
        losses = []
        for _ in range(gradient_steps):
            batch, weights, items = replay.draw(batch_size, self.beta)
            with torch.no_grad():
                best = self.q_net_target(batch.next_observations).max(dim=1, keepdim=True).values
                targets = batch.rewards + (1.0 - batch.dones) * self.gamma * best
            values = self.q_net(batch.observations).gather(1, batch.actions)
            loss = (weights * functional.smooth_l1_loss(values, targets, reduction="none")).mean()
            self.policy.optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(self.policy.parameters(), self.max_grad_norm)
            self.policy.optimizer.step()
            replay.update(items, (targets - values.detach()).cpu().numpy().reshape(-1))
            losses.append(loss.item())
        self._n_updates += gradient_steps
        self.logger.record("train/loss", np.mean(losses))
