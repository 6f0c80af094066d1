"""The agent against a slow one that keeps a dict for each action, and what it must do as MFEC does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

torch = pytest.importorskip("torch")

from mfec import NEC, Callback, make_atari  # noqa: E402
from mfec.checkpoint import read_checkpoint  # noqa: E402
from mfec.errors import MfecError  # noqa: E402
from mfec.interface import Steps  # noqa: E402
from mfec.memory.identities import array_keys  # noqa: E402

from ...playing import Walk, side_by_side  # noqa: E402

pytestmark = pytest.mark.torch

P, N, GAMMA, ALPHA, DELTA = 4, 3, 0.9, 0.25, 1e-3


class Recorder(Callback):
    def __init__(self) -> None:
        self.steps: list[Steps] = []

    def on_steps(self, agent: Any, steps: Steps) -> None:
        self.steps.append(steps)


class SlowNEC:
    """Dictionaries of a random network that never learns, written by the book: one step, one loop."""

    def __init__(self, n_actions: int) -> None:
        self.entries: list[dict[bytes, list[Any]]] = [{} for _ in range(n_actions)]  # of key and value, by observation
        self.replay: list[tuple[bytes, int, float]] = []
        self.games: dict[int, list[tuple[bytes, Any, int, float]]] = {}  # by environment, what is not written yet

    def value(self, key: Any, action: int) -> float:
        near = sorted(((float(((key - own) ** 2).sum()), value) for own, value in self.entries[action].values()))[:P]
        weights = [1.0 / (squared + DELTA) for squared, _ in near]
        return sum(w * v for w, (_, v) in zip(weights, near, strict=True)) / sum(weights) if near else -np.inf

    def best(self, key: Any) -> float:
        best = max(self.value(key, action) for action in range(len(self.entries)))
        return best if np.isfinite(best) else 0.0

    def write_first(self, env: int, after: float) -> None:
        """The first step of those that are not written yet, whose return has all of their rewards."""
        game = self.games[env]
        ret = sum(GAMMA**i * step[3] for i, step in enumerate(game)) + GAMMA ** len(game) * after
        observation, key, action, _ = game.pop(0)
        self.replay.append((observation, action, ret))
        if observation in self.entries[action]:
            entry = self.entries[action][observation]
            entry[:] = key, entry[1] + ALPHA * (ret - entry[1])
        else:
            self.entries[action][observation] = [key, ret]

    def acted(self, envs: list[int], bests: list[float]) -> None:
        for env, best in zip(envs, bests, strict=True):
            if len(self.games.setdefault(env, [])) == N:
                self.write_first(env, best)

    def ended(self, env: int, after: float) -> None:
        while self.games[env]:
            self.write_first(env, after)


def assert_written(agent: NEC, slow: SlowNEC) -> None:
    """The same entries, and the same steps in replay, in the same order."""
    for action in range(agent.n_actions):
        entries = agent.memory.entries(action)
        own = {bytes(key): value for key, value in zip(entries.keys, entries.values.tolist(), strict=True)}
        space = agent.observation_space
        theirs = {
            bytes(array_keys(np.frombuffer(observation, space.dtype).reshape(1, *(space.shape or ())))[0]): value
            for observation, (_, value) in slow.entries[action].items()
        }
        assert own.keys() == theirs.keys()
        assert [own[key] for key in own] == pytest.approx([theirs[key] for key in own], rel=1e-4, abs=1e-6)
    kept = agent.replay.tensors()
    drawn = zip(kept["planes"][kept["stacks"][:, 0]], kept["actions"].tolist(), strict=True)
    assert [(seen.tobytes(), action) for seen, action in drawn] == [step[:2] for step in slow.replay]
    assert kept["values"] == pytest.approx(np.array([ret for *_, ret in slow.replay]), rel=1e-4, abs=1e-6)


SLOW: dict[str, Any] = {
    "p": P, "n_step": N, "gamma": GAMMA, "alpha": ALPHA, "delta": DELTA, "epsilon": 0.5, "capacity": 1000, "dim": 8,
    "replay_start": 100_000,
}  # fmt: skip


@pytest.mark.parametrize("env", ["FrozenLake-v1", "CliffWalking-v1"])
def test_what_is_written_is_what_the_paper_says(env: str) -> None:
    """N-step returns, bootstrapped from the dictionaries as they are when the N-th state is seen; alpha where known."""
    agent = NEC(env, **SLOW, few_neighbours="mean", truncated="write", seed=3)
    recorder, slow = Recorder(), SlowNEC(agent.n_actions)
    agent.learn(400, recorder)
    for steps in recorder.steps:
        key = agent.states(steps.observations)[0].astype(np.float64)
        slow.acted([0], [slow.best(key)])
        slow.games[0].append((steps.observations[0].tobytes(), key, int(steps.actions[0]), float(steps.rewards[0])))
        if steps.ended[0]:
            slow.ended(0, 0.0)
    assert_written(agent, slow)


@pytest.mark.parametrize("episode", ["game", "life"])
def test_returns_at_lost_lives_and_time_limits_of_several_environments(episode: Any) -> None:
    """A game of two lives, 4 steps each, that a limit of 6 steps cuts off: the value there ends the return."""

    def make() -> Any:
        return gymnasium.wrappers.TimeLimit(Walk(length=4, lives=2), 6)

    agent = NEC(side_by_side(make, 3), **SLOW, episode=episode, seed=3)
    recorder, slow = Recorder(), SlowNEC(agent.n_actions)
    agent.learn(300, recorder)
    for steps in recorder.steps:
        keys = agent.states(steps.observations).astype(np.float64)
        slow.acted([0, 1, 2], [slow.best(key) for key in keys])
        for env in range(3):
            at, t = steps.observations[env].tolist()
            action = int(steps.actions[env])
            step = steps.observations[env].tobytes(), keys[env], action, float(steps.rewards[env])
            slow.games[env].append(step)
            assert steps.ended[env] == (t == 5)
            if t == 5:
                last = np.array([[at + action, t + 1]], np.float32)
                slow.ended(env, slow.best(agent.states(last)[0].astype(np.float64)))
            elif t == 3 and episode == "life":
                slow.ended(env, 0.0)
    assert len(agent.memory) > 100
    assert_written(agent, slow)


def test_neighbours_are_those_of_brute_force_while_keys_move() -> None:
    agent = NEC("CartPole-v1", p=P, capacity=500, dim=4, replay_start=50, batch_size=8, train_frames=1, seed=0)
    agent.learn(700)
    assert agent.metrics()["updates"] > 500
    states = agent.states(np.random.default_rng(0).normal(size=(20, 4)).astype(np.float32))
    for action in range(2):
        entries = agent.memory.entries(action)
        slots, squared = agent.memory.nearest(states, np.full(20, action))
        for row, state in enumerate(states.astype(np.float64)):
            far = ((entries.states.astype(np.float64) - state) ** 2).sum(1)
            assert slots[row].tolist() == np.argsort(far, kind="stable")[:P].tolist()
            assert squared[row] == pytest.approx(np.sort(far)[:P])


def test_the_index_of_a_gpu_finds_the_same_neighbours() -> None:
    """Its code, on the CPU: the same games, the same keys wherever they have moved."""
    agents = [
        NEC("CartPole-v1", p=P, capacity=100, dim=4, replay_start=50, train_frames=4, index=index, seed=0).learn(400)
        for index in ("exact", "cuda")
    ]
    one, other = (agent.memory.entries() for agent in agents)
    assert agents[0].scores == agents[1].scores
    assert np.array_equal(one.states, other.states)
    assert np.array_equal(one.values, other.values)


class Needle(gymnasium.Env[Any, Any]):
    """One number of ten says which action pays; the others are ten times as large and say nothing."""

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (10,), np.float32)
        self.action_space = spaces.Discrete(2)

    def _show(self) -> Any:
        shown = self.np_random.normal(size=10)
        self.right = int(shown[0] > 0.0)
        return (shown * np.array([0.3] + [1.0] * 9)).astype(np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return self._show(), {}

    def step(self, action: Any) -> Any:
        paid = float(action == self.right)
        return self._show(), paid, True, False, {}


def share_right(agent: NEC) -> float:
    rng = np.random.default_rng(7)
    shown = rng.normal(size=(500, 10)).astype(np.float32) * np.array([0.3] + [1.0] * 9, np.float32)
    actions, _ = agent.predict(shown, deterministic=True)
    return float((actions == (shown[:, 0] > 0.0)).mean())


@pytest.mark.slow("it learns a metric: 9,000 minibatches")
def test_a_metric_is_learned_through_the_memory() -> None:
    """Where a random embedding sees mostly noise, the learned one finds the number that counts.

    No observation comes twice here. So with its own entry a step's value is its own return, and there is no error.
    """
    shares = {}
    for rate, leave_one_out in ((0.0, True), (1e-3, False), (1e-3, True)):
        agent = NEC(
            Needle(), p=20, capacity=2000, dim=8, learning_rate=rate, key_learning_rate=rate, epsilon=0.3,
            leave_one_out=leave_one_out, train_frames=1, replay_start=100, seed=1,
        )  # fmt: skip
        shares[rate, leave_one_out] = share_right(agent.learn(3000))
    assert shares[1e-3, True] > 0.9
    assert max(shares[0.0, True], shares[1e-3, False]) < 0.7


def everything(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    state, tensors = read_checkpoint(path, kind="nec")
    timed = state["tally"]
    timed["lookup_seconds"] = timed["write_seconds"] = 0.0
    return state, tensors


def assert_equal_agents(one: Path, other: Path) -> None:
    (state, tensors), (again, others) = everything(one), everything(other)
    assert state == again
    assert {name: sorted(arrays) for name, arrays in tensors.items()} == {
        name: sorted(arrays) for name, arrays in others.items()
    }
    for name, arrays in tensors.items():
        if name == "replay":  # frames may lie elsewhere, items not
            continue
        for key, array in arrays.items():
            assert np.array_equal(array, others[name][key]), (name, key)


def make_env(kind: str) -> Any:
    return make_atari("qbert", n_envs=2, frame_stack=4) if kind == "qbert" else gymnasium.make(kind)


@pytest.mark.parametrize(("kind", "frames"), [("CartPole-v1", 700), ("FrozenLake-v1", 500), ("qbert", 1200)])
def test_a_resumed_run_equals_an_uninterrupted_one(
    kind: str, frames: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Saved twice, in several files; keys and values have moved in between."""
    settings: dict[str, Any] = {"p": 5, "capacity": 300, "n_step": 10, "replay_start": 40, "replay_capacity": 60}
    whole = NEC(make_env(kind), **settings, seed=2).learn(frames)
    with monkeypatch.context() as patch:
        patch.setattr("mfec.memory.parts.PART_BYTES", 9_000)
        half = NEC(make_env(kind), **settings, seed=2).learn(frames // 3)
        half.save(tmp_path / "half")
        half.learn(frames // 2).save(tmp_path / "half")
        assert len(list((tmp_path / "half").glob("memory-*"))) > 2
        resumed = NEC.load(tmp_path / "half", make_env(kind)).learn(frames)
    assert whole._updates > 0
    whole.save(tmp_path / "whole")
    resumed.save(tmp_path / "resumed")
    assert_equal_agents(tmp_path / "whole", tmp_path / "resumed")
    draws = [agent.replay.draw(64, np.random.default_rng(0)) for agent in (whole, resumed)]
    assert all(np.array_equal(one, other) for one, other in zip(*draws, strict=True))


def test_looking_leaves_no_trace(tmp_path: Path) -> None:
    agent = NEC("CartPole-v1", p=5, capacity=200, replay_start=40, seed=0).learn(300)
    agent.save(tmp_path / "before")
    observation = np.array([0.01, 0.02, -0.01, 0.03], np.float32)
    explanation = agent.explain(observation)
    action, _ = agent.predict(observation, deterministic=True)
    agent.save(tmp_path / "after")
    assert_equal_agents(tmp_path / "before", tmp_path / "after")
    assert action == explanation.highest[0]
    for evidence in explanation.actions:
        assert evidence.source == "weighted_mean"
        assert evidence.weights.sum() == pytest.approx(1.0)
        near = evidence.neighbours
        kernel = 1.0 / (near.distances**2 + agent.delta)
        assert evidence.weights == pytest.approx(kernel / kernel.sum())
        assert evidence.value == pytest.approx(float(evidence.weights @ near.values), rel=1e-5)
        assert (near.origins[:, 0] >= 1).all()


def test_it_plays_on_without_its_replay(tmp_path: Path) -> None:
    agent = NEC("CartPole-v1", p=5, capacity=200, replay_start=40, seed=0).learn(300)
    agent.save(tmp_path)
    loaded = NEC.load(tmp_path, playing=True)
    observations = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
    assert np.array_equal(
        loaded.predict(observations, deterministic=True)[0], agent.predict(observations, deterministic=True)[0]
    )


@pytest.mark.parametrize("index", [None, "auto"])
def test_neighbours_stay_exact_after_a_resume(index: Any, tmp_path: Path) -> None:
    """`auto` is exact here. MFEC's goes over to cells once these are faster: approximate, and by the clock."""
    settings: dict[str, Any] = {"p": 5, "capacity": 200, "replay_start": 40, "seed": 0}
    NEC("CartPole-v1", **settings).learn(100).save(tmp_path / "cpu")
    NEC("CartPole-v1", **settings, index="cuda").learn(100).save(tmp_path / "gpu")
    assert NEC.load(tmp_path / "cpu", index=index).memory.index == "exact"
    assert NEC.load(tmp_path / "gpu", index="auto").memory.index == "exact"
    assert NEC.load(tmp_path / "cpu", index="cuda").memory.index == "cuda"


def test_games_that_cannot_be_brought_back_leave_nothing_in_flight(tmp_path: Path) -> None:
    def make() -> Any:  # games begin by themselves, so that none can be begun again
        return gymnasium.make_vec("CartPole-v1", 2, vectorization_mode="sync")

    NEC(make(), p=5, capacity=200, replay_start=40, seed=0).learn(100).save(tmp_path)
    with pytest.warns(UserWarning, match="could not be brought back"):
        agent = NEC.load(tmp_path, make()).learn(102)
    assert len(agent.replay.tensors()["in_flight"]) == sum(len(e.places) for e in agent._in_progress.episodes)


@pytest.mark.parametrize("truncated", ["skip", "write", "bootstrap"])
def test_games_that_are_cut_off_leave_nothing_in_flight(truncated: Any) -> None:
    env = gymnasium.make("CartPole-v1", max_episode_steps=7)
    agent = NEC(env, p=5, capacity=200, n_step=20, truncated=truncated, replay_start=40, seed=0).learn(7 * 30)
    assert not agent.replay.tensors()["in_flight"].size
    assert (len(agent.replay) > 0) == (truncated != "skip")


def test_settings_can_change_where_they_leave_the_memory_its_meaning(tmp_path: Path) -> None:
    NEC("CartPole-v1", p=5, capacity=200, replay_start=40, seed=0).learn(200).save(tmp_path)
    agent = NEC.load(tmp_path, "CartPole-v1", epsilon=0.0, alpha=0.5)
    assert (agent.epsilon, agent.alpha, agent.memory.alpha) == (0.0, 0.5, 0.5)
    with pytest.raises(ValueError, match=r"^a value is made of neighbours here"):
        NEC.load(tmp_path, index="none")
    with pytest.raises(TypeError, match="cannot be loaded with another dim"):
        NEC.load(tmp_path, dim=3)
    with pytest.raises(AttributeError, match="fixed when an agent is made"):
        agent.gamma = 0.5


def test_what_is_kept_between_two_rows_does_not_grow(tmp_path: Path) -> None:
    """A run without a table of progress never begins a row."""
    agent = NEC("FrozenLake-v1", p=5, capacity=200, replay_start=40, batch_size=1, train_frames=1, seed=0).learn(2500)
    agent.save(tmp_path)
    state, _ = read_checkpoint(tmp_path, kind="nec")
    assert state["updates"] > 2000
    assert len(json.dumps(state)) < 12_000


class Payoffs(gymnasium.Env[Any, Any]):
    """Rewards whose squares are more than float32 holds."""

    observation_space = spaces.Box(-1.0, 1.0, (3,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return self.np_random.normal(size=3).astype(np.float32), {}

    def step(self, action: Any) -> Any:
        shown = self.np_random.normal(size=3).astype(np.float32)
        return shown, 1e15 * self.np_random.normal(), bool(self.np_random.random() < 0.1), False, {}


def test_a_network_that_diverges_ends_learning_with_a_sentence() -> None:
    agent = NEC(Payoffs(), p=5, capacity=200, replay_start=20, seed=0)
    with pytest.raises(MfecError, match=r"the network has diverged .* smaller rewards"):
        agent.learn(3000)


def test_a_game_by_name_shows_four_frames() -> None:
    assert NEC("qbert", capacity=10, replay_capacity=10, replay_start=1).observation_space.shape == (4, 84, 84)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"p": 0}, "p must be at least 1"),
        ({"delta": 0.0}, "delta must be above 0"),
        ({"alpha": 0.0}, "alpha must lie above 0"),
        ({"learning_rate": 1.5}, "learning_rate must lie between 0 and 1"),
        ({"replay_start": 200_000}, "replay_start must not be above replay_capacity"),
        ({"index": "none"}, "a value is made of neighbours"),
        ({"capacity": 49, "few_neighbours": "infinity"}, "a dictionary of 49 entries never has 50 neighbours"),
        ({"epsilon": 2.0}, "epsilon must lie between 0 and 1"),
        ({"episode": "lives"}, "episode must be one of"),
    ],
)
def test_senseless_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        NEC("CartPole-v1", **settings)
