"""What the command says on stderr: nothing of other packages that is nobody's concern, all that is the user's."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from .waiting import PATIENCE

NOISY = """
import sys, warnings
import gymnasium
from gymnasium.envs.classic_control import CartPoleEnv

class Noisy(CartPoleEnv):
    def reset(self, **given):
        warnings.warn("the pole is bent")
        print("and so is the cart", file=sys.stderr)
        return super().reset(**given)

gymnasium.register("Noisy-v0", entry_point=Noisy, max_episode_steps=20)
gymnasium.register("Noisy-v1", entry_point=Noisy, max_episode_steps=20)
"""


def stderr_of(*arguments: str, folder: Path) -> str:
    """What the command says there, on a machine without a display."""
    environment = {name: value for name, value in os.environ.items() if "DISPLAY" not in name and "XDG" not in name}
    path = os.pathsep.join(filter(None, [str(folder), environment.get("PYTHONPATH")]))
    ended = subprocess.run(
        [sys.executable, "-m", "mfec", *arguments],
        capture_output=True, text=True, cwd=folder, env={**environment, "PYTHONPATH": path}, timeout=PATIENCE,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    compiling = "mfec: compiling for this machine; this takes some seconds, the first time only\n"
    return ended.stderr.replace(compiling, "")


@pytest.mark.slow(reason="starts the command again and again, and films")
@pytest.mark.skipif(importlib.util.find_spec("pygame") is None, reason="draws with pygame")
@pytest.mark.parametrize("arguments", [
    "train CartPole-v0 --total-frames 60 --capacity 20 --out run",  # Gymnasium: out of date; SDL: no desktop
    "train qbert --total-frames 60 --max-frames 60 --capacity 20 --out run",  # ale-py
    "train FrozenLake-v1 --total-frames 60 --capacity 20 --out run --seeds 0 1",
    "envs --show CartPole-v1",
    "envs cart",
])  # fmt: skip
def test_nothing_is_said_of_other_packages(tmp_path, arguments):
    assert stderr_of(*arguments.split(), folder=tmp_path) == ""
    if arguments.startswith("train"):
        [run] = {file.parent for file in tmp_path.rglob("config.toml") if "seed-1" not in file.parts}
        for command in (f"evaluate {run} --episodes 1 --video film.mp4", f"plot {run}", f"report {run}"):
            assert stderr_of(*command.split(), folder=tmp_path) == ""


@pytest.mark.slow(reason="starts the command twice")
def test_what_the_users_own_environment_says_is_heard(tmp_path):
    (tmp_path / "noisy.py").write_text(NOISY)
    arguments = ["train", "noisy:Noisy-v0", "--total-frames", "30", "--capacity", "20", "--no-video"]
    error = stderr_of(*arguments, folder=tmp_path)
    assert "the pole is bent" in error
    assert "and so is the cart" in error
    assert "out of date" not in error
