"""One training run: settings in, run directory out. Stopped at any moment, it goes on as if nothing had happened."""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import numpy as np
from rich.console import Console

from mfec.agent import MFEC, AnyEnv, BadEnvironmentData
from mfec.callback import Game, Learner, Steps
from mfec.checkpoint import CheckpointError
from mfec.config import ALGORITHMS, CHECKPOINT_FRAMES, FRAMES_LIMIT_GB, RunConfig, check_frames_limit
from mfec.device import Channel
from mfec.embeddings import VAE
from mfec.embeddings.vae.files import encoder_name
from mfec.envs import make_env
from mfec.envs.lanes import make_lanes
from mfec.experiments.display import Display, RunDisplay
from mfec.experiments.embedding import embedding_of_run
from mfec.experiments.evaluating import Evaluator, columns_of
from mfec.experiments.frames import observation_space
from mfec.experiments.lock import locked
from mfec.experiments.ram import refuse_replay_that_cannot_fit, refuse_what_cannot_fit
from mfec.experiments.schedule import about_schedule, begun_with
from mfec.experiments.stopping import Stopped, stop_signals
from mfec.experiments.tensorboard import TensorBoard
from mfec.experiments.vae import refuse_missing_device, train_own_vaes
from mfec.history import HistoryWriter
from mfec.history.frame_codec import picture_shape
from mfec.run_directory import RunDirectory, RunDirectoryError

if TYPE_CHECKING:
    from mfec.baselines import Baseline

EVERY_FRAMES = 10_000  # between rows of progress.csv, at most


def train(
    config: RunConfig,
    out: str | Path,
    *,
    resume: bool = False,
    checkpoint_frames: int = CHECKPOINT_FRAMES,
    keep_frames: bool = False,
    frames_limit_gb: float = FRAMES_LIMIT_GB,
    ignore_memory_limit: bool = False,
    console: Console | None = None,
    device: Channel | None = None,
    display: RunDisplay | None = None,
    patience: float = 0.0,
) -> RunDirectory:
    """Train, or go on training, an agent in the run directory `out`, which no other process trains in meanwhile.

    keep_frames: keep frames of MFEC's episodes for `mfec inspect`, at most `frames_limit_gb` gigabytes of them.
    device: the way to a device that other runs share, instead of one of its own; display: instead of the terminal.
    patience: seconds to wait for another process that trains in the directory, before it is an error.
    """
    if checkpoint_frames < 1:
        raise ValueError(f"checkpoint_frames must be at least 1, not {checkpoint_frames}")
    check_frames_limit(frames_limit_gb)
    picture = picture_to_keep(config) if keep_frames else None
    console = console or Console()
    directory = RunDirectory(out)
    limits = checkpoint_frames, frames_limit_gb, ignore_memory_limit
    with locked(directory.path, patience=patience):
        _train(config, directory, resume, picture, *limits, console, device, display)
    return directory


def _train(
    config: RunConfig,
    directory: RunDirectory,
    resume: bool,
    picture: tuple[int, ...] | None,
    checkpoint_frames: int,
    frames_limit_gb: float,
    ignore_memory_limit: bool,
    console: Console,
    device: Channel | None,
    display: RunDisplay | None,
) -> None:
    """The same in a directory that is locked."""
    out = directory.path
    if directory.exists and not resume:
        raise RunDirectoryError(f"{out} already holds a run: --resume goes on with it, or choose another --out")
    begin = _begin if config.algorithm == "mfec" else _begin_baseline
    agent, config = begin(config, directory, resume, ignore_memory_limit, console, device)
    evaluator = Evaluator(config, directory)
    if agent.frames >= config.total_frames and not evaluator.due(agent.frames):
        said = f"{out} has all of its {config.total_frames:,} frames"
        console.print(said, highlight=False, markup=False, soft_wrap=True)
        return

    history = _history(agent, directory, picture, frames_limit_gb) if isinstance(agent, MFEC) else None
    with stop_signals() as stop, display or Display(config.total_frames, console) as shown:
        recorder = Recorder(agent, config, directory, stop, shown, evaluator, checkpoint_frames, history)
        try:
            recorder.evaluate(agent)  # what a stop has cut short
            if agent.frames < config.total_frames:
                agent.learn(config.total_frames, recorder)
            recorder.finish(agent)
        except (BadEnvironmentData, Stopped):
            recorder.finish(agent)
            raise
        finally:
            recorder.close()


