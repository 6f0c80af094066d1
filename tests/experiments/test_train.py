"""One training run: what its directory holds, what stops it, and that a seed is a run."""

from __future__ import annotations

import contextlib
import io
import itertools
import math
import re
import resource
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from rich.console import Console

from mfec import MFEC
from mfec.agent import Tally
from mfec.algorithms import RunConfig
from mfec.algorithms.mfec import MFECConfig
from mfec.callbacks import Callback
from mfec.checkpoint import read_checkpoint
from mfec.cli import main
from mfec.config import EnvConfig
from mfec.experiments.train import train
from mfec.interface import Agent, next_row
from mfec.run_directory import RunDirectory, RunDirectoryError

from .conftest import Start
from .stopping import outcome, stopped_after, wait_for

EPISODES_HEADER = "frames,episode,return,length_frames"
PROGRESS_HEADER = (
    "frames,seconds,steps_per_second,return_mean_100,exact_match_rate,exact_match_rate_chosen,"
    "memory_entries,memory_bytes,memory_fill,lookup_ms,write_ms,recall"
)
SMALL = MFECConfig(capacity=2000)
LAKE = ["FrozenLake-v1", "--total-frames", "2100", "--capacity", "2000", "--seed", "5"]


def quiet_train(config: RunConfig, out: Path, **options: Any) -> tuple[RunDirectory, str]:
    """Train; the directory and what was said."""
    said = io.StringIO()
    return train(config, out, console=Console(file=said, width=200), **options), said.getvalue()


# -- The run directory ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    """A run of the command, long enough for rows that lie ten frames apart, and twenty."""
    out = tmp_path_factory.mktemp("runs") / "lake"
    assert main(["train", *LAKE, "--out", str(out)]) == 0
    return RunDirectory(out)


def test_a_run_directory_holds_settings_tables_checkpoint_history_events_a_curve_and_a_video(finished):
    names = sorted(path.name for path in finished.path.iterdir())
    assert names[:5] == ["checkpoint", "config.toml", "curve.png", "episodes.csv", names[4]]
    assert names[4].startswith("events.out.tfevents.")
    assert names[5:] == ["history", "progress.csv", "video.mp4"]


def test_settings_are_resolved(finished):
    agent = MFECConfig(capacity=2000, embedding="table", truncated="bootstrap")
    config = RunConfig("FrozenLake-v1", 2100, 5, agent, EnvConfig())
    assert finished.read_config() == config
    assert MFEC.load(finished.checkpoint).config == agent.of_agent


def test_a_projection_is_what_auto_stands_for_where_observations_are_large(tmp_path):
    run, _ = quiet_train(RunConfig("CartPole-v1", 50, 0, MFECConfig(capacity=100, dim=2)), tmp_path / "run")
    assert run.read_config().agent.embedding == "random_projection"


def test_every_finished_game_is_a_row(finished):
    header, *rows = finished.episodes_file.read_text().splitlines()
    assert header == EPISODES_HEADER
    agent = MFEC.load(finished.checkpoint)
    assert agent.frames == 2100
    assert len(rows) == agent.games > 100
    table = finished.episodes()
    assert table["episode"] == list(range(1, agent.games + 1))
    assert table["return"][-100:] == list(agent.scores)
    # One environment: games follow one another without a gap, a frame a step.
    assert table["frames"] == list(itertools.accumulate(table["length_frames"]))
    assert table["frames"][-1] <= 2100
    assert set(table["return"]) == {0.0, 1.0}


def test_progress_is_a_row_every_so_many_frames(finished):
    assert finished.progress_file.read_text().splitlines()[0] == PROGRESS_HEADER
    progress, episodes = finished.progress(), finished.episodes()
    assert progress["frames"][-106:] == [*range(1000, 2000, 10), *range(2000, 2101, 20)]
    for frames, mean in zip(progress["frames"], progress["return_mean_100"], strict=True):
        ended = [score for end, score in zip(episodes["frames"], episodes["return"], strict=True) if end <= frames]
        assert mean == pytest.approx(np.mean(ended[-100:])) if ended else math.isnan(mean)
    for name in ("exact_match_rate", "exact_match_rate_chosen"):
        assert all(0.0 <= rate <= 1.0 for rate in progress[name])
        assert progress[name][-1] > 0.0
    assert progress["memory_entries"] == sorted(progress["memory_entries"])
    assert 0 < progress["memory_entries"][-1] <= 16 * 4
    assert all(math.isnan(recall) for recall in progress["recall"])  # so few entries are searched exactly
    assert all(row.endswith(",") for row in finished.progress_file.read_text().splitlines()[1:])
    assert 0 < progress["seconds"][0] < progress["seconds"][-1]
    assert all(number > 0 for name in ("steps_per_second", "lookup_ms") for number in progress[name])


