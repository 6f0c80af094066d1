"""One training run: what its directory holds, what stops it, and that a seed is a run."""

from __future__ import annotations

import hashlib
import io
import itertools
import math
import os
import re
import resource
import signal
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
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

from ..waiting import PATIENCE
from .conftest import Start
from .stopping import CLOCKS, games_of, stopped_after, wait_for

EPISODES_HEADER = "frames,episode,return,length_frames"
PROGRESS_HEADER = (
    "frames,seconds,steps_per_second,return_mean_100,exact_match_rate,exact_match_rate_chosen,"
    "memory_entries,memory_bytes,memory_fill,lookup_ms,write_ms,recall"
)
SMALL = MFECConfig(capacity=2000)


def quiet_train(config: RunConfig, out: Path, **options: Any) -> tuple[RunDirectory, str]:
    """Train; the directory and what was said."""
    said = io.StringIO()
    return train(config, out, console=Console(file=said, width=200), **options), said.getvalue()


def outcome(out: Path) -> tuple[str, dict[str, list[str]], dict[str, str]]:
    """What two equal runs have in common: games, progress without the clocks, and the memory, bit for bit."""
    run = RunDirectory(out)
    progress = {name: [*map(str, column)] for name, column in run.progress().items() if name not in CLOCKS}
    tensors = MFEC.load(run.checkpoint).memory.tensors()
    memory = {name: hashlib.sha256(tensor.tobytes()).hexdigest() for name, tensor in tensors.items()}
    return run.episodes_file.read_text(), progress, memory


# -- The run directory ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    """A run of the command, long enough for rows that lie a hundred frames apart, and two hundred."""
    out = tmp_path_factory.mktemp("runs") / "lake"
    arguments = ["FrozenLake-v1", "--total-frames", "21000", "--capacity", "2000", "--seed", "5"]
    assert main(["train", *arguments, "--out", str(out)]) == 0
    return RunDirectory(out)


def test_a_run_directory_holds_settings_tables_checkpoint_history_events_a_curve_and_a_video(finished):
    names = sorted(path.name for path in finished.path.iterdir())
    assert names[:5] == ["checkpoint", "config.toml", "curve.png", "episodes.csv", names[4]]
    assert names[4].startswith("events.out.tfevents.")
    assert names[5:] == ["history", "progress.csv", "video.mp4"]


def test_settings_are_resolved(finished):
    agent = MFECConfig(capacity=2000, embedding="table", truncated="bootstrap")
    config = RunConfig("FrozenLake-v1", 21_000, 5, agent, EnvConfig())
    assert finished.read_config() == config
    assert MFEC.load(finished.checkpoint).config == agent.of_agent


def test_a_projection_is_what_auto_stands_for_where_observations_are_large(tmp_path):
    run, _ = quiet_train(RunConfig("CartPole-v1", 50, 0, MFECConfig(capacity=100, dim=2)), tmp_path / "run")
    assert run.read_config().agent.embedding == "random_projection"


def test_every_finished_game_is_a_row(finished):
    header, *rows = finished.episodes_file.read_text().splitlines()
    assert header == EPISODES_HEADER
    agent = MFEC.load(finished.checkpoint)
    assert agent.frames == 21_000
    assert len(rows) == agent.games > 100
    table = finished.episodes()
    assert table["episode"] == list(range(1, agent.games + 1))
    assert table["return"][-100:] == list(agent.scores)
    # One environment: games follow one another without a gap, a frame a step.
    assert table["frames"] == list(itertools.accumulate(table["length_frames"]))
    assert table["frames"][-1] <= 21_000
    assert set(table["return"]) == {0.0, 1.0}


def test_progress_is_a_row_every_so_many_frames(finished):
    assert finished.progress_file.read_text().splitlines()[0] == PROGRESS_HEADER
    progress, episodes = finished.progress(), finished.episodes()
    assert progress["frames"][-106:] == [*range(10_000, 20_000, 100), *range(20_000, 21_001, 200)]
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
    ("FrozenLake-v1", 1, 1, 1), ("FrozenLake-v1", 50, 1, 50), ("FrozenLake-v1", 50, 3, 17),  # every step
    ("FrozenLake-v1", 1003, 1, 100), ("FrozenLake-v1", 4000, 8, 100), ("qbert", 402, 1, 100), ("qbert", 1702, 2, 100),
])  # fmt: skip
def test_a_run_of_any_length_has_a_hundred_rows_or_one_a_step_and_one_at_its_end(tmp_path, env, frames, n_envs, rows):
    run, _ = quiet_train(RunConfig(env, frames, 0, SMALL, EnvConfig(n_envs=n_envs)), tmp_path / "run")
    progress = run.progress()["frames"]
    assert len(progress) >= rows
    assert progress == sorted(set(progress))
    assert progress[-1] == MFEC.load(run.checkpoint).frames >= frames
    gaps = np.diff([0.0, *progress])
    assert gaps.max() <= max(frames / 100, n_envs * (4 if env == "qbert" else 1)) + n_envs * 4


