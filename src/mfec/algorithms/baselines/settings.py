"""Settings of the baselines, and DQN's schedule in a run of any length."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

from mfec.config import EpisodeEnd, Settings

Optimizer = Literal["rmsprop", "adam"]


@dataclass(frozen=True)
class DQNConfig(Settings):
    """Settings of DQN and prioritised DQN. Defaults are those of Mnih et al. (2015), extended data table 1; steps are
    agent steps, of four frames on Atari."""

    learning_rate: float = 0.00025
    """Step size; a quarter of it with prioritised replay, unless given (Schaul et al., 2016)."""
    optimizer: Optimizer = "rmsprop"
    """Centred RMSProp as published, or Adam."""
    gamma: float = 0.99
    """Discount rate."""
    batch_size: int = 32
    """Transitions in a gradient step."""
    replay_capacity: int = 1_000_000
    """Transitions that replay keeps."""
    replay_start: int | None = None
    """Steps at random before learning begins; 50,000 unless given, and less in a run that would end before
    (which says so)."""
    train_every: int = 4
    """Steps between two times of learning."""
    gradient_steps: int = 1
    """Gradient steps each time."""
    target_every: int | None = None
    """Steps between two updates of the target network; 10,000 unless given, shrunk with --replay-start."""
    epsilon: float = 0.1
    """Chance of a random action in the end."""
    epsilon_steps: int | None = None
    """Steps over which that chance falls from 1; 1,000,000 unless given, shrunk with --replay-start."""
    evaluation_epsilon: float = 0.05
    """Chance of a random action in `mfec evaluate`."""
    alpha: float = 0.6
    """Prioritised replay: a transition is drawn in proportion to its priority to this power; 0 is uniform."""
    beta: float = 0.4
    """Prioritised replay: power of the importance weights at the start; it rises to 1 by the end."""
    clip_rewards: bool = True
    """Learn from the sign of rewards; scores are raw either way."""
    episode: EpisodeEnd = "life"
    """What ends an episode for learning; scores are of whole games either way."""

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_learning(self.learning_rate, self.gamma)
        counts = ["batch_size", "replay_capacity", "train_every", "gradient_steps", "target_every", "epsilon_steps"]
        _check_counts(self, *counts)
        if self.replay_start is not None and self.replay_start < 0:
            raise ValueError(f"replay_start must not be negative, and {self.replay_start} is")
        for name in ("epsilon", "evaluation_epsilon", "alpha", "beta"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ValueError(f"{name} must lie between 0 and 1, not {getattr(self, name)}")


@dataclass(frozen=True)
class A2CConfig(Settings):
    """Settings of A2C. Defaults are Stable-Baselines3's, with the weight of the entropy in Mnih et al. (2016)."""

    learning_rate: float = 0.0007
    """Step size of RMSProp."""
    gamma: float = 0.99
    """Discount rate."""
    rollout_steps: int = 5
    """Steps of every environment between two gradient steps."""
    entropy: float = 0.01
    """Weight of the policy's entropy."""
    value_weight: float = 0.25
    """Weight of the value function's error."""
    clip_rewards: bool = True
    """Learn from the sign of rewards; scores are raw either way."""
    episode: EpisodeEnd = "life"
    """What ends an episode for learning; scores are of whole games either way."""

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_learning(self.learning_rate, self.gamma)
        _check_counts(self, "rollout_steps")
        for name in ("entropy", "value_weight"):
            if getattr(self, name) < 0.0:
                raise ValueError(f"{name} must not be negative, and {getattr(self, name)} is")


SCHEDULE = {"replay_start": 50_000, "target_every": 10_000, "epsilon_steps": 1_000_000}
"""Of DQN, in agent steps, as published."""
PUBLISHED_STEPS = 2_500_000  # in the paper's runs on games: 10 million frames


def scheduled(dqn: DQNConfig, steps: float) -> DQNConfig:
    """The settings of DQN in a run of so many agent steps, with numbers for what of its schedule was not given.

    They are the published ones. Only where replay would begin after the end of the run, which would play at random and
    learn nothing, they are shrunk as the run is, relative to the paper's 10 million frames.

    >>> short = scheduled(DQNConfig(target_every=7), steps=12_000)
    >>> short.replay_start, short.target_every, short.epsilon_steps
    (240, 7, 4800)
    """
    shrink = dqn.replay_start is None and steps < SCHEDULE["replay_start"] + 1
    unsaid: dict[str, Any] = {
        name: max(int(name != "replay_start"), int(number * steps / PUBLISHED_STEPS)) if shrink else number
        for name, number in SCHEDULE.items()
        if getattr(dqn, name) is None
    }
    return replace(dqn, **unsaid)


def about_schedule(given: DQNConfig, used: DQNConfig, steps: float, *, begun: bool = False) -> Iterator[str]:
    """What there is to say of the schedule of a run of so many steps; `begun`: whether it goes on."""
    assert used.replay_start is not None
    numbers = ", ".join(f"{name} {getattr(used, name):,}" for name in SCHEDULE)
    if used != scheduled(given, steps):
        yield f"schedule: {numbers}, as the run was begun; a new run of this length would have others"
    elif not begun and used != scheduled(given, float("inf")):
        first = SCHEDULE["replay_start"]
        yield (
            f"schedule: {numbers}; shrunk, as the run has {int(steps):,} steps and DQN would begin to learn after "
            f"{first:,} (--replay-start and the others say otherwise)"
        )
    if used.replay_start >= int(steps):
        yield (
            f"warning: this run ends before it begins to learn: it has {int(steps):,} steps, and --replay-start is "
            f"{used.replay_start:,}"
        )


def _check_learning(learning_rate: float, gamma: float) -> None:
    if not 0.0 < learning_rate < 1.0:
        raise ValueError(f"learning_rate must lie between 0 and 1, not {learning_rate}")
    if not 0.0 <= gamma <= 1.0:
        raise ValueError(f"gamma must lie between 0 and 1, not {gamma}")


def _check_counts(config: object, *names: str) -> None:
    for name in names:
        number = getattr(config, name)
        if number is not None and number < 1:
            raise ValueError(f"{name} must be at least 1, not {number}")
