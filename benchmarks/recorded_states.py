"""States of real play for the benchmarks: recorded once, kept in a folder, read from there ever after.

Eight games side by side are played by a policy that holds each random action for a few steps, which gets about more
than one that trembles on the spot. Every state is a random projection of an observation that was not seen before.

    python benchmarks/recorded_states.py ms_pacman --number 2500000
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

from mfec.embeddings.random_projection import RandomProjection
from mfec.envs.atari import AtariVector
from mfec.memory.identities import array_keys

CACHE = Path(__file__).parent / ".cache"
N_ENVS = 8
LONGEST_HOLD = 8  # steps
DIM = 64


def recorded_states(game: str, number: int, cache: Path = CACHE) -> np.ndarray:
    """States in the order of play, float32 (number, 64), no two from the same observation."""
    path = cache / f"{game}.npy"
    if not path.exists() or len(np.load(path, mmap_mode="r")) < number:
        record(game, number, path)
    return np.load(path, mmap_mode="r")[:number]


def record(game: str, number: int, path: Path) -> None:
    """Play until there are `number` different states, and write them to `path`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".unfinished")
    states = np.lib.format.open_memmap(unfinished, "w+", np.float32, (number, DIM))
    env = AtariVector(game, N_ENVS)
    phi = RandomProjection(84 * 84, DIM, seed=0)
    rng = np.random.default_rng(0)
    actions, held = np.zeros(N_ENVS, np.int64), np.zeros(N_ENVS, np.int64)
    known: set[bytes] = set()
    observations, _ = env.reset(seed=0)
    began = time.perf_counter()
    steps = said = 0
    while len(known) < number:
        embedded, keys = phi(observations), array_keys(observations)
        for env_id in range(N_ENVS):
            key = keys[env_id].tobytes()
            if key not in known and len(known) < number:
                states[len(known)] = embedded[env_id]
                known.add(key)
        over = held == 0
        actions[over] = rng.integers(env.single_action_space.n, size=int(over.sum()))
        held[over] = rng.integers(1, LONGEST_HOLD + 1, size=int(over.sum()))
        held -= 1
        observations, _, terminated, truncated, _ = env.step(actions)
        ended = terminated | truncated
        if ended.any():
            observations, _ = env.reset(options={"reset_mask": ended})
        steps += N_ENVS
        if len(known) // 100_000 > said:
            said = len(known) // 100_000
            speed = steps / (time.perf_counter() - began)
            print(f"{game}: {len(known):,} of {number:,} states in {steps:,} steps, {speed:,.0f} a second", flush=True)
    states.flush()
    unfinished.rename(path)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("game")
    parser.add_argument("--number", type=int, default=2_500_000)
    options = parser.parse_args()
    print(recorded_states(options.game, options.number).shape)
