"""Neural Episodic Control beside a plain torch version of the same agent: steps and updates a second, in one run.

The plain version is what one writes first: for each action a tensor of keys and one of values, `torch.cdist` and `topk`
over all of them, autograd and torch.optim.RMSprop. Both agents have the same network and settings, play one environment
of the same game, and begin with full dictionaries of the same random keys, so that every write gives up an entry.

Both use as many threads on the CPU as there are cores, or MFEC_THREADS: 1 where the machine is busy with anything else,
since torch's threads wait for each other (33 plain steps a second, not 3, at 2,000 keys an action on two busy cores).

    python benchmarks/nec_training.py --device cuda --game qbert --json results/benchmarks/nec_training.json

A third agent is a public one, github.com/Kaixhin/EC, where `--ec DIR` names a clone of it. It takes faiss-cpu and
scikit-learn, and searches on the CPU, since faiss-gpu is not on the package index; its network is on the device. It
plays the games of the others (its own environment takes atari-py, which no longer installs), and knows a state by the
emulator's RAM, as it always does.

    git clone https://github.com/Kaixhin/EC ec && pip install faiss-cpu scikit-learn
    python benchmarks/nec_training.py --game qbert --ec ec
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch import nn

from mfec import make_atari
from mfec.threads import n_threads

P, DIM, DELTA, ALPHA, GAMMA, N_STEP, EPSILON = 50, 64, 0.001, 0.1, 0.99, 100, 0.05
BATCH, STEPS_BETWEEN_UPDATES, REPLAY, RATE = 32, 4, 100_000, 1e-4
WARM_UP = 400  # steps, untimed: replay then holds the first hundreds, and all is compiled
FRAMES = 4  # in a step
ROWS = {"steps_per_second": "agent steps a second, an update every 4", "updates_per_second": "updates alone, a second"}


def main() -> None:
    """Print the table, and write it as JSON if asked to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--game", default="qbert")
    parser.add_argument("--entries", type=int, help="keys of each action; by default 500,000 on cuda, 20,000 on cpu")
    parser.add_argument("--steps", type=int, default=2_000, help="agent steps that are timed, with their updates")
    parser.add_argument("--updates", type=int, default=200, help="updates that are timed alone")
    parser.add_argument("--ec", type=Path, help="a clone of Kaixhin/EC, to time it as well")
    parser.add_argument("--agents", nargs="+", choices=AGENTS)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    options.agents = options.agents or [name for name in AGENTS if name != "EC" or options.ec]
    options.entries = options.entries or (500_000 if options.device == "cuda" else 20_000)
    torch.set_num_threads(n_threads())
    report: dict[str, Any] = {
        "game": options.game,
        "actions": int(make_atari(options.game).action_space.n),
        "entries": options.entries,
        "machine": torch.cuda.get_device_name() if options.device == "cuda" else "CPU",
        "threads": n_threads(),
        "torch": torch.__version__,
    }
    for name in options.agents:
        report[name] = measure(AGENTS[name](options), options)
        gc.collect()
    show(report)
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n")


def measure(agent: PlainTorch | Ours | EC, options: argparse.Namespace) -> dict[str, float]:
    """Steps with their updates, and updates alone."""
    agent.step(WARM_UP)
    figures = {}
    for name, run, times in zip(ROWS, (agent.step, agent.update), (options.steps, options.updates), strict=True):
        began = time.perf_counter()
        run(times)
        if options.device == "cuda":
            torch.cuda.synchronize()
        figures[name] = times / (time.perf_counter() - began)
    return figures


