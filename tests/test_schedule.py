"""Schedules: what they are at each frame, how they are written, and that a run with one goes on bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mfec import MFEC, AgentConfig, Linear
from mfec.schedule import chance

from .playing import Keep, Recorder, Walk, entries, everything, side_by_side

CHANCE = st.floats(0.0, 1.0)


@given(CHANCE, CHANCE, st.integers(1, 10**9), st.integers(0, 10**9))
def test_a_schedule_goes_from_one_number_to_another_and_is_written_without_loss(start, end, frames, now):
    schedule = Linear(start, end, frames)
    assert schedule(0) == start
    assert schedule(frames) == schedule(frames + now) == end
    assert min(start, end) - 1e-15 <= schedule(now) <= max(start, end) + 1e-15
    assert chance(str(schedule), "x") == schedule == chance(schedule, "x")
    assert AgentConfig(epsilon=str(schedule)).epsilon_at(now) == schedule(now)


@pytest.mark.parametrize(("given", "known"), [
    ("linear:1:0.005:100_000", Linear(1.0, 0.005, 100_000)),
    ("linear:1:.5:1e5", Linear(1.0, 0.5, 100_000)),
    (Linear(np.float32(1), 0, np.int64(3)), Linear(1.0, 0.0, 3)),
    (np.float64(0.25), 0.25), ("0.25", 0.25), (1, 1.0),
])  # fmt: skip
def test_it_may_be_written_in_other_ways(given, known):
    assert chance(given, "epsilon") == known
    assert str(chance(given, "epsilon")) == str(known)


@pytest.mark.parametrize(("given", "why"), [
    (lambda frames: 0.1, "epsilon must be a number or linear:START:END:FRAMES .*; a function could not be saved"),
    ("linear:1:0", "epsilon must be a number or linear:START:END:FRAMES"),
    ("linear:1:0:0", "epsilon must be a number or linear"),
    ("linear:1:0:1.5", "epsilon must be a number or linear"),
    ("exponential:1:0:10", "epsilon must be a number or linear"),
    ("high", "not 'high'"), (None, "not None"), ([0.1], "epsilon must be a number"),
    ("linear:2:0:10", "epsilon must lie between 0 and 1, not 2"), (float("nan"), "between 0 and 1, not nan"),
])  # fmt: skip
def test_what_is_no_chance_is_an_error_that_says_what_is(given, why):
    with pytest.raises(ValueError, match=why):
        MFEC(Walk(), epsilon=given)


def test_the_agent_acts_by_it_and_says_what_it_is_now(tmp_path):
    """First everything is chance, in the end nothing: only action 0 is rewarded, and the first game finds it."""
    env = Recorder(Walk(reward=lambda action: float(action == 0), length=1))
    settings = {"k": 1, "capacity": 10_000, "few_neighbours": "zero", "ties": "first", "seed": 0}
    agent = MFEC(env, epsilon=Linear(1.0, 0.0, frames=400), **settings)
    assert (agent.epsilon, agent.metrics()["epsilon"], agent.config.epsilon) == (1.0, 1.0, "linear:1:0:400")
    agent.learn(800)
    explored = np.array(env.actions) != 0
    assert explored[:100].sum() > explored[100:200].sum() > explored[300:400].sum() > 0
    assert not explored[400:].any()
    assert agent.epsilon == agent.evaluation_epsilon == 0.0
    agent.save(tmp_path)
    loaded = MFEC.load(tmp_path)
    assert (loaded.epsilon, loaded.config) == (0.0, agent.config)
    assert "epsilon=linear:1:0:400" in loaded._repr_html_()


@pytest.mark.parametrize("n", [1, 3])
def test_a_run_with_a_schedule_goes_on_bit_for_bit(tmp_path, n):
    def make():
        return side_by_side(Walk, n)

    schedule = Linear(0.9, 0.1, 90)
    whole = everything(MFEC(make(), epsilon=schedule, k=2, capacity=100, seed=1).learn(120), tmp_path / "whole")
    with pytest.raises(Keep.Stopped):
        MFEC(make(), epsilon=schedule, k=2, capacity=100, seed=1).learn(120, Keep(tmp_path, (10,), 10))
    assert everything(MFEC.load(tmp_path / "10", make()).learn(120), tmp_path / "parts") == whole


def test_a_number_plays_what_a_schedule_of_that_number_plays(tmp_path):
    plain, flat = (
        everything(MFEC(Walk(), epsilon=epsilon, k=2, capacity=100, seed=1).learn(200), tmp_path, but=("config",))
        for epsilon in (0.3, Linear(0.3, 0.3, 100))
    )
    assert plain == flat


@pytest.mark.torch
def test_a_run_that_searches_on_a_device_heeds_it_too(tmp_path):
    def learned(index: str) -> dict:
        env = Recorder(Walk())
        settings: Any = {"embedding": "random_projection", "dim": 3, "k": 2, "capacity": 100, "seed": 0}
        agent = MFEC(env, index=index, epsilon=Linear(1.0, 0.0, 150), **settings).learn(300)
        return {"actions": env.actions, "epsilon": agent.epsilon, "entries": entries(agent)}

    assert learned("cuda") == learned("exact")