def _begin(
    config: RunConfig,
    directory: RunDirectory,
    resume: bool,
    ignore_memory_limit: bool,
    console: Console,
    device: Channel | None,
) -> tuple[MFEC, RunConfig]:
    """The agent of a run, from its checkpoint if there is one, and the settings with what `auto` stands for."""
    env, config = resolve(config, directory.path)
    if directory.exists:
        directory.check_same(config)
    if device is None:  # else all runs together were looked at before
        refuse_what_cannot_fit([config], console, outs=[directory.path], ignore=ignore_memory_limit)
        if config.agent.embedding == "vae":
            refuse_missing_device(config.agent.device)

    if directory.exists and directory.has_checkpoint:
        agent = MFEC.load(directory.checkpoint, env=env, device=device or config.agent.device, index=config.agent.index)
        directory.check_checkpoint(agent.config, agent.seed)
        _go_on(agent, config, directory, console)
        return agent, config
    settings = {**vars(config.agent), "device": device or config.agent.device}
    if config.trains_vae:
        if device is None:  # else it was trained before
            train_own_vaes([(config, directory)], device=config.agent.device, resume=resume, console=console)
        settings["embedding"] = VAE.load(directory.vae)
    agent = MFEC(env, **settings, seed=config.seed)
    if config.trains_vae:
        agent.frames = config.vae.frames  # those that the VAE was trained on count
    directory.create(config)
    return agent, config


def picture_to_keep(config: RunConfig) -> tuple[int, ...]:
    """The shape of the frames of a run; an error where it has none that could be kept."""
    if config.algorithm != "mfec":
        raise ValueError(f"frames are kept for the memories of MFEC; {ALGORITHMS[config.algorithm]} has none")
    shape = picture_shape(observation_space(config.env, config.environment))
    if shape is None:
        raise ValueError(
            f"{config.env} shows no pictures, so there are no frames to keep; without --keep-frames, `mfec inspect` "
            "plays the actions of its episodes again"
        )
    return shape


def has_frames_to_keep(config: RunConfig) -> bool:
    """Whether a run can keep its frames; also where it cannot even begin, and will say why."""
    if config.algorithm != "mfec":
        return False
    try:
        return picture_shape(observation_space(config.env, config.environment)) is not None
    except Exception:  # an environment may raise anything
        return True


def _history(
    agent: MFEC, directory: RunDirectory, picture: tuple[int, ...] | None, frames_limit_gb: float
) -> HistoryWriter:
    """What writes down the run's episodes from here on; what was written after the checkpoint goes."""
    try:
        return HistoryWriter(
            directory.history,
            picture=picture,
            limit_gb=frames_limit_gb,
            begun=agent.games_begun,
            in_progress=agent.games_in_progress,
        )
    except OSError as error:
        raise RunDirectoryError(f"cannot write the history of {directory.path}: {error}") from None


def _begin_baseline(
    config: RunConfig,
    directory: RunDirectory,
    resume: bool,
    ignore_memory_limit: bool,
    console: Console,
    device: Channel | None,
) -> tuple[Baseline, RunConfig]:
    """The same for DQN and A2C."""
    from mfec.baselines import Baseline

    if device is not None:
        raise ValueError(f"{ALGORITHMS[config.algorithm]} has nothing to look up on a device that other runs share")
    refuse_missing_device(config.agent.device)
    given = config.dqn
    if directory.exists:
        config = begun_with(config, directory)
    single = make_env(config.env, replace(config.environment, frame_stack=1))  # frames are stacked for learning
    baseline = Baseline(single, config)
    config = replace(config, dqn=baseline.config.dqn)
    if not baseline.env.stacked:
        config = replace(config, environment=replace(config.environment, frame_stack=1))
    if directory.exists:
        directory.check_same(config)
    if config.algorithm != "a2c":
        refuse_replay_that_cannot_fit(config, baseline.env.lanes, console, ignore=ignore_memory_limit)
        steps = config.total_frames / baseline.env.lanes.frame_skip
        for sentence in about_schedule(given, config.dqn, steps, begun=directory.exists):
            console.print(sentence, highlight=False, soft_wrap=True)
    if directory.exists and directory.has_checkpoint:
        baseline.restore(directory.checkpoint)
        _go_on(baseline, config, directory, console)
    else:
        directory.create(config)
    return baseline, config


