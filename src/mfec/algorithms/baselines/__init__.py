"""What the paper compares with: DQN, prioritised DQN and A2C, on Stable-Baselines3 (extra `baselines`)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from mfec.algorithms.baselines.settings import SCHEDULE, A2CConfig, DQNConfig, about_schedule, scheduled
from mfec.algorithms.registry import Algorithm, Footprint
from mfec.algorithms.run_config import RunConfig
from mfec.checkpoint import CheckpointError
from mfec.config import EnvConfig, Settings
from mfec.device import refuse_missing

__all__ = ["A2C", "DQN", "PRIORITISED_DQN", "A2CConfig", "DQNConfig"]

REPLAY_BESIDE = 31  # bytes of a step in a replay buffer beside its frame: action, reward, flags, priorities


class Network(Algorithm):
    """An algorithm of Stable-Baselines3 on environments of ours."""

    extra = "baselines"
    stacks_frames = True

    def __init__(self, name: str, label: str, settings: Settings, environment: EnvConfig) -> None:
        self.name, self.label, self.settings, self.environment = name, label, type(settings), environment
        self._published = settings

    def defaults(self, env: str, recipe: str = "paper") -> Settings:
        """The published settings."""
        super().defaults(env, recipe)
        return self._published

    def resolve(
        self, config: RunConfig, env: Any, *, out: Path | None = None, begun: RunConfig | None = None
    ) -> RunConfig:
        """One frame where there are no pictures to stack; and numbers for DQN's schedule.

        A run that is given more frames goes on as it began, though a run of so many frames would have begun otherwise.
        """
        from mfec.envs.environments import make_environments
        from mfec.envs.spaces import is_picture

        envs = make_environments(env, np.random.SeedSequence(config.seed))
        if not is_picture(envs.observation_space):
            config = replace(config, environment=replace(config.environment, frame_stack=1))
        if not isinstance(config.agent, DQNConfig):
            return config
        given = config.agent
        if begun is not None and isinstance(begun.agent, DQNConfig):
            unsaid: Any = {name: getattr(begun.agent, name) for name in SCHEDULE if getattr(given, name) is None}
            given = replace(given, **unsaid)
        return replace(config, agent=scheduled(given, config.total_frames / envs.frame_skip))

    def make(self, env: Any, config: RunConfig, *, out: Path | None = None, device: Any = None) -> Any:
        """A new one."""
        from mfec.algorithms.baselines.baseline import Baseline

        if device is not None:
            raise ValueError(f"{self.label} has nothing to look up on a device that other runs share")
        refuse_missing(config.agent.device)
        assert isinstance(config.agent, (DQNConfig, A2CConfig))
        stack = config.environment.frame_stack
        return Baseline(env, config.agent, algorithm=self.name, frame_stack=stack, seed=config.seed)

    def load(self, path: Path, env: Any, config: RunConfig, *, device: Any = None, playing: bool = False) -> Any:
        """One that was saved, if it is that of the run."""
        from mfec.algorithms.baselines.baseline import Baseline

        refuse_missing(device or config.agent.device)
        baseline = Baseline.load(path, env, device=device or config.agent.device, playing=playing)
        ours = (self.name, config.agent, config.seed)
        saved = replace(baseline.settings, device=config.agent.device)
        if (baseline.algorithm, saved, baseline.seed) != ours:
            raise CheckpointError(f"{path} is of another run: its settings are not those of config.toml")
        return baseline

    def remarks(self, given: RunConfig, used: RunConfig, frame_skip: int, *, begun: bool = False) -> list[str]:
        """What there is to say of DQN's schedule."""
        if not isinstance(given.agent, DQNConfig) or not isinstance(used.agent, DQNConfig):
            return []
        return list(about_schedule(given.agent, used.agent, used.total_frames / frame_skip, begun=begun))

    def footprint(self, config: RunConfig, env: Any, *, out: Path | None = None) -> Footprint | None:
        """Bytes of DQN's replay; A2C has none."""
        from mfec.envs.environments import make_environments

        if not isinstance(config.agent, DQNConfig):
            return None
        envs = make_environments(env, np.random.SeedSequence(0))
        space, capacity = envs.observation_space, config.agent.replay_capacity
        each = int(np.prod(space.shape or (1,))) * np.dtype(space.dtype).itemsize + REPLAY_BESIDE
        full, now = (each * min(rows, capacity) for rows in (capacity, config.total_frames // envs.frame_skip))
        return Footprint("replay", f"{capacity:,} steps", full, now, "--replay-capacity", for_checkpoint=now)


# As published: networks see four frames, and A2C learns from 16 games.
DQN = Network("dqn", "DQN", DQNConfig(), EnvConfig(frame_stack=4))
PRIORITISED_DQN = Network(
    "prioritised_dqn",
    "prioritised DQN",
    DQNConfig(learning_rate=DQNConfig.learning_rate / 4),
    EnvConfig(frame_stack=4),
)
A2C = Network("a2c", "A2C (synchronous A3C)", A2CConfig(), EnvConfig(n_envs=16, frame_stack=4))
