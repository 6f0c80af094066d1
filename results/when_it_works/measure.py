"""MFEC with two recipes beside DQN and PPO of Stable-Baselines3, at equal steps: `scores.csv`.

    python results/when_it_works/measure.py [--envs NAME ...] [--methods NAME ...] [--seeds N ...]

A row that is there already is not measured again, so it can be stopped at any time.
"""

from __future__ import annotations

import argparse
import csv
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from mfec import MFEC, make_atari
from mfec.recipes import agent_defaults

STEPS = 100_000  # agent steps of training; 4 frames each on Atari
GAMES = 50  # played without exploration when training has ended
TABLE = Path(__file__).parent / "scores.csv"
COLUMNS = ("env", "method", "seed", "steps", "games_trained", "training_last_100", "greedy_mean",
           "greedy_standard_error", "greedy_games", "seconds")  # fmt: skip


class BoxOfBytes(gymnasium.ObservationWrapper[Any, Any, Any]):
    """Pictures of bools as vectors of bytes, which the networks of Stable-Baselines3 take as well."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        size = int(np.prod(env.observation_space.shape))
        self.observation_space = gymnasium.spaces.Box(0, 1, (size,), np.uint8)

    def observation(self, observation: Any) -> Any:
        return np.asarray(observation, np.uint8).ravel()


def minigrid(name: str) -> gymnasium.Env[Any, Any]:
    import minigrid
    from minigrid.wrappers import ImgObsWrapper

    minigrid.register_minigrid_envs()
    env = ImgObsWrapper(gymnasium.make(name))
    return gymnasium.wrappers.FlattenObservation(env)


def minatar(name: str) -> gymnasium.Env[Any, Any]:
    from minatar.gym import register_envs

    if f"MinAtar/{name}-v1" not in gymnasium.registry:
        register_envs()
    env = gymnasium.make(f"MinAtar/{name}-v1", max_episode_steps=2000)  # its games need not end
    return BoxOfBytes(env)


ENVS: dict[str, Callable[[], gymnasium.Env[Any, Any]]] = {
    "FrozenLake 8x8, not slippery": lambda: gymnasium.make("FrozenLake8x8-v1", is_slippery=False),
    "FrozenLake 8x8, slippery": lambda: gymnasium.make("FrozenLake8x8-v1"),
    "Taxi": lambda: gymnasium.make("Taxi-v4"),
    "CliffWalking": lambda: gymnasium.make("CliffWalking-v1", max_episode_steps=200),
    "Blackjack": lambda: gymnasium.wrappers.FlattenObservation(gymnasium.make("Blackjack-v1")),
    "CartPole": lambda: gymnasium.make("CartPole-v1"),
    "Acrobot": lambda: gymnasium.make("Acrobot-v1"),
    "MountainCar": lambda: gymnasium.make("MountainCar-v0"),
    "LunarLander": lambda: gymnasium.make("LunarLander-v3"),
    "MiniGrid Empty 8x8": lambda: minigrid("MiniGrid-Empty-8x8-v0"),
    "MiniGrid DoorKey 6x6": lambda: minigrid("MiniGrid-DoorKey-6x6-v0"),
    "MinAtar Breakout": lambda: minatar("Breakout"),
    "Q*bert": lambda: make_atari("qbert"),
}
METHODS = ("mfec, paper", "mfec, tuned", "DQN", "PPO", "random")


def name_of(env: str) -> str:
    """The name by which recipes know the environment."""
    return "qbert" if env == "Q*bert" else env


def measure(env: str, method: str, seed: int) -> dict[str, Any]:
    """Train, and play without exploration; a row of the table."""
    began, make = time.perf_counter(), ENVS[env]
    agent, trained = _train(method, make, env, seed)
    scores = list(greedy(agent, make, seed))
    return {
        "env": env, "method": method, "seed": seed, "steps": 0 if method == "random" else STEPS,
        "games_trained": len(trained), "training_last_100": round(float(np.mean(trained[-100:])), 3) if trained else "",
        "greedy_mean": round(float(np.mean(scores)), 3),
        "greedy_standard_error": round(float(np.std(scores, ddof=1) / len(scores) ** 0.5), 3),
        "greedy_games": len(scores), "seconds": round(time.perf_counter() - began, 1),
    }  # fmt: skip


def _train(method: str, make: Callable[[], Any], env: str, seed: int) -> tuple[Any, list[float]]:
    if method == "random":
        rng, n = np.random.default_rng(seed), int(make().action_space.n)
        return lambda observation: int(rng.integers(n)), []
    scores: list[float] = []
    if method.startswith("mfec"):
        from mfec import Callback

        class Scores(Callback):
            def on_game(self, agent: Any, game: Any) -> None:
                scores.append(game.score)

        settings = vars(agent_defaults(name_of(env), "tuned" if "tuned" in method else "paper"))
        mfec = MFEC(make(), **settings, seed=seed)
        mfec.learn(STEPS * mfec.frame_skip, Scores())
        return lambda observation: mfec.predict(observation, deterministic=True)[0], scores
    import torch
    from stable_baselines3 import DQN, PPO
    from stable_baselines3.common.monitor import Monitor

    torch.set_num_threads(1)
    watched = Monitor(make())
    policy = "CnnPolicy" if env == "Q*bert" else "MlpPolicy"
    if env == "Q*bert":  # its networks take channels, and four frames as published
        watched = Monitor(gymnasium.wrappers.FrameStackObservation(make(), 4))
    kind: Any = {"DQN": DQN, "PPO": PPO}[method]
    kept = {"buffer_size": STEPS} if method == "DQN" else {}
    model = kind(policy, watched, seed=seed, device="cpu", **kept).learn(STEPS)
    return lambda observation: model.predict(observation, deterministic=True)[0], watched.get_episode_rewards()


def greedy(act: Callable[[Any], Any], make: Callable[[], Any], seed: int) -> Iterator[float]:
    """Scores of games without exploration, on seeds that training never had."""
    env = make()
    stacked = env
    for game in range(GAMES):
        observation, _ = stacked.reset(seed=1_000_000 + 1000 * seed + game)
        score, ended = 0.0, False
        while not ended:
            observation, reward, terminated, truncated, _ = stacked.step(int(act(observation)))
            score, ended = score + float(reward), terminated or truncated
        yield score


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--envs", nargs="+", default=list(ENVS))
    parser.add_argument("--methods", nargs="+", default=list(METHODS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    new = not TABLE.exists()
    with TABLE.open("a+", newline="") as stream:
        stream.seek(0)
        done = {(row["env"], row["method"], row["seed"]) for row in csv.DictReader(stream)}
        table = csv.DictWriter(stream, COLUMNS)
        if new:
            table.writeheader()
        for seed in given.seeds:
            for env in given.envs:
                for method in given.methods:
                    if (env, method, str(seed)) not in done:
                        row = measure(env, method, seed)
                        table.writerow(row)
                        stream.flush()
                        print(row, flush=True)


if __name__ == "__main__":
    main()
