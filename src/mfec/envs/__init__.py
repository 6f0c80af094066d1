"""Environments: Atari as the paper plays it, the Labyrinth, ViZDoom, and any other of Gymnasium."""

from mfec.envs.atari import make_atari
from mfec.envs.names import env_names, make_env

__all__ = ["env_names", "make_atari", "make_env"]