def random_entries(options: argparse.Namespace, n_actions: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Keys, float32 (entries, DIM), and values, float32 (entries,), of each action."""
    rng = np.random.default_rng(1)
    for _ in range(n_actions):
        yield rng.standard_normal((options.entries, DIM), np.float32), rng.random(options.entries, np.float32)


class Ours:
    """The agent of this project."""

    def __init__(self, options: argparse.Namespace) -> None:
        from mfec.algorithms.nec.agent import NEC

        self.agent = NEC(
            make_atari(options.game, frame_stack=4), p=P, dim=DIM, delta=DELTA, alpha=ALPHA, gamma=GAMMA, n_step=N_STEP,
            epsilon=EPSILON, capacity=options.entries, batch_size=BATCH, train_frames=FRAMES * STEPS_BETWEEN_UPDATES,
            replay_capacity=REPLAY, replay_start=BATCH, device=options.device, index="auto", seed=0,
        )  # fmt: skip
        rng = np.random.default_rng(2)
        for action, (keys, values) in enumerate(random_entries(options, self.agent.n_actions)):
            unlike_any = rng.integers(0, 2**63, (len(keys), 2)).astype(np.uint64)
            self.agent.memory.write(keys, np.full(len(keys), action), values, unlike_any)

    def step(self, times: int) -> None:
        """Agent steps, with an update every few."""
        self.agent.learn(self.agent.frames + FRAMES * times)

    def update(self, times: int) -> None:
        """Minibatches alone."""
        for _ in range(times):
            self.agent._due = 1
            self.agent._meanwhile()
            self.agent._finish_minibatch()


class PlainTorch:
    """The same agent as one would write it with torch alone."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.device = options.device
        self.env = make_atari(options.game, frame_stack=4)
        self.n_actions = int(self.env.action_space.n)
        torch.manual_seed(0)
        self.network = nn.Sequential(
            nn.Conv2d(4, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(), nn.Conv2d(64, 64, 3, 1), nn.ReLU(),
            nn.Flatten(), nn.Linear(64 * 7 * 7, 512), nn.ReLU(), nn.Linear(512, DIM),
        ).to(self.device)  # fmt: skip
        self.optimizer = torch.optim.RMSprop(self.network.parameters(), lr=RATE, alpha=0.95)
        self.keys, self.values, self.last_used = [], [], []
        for keys, values in random_entries(options, self.n_actions):
            self.keys.append(torch.from_numpy(keys).to(self.device))
            self.values.append(torch.from_numpy(values).to(self.device))
            self.last_used.append(torch.zeros(len(keys), dtype=torch.int64, device=self.device))
        self.slots: list[dict[int, int]] = [{} for _ in range(self.n_actions)]  # by what was observed
        self.owners: list[dict[int, int]] = [{} for _ in range(self.n_actions)]
        self.replay: deque[tuple[np.ndarray, int, float]] = deque(maxlen=REPLAY)
        self.rng = np.random.default_rng(0)
        self.steps = 0
        self._begin_game()

    def step(self, times: int) -> None:
        """Agent steps, with an update every few."""
        for _ in range(times):
            key, values = self._look_up_all(self.observation)
            if len(self.game) == N_STEP:
                self._write_first(max(values))
            action = int(np.argmax(values))
            if self.rng.random() < EPSILON:
                action = int(self.rng.integers(self.n_actions))
            following, reward, terminated, truncated, _ = self.env.step(action)
            self.game.append((self.observation, key, action, float(reward)))
            self.observation = following
            self.steps += 1
            if terminated or truncated:
                while self.game:
                    self._write_first(0.0)
                self._begin_game()
            if self.steps % STEPS_BETWEEN_UPDATES == 0 and len(self.replay) >= BATCH:
                self.update(1)

    def update(self, times: int) -> None:
        """Minibatches alone."""
        for _ in range(times):
            drawn = [self.replay[i] for i in self.rng.integers(0, len(self.replay), BATCH)]
            keys = self._embed(np.stack([observation for observation, _, _ in drawn]))
            actions = np.array([action for _, action, _ in drawn])
            returns = torch.tensor([ret for _, _, ret in drawn], device=self.device)
            loss, found = torch.zeros((), device=self.device), []
            for action in np.unique(actions).tolist():
                rows = torch.from_numpy(np.flatnonzero(actions == action)).to(self.device)
                slots = self._nearest(keys[rows].detach(), action)
                near = self.keys[action][slots].requires_grad_()
                stored = self.values[action][slots].requires_grad_()
                loss = loss + (self._mean(keys[rows], near, stored) - returns[rows]).square().sum() / BATCH
                found.append((action, slots, near, stored))
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            for action, slots, near, stored in found:
                self.keys[action].index_add_(0, slots.flatten(), near.grad.flatten(0, 1), alpha=-RATE)
                self.values[action].index_add_(0, slots.flatten(), stored.grad.flatten(), alpha=-RATE)

    @torch.no_grad()
    def _look_up_all(self, observation: np.ndarray) -> tuple[torch.Tensor, list[float]]:
        """The key of an observation, and the value of every action."""
        key, values = self._embed(observation[None]), []
        for action in range(self.n_actions):
            slots = self._nearest(key, action)
            values.append(self._mean(key, self.keys[action][slots], self.values[action][slots]))
        return key[0], torch.cat(values).tolist()

    def _embed(self, observations: np.ndarray) -> torch.Tensor:
        return self.network(torch.from_numpy(observations).to(self.device).float() / 255.0)

    def _nearest(self, keys: torch.Tensor, action: int) -> torch.Tensor:
        """Slots of the P nearest, (n, P)."""
        slots = torch.cdist(keys, self.keys[action]).topk(P, dim=1, largest=False).indices
        self.last_used[action][slots.flatten()] = self.steps
        return slots

    def _mean(self, keys: torch.Tensor, near: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        """Values, (n,), by the weights 1 / (d^2 + DELTA)."""
        weights = 1.0 / ((keys[:, None] - near).square().sum(2) + DELTA)
        return (weights * values).sum(1) / weights.sum(1)

    def _write_first(self, bootstrap: float) -> None:
        """The first step that is in flight, whose N-step return is known now."""
        rewards = [reward for _, _, _, reward in self.game]
        ret = sum(GAMMA**i * reward for i, reward in enumerate(rewards)) + GAMMA ** len(rewards) * bootstrap
        observation, key, action, _ = self.game.popleft()
        self.replay.append((observation, action, ret))
        identity = hash(observation.tobytes())
        slots, owners = self.slots[action], self.owners[action]
        if identity in slots:
            self.values[action][slots[identity]] += ALPHA * (ret - self.values[action][slots[identity]])
            return
        slot = int(self.last_used[action].argmin())  # the dictionary is full
        if slot in owners:
            del slots[owners[slot]]
        slots[identity], owners[slot] = slot, identity
        self.keys[action][slot], self.values[action][slot] = key, ret
        self.last_used[action][slot] = self.steps

    def _begin_game(self) -> None:
        self.observation, _ = self.env.reset(seed=0 if self.steps == 0 else None)
        self.game: deque[tuple[np.ndarray, torch.Tensor, int, float]] = deque()


class EC:
    """The agent of Kaixhin/EC, in the loop that its main.py has."""

    def __init__(self, options: argparse.Namespace) -> None:
        sys.path.insert(0, str(options.ec))
        from agents import NECAgent  # isort: skip
        from memory import ExperienceReplay  # isort: skip

        self.env = make_atari(options.game, frame_stack=4)
        self.n_actions = int(self.env.action_space.n)
        # "cuda:0" is not the "cuda" by which it asks whether FAISS has a GPU.
        self.device = torch.device("cuda:0" if options.device == "cuda" else "cpu")
        torch.manual_seed(0)
        np.random.seed(0)
        settings = argparse.Namespace(
            evaluation_epsilon=0.0, history_length=FRAMES, key_size=DIM, num_neighbours=P, kernel="mean_IDW",
            kernel_delta=DELTA, dictionary_capacity=options.entries, dictionary_learning_rate=ALPHA, batch_size=BATCH,
            learning_rate=RATE, rmsprop_decay=0.95, rmsprop_epsilon=0.01, rmsprop_momentum=0.0, model=None,
            device=self.device,
        )  # fmt: skip
        shape = self.env.observation_space.shape
        self.agent = NECAgent(settings, shape, self.n_actions, hash_size=128)
        self.replay = ExperienceReplay(REPLAY, shape, self.device)
        self.agent.train()
        self.agent.set_epsilon(EPSILON)
        for memory, (keys, values) in zip(
            self.agent.online_net.memories, random_entries(options, self.n_actions), strict=True
        ):
            memory.keys[:], memory.values[:, 0] = keys, values
        self.steps, self.over = 0, True

    def step(self, times: int) -> None:
        """Agent steps, with an update every few."""
        for _ in range(times):
            if self.over:
                self.observation, _ = self.env.reset(seed=0 if self.steps == 0 else None)
                self.game: list[tuple[np.ndarray, int, float, np.ndarray, float, np.ndarray]] = []
            shown = torch.from_numpy(np.asarray(self.observation)).to(self.device).float() / 255.0
            ram = self.env.unwrapped._ale.getRAM().astype(np.float32) / 255
            action, key, value = self.agent.act(shown, return_key_value=True)
            following, reward, terminated, truncated, _ = self.env.step(action)
            self.game.append((shown.cpu().numpy(), action, float(reward), key.cpu().numpy(), value, ram))
            self.observation, self.over = following, terminated or truncated
            self.steps += 1
            if self.over:
                self._write()
            if self.steps % STEPS_BETWEEN_UPDATES == 0 and self.replay.steps:
                self.update(1)

    def update(self, times: int) -> None:
        """Minibatches alone."""
        for _ in range(times):
            self.agent.learn(self.replay)

    def _write(self) -> None:
        """A game's steps, all at its end."""
        shown, actions, rewards, keys, values, rams = (np.array(column) for column in zip(*self.game, strict=True))
        whole, returns = np.append(np.zeros_like(rewards), 0.0), np.zeros(len(rewards), np.float32)
        for i in reversed(range(len(rewards))):
            whole[i] = rewards[i] + GAMMA * whole[i + 1]
            beyond = i + N_STEP
            bootstrap = GAMMA**N_STEP * (values[beyond] - whole[beyond]) if beyond < len(rewards) else 0.0
            returns[i] = whole[i] + bootstrap
        for action in np.unique(actions):
            own = actions == action
            self.agent.update_memory_batch(int(action), keys[own], returns[own][:, None], rams[own])
        self.replay.append_batch(shown, actions, returns)


AGENTS = {"plain torch": PlainTorch, "EC": EC, "mfec": Ours}


def show(report: dict[str, Any]) -> None:
    """Print the table."""
    machine = f"{report['machine']}, {report['threads']} thread{'s' * (report['threads'] > 1)}, torch {report['torch']}"
    table = Table(title=f"{report['game']}, {report['actions']} actions x {report['entries']:,} keys, {machine}")
    columns = [name for name in AGENTS if name in report]
    peers = [name for name in columns if name != "mfec" and "mfec" in report]
    for column in ("", *columns, *(f"mfec / {peer}" for peer in peers)):
        table.add_column(column, justify="right" if column else "left")
    for name, label in ROWS.items():
        ratios = (f"{report['mfec'][name] / report[peer][name]:.1f}" for peer in peers)
        table.add_row(label, *(f"{report[column][name]:,.1f}" for column in columns), *ratios)
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
