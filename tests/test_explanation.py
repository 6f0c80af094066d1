"""`agent.explain`: the estimates of the agent, the memories behind them, and a table that tells all of it."""

from __future__ import annotations

import numpy as np
import pytest

from mfec import MFEC, EpisodicMemory
from mfec.envs import make_env

from .playing import Shifted, Walk


@pytest.fixture(scope="module")
def agent() -> MFEC:
    return MFEC("qbert", capacity=500, k=4, dim=16, seed=3, epsilon=0.1).learn(1600)


def test_it_is_what_the_memory_estimates_step_by_step(agent):
    env = make_env("qbert")
    observation, _ = env.reset(seed=11)
    before = agent.memory.tensors()
    exact = 0
    for step in range(40):
        explanation = agent.explain(observation)
        states = agent.embedding(observation[None])
        estimates = agent.memory.estimate(states, [observation.tobytes()], mark_used=False)
        assert explanation.values.tolist() == estimates.values[0].tolist()
        assert explanation.exact.tolist() == estimates.exact[0].tolist()
        for action, evidence in enumerate(explanation.actions):
            if not evidence.exact:
                near = agent.memory.neighbours(states[0], action)
                assert evidence.neighbours.entry_ids.tolist() == near.entry_ids.tolist()
                assert evidence.neighbours.distances.tolist() == near.distances.tolist()
        action = int(agent.predict(observation, deterministic=True)[0])
        assert action in explanation.highest
        exact += int(explanation.exact.sum())
        observation, _, terminated, _, _ = env.step(action if step % 5 else 1)
        if terminated:
            break
    assert exact > 10
    after = agent.memory.tensors()
    assert all(np.array_equal(before[name], after[name]) for name in before)


def test_it_names_episode_and_frame_of_the_very_experience():
    """On a walk that observes where it is and how many steps it made, the second number of a state is its frame."""
    agent = MFEC(Walk(length=9), k=2, capacity=100, seed=0).learn(300)
    known = agent.memory.tensors()["states"]
    assert len(known) > 40
    for state in known:
        evidence = [own for own in agent.explain(state).actions if own.exact]
        assert evidence
        for own in evidence:
            [[episode, frame]] = own.neighbours.origins.tolist()
            assert (frame, 1 <= episode <= agent.games) == (state[1], True)


def test_it_prints_as_a_table(agent):
    observation, _ = make_env("qbert").reset(seed=0)
    explanation = agent.explain(observation)
    lines = str(explanation).splitlines()
    heading, *rows, note = lines
    assert heading.split() == [
        "action", "value", "comes", "from", "memory", "weight", "distance", "episode", "frame", "matched",
    ]  # fmt: skip
    assert len(rows) == sum(max(1, len(own.neighbours.values)) for own in explanation.actions)
    assert sum(row.lstrip().startswith("*") for row in rows) == len(explanation.highest)
    assert all(len(line) < 110 for line in lines)
    assert "highest" in note
    for evidence in explanation.actions:
        assert sum(f"{evidence.value:,.6g}" in row for row in rows) >= 1
        for episode, frame in evidence.neighbours.origins.tolist():
            assert any(row.split()[-3:-1] == [str(episode), str(frame)] for row in rows)


def test_an_action_that_was_never_tried_is_said_to_be():
    agent = MFEC("FrozenLake-v1", seed=0, capacity=10)
    table = str(agent.explain(0))
    assert table.count("not tried enough") == 4
    assert table.count("inf") == 4


def test_a_zero_for_want_of_neighbours_is_not_said_to_be_their_mean():
    """The walk has some neighbours for every action, but fewer than k: their returns are above 0."""
    agent = MFEC(Walk(length=9), k=200, capacity=100, seed=0, few_neighbours="zero").learn(300)
    explanation = agent.explain(np.array([0.5, 0.5], np.float32))
    assert explanation.values.tolist() == [0.0] * len(explanation.actions)
    assert all(len(own.neighbours.values) > 0 for own in explanation.actions)
    assert {own.source for own in explanation.actions} == {"zero"}
    table = str(explanation)
    assert "mean" not in table
    assert table.count("too few, so 0") == len(explanation.actions)