@settings(max_examples=200)
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
    MFEC("FrozenLake-v1", capacity=2000, seed=5).learn(21_000, counted)
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
    """The first row after a stop: 20 of its 50 steps were made before."""
    config = RunConfig("FrozenLake-v1", 9020, 0, SMALL)
    quiet_train(config, tmp_path / "run")
    now = 100.0  # when the run goes on

    class TwoSeconds(Callback):
        def on_step(self, agent: Agent) -> None:
            nonlocal now
            now = 102.0

    monkeypatch.setattr("mfec.interface.time", SimpleNamespace(perf_counter=lambda: now))
    run, _ = quiet_train(replace(config, total_frames=9050), tmp_path / "run", resume=True, display=TwoSeconds())
    assert run.progress()["frames"][-2:] == [9000, 9050]
    assert run.progress()["steps_per_second"][-1] == 15.0


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
    config = RunConfig("FrozenLake-v1", 1000, 0, SMALL, EnvConfig(n_envs=3))
    quiet_train(config, tmp_path / "run", checkpoint_frames=250)
    assert saved == [252, 501, 750, 1002, 1002]  # the first step at or after each, and the end


@pytest.mark.parametrize("frames", ["0", "-5"])
def test_a_senseless_number_of_frames_between_checkpoints_is_refused(tmp_path, capsys, frames):
    out = tmp_path / "run"
    arguments = ["train", "FrozenLake-v1", "--total-frames", "100", "--checkpoint-frames", frames, "--out", str(out)]
    assert main(arguments) == 1
    assert f"a checkpoint comes every frame or less often, not every {frames}" in capsys.readouterr().err
    assert not out.exists()


# -- Going on ---------------------------------------------------------------------------------------------------------


def files_of(path: Path) -> dict[str, bytes]:
    return {str(file.relative_to(path)): file.read_bytes() for file in sorted(path.rglob("*")) if file.is_file()}


def test_a_second_run_in_the_same_directory_is_refused(finished, capsys):
    before = files_of(finished.path)
    arguments = ["train", "FrozenLake-v1", "--total-frames", "21000", "--capacity", "2000", "--seed", "5"]
    assert main([*arguments, "--out", str(finished.path)]) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"mfec: {finished.path} already holds a run: --resume goes on with it")
    assert files_of(finished.path) == before


def test_a_finished_run_says_so(finished, capsys):
    before = outcome(finished.path)
    arguments = ["train", "FrozenLake-v1", "--total-frames", "21000", "--capacity", "2000", "--seed", "5"]
    assert main([*arguments, "--out", str(finished.path), "--resume"]) == 0
    assert f"{finished.path} has all of its 21,000 frames" in capsys.readouterr().out
    assert outcome(finished.path) == before


@pytest.mark.parametrize(("option", "value", "name"), [
    ("--k", "5", "k"), ("--gamma", "0.5", "gamma"), ("--seed", "6", "seed"), ("--n-envs", "2", "n_envs"),
    ("--embedding", "random_projection", "embedding"), ("--eviction", "used", "eviction"), ("--ties", "first", "ties"),
    ("--index", "cells", "index"), ("--recall", "0.9", "recall"), ("--kernel", "inverse", "kernel"),
])  # fmt: skip
def test_a_run_does_not_go_on_with_another_setting(finished, capsys, option, value, name):
    before = files_of(finished.path)
    arguments = ["--total-frames", "30000", "--capacity", "2000", "--seed", "5", option, value]
    assert main(["train", "FrozenLake-v1", *arguments, "--out", str(finished.path), "--resume"]) == 1
    error = capsys.readouterr().err
    assert f"was begun with {name} = " in error
    assert f"cannot go on with {value}" in error
    assert files_of(finished.path) == before


def test_a_run_does_not_go_on_in_another_environment(finished, capsys):
    assert main(["train", "CartPole-v1", "--capacity", "2000", "--out", str(finished.path), "--resume"]) == 1
    assert "was begun with env = FrozenLake-v1, it cannot go on with CartPole-v1" in capsys.readouterr().err


