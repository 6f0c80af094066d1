"""Environments: Atari as the paper plays it, any Gymnasium environment, and the lanes the agent plays them in."""

from mfec.envs.atari import make_atari
from mfec.envs.names import env_names, make_env

__all__ = ["env_names", "make_atari", "make_env"]
