"""Training in the Labyrinth: the paper's settings, the same run again after a stop, hardly a state twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from mfec import MFEC
from mfec.checkpoint import read_checkpoint
from mfec.cli import main
from mfec.run_directory import RunDirectory

from .stopping import outcome

LEVELS = ["labyrinth_forage", "labyrinth_forage_and_avoid", "labyrinth_double_t_maze"]


def train(out: Path, *arguments: str) -> RunDirectory:
    assert main(["train", *arguments, "--no-video", "--out", str(out)]) == 0
    return RunDirectory(out)


@pytest.mark.parametrize("level", LEVELS)
def test_a_level_trains_with_the_settings_of_the_paper(tmp_path: Path, level: str) -> None:
    length = 3600 if "maze" in level else 1200  # nobody eats all apples so soon
    run = train(tmp_path / "run", level, "--total-frames", str(2 * length))
    config = run.read_config().agent
    assert (config.k, config.gamma, config.epsilon, config.capacity) == (50, 0.99, 0.005, 100_000)
    assert config.embedding == "random_projection"
    assert run.episodes()["length_frames"] == [length, length]
    assert len(MFEC.load(run.checkpoint).memory) > 300


def test_hardly_a_state_is_seen_twice(tmp_path: Path) -> None:
    run = train(tmp_path / "run", "labyrinth_forage", "--total-frames", "30000")
    rates = run.progress()["exact_match_rate"]
    assert len(rates) > 100
    assert sum(rates) / len(rates) < 0.001


def test_a_run_stopped_and_resumed_is_the_same_run(tmp_path: Path) -> None:
    """Games in progress are brought back in the middle, after fruit was eaten."""
    settings = ["labyrinth_forage_and_avoid", "--n-envs", "2", "--seed", "3"]
    whole = train(tmp_path / "whole", *settings, "--total-frames", "5000")
    stopped = train(tmp_path / "parts", *settings, "--total-frames", "4000")
    assert read_checkpoint(stopped.checkpoint, kind="agent")[1]["episodes"]["rewards"].any()
    parts = train(tmp_path / "parts", *settings, "--total-frames", "5000", "--resume")
    assert outcome(whole.path) == outcome(parts.path)


def test_a_vae_is_trained_on_every_frame_of_a_level(
    small: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Four frames to a step, all of them seen: 600 frames are 600 pictures."""
    out = tmp_path / "vae"
    arguments = ["vae", "train", "labyrinth_double_t_maze", "--frames", "600", "--steps", "2", "--out", str(out)]
    assert main(arguments) == 0
    assert "600/600 observations" in capsys.readouterr().out
    run = train(tmp_path / "run", "labyrinth_double_t_maze", "--vae", str(out), "--total-frames", "400")
    assert run.read_config().agent.embedding == "vae"
    assert run.read_config().agent.k == 50
