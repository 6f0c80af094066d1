"""TensorBoard events: what progress.csv has, and nothing without the extra."""

from __future__ import annotations

import importlib.util
import math
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from mfec import MFEC
from mfec.callbacks import TensorBoard
from mfec.cli import main
from mfec.run_directory import RunDirectory


def scalars(directory: Path) -> dict[str, list[tuple[int, float]]]:
    """What TensorBoard itself reads: frames and number of every scalar."""
    events = EventAccumulator(str(directory)).Reload()
    return {tag: [(event.step, event.value) for event in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


@pytest.mark.parametrize(("env", "index"), [("FrozenLake-v1", "auto"), ("CartPole-v1", "cells")])
def test_events_are_the_rows_of_progress(tmp_path, env, index):
    arguments = ["--total-frames", "405", "--capacity", "200", "--index", index, "--no-video", "--out", str(tmp_path)]
    assert main(["train", env, *arguments]) == 0
    progress = RunDirectory(tmp_path).progress()
    frames = [int(number) for number in progress.pop("frames")]
    assert frames[-2:] == [404, 405]
    if index == "auto":  # so small a memory is searched exactly, and there is no recall to tell
        assert all(math.isnan(number) for number in progress.pop("recall"))
    read = scalars(tmp_path)
    assert set(read) == {f"mfec/{name}" for name in progress}
    for name, column in progress.items():
        told = [(at, number) for at, number in zip(frames, column, strict=True) if not math.isnan(number)]
        assert [step for step, _ in read[f"mfec/{name}"]] == [at for at, _ in told]
        assert [value for _, value in read[f"mfec/{name}"]] == pytest.approx([number for _, number in told], rel=1e-6)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a disk that is always full")
def test_on_a_full_disk_events_are_given_up_with_a_sentence(tmp_path, monkeypatch, caplog):
    agent = MFEC("CartPole-v1", capacity=50, seed=0)
    monkeypatch.setattr(Path, "open", lambda path, mode: open("/dev/full", mode))  # noqa: SIM115
    assert agent.learn(40, TensorBoard(tmp_path)).frames == 40
    [said] = caplog.messages
    assert said.startswith("cannot write TensorBoard events: ")
    assert "No space left on device" in said


def test_without_the_extra_there_are_no_events_and_no_error(tmp_path, monkeypatch):
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "tensorboard" else find_spec(name))
    MFEC("CartPole-v1", capacity=50, seed=0).learn(40, TensorBoard(tmp_path))
    assert list(tmp_path.iterdir()) == []
