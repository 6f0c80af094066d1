"""Neural Episodic Control's look-ups at full size against a float64 scan of every key, while keys move.

    python benchmarks/nec_exact.py                    # 18 x 500,000 keys, p = 50, on the CPU: some minutes, 8 GB
    python benchmarks/nec_exact.py --device cuda
    python benchmarks/nec_exact.py --actions 4 --entries 20000

Keys are moved as minibatches move them (the p nearest of 32 look-ups, by gradients), and in bulk, as a network that
drifts would have them written anew. After each round look-ups of all actions are compared with a scan: the same entries
in the same order, or where two lie equally far, the older first.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import torch

from mfec import NeuralDictionary


def main() -> None:
    """Print a line for each round."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--actions", type=int, default=18)
    parser.add_argument("--entries", type=int, default=500_000)
    parser.add_argument("--dim", type=int, default=64)
    parser.add_argument("--p", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--minibatches", type=int, default=50, help="in each round")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    dictionary = NeuralDictionary(
        options.actions, options.dim, capacity=options.entries, p=options.p, device=options.device
    )
    for action in range(options.actions):
        for begin in range(0, options.entries, 50_000):
            n = min(50_000, options.entries - begin)
            keys = rng.normal(size=(n, options.dim)).astype(np.float32)
            dictionary.write(keys, np.full(n, action), rng.normal(size=n))
    print(f"{options.actions} x {options.entries:,} keys of {options.dim} numbers, p = {options.p}, {options.device}")
    shift = np.zeros(options.dim, np.float32)
    compared = equal = 0
    for number in range(options.rounds):
        if number:  # a hundredth of all keys lie elsewhere now, as after a drift of the network
            shift += rng.normal(size=options.dim).astype(np.float32)
            some = rng.choice(options.entries, options.entries // 100, replace=False)
            for action in range(options.actions):
                keys = rng.normal(size=(len(some), options.dim)).astype(np.float32) + shift
                dictionary.memory.move(np.full(len(some), action), some, keys, rng.normal(size=len(some)))
        began = time.perf_counter()
        for _ in range(options.minibatches):
            queries = torch.tensor(rng.normal(size=(32, options.dim)) + rng.integers(0, 2) * shift, dtype=torch.float32)
            values, _, neighbours = dictionary.look_up(queries, rng.integers(0, options.actions, 32))
            (values - 1.0).square().mean().backward()
            dictionary.descend(neighbours, key_step=0.01, value_step=0.1)
        took = (time.perf_counter() - began) / options.minibatches
        queries = (rng.normal(size=(2, options.dim)) + np.outer([0, 1], shift)).astype(np.float32)
        for action in range(options.actions):
            slots, squared = dictionary.memory.nearest(queries, np.full(2, action))
            entries = dictionary.memory.entries(action)
            for row in range(2):
                far = np.concatenate(
                    [
                        ((entries.states[begin : begin + 65_536].astype(np.float64) - queries[row]) ** 2).sum(axis=1)
                        for begin in range(0, options.entries, 65_536)
                    ]
                )
                near = np.lexsort((entries.entry_ids, far))[: options.p]
                compared += 1
                equal += np.array_equal(slots[row], near) and np.allclose(squared[row], far[near], rtol=1e-12)
        print(f"round {number + 1}: {1000 * took:.1f} ms a minibatch; {equal} of {compared} look-ups equal", flush=True)
    if equal < compared:
        raise SystemExit("look-ups differ from the scan")


if __name__ == "__main__":
    main()
