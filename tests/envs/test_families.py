"""Runs of the well-known families: trained, stopped and taken up again, and evaluated, each as a user types it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from mfec.agent import MFEC
from mfec.cli import main
from mfec.run_directory import RunDirectory

pytestmark = pytest.mark.slow(reason="three runs and an evaluation each")

PROCGEN_LIKE = """
import gymnasium
import numpy as np
from gymnasium import spaces


class Caves(gymnasium.Env):
    '''A square in a cave of 64x64 pixels in colour, as Procgen shows its own: it falls, and is paid for every coin.'''

    observation_space = spaces.Dict({"rgb": spaces.Box(0, 255, (64, 64, 3), np.uint8)})
    action_space = spaces.Discrete(15)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.cave = self.np_random.integers(0, 120, (64, 64, 3), np.uint8)
        self.at, self.t = 30, 0
        return self.observe(), {}

    def step(self, action):
        self.at, self.t = (self.at + 4 * (action % 3 - 1)) % 60, self.t + 1
        return self.observe(), 10.0 * (self.at == 38), self.t == 12, False, {}

    def observe(self):
        picture = self.cave.copy()
        picture[4 * self.t : 4 * self.t + 4, self.at : self.at + 4] = 255
        return {"rgb": picture}
"""

FAMILIES = {
    "MiniGrid": ["MiniGrid-DoorKey-5x5-v0", "--wrapper", "minigrid.wrappers:ImgObsWrapper"],
    "MiniGrid, flat": ["MiniGrid-Empty-5x5-v0", "--wrapper", "minigrid.wrappers:FlatObsWrapper"],
    "MinAtar": ["MinAtar/Breakout-v1"],
    "MinAtar, two at a time": ["MinAtar/SpaceInvaders-v1", "--n-envs", "2"],
    "Procgen-like": ["caves_of_a_user:Caves"],
    "classic control": ["Acrobot-v1", "--env-kwargs", "max_episode_steps=60"],
    "Blackjack": ["Blackjack-v1", "--env-kwargs", "sab=true"],
    "Taxi": ["Taxi-v4"],
    "box2d": ["LunarLander-v3"],
}
NEEDS = {"MiniGrid": "minigrid", "MinAtar": "minatar", "box2d": "Box2D"}


@pytest.fixture(autouse=True)
def caves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "caves_of_a_user.py").write_text(PROCGEN_LIKE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield
    sys.modules.pop("caves_of_a_user", None)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_run_of_every_family_goes_on_as_if_it_had_not_stopped_and_is_evaluated(family, capsys):
    pytest.importorskip(NEEDS.get(family.partition(",")[0], "mfec"))
    arguments = ["train", *FAMILIES[family], "--capacity", "300", "--no-video", "--truncated", "write"]
    assert main([*arguments, "--total-frames", "400", "--out", "whole"]) == 0
    for frames in ("150", "280", "400"):  # in the middle of games
        assert main([*arguments, "--total-frames", frames, "--out", "parts", "--resume"]) == 0
    whole, parts = RunDirectory("whole"), RunDirectory("parts")
    assert parts.episodes_file.read_text() == whole.episodes_file.read_text()
    ours, theirs = (MFEC.load(run.checkpoint).memory.tensors() for run in (parts, whole))
    assert all(np.array_equal(ours[name], theirs[name]) for name in theirs)
    assert len(MFEC.load(whole.checkpoint).memory) > 20
    capsys.readouterr()
    assert main(["evaluate", "parts", "--episodes", "2", "--random", "--json"]) == 0
    assert '"policy": "agent"' in capsys.readouterr().out


def test_pictures_stay_pictures_and_flags_stay_flags():
    shapes = {}
    for name, options in (("caves", FAMILIES["Procgen-like"]), ("minatar", FAMILIES["MinAtar"])):
        assert main(["train", *options, "--total-frames", "60", "--no-video", "--out", name]) == 0
        shapes[name] = MFEC.load(RunDirectory(name).checkpoint).observation_space
    assert (shapes["caves"].shape, shapes["caves"].dtype) == ((64, 64, 3), np.uint8)
    assert (shapes["minatar"].shape, shapes["minatar"].dtype) == ((10, 10, 4), np.bool_)