def _go_on(agent: Learner, config: RunConfig, directory: RunDirectory, console: Console) -> None:
    # The last row of a run that goes on with more frames: steps that it counted are those of the next row, too.
    begun_row = agent.tally.steps > 0 and agent.frames < config.total_frames
    directory.cut_tables(agent.games, agent.frames - begun_row)
    directory.write_config(config)
    console.print(f"going on from frame {agent.frames:,}", highlight=False)


def resolve(config: RunConfig, out: Path | None = None) -> tuple[AnyEnv, RunConfig]:
    """The environment of the run in `out`, and its settings with what `auto` stands for and its encoder's one name.

    An environment that cannot be made, or that an encoder does not fit, is an error.
    """
    env = make_env(config.env, config.environment)
    lanes = make_lanes(env, np.random.SeedSequence(config.seed))
    agent = replace(config.agent, vae=encoder_name(config.agent.vae))
    name, _ = embedding_of_run(agent, lanes.observation_space, out)
    truncated = agent.resolved_truncated(lanes.facts.published)
    return env, replace(config, agent=replace(agent, embedding=name, truncated=truncated))


def next_row(frames: int) -> int:
    """The number of frames at which `progress.csv` has its next row, after so many.

    Rows lie a hundredth of the frames so far apart, rounded down to 1, 2 or 5 and zeros, and at most 10,000. So a run
    of any length has a hundred of them, and where they lie does not depend on how long the run is, was, or will be.

    >>> [next_row(frames) for frames in (0, 99, 250, 4_321, 10_000, 999_999, 1_234_567)]
    [1, 100, 252, 4340, 10100, 1000000, 1240000]
    """
    hundredth = max(1, frames // 100)
    zeros = int("1" + "0" * (len(str(hundredth)) - 1))
    apart = min(EVERY_FRAMES, zeros * max(digit for digit in (1, 2, 5) if digit * zeros <= hundredth))
    return (frames // apart + 1) * apart


class Recorder:
    """Writes the tables and checkpoints of a run, and keeps its display up to date."""

    def __init__(
        self,
        agent: Learner,
        config: RunConfig,
        directory: RunDirectory,
        stop: list[int],
        display: RunDisplay,
        evaluator: Evaluator,
        checkpoint_frames: int = CHECKPOINT_FRAMES,
        history: HistoryWriter | None = None,
    ) -> None:
        self._directory = directory
        self._history = history
        self._history_lost = False  # and that was said
        self._stop = stop
        self._display = display
        self._evaluator = evaluator
        self._checkpoint_frames = checkpoint_frames
        self._episodes = directory.episodes_file.open("a", buffering=1)
        self._progress = directory.progress_file.open("a", buffering=1)
        self._tensorboard = TensorBoard(directory.path)
        past = directory.progress()
        self._seconds_before = past["seconds"][-1] if past["seconds"] else 0.0
        self._began = self._row_began = time.perf_counter()
        self._last_frames = agent.frames
        self._total_frames = config.total_frames
        self._first_frame = config.vae.frames if config.trains_vae else 0  # what comes before is not the agent's
        self._next_row = self._row_after(agent.frames)
        self._steps_before = agent.tally.steps  # of this row, before the run was stopped

    def on_game(self, agent: Learner, game: Game) -> None:
        """Add a row to `episodes.csv`."""
        self._append(self._episodes, f"{game.frames},{game.episode},{game.score!r},{game.length_frames}\n")

    def on_steps(self, agent: MFEC, steps: Steps) -> None:
        """Hand the steps to the history."""
        if self._history is not None:
            self._history.add(steps)
            if self._history.full:
                self._history.drop(agent.memory.buffers.entries_of_episodes())

    def on_step(self, agent: Learner) -> None:
        """Show progress; every so many frames, a row of `progress.csv` and a checkpoint."""
        before, self._last_frames = self._last_frames, agent.frames
        if agent.frames >= self._next_row:
            self._write_row(agent)
            self._begin_row(agent)
        self.evaluate(agent)
        self._display.update(agent)
        if agent.frames // self._checkpoint_frames > before // self._checkpoint_frames:
            self.save(agent)
        self._raise_if_stopped()

    def evaluate(self, agent: Learner) -> None:
        """Play whole games, if it is time to. The run's own time stands still meanwhile."""
        if not self._evaluator.due(agent.frames):
            return
        began = time.perf_counter()
        evaluation = self._evaluator.evaluate(agent, self._raise_if_stopped)
        took = time.perf_counter() - began
        self._began += took
        self._row_began += took
        self._display.evaluated(evaluation)
        self._tensorboard.write(agent.frames, columns_of(evaluation), group="evaluation")

    def save(self, agent: Learner) -> None:
        """Write a checkpoint. A full disk does not end a run that may still have room to finish."""
        self._write_down()
        try:
            agent.save(self._directory.checkpoint)
        except CheckpointError as error:
            self._display.say(str(error))

    def finish(self, agent: Learner) -> None:
        """Write the last checkpoint; one that cannot be written is an error now. A run at its end has a last row.

        The checkpoint does not know of that row: a run that is given more frames goes on as if it had not ended here.
        """
        if agent.frames >= self._total_frames and agent.tally.steps:
            self._write_row(agent)
        self._write_down()
        agent.save(self._directory.checkpoint)

    def close(self) -> None:
        """Close the tables and the history."""
        if self._history is not None:
            self._history.close()
        with contextlib.suppress(OSError):  # a full disk was reported when the row was written
            self._episodes.close()
        with contextlib.suppress(OSError):
            self._progress.close()
        self._tensorboard.close()

    def _raise_if_stopped(self) -> None:
        if self._stop:
            raise Stopped

    def _write_down(self) -> None:
        """Bring tables and history to the disk: a checkpoint must not know of games that they do not tell."""
        self._episodes.flush()
        os.fsync(self._episodes.fileno())
        if self._history is not None and not self._history_lost:
            self._history.flush()
            if self._history.error is not None:
                self._history_lost = True
                self._display.say(f"cannot write the history: {self._history.error}; the run goes on without it")

    def _append(self, table: TextIO, row: str) -> None:
        try:
            table.write(row)
        except OSError as error:
            raise RunDirectoryError(
                f"cannot write to {table.name}: {error}; --resume goes on from the last checkpoint"
            ) from None

    def _write_row(self, agent: Learner) -> None:
        now = time.perf_counter()
        tally = agent.tally
        looks_up = agent.algorithm == "mfec"
        row = {
            "frames": agent.frames,
            "seconds": round(self._seconds_before + now - self._began, 3),
            "steps_per_second": round((tally.steps - self._steps_before) / (now - self._row_began), 1),
            "return_mean_100": sum(agent.scores) / len(agent.scores) if agent.scores else "",
            "exact_match_rate": round(tally.exact / tally.lookups, 6) if looks_up else "",
            "exact_match_rate_chosen": round(tally.exact_chosen / tally.steps, 6) if looks_up else "",
            "memory_entries": len(agent.memory),
            "memory_bytes": agent.memory.nbytes,
            "lookup_ms": round(1000.0 * tally.lookup_seconds / tally.steps, 4) if looks_up else "",
            "write_ms": round(1000.0 * tally.write_seconds / tally.steps, 4) if looks_up else "",
            "recall": "" if (recall := agent.memory.measured_recall) is None else round(recall, 4),
        }
        self._append(self._progress, ",".join(str(value) for value in row.values()) + "\n")
        self._tensorboard.write(agent.frames, row)
        self._row_began = now

    def _begin_row(self, agent: Learner) -> None:
        agent.tally = type(agent.tally)()
        self._steps_before = 0
        self._next_row = self._row_after(agent.frames)

    def _row_after(self, frames: int) -> int:
        return self._first_frame + next_row(frames - self._first_frame)
