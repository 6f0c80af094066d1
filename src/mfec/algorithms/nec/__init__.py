"""Neural Episodic Control (Pritzel et al., 2017) as an algorithm of the registry (extra `torch`)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from mfec.algorithms.footprints import footprint_of_memory
from mfec.algorithms.nec.settings import STACK, NECConfig
from mfec.algorithms.registry import Algorithm, Footprint
from mfec.algorithms.run_config import RunConfig
from mfec.canonical_names import env_kind
from mfec.checkpoint import CheckpointError
from mfec.config import EnvConfig, resolved_truncated
from mfec.device import refuse_missing

__all__ = ["NEURAL_EPISODIC_CONTROL", "NECConfig"]


def settings_of(config: RunConfig) -> NECConfig:
    """The settings of a run of NEC."""
    assert isinstance(config.agent, NECConfig)
    return config.agent


class NeuralEpisodicControl(Algorithm):
    """Neural Episodic Control."""

    name = "nec"
    label = "NEC"
    settings = NECConfig
    extra = "torch"
    environment = EnvConfig(frame_stack=STACK)
    looks_up = True

    def resolve(
        self, config: RunConfig, env: Any, *, out: Path | None = None, begun: RunConfig | None = None
    ) -> RunConfig:
        """The settings with what `auto` stands for, and one frame where there are none to stack."""
        from mfec.envs.environments import make_environments

        own = settings_of(config)
        facts = make_environments(env, np.random.SeedSequence(config.seed)).facts
        own = replace(own, truncated=resolved_truncated(own.truncated, facts.published))
        return replace(config, agent=own, environment=self.environment_of_agent(config))

    def environment_of_agent(self, config: RunConfig, **changes: Any) -> EnvConfig:
        """Stacked frames where there are any to stack: those of Atari games."""
        stacks = {} if env_kind(config.env) == "atari" else {"frame_stack": 1}
        return super().environment_of_agent(config, **{**changes, **stacks})

    def make(self, env: Any, config: RunConfig, *, out: Path | None = None, device: Any = None) -> Any:
        """A new agent."""
        refuse_missing(config.agent.device)
        from mfec.algorithms.nec.agent import NEC

        return NEC(env, **{**vars(settings_of(config)), "device": device or config.agent.device}, seed=config.seed)

    def load(self, path: Path, env: Any, config: RunConfig, *, device: Any = None, playing: bool = False) -> Any:
        """The agent, if it is that of the run."""
        refuse_missing(device or config.agent.device)
        from mfec.algorithms.nec.agent import NEC

        own = settings_of(config)
        index = None if playing else own.index
        agent = NEC.load(path, env, device=device or own.device, index=index, playing=playing)
        saved = replace(agent.config, device=own.device, index=own.index)
        if (saved, agent.seed) != (own, config.seed):
            raise CheckpointError(f"{path} is of another run: its settings are not those of config.toml")
        return agent

    def remarks(self, given: RunConfig, used: RunConfig, frame_skip: int, *, begun: bool = False) -> list[str]:
        """A warning where the network never learns."""
        own, steps = settings_of(used), used.total_frames // frame_skip
        if own.replay_start < steps:
            return []
        return [
            f"warning: this run ends before its network begins to learn: it has {steps:,} steps, and --replay-start is "
            f"{own.replay_start:,}"
        ]

    def footprint(self, config: RunConfig, env: Any, *, out: Path | None = None) -> Footprint:
        """Bytes of the dictionaries and of replay; on a GPU the keys are not in RAM."""
        from mfec.algorithms.nec.replay import Replay
        from mfec.envs.environments import make_environments
        from mfec.envs.spaces import n_planes

        own, envs = settings_of(config), make_environments(env, np.random.SeedSequence(0))
        space, steps = envs.observation_space, config.total_frames // envs.frame_skip
        memory = footprint_of_memory(own, int(envs.action_space.n), own.dim, steps)
        full, now = (
            Replay.bytes_when_full(rows, space.shape or (), space.dtype, planes=n_planes(space) or 1)
            for rows in (own.replay_capacity, min(own.replay_capacity, steps))
        )
        rows = f"{memory.rows} and {own.replay_capacity:,} steps of replay"
        return replace(
            memory,
            rows=rows,
            full=memory.full + full,
            in_this_run=memory.in_this_run + now,
            for_checkpoint=memory.for_checkpoint + now,
        )


NEURAL_EPISODIC_CONTROL = NeuralEpisodicControl()
