"""One training run: settings in, run directory out. Stopped at any moment, it goes on as if nothing had happened."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

from rich.console import Console

from mfec.algorithms import RunConfig
from mfec.callbacks import (
    Callback,
    CallbackList,
    Checkpoints,
    EpisodeHistory,
    Evaluations,
    ProgressBar,
    Tables,
    TensorBoard,
)
from mfec.callbacks.guarded import guarded
from mfec.callbacks.stopping import StopWhenAsked
from mfec.config import CHECKPOINT_FRAMES, FRAMES_LIMIT_GB, check_frames_limit
from mfec.device import Channel
from mfec.envs import make_env
from mfec.envs.names import is_atari
from mfec.evaluation import WholeGames
from mfec.experiments.frames import observation_space
from mfec.experiments.lock import locked
from mfec.experiments.ram import refuse_what_cannot_fit
from mfec.experiments.stopping import stop_signals
from mfec.experiments.vae import train_own_vaes
from mfec.history import History
from mfec.history.frame_codec import picture_shape
from mfec.interface import Agent, Callbacks, next_row
from mfec.run_directory import RunDirectory, RunDirectoryError


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
    display: Callback | None = None,
    patience: float = 0.0,
) -> RunDirectory:
    """Train, or go on training, an agent in the run directory `out`, which no other process trains in meanwhile.

    keep_frames: keep frames of an episodic memory for `mfec inspect`, at most `frames_limit_gb` gigabytes of them.
    device: the way to a device that other runs share, instead of one of its own; display: instead of the terminal.
    patience: seconds to wait for another process that trains in the directory, before it is an error.
    """
    train_agent(
        config,
        out,
        resume=resume,
        checkpoint_frames=checkpoint_frames,
        keep_frames=keep_frames,
        frames_limit_gb=frames_limit_gb,
        ignore_memory_limit=ignore_memory_limit,
        console=console,
        device=device,
        display=display,
        patience=patience,
    )
    return RunDirectory(out)


def train_agent(
    config: RunConfig,
    out: str | Path,
    *,
    callback: Callbacks | None = None,
    resume: bool = False,
    checkpoint_frames: int = CHECKPOINT_FRAMES,
    keep_frames: bool = False,
    frames_limit_gb: float = FRAMES_LIMIT_GB,
    ignore_memory_limit: bool = False,
    console: Console | None = None,
    device: Channel | None = None,
    display: Callback | None = None,
    patience: float = 0.0,
) -> Agent:
    """The same, with callbacks of a user's; returns the agent.

    A run that one of them has stopped, or ended by an exception, is saved like any other.
    """
    check_frames_limit(frames_limit_gb)
    picture = picture_to_keep(config) if keep_frames else None
    console = console or Console()
    directory = RunDirectory(out)
    checkpoints = Checkpoints(directory.checkpoint, every_frames=checkpoint_frames)
    theirs = guarded(CallbackList.of(callback))
    with locked(directory.path, patience=patience):
        if directory.exists and not resume:
            raise RunDirectoryError(f"{out} already holds a run: --resume goes on with it, or choose another --out")
        agent, config = _begin(config, directory, resume, ignore_memory_limit, console, device)
        with contextlib.suppress(AttributeError):  # an agent of another package need not take it
            agent.run_directory = directory.path  # type: ignore[attr-defined]
        evaluations = _evaluations(config, directory)
        total, at = config.total_frames, agent.frames
        if at >= total and not any(each.due(at, total) for each in evaluations):
            console.print(f"{out} has all of its {total:,} frames", highlight=False, markup=False, soft_wrap=True)
            return agent
        with stop_signals() as stop:
            history = EpisodeHistory(directory.history, picture=picture, limit_gb=frames_limit_gb)
            past = directory.progress()["seconds"]
            callbacks = CallbackList(
                [
                    *([history] if config.kind.looks_up else []),
                    Tables(directory),
                    TensorBoard(directory.path),
                    *evaluations,
                    display or ProgressBar(console),
                    *theirs,
                    checkpoints,
                    StopWhenAsked(stop),
                ],
                first_frame=config.first_frame,
                seconds=past[-1] if past else 0.0,
            )
            if at < total:
                agent.learn(total, callbacks)
            else:  # what a stop has cut short is made up for
                with callbacks.around(agent, total):
                    pass
    for error in [own.error for own in theirs if own.error]:
        raise error
    return agent


def _begin(
    config: RunConfig,
    directory: RunDirectory,
    resume: bool,
    ignore_memory_limit: bool,
    console: Console,
    device: Channel | None,
) -> tuple[Agent, RunConfig]:
    """The agent of a run, from its checkpoint if there is one, and the settings with what `auto` stands for."""
    kind, begun = config.kind, directory.exists
    env, used = resolve(config, directory)
    if begun:
        directory.check_same(used)
    if device is None:  # else all runs together were looked at before
        refuse_what_cannot_fit(used, console, out=directory.path, ignore=ignore_memory_limit)
    goes_on = begun and directory.has_checkpoint
    if goes_on:
        agent = kind.load(directory.checkpoint, env, used, device=device)
    else:
        if used.own_vae and device is None:  # else it was trained before
            train_own_vaes([(used, directory)], device=used.agent.device, resume=resume, console=console)
        agent = kind.make(env, used, out=directory.path, device=device)
    for sentence in kind.remarks(config, used, agent.frame_skip, begun=begun):
        console.print(sentence, highlight=False, soft_wrap=not console.is_terminal)
    if goes_on:
        _go_on(agent, used, directory, console)
    else:
        directory.create(used)
    return agent, used


def resolve(config: RunConfig, directory: RunDirectory) -> tuple[Any, RunConfig]:
    """The environment of the run in a directory, and its settings with what `auto` stands for.

    An environment that cannot be made, or that an encoder does not fit, is an error.
    """
    begun = directory.read_config() if directory.exists else None
    env = make_env(config.env, config.kind.environment_of_agent(config))
    return env, config.kind.resolve(config, env, out=directory.path, begun=begun)


def picture_to_keep(config: RunConfig) -> tuple[int, ...]:
    """The shape of the frames of a run; an error where it has none that could be kept."""
    if not config.kind.looks_up:
        raise ValueError(f"frames are kept for the memories of an agent; {config.kind.label} has none")
    shape = picture_shape(observation_space(config.env, config.environment))
    if shape is None:
        raise ValueError(
            f"{config.env} shows no pictures, so there are no frames to keep; without --keep-frames, `mfec inspect` "
            "plays the actions of its episodes again"
        )
    return shape


def has_frames_to_keep(config: RunConfig) -> bool:
    """Whether a run can keep its frames; also where it cannot even begin, and will say why."""
    if not config.kind.looks_up:
        return False
    try:
        return picture_shape(observation_space(config.env, config.environment)) is not None
    except Exception:  # an environment may raise anything
        return True


def kept_frame_bytes(directory: RunDirectory) -> int:
    """Bytes of frames that a run has kept so far."""
    return int(History(directory.history).frames_bytes)


def _evaluations(config: RunConfig, directory: RunDirectory) -> list[Evaluations]:
    """What evaluates the run while it trains, if anything; an Atari game without chance from all of its starts."""
    settings = config.evaluation
    if not settings.evaluate_every:
        return []
    chance = settings.evaluate_epsilon > 0.0 or config.environment.sticky_actions > 0.0
    all_starts = is_atari(config.env) and not chance
    games = WholeGames(
        config.env,
        config.kind.environment_of_agent(config, n_envs=1),
        games=None if all_starts else settings.evaluate_games,
        seed=config.seed,
        starts="all" if all_starts else "sampled",
    )
    return [
        Evaluations(
            games,
            every=settings.evaluate_every,
            epsilon=settings.evaluate_epsilon,
            seed=config.seed,
            directory=directory,
            first_frame=config.first_frame,
        )
    ]


def _go_on(agent: Agent, config: RunConfig, directory: RunDirectory, console: Console) -> None:
    """Drop what was written after the checkpoint, and the last row of a run that had ended and is given more frames.

    That row lies between two others, and the steps that it counted are those of the next one, too.
    """
    rows = [config.first_frame, *(int(at) for at in directory.progress()["frames"] if at <= agent.frames)]
    before, last = rows[-2:] if len(rows) > 1 else (rows[0], rows[0])
    between = before < last < config.first_frame + next_row(before - config.first_frame)
    begun_row = between and agent.frames < config.total_frames
    directory.cut_tables(agent.games, agent.frames - begun_row)
    directory.write_config(config)
    console.print(f"going on from frame {agent.frames:,}", highlight=False)
