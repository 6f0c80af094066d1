"""Defaults that depend on the environment."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mfec import AgentConfig, agent_defaults


@pytest.mark.parametrize("env", [
    "labyrinth_forage", "labyrinth_forage_and_avoid", "labyrinth_double_t_maze",
    "mfec/Labyrinth-Forage-v0", "mfec/Labyrinth-ForageAndAvoid-v0", "mfec/Labyrinth-DoubleTMaze-v0",
    "mfec.envs:mfec/Labyrinth-Forage-v0",
])  # fmt: skip
def test_the_labyrinth_has_defaults_of_its_own(env):
    assert agent_defaults(env) == replace(AgentConfig(), k=50, gamma=0.99, capacity=100_000)
    assert agent_defaults(env).epsilon == 0.005


@pytest.mark.parametrize("env", [
    "qbert", "ALE/Qbert-v5", "CartPole-v1", "labyrinth", "my_labyrinth_forage", "other/Labyrinth-Forage-v0",
    "labyrinth_module:CartPole-v1",
])  # fmt: skip
def test_everything_else_has_those_of_atari(env):
    assert agent_defaults(env) == AgentConfig()
    assert (AgentConfig().k, AgentConfig().gamma, AgentConfig().capacity) == (11, 1.0, 1_000_000)
