"""How much RAM, and memory of a GPU, runs can come to need side by side."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

from mfec.config import EnvConfig, RunConfig
from mfec.envs import make_env
from mfec.envs.lanes import Lanes, make_lanes
from mfec.experiments.embedding import embedding_of_run
from mfec.experiments.ram import REPLAY_BESIDE, RamReport

PROCESS_BYTES = 600_000_000  # a process at its first frames: 330 MB, with a VAE 530, with a network that learns 580
COPIES = 2  # of what a run remembers, while a checkpoint is written or read


def bytes_needed(config: RunConfig, out: Path | None = None) -> int:
    """The most RAM that a run can take until its last frame; nothing, if it cannot even begin and will say why.

    out: where the run is, if it has begun.
    """
    try:
        return _bytes_needed(config, out)
    except Exception:  # an environment may raise anything
        return 0


def _bytes_needed(config: RunConfig, out: Path | None) -> int:
    if config.algorithm == "mfec":
        return PROCESS_BYTES + COPIES * report_of(config, out).in_this_run
    if config.algorithm == "a2c":
        return PROCESS_BYTES
    lanes = _lanes(config.env, EnvConfig())
    space = lanes.observation_space
    each = int(np.prod(space.shape or (1,))) * np.dtype(space.dtype).itemsize + REPLAY_BESIDE
    return PROCESS_BYTES + COPIES * each * min(config.dqn.replay_capacity, config.total_frames // lanes.frame_skip)


def report_of(config: RunConfig, out: Path | None = None) -> RamReport:
    """What the memory of an MFEC run comes to."""
    lanes = _lanes(config.env, replace(config.environment, n_envs=1))
    _, dim = embedding_of_run(config.agent, lanes.observation_space, out)
    return RamReport.of(int(lanes.action_space.n), dim, config, lanes.frame_skip)


@cache
def _lanes(env: str, environment: EnvConfig) -> Lanes:
    return make_lanes(make_env(env, environment), np.random.SeedSequence(0))