@pytest.mark.parametrize(("kernel", "words"), [("mean", "  mean of 3"), ("inverse", "weighted mean of 3")])
def test_it_tells_what_each_memory_counts(kernel, words):
    agent = MFEC(Walk(length=9), k=3, kernel=kernel, capacity=100, seed=0).learn(300)
    explanation = agent.explain(np.array([0.5, 0.25], np.float32))
    heading, *rows, _ = str(explanation).splitlines()
    assert sum(words in row for row in rows) == len(explanation.actions)
    end = heading.index("weight") + len("weight")
    told = [float(row[:end].split()[-1]) for row in rows]
    assert told == pytest.approx([weight for own in explanation.actions for weight in own.weights], rel=0.01)
    assert (len(set(told)) == 1) == (kernel == "mean")
    for own in explanation.actions:
        assert own.weights @ own.neighbours.values == pytest.approx(own.value, rel=1e-5)


def test_actions_count_as_the_environment_does():
    agent = MFEC(Shifted(), seed=0, capacity=10, k=1).learn(50)
    explanation = agent.explain(-2)
    assert explanation.first_action == 5
    rows = [row.replace("*", " ").split() for row in str(explanation).splitlines()[1:-1]]
    assert [row[0] for row in rows] == ["5", "6", "7"]


@pytest.mark.parametrize("observation", [np.zeros((2, 84, 84), np.uint8), np.zeros(7, np.uint8)])
def test_one_observation_of_the_right_shape_is_explained(agent, observation):
    with pytest.raises(ValueError, match="shape"):
        agent.explain(observation)


@pytest.mark.browser
def test_a_notebook_shows_what_print_shows(agent, browser):
    """Cell by cell, as a browser reads the table; the highest values are bold."""
    explanation = agent.explain(make_env("qbert").reset(seed=0)[0])
    page = browser.new_page()
    page.set_content(explanation._repr_html_())
    rows = [page_row.split("\t") for page_row in page.inner_text("tbody").split("\n")]
    printed = str(explanation).splitlines()[1:-1]
    assert [" ".join(row).split() for row in rows] == [row.split() for row in printed]
    bold = page.eval_on_selector_all("td", "all => all.filter(one => getComputedStyle(one).fontWeight == 700).length")
    assert bold == 3 * len(explanation.highest)
    assert "matched: how often" in page.inner_text("div.mfec-table")


def test_a_notebook_shows_what_a_memory_holds(agent):
    shown = agent.memory._repr_html_()
    assert repr(agent.memory) in shown
    assert shown.count("<tr") == 1 + agent.memory.n_actions
    for entries in map(agent.memory.entries, range(agent.memory.n_actions)):
        assert f"<td>{len(entries)}</td>" in shown
        assert f"<td>{entries.values.max():,.6g}</td>" in shown
    assert EpisodicMemory(2, 3)._repr_html_().count("<td>-</td>") == 6


@pytest.mark.torch
def test_a_memory_that_matches_nothing_exactly_counts_no_matches():
    from mfec import NEC

    agent = NEC("FrozenLake-v1", p=3, dim=4, capacity=100, replay_start=20, n_step=5, seed=0).learn(300)
    explanation = agent.explain(0)
    assert not explanation.exact.any()
    for text in (str(explanation), explanation._repr_html_()):
        assert "weighted mean of 3" in text
        assert "matched" not in text
    rows = str(explanation).splitlines()[1:-1]
    assert len(rows) == 3 * agent.n_actions
    assert sum(float(row.split()[-4]) for row in rows) == pytest.approx(agent.n_actions, abs=0.02)
