"""Episodes of the run that memories come from: their frames as they were kept, or made by playing again."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from mfec.algorithms import RunConfig
from mfec.envs import make_env
from mfec.envs.atari import make_atari
from mfec.envs.environments import SingleEnvironment, VectorEnvironments, make_environments
from mfec.envs.names import is_atari
from mfec.envs.spaces import fits
from mfec.episodic_agent import EpisodicAgent
from mfec.errors import MfecError
from mfec.history import History, PastEpisode
from mfec.history.frame_codec import frames_in_chunk, pack_frames, picture_shape, pictures_of
from mfec.inspector.numbers import shown_numbers
from mfec.inspector.recorded_game import draw
from mfec.memory.identities import array_keys

REMEMBERED_BYTES = 2**28  # of frames that stay at hand
MOST_IN_EPISODE = 100_000  # numbers of a past episode, where observations are numbers: of a long one, the first of each
SHORTER_SIDE = 160  # of pictures that an environment has drawn, at most; they are shown small

KEPT = "Its frames were kept while training."
REMADE = "Its frames were not kept; they were made again by playing its actions, and every state is the one remembered."


@dataclass(frozen=True)
class Frames:
    """Frames of an episode, from a step on."""

    first: int
    frames: NDArray[np.uint8]

    def at(self, step: int) -> NDArray[np.uint8]:
        """The frame of a step."""
        return np.asarray(self.frames[step - self.first])


@dataclass(frozen=True)
class Replay:
    """The result of playing an episode again: what was seen in it and how its pictures look, or why there are none."""

    frames: NDArray[np.uint8] | None = None  # where pictures were seen
    drawn: tuple[int, ...] | None = None  # else the shape of the pictures that the environment draws, if it does
    numbers: NDArray[np.float64] | None = None  # what was seen where that is numbers, (steps, numbers that are shown)
    why: str = ""

    @property
    def nbytes(self) -> int:
        """Bytes that it takes to keep."""
        return sum(each.nbytes for each in (self.frames, self.numbers) if each is not None)


class PastEpisodes:
    """The past episodes of a run, by number."""

    def __init__(self, agent: EpisodicAgent, config: RunConfig, history: History, stop: list[bool]) -> None:
        """stop: fills when it is time to end, even in the middle of an episode."""
        self._agent, self._config, self._stop = agent, config, stop
        self.history = history
        self._shape = picture_shape(agent.observation_space)
        self._reading, self._playing = threading.Lock(), threading.Lock()
        self._remembered: OrderedDict[tuple[int, int], Frames] = OrderedDict()  # by episode and chunk
        self._drawn: OrderedDict[tuple[int, int], NDArray[np.uint8]] = OrderedDict()  # by episode and step
        self._replays: OrderedDict[int, Replay] = OrderedDict()
        self._env: Any = None

    def age(self, episode: int, frame: int) -> int | None:
        """How many frames of the run ago that was; None where it is not known."""
        begun = self.history.begun(episode)
        if begun is None:
            return None
        return max(0, self._agent.frames - begun - frame * self._config.environment.n_envs)  # environments step in turn

    def about(self, number: int) -> dict[str, Any]:
        """An episode as the page shows it; a KeyError where it was not recorded."""
        episode = self.history.episode(number)
        files = self.history.kept(number) if self._shape is not None else []
        # Where the record of its actions is damaged, there may be more frames than steps.
        kept = [(begin, min(end, len(episode))) for begin, end in files if begin < len(episode)]
        whole = kept == [(0, len(episode))]
        replay = Replay() if whole else self._play_again(episode)
        shape = replay.drawn if replay.frames is None else replay.frames.shape[1:]
        if shape is not None:
            kept, source, note = [(0, len(episode))], "recreated", REMADE
        elif kept:
            source, note = "kept", KEPT if whole else f"{KEPT} Some are missing: {replay.why}"
        else:
            missing = "What was done between its frames cannot be read." if files else "Its frames were not kept."
            source, note = "none", f"{missing} {replay.why}"
        shape = shape or self._shape
        return {
            "episode": number,
            "steps": len(episode),
            "begun": episode.begun,
            "actions": episode.actions.tolist(),
            "rewards": episode.rewards.tolist(),
            "ended": episode.ended,
            "ends": self._ends(episode),
            "source": source,
            "note": note,
            "picture": {"shape": list(shape), "per_chunk": frames_in_chunk(shape)} if kept and shape else None,
            "available": [list(part) for part in kept],
            "drawn": replay.drawn is not None,
            "numbers": None if replay.numbers is None else replay.numbers.tolist(),
        }

    def chunk(self, number: int, chunk: int) -> bytes | None:
        """Frames of an episode, packed, black where none is available; None where one that should be cannot be had."""
        about = self.about(number)
        if about["picture"] is None:
            return None
        per_chunk, shape = about["picture"]["per_chunk"], tuple(about["picture"]["shape"])
        steps = range(chunk * per_chunk, min((chunk + 1) * per_chunk, about["steps"]))
        self.draw(number, steps)
        available = {step for begin, end in about["available"] for step in range(begin, end)}
        frames = [self.frame(number, step, wait=True)[0] if step in available else None for step in steps]
        missing = any(frame is None for step, frame in zip(steps, frames, strict=True) if step in available)
        if missing or available.isdisjoint(steps):
            return None
        return pack_frames(np.array([np.zeros(shape, np.uint8) if frame is None else frame for frame in frames]))

    def frame(self, number: int, step: int, *, wait: bool) -> tuple[NDArray[np.uint8] | None, str]:
        """One frame, or why there is none. Without `wait` an episode is not played again for it: then the reason is "".

        A KeyError where the episode was not recorded.
        """
        replay = self._replays.get(number)
        kept = self._kept(number, step) if replay is None or replay.frames is None else None
        if kept is not None:
            return kept, ""
        if replay is None:
            if not wait:
                return None, ""
            replay = self._play_again(self.history.episode(number))
        if replay.frames is not None:
            return (replay.frames[step], "") if step < len(replay.frames) else (None, "The episode was shorter.")
        if replay.drawn is None:
            return None, replay.why
        drawn = self._drawn.get((number, step))
        if drawn is not None or not wait:
            return drawn, ""
        first = step - step % frames_in_chunk(replay.drawn)  # those beside it will be asked for as well
        found = self.draw(number, range(first, first + frames_in_chunk(replay.drawn))).get(step)
        return (found, "") if found is not None else (None, "The episode was shorter.")

    def draw(self, number: int, steps: Collection[int]) -> dict[int, NDArray[np.uint8]]:
        """Pictures of these steps of an episode, by step, where the environment draws them.

        To draw one takes a millisecond or two and to play a step a twentieth of that, so that an episode is played
        again for a few of its pictures, and not all of them are drawn for one.
        """
        if self._shape is not None:
            return {}
        replay = self._play_again(self.history.episode(number))
        if replay.drawn is None:
            return {}
        with self._playing:
            missing = {step for step in steps if (number, step) not in self._drawn}
            episode = self.history.episode(number)
            if missing and min(missing) < len(episode):
                envs = self._envs(episode.env_id)
                envs.begin_game(0, episode.game)
                for step, action in enumerate(episode.actions[: max(missing) + 1].tolist()):
                    if step in missing:
                        picture = _small(draw(self._env))
                        if picture is None or picture.shape != replay.drawn:
                            continue
                        self._drawn[number, step] = picture
                    envs.send(0, np.array([action]))
                    envs.receive(0)
            found = {step: self._drawn[number, step] for step in steps if (number, step) in self._drawn}
            while sum(own.nbytes for own in self._drawn.values()) > REMEMBERED_BYTES:
                self._drawn.popitem(last=False)
            return found

    def _ends(self, episode: PastEpisode) -> list[int]:
        """The steps after which the memory was told what had followed: the last one, and those that cost a life."""
        by_life = self._agent.config.episode == "life"
        ends = set(np.flatnonzero(episode.lost_life).tolist()) if by_life else set()
        return sorted(ends | ({len(episode) - 1} if episode.ended else set()))

    def _kept(self, number: int, step: int) -> NDArray[np.uint8] | None:
        if self._shape is None:
            return None
        with self._reading:
            for key, part in self._remembered.items():
                if key[0] == number and part.first <= step < part.first + len(part.frames):
                    self._remembered.move_to_end(key)
                    return part.at(step)
            found = self.history.frames(number, step, self._shape)
            if found is None:
                return None
            part = Frames(*found)
            self._remembered[number, part.first] = part
            while sum(own.frames.nbytes for own in self._remembered.values()) > REMEMBERED_BYTES:
                self._remembered.popitem(last=False)
            return part.at(step)

    def _play_again(self, episode: PastEpisode) -> Replay:
        with self._playing:
            if episode.number not in self._replays:
                self._replays[episode.number] = self._replay(episode)
                while sum(own.nbytes for own in self._replays.values()) > REMEMBERED_BYTES and len(self._replays) > 1:
                    self._replays.popitem(last=False)
            self._replays.move_to_end(episode.number)
            return self._replays[episode.number]

    def _replay(self, episode: PastEpisode) -> Replay:
        """Play the actions of an episode again, and see whether it is the same one."""
        if episode.game < 0:
            return Replay(why="Its environment begins games by itself, so that none can be begun again.")
        if not episode.whole or not len(episode):
            return Replay(why="Not all of its actions were recorded.")
        try:
            envs = self._envs(episode.env_id)
            envs.begin_game(0, episode.game)
            first = None if self._shape is not None else _small(draw(self._env))
            seen, rewards = [], []
            for action in episode.actions.tolist():
                if self._stop:
                    return Replay(why="It is not played again any more.")
                seen.append(envs.shown(0)[0])
                envs.send(0, np.array([action]))
                rewards.append(float(envs.receive(0).rewards[0]))
        except (MfecError, ImportError, OSError, TypeError, ValueError) as error:
            return Replay(why=f"It could not be played again: {error}")
        observations = np.array(seen)
        same = rewards == episode.rewards.tolist() and fits(observations, self._agent.observation_space)
        if not same or not self._remembers(episode.number, observations):
            return Replay(why="Playing its actions again led elsewhere: its environment does not repeat itself.")
        if self._shape is not None:
            return Replay(pictures_of(observations, self._shape))
        numbers = shown_numbers(observations, at_most=max(1, MOST_IN_EPISODE // len(episode)))
        if first is None:
            return Replay(numbers=numbers, why="Its environment shows no pictures, and cannot draw any.")
        return Replay(drawn=first.shape, numbers=numbers)

    def _remembers(self, number: int, observations: NDArray[Any]) -> bool:
        """Whether every state that the memory has from an episode is the one seen there."""
        frames, keys = self._agent.memory.buffers.seen_in(number)
        steps = frames // self._agent.frame_skip
        recorded = bool((steps < len(observations)).all())
        return recorded and bool((array_keys(observations[steps]) == keys).all())

    def _envs(self, env_id: int) -> SingleEnvironment | VectorEnvironments:
        """An environment that begins games as that one of the run did."""
        environment, name = self._config.environment, self._config.env
        if self._env is None:
            one = replace(environment, n_envs=1)
            if environment.n_envs > 1 and is_atari(name) and not one.wrappers:
                # Games of ale-py's vector begin by other numbers.
                self._env = make_atari(name, n_envs=1, **one.of_atari())
            else:
                self._env = make_env(name, one, render_mode=None if self._shape else "rgb_array")
        envs = make_environments(self._env, self._agent.env_seed, first_env=env_id)
        assert isinstance(envs, SingleEnvironment if not isinstance(self._env, VectorEnv) else VectorEnvironments)
        return envs


def _small(picture: NDArray[np.uint8] | None) -> NDArray[np.uint8] | None:
    """A large picture, where each pixel is the mean of so many: thin lines stay."""
    if picture is None:
        return None
    every = -(-min(picture.shape[:2]) // SHORTER_SIDE)
    height, width = picture.shape[0] // every, picture.shape[1] // every
    # Whole rows are added, then columns: one sum over both axes takes numpy 7 ms for 400 x 600 pixels, this 0.5.
    rows = np.zeros((height, width * every, picture.shape[2]), np.uint32)
    for row in range(every):
        rows += picture[row : height * every : every, : width * every]
    sums = np.zeros((height, width, picture.shape[2]), np.uint32)
    for column in range(every):
        sums += rows[:, column::every]
    means: NDArray[np.uint8] = (sums // every**2).astype(np.uint8)
    return means
