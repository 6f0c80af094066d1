"""How long a training step of the VAE takes, beside plain training loops on the same frames.

The plain loops are what one writes first: torch's layers, autograd and torch.optim.RMSprop, step by step, with frames
in the memory of the GPU; as torch comes, and with what its documentation recommends (TF32, channels last, cuDNN's own
search for the fastest kernels, and bfloat16 by autocast).

    python benchmarks/vae_training.py --device cuda --json results/benchmarks/vae_training.json
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch

from mfec.config import VAEConfig
from mfec.embeddings.vae.networks import (
    Decoder,
    Encoder,
    as_pictures,
    communication_cost,
    correction_cost,
    draw_messages,
)
from mfec.embeddings.vae.training import CHUNK, Trainer

RECIPE_STEPS = VAEConfig.steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--frames", type=int, default=100_000, help="frames to draw minibatches from")
    parser.add_argument("--seconds", type=float, default=5.0, help="to measure each loop for")
    parser.add_argument("--together", type=int, default=5, help="trainings side by side")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    frames = np.random.default_rng(0).integers(0, 256, (arguments.frames, 84, 84), np.uint8)
    rows = {
        "plain loop, as torch comes": _plain(frames, arguments, tuned=False, half=False),
        "plain loop, TF32, channels last": _plain(frames, arguments, tuned=True, half=False),
        "plain loop, and bfloat16": _plain(frames, arguments, tuned=True, half=True),
        "mfec": _ours(frames, arguments, 1),
    }
    if arguments.device == "cuda" and arguments.together > 1:
        rows[f"mfec, {arguments.together} together, each"] = _ours(frames, arguments, arguments.together)
    name = torch.cuda.get_device_name() if arguments.device == "cuda" else "CPU"
    print(f"{name}, torch {torch.__version__}, minibatches of {VAEConfig.minibatch}")
    print(f"{'':36}{'ms a step':>12}{'400,000 steps':>16}{'mfec is faster by':>20}")
    for row, ms in rows.items():
        print(f"{row:36}{ms:12.3f}{ms * RECIPE_STEPS / 60_000:12.1f} min{ms / rows['mfec']:20.1f}")
    if arguments.json:
        report = {"machine": name, "torch": torch.__version__, "minibatch": VAEConfig.minibatch, "ms_a_step": rows}
        arguments.json.write_text(json.dumps(report, indent=1) + "\n")


def _plain(frames: np.ndarray[Any, Any], arguments: argparse.Namespace, *, tuned: bool, half: bool) -> float:
    """Milliseconds a step of a plain loop."""
    device, config = arguments.device, VAEConfig()
    shape = Trainer(frames[:200], config).architecture
    torch.backends.cuda.matmul.allow_tf32 = tuned
    torch.backends.cudnn.allow_tf32 = True  # as torch comes
    torch.backends.cudnn.benchmark = tuned
    layout = torch.channels_last if tuned else torch.contiguous_format
    encoder = Encoder(shape).to(device=device, memory_format=layout)
    decoder = Decoder(shape).to(device=device, memory_format=layout)
    optimiser = torch.optim.RMSprop([*encoder.parameters(), *decoder.parameters()], lr=config.step_size)
    stored = torch.from_numpy(frames).to(device)

    def step() -> None:
        places = torch.randint(len(stored), (config.minibatch,), device=device)
        pictures = as_pictures(stored[places], shape).contiguous(memory_format=layout)
        with torch.autocast(device, torch.bfloat16) if half else nullcontext():
            posterior = encoder(pictures).float()
            mean, log_std = decoder(draw_messages(posterior, torch.randn(config.minibatch, 32, device=device)))
        cost = correction_cost(pictures, mean.float(), log_std.float()) + communication_cost(posterior)
        optimiser.zero_grad()
        cost.mean().backward()
        optimiser.step()

    return _milliseconds(step, arguments)


def _ours(frames: np.ndarray[Any, Any], arguments: argparse.Namespace, together: int) -> float:
    """Milliseconds a step of each training."""
    trainers = [Trainer(frames, VAEConfig(), seed=seed, device=arguments.device) for seed in range(together)]

    def chunk() -> None:
        for trainer in trainers:
            trainer.start_chunk()
        for trainer in trainers:
            trainer.finish_chunk()

    return _milliseconds(chunk, arguments) / CHUNK / together


def _milliseconds(call: Callable[[], None], arguments: argparse.Namespace) -> float:
    wait = torch.cuda.synchronize if arguments.device == "cuda" else lambda: None
    for _ in range(3 if arguments.device == "cuda" else 1):
        call()
    wait()
    began, calls = time.perf_counter(), 0
    while time.perf_counter() - began < arguments.seconds:
        call()
        calls += 1
        if calls % 10 == 0:
            wait()  # else a loop runs far ahead of the GPU
    wait()
    return 1000.0 * (time.perf_counter() - began) / calls


if __name__ == "__main__":
    main()
