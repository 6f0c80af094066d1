"""Evaluation of a run: whole games, unclipped scores, an agent that stays as it is."""

from __future__ import annotations

from pathlib import Path

from mfec.config import DeviceName, Settings, Starts
from mfec.evaluation import AgentPlayer, AtRandom, Evaluation, WholeGames
from mfec.evaluation.video import check_video
from mfec.run_directory import RunDirectory, RunDirectoryError


def evaluate_run(
    directory: RunDirectory,
    *,
    episodes: int | None = None,
    seed: int = 0,
    starts: Starts = "sampled",
    epsilon: float | None = None,
    random: bool = False,
    video: Path | None = None,
    device: DeviceName = Settings.device,
) -> list[Evaluation]:
    """Play whole games with the agent of a run, and with a random policy if asked for.

    `epsilon` is the agent's own unless given, and 0 where `starts` are not sampled. The video is of the first game.
    `device` need not be the run's.
    """
    if episodes is not None and episodes < 1:
        raise ValueError(f"episodes must be at least 1, not {episodes}")
    if epsilon is not None and not 0.0 <= epsilon <= 1.0:
        raise ValueError(f"epsilon must lie between 0 and 1, not {epsilon}")
    if video:
        check_video(video)
    config = directory.read_config()
    if not directory.has_checkpoint:
        raise RunDirectoryError(f"{directory.path} has no checkpoint yet: nothing to evaluate")
    if starts != "sampled" and epsilon is None:
        epsilon = 0.0
    one = config.kind.environment_of_agent(config, n_envs=1)
    games = WholeGames(config.env, one, games=episodes, seed=seed, starts=starts, video=video)
    evaluations = []
    if random:
        at_random = WholeGames(config.env, one, games=episodes, seed=seed, starts=starts)
        evaluations.append(at_random.play(AtRandom(games.action_space, seed=seed)))
    agent = config.kind.load(directory.checkpoint, games.env, config, device=device, playing=True)
    return [*evaluations, games.play(AgentPlayer(agent, epsilon, seed=seed))]
