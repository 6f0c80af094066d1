"""Evaluation of a run: whole games, unclipped scores, an agent that stays as it is."""

from __future__ import annotations

from pathlib import Path

from mfec.algorithms import RunConfig
from mfec.config import DeviceName, EnvConfig, Settings, Starts
from mfec.evaluation import AgentPlayer, AtRandom, Evaluation, WholeGames
from mfec.evaluation.video import check_video
from mfec.interface import Agent
from mfec.run_directory import RunDirectory, RunDirectoryError


def evaluate_run(
    directory: RunDirectory,
    *,
    config: RunConfig | None = None,
    episodes: int | None = None,
    seed: int = 0,
    starts: Starts = "sampled",
    epsilon: float | None = None,
    random: bool = False,
    video: Path | None = None,
    device: DeviceName = Settings.device,
) -> list[Evaluation]:
    """Play whole games with the agent of a run, and with a random policy if asked for.

    `config` is the run's own unless given: it says where to play. `epsilon` is the agent's own unless given, and 0
    where `starts` are not sampled. The video is of the first game. `device` need not be the run's.
    """
    _check(episodes, epsilon, video)
    config = config or directory.read_config()
    if not directory.has_checkpoint:
        raise RunDirectoryError(f"{directory.path} has no checkpoint yet: nothing to evaluate")
    one = config.kind.environment_of_agent(config, n_envs=1)
    games = WholeGames(config.env, one, games=episodes, seed=seed, starts=starts, video=video)
    evaluations = []
    if random:
        evaluations.append(games.play(AtRandom(games.action_space, seed=seed), filmed=False))
    agent = config.kind.load(directory.checkpoint, games.env, config, device=device, playing=True)
    return [*evaluations, games.play(AgentPlayer(agent, _chance(epsilon, starts), seed=seed))]


def evaluate_agent(
    agent: Agent,
    env: str,
    environment: EnvConfig,
    *,
    episodes: int | None = None,
    seed: int = 0,
    starts: Starts = "sampled",
    epsilon: float | None = None,
    video: Path | None = None,
) -> Evaluation:
    """Play whole games with an agent that is there; everything else as in `evaluate_run`."""
    _check(episodes, epsilon, video)
    games = WholeGames(env, environment, games=episodes, seed=seed, starts=starts, video=video)
    return games.play(AgentPlayer(agent, _chance(epsilon, starts), seed=seed))


def _check(episodes: int | None, epsilon: float | None, video: Path | None) -> None:
    if episodes is not None and episodes < 1:
        raise ValueError(f"episodes must be at least 1, not {episodes}")
    if epsilon is not None and not 0.0 <= epsilon <= 1.0:
        raise ValueError(f"epsilon must lie between 0 and 1, not {epsilon}")
    if video:
        check_video(video)


def _chance(epsilon: float | None, starts: Starts) -> float | None:
    return 0.0 if starts != "sampled" and epsilon is None else epsilon
