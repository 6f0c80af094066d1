"""Small environments to play, and what agents remember of them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from hashlib import sha256
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.vector.utils import batch_space

from mfec.agent import MFEC
from mfec.callbacks import Callback
from mfec.checkpoint import read_checkpoint
from mfec.envs import make_atari
from mfec.interface import Game
from mfec.memory.identities import array_keys

# -- Environments -----------------------------------------------------------------------------------------------------


class Walk(gymnasium.Env):
    """A walk on the whole numbers, `length` steps a life; its rewards, faults and lives are as a test needs them.

    faults: step of this environment, counted over all games and from 1, to what is not a number then: `nan reward`,
    `inf reward` or `nan observation`.
    """

    def __init__(
        self,
        *,
        length: int = 7,
        lives: int = 1,
        n_actions: int = 4,
        reward: Callable[[int], float] = float,
        faults: dict[int, str] | None = None,
    ) -> None:
        self.length, self.all_lives, self.reward, self.faults = length, lives, reward, faults or {}
        self.observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
        self.action_space = spaces.Discrete(n_actions)
        self.steps = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at, self.t, self.lives = int(self.np_random.integers(3)), 0, self.all_lives
        return self._observe(), {"lives": self.lives}

    def step(self, action):
        assert self.action_space.contains(action)
        self.at, self.t, self.steps = self.at + int(action), self.t + 1, self.steps + 1
        self.lives -= self.t % self.length == 0
        observation, reward = self._observe(), self.reward(int(action))
        fault = self.faults.get(self.steps)
        if fault == "nan observation":
            observation[0] = np.nan
        elif fault:
            reward = float(fault.split()[0])
        return observation, reward, self.lives == 0, False, {"lives": self.lives}

    def _observe(self):
        return np.array([self.at, self.t], np.float32)


class Pictures(gymnasium.Env):
    """Colour pictures that depend on the last actions."""

    observation_space = spaces.Box(0, 255, (20, 30, 3), np.uint8)
    action_space = spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.history = [int(self.np_random.integers(2))]
        return self._observe(), {}

    def step(self, action):
        self.history.append(int(action))
        return self._observe(), float(action == len(self.history) % 3), len(self.history) > 5, False, {}

    def _observe(self):
        return np.random.default_rng(self.history).integers(256, size=(20, 30, 3), dtype=np.uint8)


class Shifted(gymnasium.Env):
    """Observations -2 to 3, actions 5 to 7: neither begins at 0."""

    observation_space = spaces.Discrete(6, start=-2)
    action_space = spaces.Discrete(3, start=5)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = -2
        return self.at, {}

    def step(self, action):
        assert self.action_space.contains(action)
        self.at = min(self.at + int(action) - 5, 3)
        return self.at, 1.0 if action == 7 else -1.0, self.at == 3, False, {}


class Recorder(gymnasium.Wrapper):
    """Keeps what happened: games, each a list of (observation, action, reward, lives after it, ended)."""

    def __init__(self, env):
        super().__init__(env)
        self.games = []

    def reset(self, **arguments):
        self.before, info = self.env.reset(**arguments)
        self.games.append([])
        return self.before, info

    def step(self, action):
        observation, reward, terminated, truncated, info = self.env.step(action)
        step = (self.before, int(action - self.action_space.start), reward, info.get("lives"), terminated or truncated)  # type: ignore[attr-defined]
        self.games[-1].append(step)
        self.before = observation
        return observation, reward, terminated, truncated, info

    @property
    def actions(self) -> list[int]:
        return [action for game in self.games for _, action, *_ in game]


def side_by_side(make: Callable[[], gymnasium.Env], n: int) -> SyncVectorEnv:
    return SyncVectorEnv([make] * n, autoreset_mode=AutoresetMode.DISABLED)


class InGroups(VectorEnv):
    """Environments that step in groups of these sizes, one group after the other; `interrupt` counts receptions."""

    metadata = {"autoreset_mode": AutoresetMode.DISABLED}  # noqa: RUF012

    def __init__(
        self, make: Callable[[int], gymnasium.Env], sizes: tuple[int, ...], interrupt: int | None = None
    ) -> None:
        stops = np.cumsum(sizes).tolist()
        self.groups = [slice(stop - size, stop) for stop, size in zip(stops, sizes, strict=True)]
        self._parts = [
            SyncVectorEnv(
                [partial(make, env_id) for env_id in range(own.start, own.stop)], autoreset_mode=AutoresetMode.DISABLED
            )
            for own in self.groups
        ]
        self.num_envs = sum(sizes)
        self.single_observation_space = self._parts[0].single_observation_space
        self.single_action_space = self._parts[0].single_action_space
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self._sent: dict[int, np.ndarray] = {}
        self._shown = np.zeros(self.observation_space.shape, self.observation_space.dtype)  # type: ignore[type-var]
        self._lives = np.zeros(self.num_envs, np.int64)
        self.until_interrupt = interrupt

    def reset(self, *, seed=None, options=None):
        mask = options["reset_mask"] if options else np.ones(self.num_envs, np.bool_)
        for group, own in enumerate(self.groups):
            if mask[own].any():
                self._sent.pop(group, None)
                some = {"reset_mask": mask[own]} if options else None
                self._shown[own], info = self._parts[group].reset(seed=seed[own], options=some)
                self._lives[own] = np.where(mask[own], info.get("lives", 0), self._lives[own])
        return self._shown.copy(), {"lives": self._lives.copy()}

    def send(self, group, actions):
        assert group not in self._sent
        self._sent[group] = actions

    def receive(self, group):
        if self.until_interrupt is not None:
            self.until_interrupt -= 1
            if self.until_interrupt == 0:
                raise KeyboardInterrupt
        own = self.groups[group]
        self._shown[own], *outcome, info = self._parts[group].step(self._sent.pop(group))
        self._lives[own] = info.get("lives", 0)
        return self._shown[own], *outcome, {"lives": self._lives[own]}


@cache
def qbert(n_envs: int | None) -> gymnasium.Env | gymnasium.vector.VectorEnv:
    """Short games of Q*bert, for one agent after the other: each begins its games on its own seeds."""
    return make_atari("qbert", n_envs=n_envs, max_frames=420)


@pytest.fixture(scope="module", autouse=True)
def _switch_off():
    yield
    qbert.cache_clear()


LITTLE = {"capacity": 30, "k": 4, "eviction": "used"}  # settings under which a memory is soon full


# -- Helpers ----------------------------------------------------------------------------------------------------------


def remembered(games: list[list[tuple]], gamma: float, *, lives: bool = False, update: str = "max") -> dict:
    """What the memory must hold by Eq. 1, from a plain dictionary: (action, key of the observation) to return."""
    episodes, open_episode = [], []
    for game in games:
        lives_before = None
        for observation, action, reward, lives_after, ended in game:
            open_episode.append((action, array_keys(np.asarray(observation)[None]).tobytes(), reward))
            lost = lives and lives_before is not None and lives_after < lives_before
            lives_before = lives_after
            if ended or lost:
                episodes.append(open_episode)
                open_episode = []
        open_episode = []
    values: dict = {}
    for episode in episodes:
        ret = 0.0
        for action, key, reward in reversed(episode):
            ret = reward + gamma * ret
            kept = values.get((action, key), -np.inf) if update == "max" else -np.inf
            values[action, key] = max(np.float32(ret), kept)
    return values


def entries(agent: MFEC) -> dict:
    """(action, key) to value, for all that the memory holds."""
    tensors = agent.memory.tensors()
    actions = np.repeat(np.arange(len(tensors["sizes"])), tensors["sizes"]).tolist()
    rows = zip(actions, tensors["keys"], tensors["values"], strict=True)
    found = {(action, key.tobytes()): value for action, key, value in rows}
    assert len(found) == len(agent.memory)
    return found


def everything(agent: MFEC, path: Path, *, but: tuple[str, ...] = ()) -> tuple[dict, dict]:
    """All that makes an agent, as `save` writes it, but for the seconds it took and what is named."""
    agent.save(path)
    state, tensors = read_checkpoint(path, kind="agent")
    del state["tally"]["lookup_seconds"], state["tally"]["write_seconds"]
    for name in but:
        del state[name]
    digests = {
        (file, name): sha256(t.tobytes()).hexdigest() for file, own in tensors.items() for name, t in own.items()
    }
    return state, digests


class Keep(Callback):
    """Saves the agent after some steps; after the step `stop` it raises."""

    class Stopped(Exception):
        pass

    def __init__(self, folder: Path | None = None, after: tuple[int, ...] = (), stop: int | None = None) -> None:
        self.folder, self.after, self.stop = folder, after, stop
        self.steps = 0
        self.games: list[Game] = []

    def on_game(self, agent, game):
        self.games.append(game)

    def on_step(self, agent):
        self.steps += 1
        if self.steps in self.after:
            agent.save(self.folder / str(self.steps))
        if self.steps == self.stop:
            raise self.Stopped
