"""A run on a ViZDoom scenario: trained, stopped, resumed, evaluated and filmed like any other."""

from __future__ import annotations

import io
import os
import signal
from pathlib import Path

import pytest
from rich.console import Console

from mfec import MFEC
from mfec.algorithms import RunConfig
from mfec.algorithms.mfec import MFECConfig
from mfec.cli import main
from mfec.config import EnvConfig
from mfec.experiments.train import train
from mfec.run_directory import RunDirectory

from ..waiting import PATIENCE
from .stopping import games_of, outcome, stopped_after, wait_for

CAPACITY = 40


def train_basic(out: Path, *, n_envs: int = 1, resume: bool = False) -> RunDirectory:
    config = RunConfig("VizdoomBasic-v1", 2000, 3, MFECConfig(capacity=CAPACITY), EnvConfig(n_envs=n_envs))
    return train(config, out, resume=resume, console=Console(file=io.StringIO()))


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    return train_basic(tmp_path_factory.mktemp("runs") / "basic")


def test_games_are_counted_in_frames_of_four_a_step(finished):
    games = finished.episodes()
    lengths = games["length_frames"]
    assert len(lengths) > 5
    assert all(length % 4 == 0 for length in lengths)
    # A game without a hit is cut off after 300 frames, each of them a point lost, and every shot costs five.
    assert max(lengths) == 300
    missed = [score for score, length in zip(games["return"], lengths, strict=True) if length == 300]
    assert all(score <= -300 and score % 5 == 0 for score in missed)
    assert games["frames"][-1] == sum(lengths)


def test_the_memory_fills(finished):
    agent = MFEC.load(finished.checkpoint)
    assert agent.frames == 2000
    assert len(agent.memory) == agent.n_actions * CAPACITY


def test_a_run_is_evaluated_and_filmed(finished, tmp_path):
    video = tmp_path / "basic.mp4"
    assert main(["evaluate", str(finished.path), "--episodes", "1", "--video", str(video)]) == 0
    assert video.stat().st_size > 10_000


def test_a_stopped_run_ends_as_if_it_had_not_been_stopped(tmp_path):
    whole = train_basic(tmp_path / "whole", n_envs=2)
    with stopped_after(137):
        train_basic(tmp_path / "stopped", n_envs=2)
    stopped = train_basic(tmp_path / "stopped", n_envs=2, resume=True)
    assert outcome(stopped.path) == outcome(whole.path)


def test_ctrl_c_in_a_terminal_does_not_take_the_engine_from_the_run(start, tmp_path):
    """It reaches the whole process group, but without its engine the run could not finish its step and save."""
    out = tmp_path / "run"
    process = start("VizdoomBasic-v1", "--total-frames", "400000", "--capacity", "300", "--no-video", "--out", str(out))
    wait_for(lambda: games_of(out) > 2, process)
    os.killpg(process.pid, signal.SIGINT)
    said, error = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130, error
    assert "stopped, and saved" in said + error
    assert RunDirectory(out).has_checkpoint