@pytest.mark.parametrize(("env", "frames", "n_envs", "rows"), [
    ("FrozenLake-v1", 50, 3, 17),  # every step
    ("FrozenLake-v1", 1003, 8, 100), ("qbert", 402, 1, 100),
])  # fmt: skip
def test_a_run_of_any_length_has_a_hundred_rows_or_one_a_step_and_one_at_its_end(tmp_path, env, frames, n_envs, rows):
    run, _ = quiet_train(RunConfig(env, frames, 0, SMALL, EnvConfig(n_envs=n_envs)), tmp_path / "run")
    progress = run.progress()["frames"]
    assert len(progress) >= rows
    assert progress == sorted(set(progress))
    assert progress[-1] == MFEC.load(run.checkpoint).frames >= frames
    gaps = np.diff([0.0, *progress])
    assert gaps.max() <= max(frames / 100, n_envs * (4 if env == "qbert" else 1)) + n_envs * 4


@given(st.integers(0, 10**8))
def test_rows_lie_no_further_apart_than_a_hundredth_of_the_frames_so_far(frames):
    following = next_row(frames)
    assert 1 <= following - frames <= min(max(1, frames // 100), 10_000)
    assert next_row(following - 1) == following, "wherever the run goes on"


class Counted(Callback):
    """What the agent has counted and holds at every row of progress."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, Tally, int, int, int]] = []

    def on_progress(self, agent: Any, row: dict[str, Any]) -> None:
        memory = agent.memory
        self.rows.append((row["frames"], agent._tally, len(memory), memory.nbytes, max(memory.sizes)))


def test_match_rates_are_those_of_the_steps_since_the_last_row_and_sizes_those_of_the_memory(finished):
    counted = Counted()
    MFEC("FrozenLake-v1", capacity=2000, seed=5).learn(2100, counted)
    progress, before = finished.progress(), 0
    assert [frames for frames, *_ in counted.rows] == progress["frames"]
    for row, (frames, tally, entries, nbytes, largest) in enumerate(counted.rows):
        assert tally.steps == frames - before
        before = frames
        assert progress["exact_match_rate"][row] == pytest.approx(tally.exact / tally.lookups, abs=1e-6)
        assert progress["exact_match_rate_chosen"][row] == pytest.approx(tally.exact_chosen / tally.steps, abs=1e-6)
        assert (progress["memory_entries"][row], progress["memory_bytes"][row]) == (entries, nbytes)
        assert progress["memory_fill"][row] == pytest.approx(largest / 2000, abs=1e-6)


def test_the_time_of_writing_is_that_of_the_steps_since_the_last_row(tmp_path):
    run, _ = quiet_train(RunConfig("CartPole-v1", 600, 0, SMALL), tmp_path / "run")
    progress, ends = run.progress(), run.episodes()["frames"]
    before = [0.0, *progress["frames"]]
    for since, frames, milliseconds in zip(before, progress["frames"], progress["write_ms"], strict=False):
        written = any(since < end <= frames for end in ends)
        assert milliseconds > 0 if written else milliseconds == 0
    assert {milliseconds > 0 for milliseconds in progress["write_ms"]} == {True, False}


def test_speed_counts_the_steps_since_the_run_went_on(tmp_path, monkeypatch):
    """The first row after a stop: 4 of its 10 steps were made before."""
    config = RunConfig("FrozenLake-v1", 1004, 0, SMALL)
    quiet_train(config, tmp_path / "run")
    now = 100.0  # when the run goes on

    class TwoSeconds(Callback):
        def on_step(self, agent: Agent) -> None:
            nonlocal now
            now = 102.0

    monkeypatch.setattr("mfec.interface.time", SimpleNamespace(perf_counter=lambda: now))
    run, _ = quiet_train(replace(config, total_frames=1010), tmp_path / "run", resume=True, display=TwoSeconds())
    assert run.progress()["frames"][-2:] == [1000, 1010]
    assert run.progress()["steps_per_second"][-1] == 3.0


def test_the_curve_is_a_picture(finished):
    with Image.open(finished.curve) as picture:
        assert picture.format == "PNG"
        assert min(picture.size) > 300
        assert len(picture.convert("RGB").getcolors(1 << 24)) > 10  # a line, not an empty page


def test_a_run_without_a_finished_game_has_no_curve(tmp_path):
    assert main(["train", "CartPole-v1", "--total-frames", "2", "--capacity", "9", "--out", str(tmp_path)]) == 0
    assert RunDirectory(tmp_path).has_checkpoint
    assert not RunDirectory(tmp_path).curve.exists()


def test_checkpoints_are_written_every_so_many_frames(tmp_path, monkeypatch):
    saved = []
    save = MFEC.save
    monkeypatch.setattr(MFEC, "save", lambda agent, path: (saved.append(agent.frames), save(agent, path)))
    config = RunConfig("FrozenLake-v1", 100, 0, SMALL, EnvConfig(n_envs=3))
    quiet_train(config, tmp_path / "run", checkpoint_frames=25)
    assert saved == [27, 51, 75, 102, 102]  # the first step at or after each, and the end


def test_a_senseless_number_of_frames_between_checkpoints_is_refused(tmp_path, capsys):
    out = tmp_path / "run"
    assert main(["train", *LAKE, "--checkpoint-frames", "0", "--out", str(out)]) == 1
    assert "a checkpoint comes every frame or less often, not every 0" in capsys.readouterr().err
    assert not out.exists()


# -- Going on ---------------------------------------------------------------------------------------------------------


def files_of(path: Path) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file()}


def test_a_second_run_in_the_same_directory_is_refused(finished, capsys):
    before = files_of(finished.path)
    assert main(["train", *LAKE, "--out", str(finished.path)]) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"mfec: {finished.path} already holds a run: --resume goes on with it")
    assert files_of(finished.path) == before


def test_a_finished_run_says_so(finished, capsys):
    before = outcome(finished.path)
    assert main(["train", *LAKE, "--no-video", "--out", str(finished.path), "--resume"]) == 0
    assert f"{finished.path} has all of its 2,100 frames" in capsys.readouterr().out
    assert outcome(finished.path) == before


@pytest.mark.parametrize(("option", "value", "name"), [
    ("--kernel", "inverse", "kernel"), ("--seed", "6", "seed"), ("--n-envs", "2", "n_envs"),
])  # fmt: skip
def test_a_run_does_not_go_on_with_another_setting(finished, capsys, option, value, name):
    before = files_of(finished.path)
    assert main(["train", *LAKE, option, value, "--out", str(finished.path), "--resume"]) == 1
    error = capsys.readouterr().err
    assert f"was begun with {name} = " in error
    assert f"cannot go on with {value}" in error
    assert files_of(finished.path) == before


def test_a_run_does_not_go_on_in_another_environment(finished, capsys):
    assert main(["train", "CartPole-v1", *LAKE[1:], "--out", str(finished.path), "--resume"]) == 1
    assert "was begun with env = FrozenLake-v1, it cannot go on with CartPole-v1" in capsys.readouterr().err


@pytest.mark.parametrize(("env", "n_envs", "first", "second"), [
    ("CartPole-v1", 1, 1000, 1100),  # at a row of progress, which stays
    ("FrozenLake-v1", 8, 1012, 1500),  # between two rows of progress, of which the last one goes
    ("FrozenLake-v1", 32, 992, 1300),  # the step after 992 frames leads to 1,024, past two rows
    ("qbert", 2, 202, 400),
])  # fmt: skip
def test_a_longer_run_goes_on_from_a_shorter_one_as_if_it_had_never_stopped(tmp_path, env, n_envs, first, second):
    game = EnvConfig(n_envs=n_envs, max_frames=120) if env == "qbert" else EnvConfig(n_envs=n_envs)
    config = RunConfig(env, first, 1, replace(SMALL, kernel="inverse"), game)
    quiet_train(config, tmp_path / "parts", resume=True)  # though it was never begun
    games = RunDirectory(tmp_path / "parts").episodes_file.read_text()
    frames = MFEC.load(tmp_path / "parts" / "checkpoint").frames
    config = replace(config, total_frames=second)
    _, said = quiet_train(config, tmp_path / "parts", resume=True)
    quiet_train(config, tmp_path / "whole")
    assert f"going on from frame {frames:,}" in said
    assert outcome(tmp_path / "parts") == outcome(tmp_path / "whole")
    assert len(outcome(tmp_path / "parts")[0]) > len(games)
    assert RunDirectory(tmp_path / "parts").read_config().total_frames == second


def test_tables_that_lack_games_of_the_checkpoint_are_an_error(tmp_path):
    config = RunConfig("FrozenLake-v1", 100, 0, SMALL)
    run, _ = quiet_train(config, tmp_path / "run")
    run.episodes_file.write_text(EPISODES_HEADER + "\n")
    with pytest.raises(RunDirectoryError, match=r"episodes\.csv has 0 games, the checkpoint"):
        quiet_train(replace(config, total_frames=200), tmp_path / "run", resume=True)


# -- Seeds ------------------------------------------------------------------------------------------------------------


def test_one_seed_is_one_run(tmp_path):
    config = RunConfig("CartPole-v1", 300, 3, SMALL, EnvConfig(n_envs=2))
    for name, seed in (("a", 3), ("b", 3), ("other", 4)):
        quiet_train(replace(config, seed=seed), tmp_path / name)
    same, other = outcome(tmp_path / "a"), outcome(tmp_path / "other")
    assert same == outcome(tmp_path / "b")
    assert same[0] != other[0]
    assert same[3]["memory", "keys"] != other[3]["memory", "keys"]


# -- Bad data ---------------------------------------------------------------------------------------------------------


class Faulty(gymnasium.Env):
    """Returns something that is not finite in step 137 of all steps."""

    observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space = spaces.Discrete(3)
    fault, steps = "", 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = self.np_random.integers(4, size=2).astype(np.float32)
        self.t = 0
        return self.at, {}

    def step(self, action):
        Faulty.steps += 1
        fault = Faulty.fault if Faulty.steps == 137 else ""
        self.t += 1
        self.at = self.at + np.float32([action == 1, action == 2])
        reward = {"nan reward": np.nan, "infinite reward": -np.inf}.get(fault, float(action))
        shown = self.at * np.nan if fault == "nan observation" else self.at
        return shown, reward, self.t == 20, False, {}


gymnasium.register("Faulty-v0", entry_point=Faulty)


@pytest.mark.parametrize(("fault", "what"), [
    ("nan reward", "the rewards [nan]"), ("infinite reward", "the rewards [-inf]"),
    ("nan observation", "an observation that is not finite"),
])  # fmt: skip
def test_bad_data_stops_the_run_after_a_checkpoint_of_the_good_state(tmp_path, monkeypatch, capsys, fault, what):
    arguments = ["train", "Faulty-v0", "--total-frames", "200", "--capacity", "500", "--no-video"]
    arguments += ["--out", str(tmp_path)]
    monkeypatch.setattr(Faulty, "fault", fault)
    monkeypatch.setattr(Faulty, "steps", 0)
    assert main(arguments) == 1
    assert capsys.readouterr().err == f"mfec: the environment returned {what} after frame 136\n"

    run = RunDirectory(tmp_path)
    agent = MFEC.load(run.checkpoint)
    assert agent.frames == 136
    assert agent.games == 6
    assert run.episodes()["frames"] == [20, 40, 60, 80, 100, 120]
    state, tensors = read_checkpoint(run.checkpoint, kind="agent")
    assert [len(actions) for actions in state["games_in_progress"]["history"]["actions"]] == [16]
    for array in (agent.memory.tensors()["values"], agent.memory.tensors()["states"], tensors["episodes"]["rewards"]):
        assert np.isfinite(array).all()

    monkeypatch.setattr(Faulty, "fault", "")
    assert main([*arguments, "--resume"]) == 0
    assert "going on from frame 136" in capsys.readouterr().out
    assert run.episodes()["frames"] == list(range(20, 201, 20))


# -- A full disk ------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def little_room(limit: int) -> Iterator[None]:
    """No file may grow beyond `limit` bytes. (Python ignores the signal that comes with it.)"""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "dont_write_bytecode", True)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_on_a_full_disk_the_last_good_checkpoint_stays_and_the_run_goes_on_from_it(tmp_path, capsys):
    arguments = ["CartPole-v1", "--total-frames", "1000", "--capacity", "2000", "--checkpoint-frames", "50"]
    out = tmp_path / "run"
    with little_room(40_000):
        assert main(["train", *arguments, "--out", str(out)]) == 1
    said, error = capsys.readouterr()
    last = error.splitlines()[-1]
    assert last.startswith(f"mfec: cannot save {out / 'checkpoint'}: ")
    assert "File too large" in last
    assert last.endswith("the last good checkpoint is kept")
    failed = said.split("cannot save")
    assert len(failed) > 3, "while there were frames to play, it went on after every checkpoint that failed"
    assert all("the last good checkpoint is kept" in " ".join(part.split()) for part in failed[1:])
    assert MFEC.load(out / "checkpoint").frames in range(50, 900)
    assert RunDirectory(out).episodes()["frames"][-1] > 900

    config = RunConfig("CartPole-v1", 1000, 0, SMALL)
    quiet_train(config, out, resume=True)
    quiet_train(config, tmp_path / "whole")
    assert outcome(out) == outcome(tmp_path / "whole")


@pytest.mark.parametrize(("limit", "frames", "message"), [
    (40_000, "1000", r"^mfec: .* nothing is kept$"),  # a table takes less, a memory more
    (15_000, "2000", r"^mfec: .*(episodes|progress)\.csv"),
    (10, "100", r"^mfec: cannot begin a run in .*/run"),
], ids=["no checkpoint", "no table", "nothing"])  # fmt: skip
def test_on_a_disk_without_room_a_sentence_says_for_what(tmp_path, capsys, limit, frames, message):
    out = tmp_path / "run"
    with little_room(limit):
        assert main(["train", "CartPole-v1", "--total-frames", frames, "--capacity", "2000", "--out", str(out)]) == 1
    assert re.search(message, capsys.readouterr().err.splitlines()[-1])
    assert RunDirectory(out).exists == (limit > 10)


def test_brackets_in_a_path_are_not_taken_for_colours(tmp_path):
    """rich reads them as such unless told otherwise."""
    out = tmp_path / "[bold]runs[/italic]"
    config = RunConfig("FrozenLake-v1", 30, 0, SMALL)
    quiet_train(config, out)
    _, said = quiet_train(config, out, resume=True)
    assert f"{out} has all of its 30 frames" in said
    (out / "checkpoint").rename(out / "moved")
    (out / "checkpoint").write_text("no directory, so it cannot be saved")
    with pytest.raises(Exception, match="cannot save"):
        quiet_train(replace(config, total_frames=50), out, resume=True, checkpoint_frames=10)


# -- One process at a time --------------------------------------------------------------------------------------------


def test_a_second_process_is_refused_the_first_is_not_disturbed_and_killed_it_is_no_obstacle(
    tmp_path, start: Start, held, capsys
):
    run = RunDirectory(tmp_path / "run")
    arguments = ["held:Lake-v0", "--capacity", "300", "--total-frames", "400", "--no-video", "--out"]
    with held(300):
        process = start(*arguments, str(run.path), "--checkpoint-frames", "250")
    wait_for(lambda: run.has_checkpoint, process)
    for resume in ([], ["--resume"]):
        assert main(["train", *arguments, str(run.path), *resume]) == 1
        assert f"{run.path}: it is in use by process {process.pid} on " in capsys.readouterr().err
    assert main(["evaluate", str(run.path), "--episodes", "1"]) == 0  # whoever only looks is let in
    assert main(["plot", str(run.path), "--out", str(tmp_path / "curve.png")]) == 0
    process.kill()
    process.wait()
    capsys.readouterr()
    assert main(["train", *arguments, str(run.path), "--resume"]) == 0
    assert "going on from frame 250" in capsys.readouterr().out
    assert not [file for file in run.path.iterdir() if file.name.startswith(".")]
    assert main(["train", *arguments, str(tmp_path / "alone")]) == 0
    assert outcome(run.path) == outcome(tmp_path / "alone")


# -- Stopping ---------------------------------------------------------------------------------------------------------


def test_a_run_stopped_after_any_step_goes_on_as_if_it_had_not(tmp_path):
    """After the first step and the last one, where a checkpoint is written anyway, and right after it."""
    config = RunConfig("FrozenLake-v1", 403, 2, SMALL)
    done = 0
    for steps in (1, 6, 243, 1, 151, 1):
        with stopped_after(steps):
            quiet_train(config, tmp_path / "parts", checkpoint_frames=250, resume=True)
        done += steps
        assert MFEC.load(tmp_path / "parts" / "checkpoint").frames == done
    quiet_train(config, tmp_path / "parts", resume=True)
    quiet_train(config, tmp_path / "whole")
    assert done == 403
    assert outcome(tmp_path / "parts") == outcome(tmp_path / "whole")