@pytest.mark.parametrize(("env", "n_envs", "first", "second"), [
    ("CartPole-v1", 1, 1003, 3001),
    ("FrozenLake-v1", 8, 9_984, 20_100),  # between two rows of progress, of which the last one goes
    ("FrozenLake-v1", 1, 10_000, 10_450),  # at a row of progress, which stays
    ("FrozenLake-v1", 32, 9_984, 20_100),  # the step after 9,984 frames leads to 10,016
    ("qbert", 1, 3002, 6000),
    ("qbert", 8, 3000, 6000),
])  # fmt: skip
def test_a_longer_run_goes_on_from_a_shorter_one_as_if_it_had_never_stopped(tmp_path, env, n_envs, first, second):
    game = EnvConfig(n_envs=n_envs, max_frames=500) if env == "qbert" else EnvConfig(n_envs=n_envs)
    config = RunConfig(env, first, 1, SMALL, game)
    quiet_train(config, tmp_path / "parts")
    games = RunDirectory(tmp_path / "parts").episodes_file.read_text()
    config = replace(config, total_frames=second)
    _, said = quiet_train(config, tmp_path / "parts", resume=True)
    quiet_train(config, tmp_path / "whole")
    frames = first + -first % (n_envs * (4 if env == "qbert" else 1))
    assert f"going on from frame {frames:,}" in said
    assert outcome(tmp_path / "parts") == outcome(tmp_path / "whole")
    assert len(outcome(tmp_path / "parts")[0]) > len(games)
    assert RunDirectory(tmp_path / "parts").read_config().total_frames == second


def test_a_run_with_another_kernel_is_another_run_and_goes_on_as_itself(tmp_path, capsys):
    cart = ["train", "CartPole-v1", "--capacity", "2000", "--index", "exact", "--no-video"]
    parts, whole = str(tmp_path / "parts"), str(tmp_path / "whole")
    for frames in ("1503", "3000"):
        assert main([*cart, "--kernel", "inverse", "--total-frames", frames, "--out", parts, "--resume"]) == 0
    assert "going on from frame 1,503" in capsys.readouterr().out
    assert main([*cart, "--kernel", "inverse", "--total-frames", "3000", "--out", whole]) == 0
    assert outcome(tmp_path / "parts") == outcome(tmp_path / "whole")
    assert MFEC.load(RunDirectory(tmp_path / "whole").checkpoint).memory.kernel == "inverse"
    assert main([*cart, "--total-frames", "3000", "--out", str(tmp_path / "mean")]) == 0
    assert outcome(tmp_path / "mean")[0] != outcome(tmp_path / "whole")[0]
    assert main([*cart, "--total-frames", "4000", "--out", whole, "--resume"]) == 1
    assert "was begun with kernel = inverse, it cannot go on with mean" in capsys.readouterr().err


def test_a_run_that_was_never_begun_is_begun_by_resume(tmp_path):
    config = RunConfig("FrozenLake-v1", 500, 0, SMALL)
    quiet_train(config, tmp_path / "a", resume=True)
    quiet_train(config, tmp_path / "b")
    assert outcome(tmp_path / "a") == outcome(tmp_path / "b")


def test_tables_that_lack_games_of_the_checkpoint_are_an_error(tmp_path):
    config = RunConfig("FrozenLake-v1", 500, 0, SMALL)
    run, _ = quiet_train(config, tmp_path / "run")
    run.episodes_file.write_text(EPISODES_HEADER + "\n")
    with pytest.raises(RunDirectoryError, match=r"episodes\.csv has 0 games, the checkpoint"):
        quiet_train(replace(config, total_frames=900), tmp_path / "run", resume=True)


# -- Seeds ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_envs", [1, 8])
def test_one_seed_is_one_run(tmp_path, n_envs):
    config = RunConfig("qbert", 5000, 3, SMALL, EnvConfig(n_envs=n_envs, max_frames=600))
    for name in ("a", "b"):
        quiet_train(config, tmp_path / name)
    quiet_train(replace(config, seed=4), tmp_path / "other")
    assert outcome(tmp_path / "a") == outcome(tmp_path / "b")
    games, _, memory = outcome(tmp_path / "a")
    other_games, _, other_memory = outcome(tmp_path / "other")
    assert len(games.splitlines()) > 1
    assert games != other_games
    assert memory["keys"] != other_memory["keys"]


# -- Bad data ---------------------------------------------------------------------------------------------------------

