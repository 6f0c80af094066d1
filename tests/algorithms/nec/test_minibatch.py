"""Minibatches as a GPU computes them: in one go, with keys that never leave it, and in Triton's interpreter here."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from mfec import NEC  # noqa: E402
from mfec.algorithms.nec.minibatch import Minibatch, RecordedMinibatch  # noqa: E402

from ...dots import Dots  # noqa: E402
from ...interpreter import INTERPRETED, run_in_interpreter  # noqa: E402

pytestmark = [pytest.mark.torch]
if INTERPRETED:  # numpy speaks of numbers that overflow: what stands where no entry does
    pytestmark.append(pytest.mark.filterwarnings("ignore::RuntimeWarning"))


@pytest.fixture(autouse=True)
def few_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The interpreter runs programs one after the other, also those for pages that are not there."""
    if INTERPRETED:
        monkeypatch.setattr("mfec.device.launches.FEWEST_PAGES", 1)


@pytest.mark.slow(reason="Triton's interpreter runs every program of a kernel in Python")
@pytest.mark.skipif(INTERPRETED, reason="it is on")
def test_all_of_this_holds_for_the_kernels_in_the_interpreter() -> None:
    run_in_interpreter(__file__)


@pytest.mark.skipif(not INTERPRETED, reason="for the interpreter")
@pytest.mark.parametrize(
    ("env", "frames", "leave_one_out"), [("CartPole-v1", 90, False), ("CartPole-v1", 90, True), (Dots, 40, False)]
)
def test_recorded_minibatches_change_what_others_change(env: Any, frames: int, leave_one_out: bool) -> None:
    """Network, keys and values after some minibatches, the third of which has less than p neighbours."""
    agents = [
        NEC(
            env if isinstance(env, str) else env(), p=6, capacity=30, dim=4, replay_start=5, batch_size=8, n_step=5,
            train_frames=4, learning_rate=1e-3, key_learning_rate=1e-3, value_learning_rate=0.05, epsilon=1.0,
            leave_one_out=leave_one_out, index=index, seed=0,
        ).learn(frames)
        for index in ("exact", "cuda")
    ]  # fmt: skip
    assert [type(agent._minibatch) for agent in agents] == [Minibatch, RecordedMinibatch]
    assert agents[1].memory.embeds is (env is Dots)
    plain, recorded = agents
    assert plain.metrics()["updates"] == recorded.metrics()["updates"] > 5
    assert recorded.metrics()["loss"] == pytest.approx(plain.metrics()["loss"], rel=1e-3)
    one, other = (agent.memory.entries() for agent in agents)
    assert np.array_equal(one.keys, other.keys)
    assert np.array_equal(one.ticks, other.ticks)
    np.testing.assert_allclose(other.states, one.states, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(other.values, one.values, rtol=1e-3, atol=1e-4)
    for ours, theirs in zip(plain.embedding.network.parameters(), recorded.embedding.network.parameters(), strict=True):
        np.testing.assert_allclose(theirs.detach().numpy(), ours.detach().numpy(), rtol=1e-2, atol=1e-4)


def test_minibatches_move_network_keys_and_values() -> None:
    """Else the two above would agree on nothing."""
    agent = NEC("CartPole-v1", p=6, capacity=100, dim=4, replay_start=20, batch_size=8, n_step=5, epsilon=1.0, seed=0)
    agent.learn(60)
    before = agent.memory.entries()
    weights = [parameter.detach().clone() for parameter in agent.embedding.network.parameters()]
    agent._due = 3
    agent._meanwhile()
    agent._finish_minibatch()
    after = agent.memory.entries()
    assert (after.states != before.states).any()
    assert (after.values != before.values).any()
    assert all((now != then).any() for now, then in zip(agent.embedding.network.parameters(), weights, strict=True))
