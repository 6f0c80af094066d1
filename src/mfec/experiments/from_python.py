"""Runs from a program or a notebook: `mfec.train` and `mfec.evaluate`, with words as Stable-Baselines3 has them."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args, overload

from rich import get_console
from rich.console import Console

from mfec import here
from mfec.algorithms import RunConfig, algorithm
from mfec.callbacks import Callback, Stopped
from mfec.canonical_names import FUNCTION, canonical_name
from mfec.config import CHECKPOINT_FRAMES, FRAMES_LIMIT_GB, DeviceName, EnvConfig, EvaluationConfig, Starts, folder_of
from mfec.evaluation import Evaluation
from mfec.experiments.evaluate import evaluate_agent, evaluate_run
from mfec.experiments.given import EnvLike, GivenEnv, given_embedding, given_env
from mfec.experiments.train import train_agent
from mfec.interface import Agent, Callbacks
from mfec.recipes import RecipeName
from mfec.run_directory import RunDirectory, RunDirectoryError

if TYPE_CHECKING:
    from mfec.agent import MFEC
    from mfec.algorithms.nec.agent import NEC

GAMES = 10  # of an evaluation, as `mfec evaluate` plays


@overload
def train(
    env: EnvLike,
    out: str | Path | None = None,
    *,
    total_frames: int,
    seed: int = ...,
    algorithm: Literal["mfec"] = ...,
    **options: Any,
) -> MFEC: ...


@overload
def train(
    env: EnvLike,
    out: str | Path | None = None,
    *,
    total_frames: int,
    seed: int = ...,
    algorithm: Literal["nec"],
    **options: Any,
) -> NEC: ...


@overload
def train(
    env: EnvLike, out: str | Path | None = None, *, total_frames: int, seed: int = ..., algorithm: str, **options: Any
) -> Agent: ...


def train(
    env: EnvLike,
    out: str | Path | None = None,
    *,
    total_frames: int,
    seed: int = RunConfig.seed,
    algorithm: str = RunConfig.algorithm,
    recipe: RecipeName = "paper",
    resume: bool = False,
    callback: Callbacks | None = None,
    progress_bar: bool = True,
    evaluate_every: int = EvaluationConfig.evaluate_every,
    n_envs: int | None = None,
    env_kwargs: Mapping[str, Any] | None = None,
    wrappers: Iterable[str | Callable[..., Any]] = (),
    checkpoint_frames: int = CHECKPOINT_FRAMES,
    keep_frames: bool = False,
    frames_limit_gb: float = FRAMES_LIMIT_GB,
    ignore_memory_limit: bool = False,
    **settings: Any,
) -> Agent:
    """Train an agent as `mfec train` does, into a run directory, and return it: ready to predict, to learn on, to save.

    The same settings make the same run, and the directory is one for `mfec plot`, `report`, `evaluate` and `inspect`
    (pictures and videos are left to them); the agent has its path as `agent.run_directory`. Ctrl-C, a callback that
    returns False and an exception of a callback end the run after a checkpoint; `resume=True` then goes on with it,
    bit for bit.

    Args:
        env: the name of an environment; a function or class that makes one; or one that `gymnasium.make` has made,
            after which others are made. A function that no other program can import, such as one of a notebook, is
            registered with Gymnasium under the name `function/...`, which only this process knows.
        out: the run directory; None stands for `runs/ENV`.
        total_frames: in all, those of the run that `resume` goes on with included.
        seed: makes the run: environment, exploration, ties, projection.
        algorithm: `mfec`, `nec`, `dqn`, `prioritised_dqn`, `a2c`, or one that another package brings.
        recipe: the settings where none are given: the `paper`'s, or `tuned` ones.
        resume: go on from the last checkpoint in `out`; begin where there is none.
        callback: a `Callback`, a function of the agent that is called after every step, or several of them.
        progress_bar: show progress and what else `mfec train` says; False says nothing.
        evaluate_every: frames between two evaluations, whose scores go into `evaluations.csv`; 0 stands for none.
        n_envs: environments that share one memory; None stands for as many as the algorithm was published with.
        env_kwargs: for the function or class, or for `gymnasium.make`.
        wrappers: around each environment, from the inside out: classes, or `package.module:Wrapper`.
        checkpoint_frames, keep_frames, frames_limit_gb, ignore_memory_limit: as `mfec train --help` has them.
        settings: of the algorithm (`k=3`, `gamma=0.99`, `embedding=encoder`, a name or an object), of its environments
            (`sticky_actions=0.25`) and evaluations (`evaluate_games=10`).

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     agent = train("FrozenLake-v1", f"{folder}/lake", total_frames=1000, capacity=1000, progress_bar=False)
    ...     evaluation = evaluate(agent.run_directory, episodes=20, epsilon=0.0)
    >>> agent.num_timesteps, agent.capacity, len(evaluation.scores)
    (1000, 1000, 20)
    """
    given = given_env(env, env_kwargs=env_kwargs, wrappers=wrappers)
    chosen = {"evaluate_every": evaluate_every, **({} if n_envs is None else {"n_envs": n_envs})}
    config = _config(given, total_frames, seed, algorithm, recipe, {**settings, **chosen})
    out = Path("runs") / folder_of(config.env) if out is None else Path(out)
    if RunDirectory(out).exists and not resume:
        raise RunDirectoryError(f"{out} already holds a run: resume=True goes on with it, or choose another out")
    try:
        return train_agent(
            config,
            out,
            callback=callback,
            resume=resume,
            checkpoint_frames=checkpoint_frames,
            keep_frames=keep_frames,
            frames_limit_gb=frames_limit_gb,
            ignore_memory_limit=ignore_memory_limit,
            console=get_console() if progress_bar else Console(quiet=True),
            display=None if progress_bar else Callback(),
        )
    except Stopped:  # a loop over seeds must end, too
        raise KeyboardInterrupt(f"stopped, and saved in {out}; resume=True goes on") from None


def evaluate(
    run: str | Path | RunDirectory | Agent,
    *,
    episodes: int | None = None,
    env: EnvLike | None = None,
    embedding: Callable[[Any], Any] | None = None,
    epsilon: float | None = None,
    starts: Starts = "sampled",
    seed: int = 0,
    video: str | Path | None = None,
    device: DeviceName = "cpu",
) -> Evaluation:
    """Play whole games with the agent of a run, or with an agent that is there; it stays as it is.

    Args:
        run: a run directory, or an agent.
        episodes: games to play; None stands for 10, or for the thirty of `starts`.
        env: where to play; None stands for the run's own. It must be given where that was a function of another
            process, and for an agent without a run directory.
        embedding: that of the run, if it was an object of another process.
        epsilon: chance of a random action; None stands for the agent's own, or for 0 where `starts` are not sampled.
            With 0, equal values go to the first action.
        starts: where games begin: `sampled` from the seed; or, in an Atari game, at `all` of its thirty starts, once
            each, or at thirty `unseen` ones.
        video: an .mp4 file for the first game.
        device: where the memory of a run's checkpoint is searched.

    >>> from mfec import MFEC
    >>> agent = MFEC("FrozenLake-v1", capacity=1000, seed=0).learn(1000)
    >>> len(evaluate(agent, env="FrozenLake-v1", episodes=5).scores)
    5
    """
    if isinstance(run, str | Path | RunDirectory):
        directory = run if isinstance(run, RunDirectory) else RunDirectory(run)
        config = directory.read_config()
        if embedding is not None:
            _give_again(embedding, config)
        return evaluate_run(
            directory,
            config=config if env is None else _played_in(env, config),
            episodes=GAMES if episodes is None and starts == "sampled" else episodes,
            seed=seed,
            starts=starts,
            epsilon=epsilon,
            video=None if video is None else Path(video),
            device=device,
        )[-1]
    home: Path | None = getattr(run, "run_directory", None)
    if home is not None:
        config = RunDirectory(home).read_config()
        config = config if env is None else _played_in(env, config)
        name, environment = config.env, config.kind.environment_of_agent(config, n_envs=1)
    elif env is not None:
        given = given_env(env)
        name, environment = canonical_name(given.name), EnvConfig(**given.settings)
    else:
        raise ValueError("this agent has no run directory that says where it plays: name the environment (env=...)")
    return evaluate_agent(
        run,
        name,
        environment,
        episodes=GAMES if episodes is None and starts == "sampled" else episodes,
        seed=seed,
        starts=starts,
        epsilon=epsilon,
        video=None if video is None else Path(video),
    )


def _give_again(embedding: Callable[[Any], Any], config: RunConfig) -> None:
    known = str(getattr(config.agent, "embedding", "none"))
    module, _, name = known.partition(":")
    if module != here.__name__:
        raise ValueError(f"the embedding of this run is {known}, which is found without being given")
    given_embedding(embedding, name=name)


def _played_in(env: EnvLike, config: RunConfig) -> RunConfig:
    """The settings of a run in another environment; or in its own, if that was a function of another process."""
    if config.env.startswith(FUNCTION) and not isinstance(env, str):
        given_env(env, name=config.env)
        return config
    given = given_env(env)
    # What only Atari games have stays; keywords and wrappers are those of the given one.
    atari = {name: getattr(config.environment, name) for name in ("frame_stack", "sticky_actions", "max_frames")}
    return replace(config, env=given.name, environment=EnvConfig(**atari, **given.settings))


def _config(
    given: GivenEnv, total_frames: int, seed: int, algorithm_name: str, recipe: RecipeName, settings: dict[str, Any]
) -> RunConfig:
    """The settings of a run, each where it belongs."""
    kind = algorithm(algorithm_name)
    if recipe not in get_args(RecipeName):
        raise ValueError(f"recipe must be one of {', '.join(get_args(RecipeName))}, not {recipe!r}")
    agent = kind.defaults(given.name, recipe)
    places: list[Any] = [agent, kind.environment, EvaluationConfig()]
    names = [field.name for place in places for field in fields(place)]
    for name in settings:
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ";"
            raise TypeError(f"{kind.label} has no setting {name!r}{hint} there are {', '.join(names)}")
    if not isinstance(settings.get("embedding", ""), str):
        settings = {**settings, "embedding": given_embedding(settings["embedding"])}
    settings = {**settings, **given.settings}
    agent, environment, evaluation = (
        replace(place, **{field.name: settings[field.name] for field in fields(place) if field.name in settings})
        for place in places
    )
    return RunConfig(given.name, total_frames, seed, agent, environment, algorithm_name, evaluation)