FAULTY = """
    import os
    import gymnasium
    import numpy as np
    from gymnasium import spaces

    class Faulty(gymnasium.Env):
        observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
        action_space = spaces.Discrete(3)
        steps = 0

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self.at = self.np_random.integers(4, size=2).astype(np.float32)
            self.t = 0
            return self.at, {}

        def step(self, action):
            Faulty.steps += 1
            fault = os.environ["FAULT"] if Faulty.steps == 137 else ""
            self.t += 1
            self.at = self.at + np.float32([action == 1, action == 2])
            reward = {"nan reward": np.nan, "infinite reward": -np.inf}.get(fault, float(action))
            shown = self.at * np.nan if fault == "nan observation" else self.at
            return shown, reward, self.t == 20, False, {}

    gymnasium.register("Faulty-v0", entry_point=Faulty)
"""


@pytest.mark.parametrize("fault", ["nan reward", "infinite reward", "nan observation"])
def test_bad_data_stops_the_run_after_a_checkpoint_of_the_good_state(tmp_path, fault):
    (tmp_path / "faulty_env.py").write_text(textwrap.dedent(FAULTY))
    command = [sys.executable, "-m", "mfec", "train", "faulty_env:Faulty-v0", "--total-frames", "400"]
    command += ["--capacity", "500", "--out", str(tmp_path / "run")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path]), "FAULT": fault}
    ended = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=PATIENCE)
    assert ended.returncode == 1
    assert "Traceback" not in ended.stdout + ended.stderr
    what = "an observation that is not finite" if "observation" in fault else "the rewards [-inf]"
    what = "the rewards [nan]" if fault == "nan reward" else what
    assert ended.stderr.splitlines()[-1] == f"mfec: the environment returned {what} after frame 136"

    agent = MFEC.load(tmp_path / "run" / "checkpoint")
    assert agent.frames == 136
    assert agent.games == 6
    assert RunDirectory(tmp_path / "run").episodes()["frames"] == [20, 40, 60, 80, 100, 120]
    state, tensors = read_checkpoint(tmp_path / "run" / "checkpoint", kind="agent")
    assert [len(actions) for actions in state["games_in_progress"]["history"]["actions"]] == [16]
    for array in (agent.memory.tensors()["values"], agent.memory.tensors()["states"], tensors["episodes"]["rewards"]):
        assert np.isfinite(array).all()

    mended = subprocess.run(
        [*command, "--resume"], capture_output=True, text=True, env={**environment, "FAULT": ""}, timeout=PATIENCE
    )
    assert mended.returncode == 0, mended.stderr
    assert "going on from frame 136" in mended.stdout
    assert RunDirectory(tmp_path / "run").episodes()["frames"] == list(range(20, 401, 20))


# -- A full disk ------------------------------------------------------------------------------------------------------


