"""The numbers of a check, and how they come out of random play."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from mfec.experiments.check.play import PlayedGame, Player
from mfec.statistics import mean, standard_error

LONGEST_SPACE = 60  # letters; Box(0, 255, (84, 84), uint8) has 30


@dataclass(frozen=True)
class Spaces:
    """What is observed and done."""

    observations: str
    """The environment's own space."""
    actions: str
    n_actions: int
    shape: tuple[int, ...]
    """Of what the agent sees; empty for one whole number."""
    dtype: str
    values: int
    """Different observations that there can be, where they are whole numbers; else 0."""
    flattened: bool
    """Whether that is another space than the environment's own."""
    embedding: str
    """What `auto` stands for."""
    dim: int
    """Numbers in a state."""
    frame_skip: int
    published: bool
    """Whether it is an Atari game or a level of the Labyrinth, as in the paper."""

    @property
    def numbers(self) -> int:
        """Numbers in an observation."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def kind(self) -> str:
        """What the agent takes an observation for."""
        if self.embedding == "table":
            return "number"
        return "picture" if self.dtype == "uint8" and len(self.shape) >= 2 else "vector"


@dataclass(frozen=True)
class Repeats:
    """How often an observation comes back."""

    steps: int
    distinct: int
    share: float
    """Of the steps, in whose observation an earlier game has been."""
    share_late: float
    """The same of the last half of the steps."""
    new_early: float
    """Observations never seen before in a thousand steps, of the first half of the steps."""
    new_late: float
    """The same of the last half."""
    pairs: int
    """Different actions in different observations: entries of a memory of all of them."""
    new_pairs_late: float
    """Share of the steps in the last half that took an action never taken in that observation."""


@dataclass(frozen=True)
class Games:
    """How long games are, and how they end."""

    ended: int
    median_steps: float | None
    longest_steps: int
    """Of all, one that did not end included."""
    cut_off: int
    """Games that a time limit ended."""
    time_limit: int | None
    """Steps after which one does, where the environment says so."""
    lives: int | None
    """At the start of a game, where they are told."""
    lives_lost: int

    @property
    def cut_off_share(self) -> float:
        """Share of the games that a time limit ended."""
        return self.cut_off / self.ended if self.ended else 0.0


@dataclass(frozen=True)
class Rewards:
    """What random play is paid."""

    lowest: float
    highest: float
    steps_with: int
    """Steps with a reward other than 0."""
    share: float
    """Their share."""
    usual_share: float
    """Share of the steps that pay the reward that is paid most often: 1 where all are the same."""
    mean_score: float | None
    error: float | None
    """Standard error of the mean score."""
    lowest_score: float | None
    highest_score: float | None
    positive: int
    """Games with a score above 0."""
    positive_share: float
    different: int
    """Different scores."""


def spaces_of(player: Player, embedding: str, dim: int) -> Spaces:
    """What is observed and done."""
    envs, env = player.envs, player.env
    seen = envs.observation_space
    return Spaces(
        observations=_in_short(env.observation_space),
        actions=_in_short(env.action_space),
        n_actions=int(envs.action_space.n),
        shape=tuple(seen.shape or ()),
        dtype=str(np.dtype(seen.dtype)),
        values=int(seen.n) if isinstance(seen, spaces.Discrete) else 0,
        flattened=not isinstance(env.observation_space, (spaces.Box, spaces.Discrete)),
        embedding=embedding,
        dim=dim,
        frame_skip=envs.frame_skip,
        published=envs.facts.published,
    )


def repeats_of(games: Sequence[PlayedGame]) -> Repeats:
    """How often observations come back."""
    earlier: set[bytes] = set()  # observations of earlier games
    ever: set[bytes] = set()
    pairs: set[tuple[bytes, int]] = set()
    back, new, new_pair = [], [], []
    for game in games:
        for seen, action in zip(game.seen, game.actions, strict=True):
            back.append(seen in earlier)
            new.append(seen not in ever)
            new_pair.append((seen, action) not in pairs)
            ever.add(seen)
            pairs.add((seen, action))
        earlier.update(game.seen)
    half = len(new) // 2
    return Repeats(
        steps=len(new),
        distinct=len(ever),
        share=_share(back),
        share_late=_share(back[half:]),
        new_early=1000 * _share(new[:half] or new),
        new_late=1000 * _share(new[half:]),
        pairs=len(pairs),
        new_pairs_late=_share(new_pair[half:]),
    )


def games_of(games: Sequence[PlayedGame], env: gymnasium.Env[Any, Any], frame_skip: int) -> Games:
    """How long games are."""
    ended = [len(game.actions) for game in games if game.ended]
    lives = games[0].lives
    return Games(
        ended=len(ended),
        median_steps=median(ended) if ended else None,
        longest_steps=max(len(game.actions) for game in games),
        cut_off=sum(game.cut_off for game in games),
        time_limit=time_limit(env, frame_skip),
        lives=lives if lives > 0 else None,
        lives_lost=sum(game.lives_lost for game in games),
    )


def time_limit(env: gymnasium.Env[Any, Any], frame_skip: int) -> int | None:
    """Steps after which a game is cut off, where the environment or a wrapper says so."""
    layer: Any = env
    while isinstance(layer, gymnasium.Wrapper):
        if isinstance(layer, gymnasium.wrappers.TimeLimit):
            return layer._max_episode_steps
        layer = layer.env
    frames = getattr(layer, "_max_frames", None)  # of our Atari games
    return None if frames is None else -(-int(frames) // frame_skip)


def rewards_of(games: Sequence[PlayedGame]) -> Rewards:
    """What random play is paid."""
    rewards = [reward for game in games for reward in game.rewards]
    scores = [sum(game.rewards) for game in games if game.ended]
    paid, positive = sum(reward != 0 for reward in rewards), sum(score > 0 for score in scores)
    return Rewards(
        lowest=min(rewards),
        highest=max(rewards),
        steps_with=paid,
        share=paid / len(rewards),
        usual_share=Counter(rewards).most_common(1)[0][1] / len(rewards),
        mean_score=mean(scores) if scores else None,
        error=standard_error(scores) if len(scores) > 1 else None,
        lowest_score=min(scores, default=None),
        highest_score=max(scores, default=None),
        positive=positive,
        positive_share=positive / len(scores) if scores else 0.0,
        different=len(set(scores)),
    )


def _share(flags: Sequence[bool]) -> float:
    return sum(flags) / len(flags) if flags else 0.0


def _in_short(space: gymnasium.Space[Any]) -> str:
    """A space in a few words: bounds of many numbers are left out."""
    said = " ".join(str(space).split())
    if len(said) <= LONGEST_SPACE:
        return said
    return f"{type(space).__name__}{space.shape or ''}" + (f" of {space.dtype}" if space.dtype else "")
