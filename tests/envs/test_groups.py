"""Vector environments whose environments step in two groups: calls in the wrong order."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest

from mfec.config import EnvConfig
from mfec.envs import make_env


@pytest.mark.parametrize("name", ["qbert", "labyrinth_forage"])
def test_calls_that_would_wait_forever_or_lose_a_step_are_errors(name: str) -> None:
    vector = make_env(name, EnvConfig(n_envs=3))
    with pytest.raises(gymnasium.error.ResetNeeded, match="all environments"):
        vector.reset(options={"reset_mask": np.array([True, True, False])})
    vector.reset(seed=0)
    with pytest.raises(gymnasium.error.NoAsyncCallError, match="group 1 was sent no actions"):
        vector.receive(1)
    vector.send(0, np.array([0, 0]))
    for call in (
        lambda: vector.send(0, np.array([0, 0])),
        lambda: vector.step(np.zeros(3, np.int64)),
        lambda: vector.reset(options={"reset_mask": np.array([True, False, False])}),
    ):
        with pytest.raises(gymnasium.error.AlreadyPendingCallError, match="group"):
            call()
    vector.receive(0)
    vector.step(np.zeros(3, np.int64))