def train_with_little_room(limit: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Train in a process whose files may not grow beyond `limit` bytes."""

    def limit_files() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    command = [sys.executable, "-B", "-m", "mfec", "train", *arguments]
    return subprocess.run(command, capture_output=True, text=True, preexec_fn=limit_files, timeout=PATIENCE)


def test_on_a_full_disk_the_last_good_checkpoint_stays_and_the_run_goes_on_from_it(tmp_path):
    arguments = ["CartPole-v1", "--total-frames", "3000", "--capacity", "2000", "--checkpoint-frames", "400"]
    out = tmp_path / "run"
    full = train_with_little_room(80_000, *arguments, "--out", str(out))
    assert full.returncode == 1
    assert "Traceback" not in full.stdout + full.stderr
    last = full.stderr.splitlines()[-1]
    assert last.startswith(f"mfec: cannot save {out / 'checkpoint'}: ")
    assert "File too large" in last
    assert last.endswith("the last good checkpoint is kept")
    said = full.stdout.split("cannot save")
    assert len(said) > 3, "while there were frames to play, it went on after every checkpoint that failed"
    assert all("the last good checkpoint is kept" in " ".join(part.split()) for part in said[1:])
    assert MFEC.load(out / "checkpoint").frames in range(400, 2800)
    assert RunDirectory(out).episodes()["frames"][-1] > 2800

    config = RunConfig("CartPole-v1", 3000, 0, SMALL)
    quiet_train(config, out, resume=True)
    quiet_train(config, tmp_path / "whole")
    assert outcome(out) == outcome(tmp_path / "whole")


def test_on_a_disk_without_room_for_any_checkpoint_the_message_says_so(tmp_path):
    arguments = ["CartPole-v1", "--total-frames", "1000", "--capacity", "2000", "--out", str(tmp_path / "run")]
    full = train_with_little_room(40_000, *arguments)  # a table takes less, a memory more
    assert full.returncode == 1
    assert "Traceback" not in full.stdout + full.stderr
    assert full.stderr.splitlines()[-1].endswith("nothing is kept")


def test_on_a_disk_without_room_for_a_table_a_sentence_names_it(tmp_path):
    arguments = ["FrozenLake-v1", "--total-frames", "20000", "--capacity", "2000", "--out", str(tmp_path / "run")]
    full = train_with_little_room(15_000, *arguments)
    assert full.returncode == 1
    assert "Traceback" not in full.stdout + full.stderr
    assert full.stderr.splitlines()[-1].startswith("mfec: ")
    assert re.search(r"(episodes|progress)\.csv", full.stderr.splitlines()[-1])


def test_on_a_disk_without_any_room_no_run_begins(tmp_path):
    full = train_with_little_room(10, "FrozenLake-v1", "--capacity", "2000", "--out", str(tmp_path / "run"))
    assert full.returncode == 1
    assert full.stderr.splitlines()[-1].startswith(f"mfec: cannot begin a run in {tmp_path / 'run'}")
    assert not RunDirectory(tmp_path / "run").exists


def test_brackets_in_a_path_are_not_taken_for_colours(tmp_path):
    """rich reads them as such unless told otherwise."""
    out = tmp_path / "[bold]runs[/italic]"
    config = RunConfig("FrozenLake-v1", 300, 0, SMALL)
    quiet_train(config, out)
    _, said = quiet_train(config, out, resume=True)
    assert f"{out} has all of its 300 frames" in said
    (out / "checkpoint").rename(out / "moved")
    (out / "checkpoint").write_text("no directory, so it cannot be saved")
    with pytest.raises(Exception, match="cannot save"):
        quiet_train(replace(config, total_frames=500), out, resume=True, checkpoint_frames=100)


# -- One process at a time --------------------------------------------------------------------------------------------


def test_a_second_process_is_refused_and_the_first_is_not_disturbed(tmp_path, start: Start, capsys):
    arguments = ["FrozenLake-v1", "--capacity", "300", "--no-video", "--out"]
    run = RunDirectory(tmp_path / "run")
    process = start(*arguments, str(run.path), "--total-frames", "10000000", "--checkpoint-frames", "1000")
    wait_for(lambda: run.has_checkpoint, process)
    for resume in ([], ["--resume"]):
        assert main(["train", *arguments, str(run.path), *resume]) == 1
        assert f"{run.path}: it is in use by process {process.pid} on " in capsys.readouterr().err
    assert main(["evaluate", str(run.path), "--episodes", "1"]) == 0  # whoever only looks is let in
    assert main(["plot", str(run.path), "--out", str(tmp_path / "curve.png")]) == 0
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE) == 130
    agent = MFEC.load(run.checkpoint)
    assert main(["train", *arguments, str(tmp_path / "alone"), "--total-frames", str(agent.frames)]) == 0
    assert run.episodes_file.read_bytes() == (tmp_path / "alone" / "episodes.csv").read_bytes()
    assert games_of(run.path) == agent.games > 0


def test_a_process_that_was_killed_is_no_obstacle_and_a_run_that_ended_leaves_no_lock(tmp_path, start: Start):
    arguments = ["FrozenLake-v1", "--capacity", "300", "--no-video", "--out", str(tmp_path / "run")]
    process = start(*arguments, "--total-frames", "10000000")
    wait_for(lambda: games_of(tmp_path / "run") > 0, process)
    process.kill()
    process.wait()
    assert main(["train", *arguments, "--total-frames", "500", "--resume"]) == 0
    assert not [file for file in (tmp_path / "run").iterdir() if file.name.startswith(".")]


# -- Stopping ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("steps", [1, 7, 250, 251, 999, 1003])
def test_a_run_stopped_after_any_step_goes_on_as_if_it_had_not(tmp_path, steps):
    config = RunConfig("FrozenLake-v1", 1003, 2, SMALL)
    with stopped_after(steps):
        quiet_train(config, tmp_path / "parts", checkpoint_frames=250)
    assert MFEC.load(tmp_path / "parts" / "checkpoint").frames == steps
    quiet_train(config, tmp_path / "parts", resume=True)
    quiet_train(config, tmp_path / "whole")
    assert outcome(tmp_path / "parts") == outcome(tmp_path / "whole")
