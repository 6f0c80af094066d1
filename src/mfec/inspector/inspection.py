"""What the page is told: the run, the games that are played for it, and the past that memories come from."""

from __future__ import annotations

import base64
import re
import threading
import time
import zlib
from collections.abc import Collection
from dataclasses import replace
from typing import Any, cast

import gymnasium
import numpy as np
from numpy.typing import NDArray

from mfec.config import AgentConfig, DeviceName
from mfec.envs import make_env
from mfec.envs.flattening import Actions
from mfec.episodic_agent import EpisodicAgent
from mfec.errors import MfecError
from mfec.history import History
from mfec.inspector.memory_map import MemoryMap
from mfec.inspector.numbers import FEW_NUMBERS, MOST_NUMBERS, numbers_in, numbers_kept
from mfec.inspector.past_episodes import PastEpisodes
from mfec.inspector.recorded_game import Estimate, RecordedGame, Step
from mfec.run_directory import RunDirectory, RunDirectoryError

PATIENCE = 0.2  # seconds that a response with thumbnails may take to play episodes again; the page asks for the rest


class NotThere(MfecError):
    """Something was asked for that does not exist."""


class Inspection:
    """A trained agent under inspection: it plays games, and every number of them can be asked for.

    Args:
        directory: of a run with an episodic memory, and with a checkpoint.
        seed: makes the games; the first is the one that `mfec evaluate` plays first with this seed.
        epsilon: chance of a random action; None stands for the run's own.
        device: where the memory is searched.
    """

    def __init__(
        self,
        directory: RunDirectory,
        *,
        seed: int = 0,
        epsilon: float | None = None,
        device: DeviceName = AgentConfig.device,
    ) -> None:
        if epsilon is not None and not 0.0 <= epsilon <= 1.0:
            raise ValueError(f"epsilon must lie between 0 and 1, not {epsilon}")
        if seed < 0:
            raise ValueError(f"a seed must not be negative, and {seed} is")
        config = directory.read_config()
        if not config.kind.looks_up:
            raise RunDirectoryError(
                f"{directory.path} is a run of {config.kind.label}, which has no memories to look at"
            )
        if not directory.has_checkpoint:
            raise RunDirectoryError(f"{directory.path} has no checkpoint yet: nothing to inspect")
        self._directory, self._config = directory, config
        self._env = _renderer(config.env, replace(config.environment, n_envs=1))
        agent = config.kind.load(directory.checkpoint, self._env, config, device=device, playing=True)
        self.agent = cast(EpisodicAgent, agent)
        self._epsilon = self.agent.evaluation_epsilon if epsilon is None else epsilon
        self._seed = seed
        self._matches = self.agent.memory.exact_matches
        self._map = MemoryMap(self.agent.memory)
        self._history = History(directory.history)
        self._games: list[RecordedGame] = []
        self._threads: list[threading.Thread] = []
        self._stop: list[bool] = []
        self._past = PastEpisodes(self.agent, config, self._history, self._stop)

    # -- Games --------------------------------------------------------------------------------------------------------

    def play(self) -> int:
        """Begin the next game in a thread of its own, after the one before it; returns its number."""
        number = len(self._games)
        seed = int(np.random.SeedSequence(self._seed).generate_state(number + 1)[-1] >> 1)
        game = RecordedGame(number, seed, self._epsilon)
        before = self._threads[-1] if self._threads else None

        def play() -> None:
            if before is not None:
                before.join()
            try:
                dice = np.random.default_rng([self._seed, 1, number])  # as `mfec evaluate` has them
                game.play(self.agent, self._env, self._map, dice, self._stop)
            except Exception as error:  # whatever it is, it is to be seen on the page
                game.error = f"The game could not be played on: {error}"

        self._games.append(game)
        self._threads.append(threading.Thread(target=play, name=f"game {number}", daemon=True))
        self._threads[-1].start()
        return number

    def finish(self, game: int) -> None:
        """Wait until a game is over; what went wrong there is an error."""
        own = self._game(game)
        self._threads[game].join()
        if own.error:
            raise MfecError(own.error)

    def close(self) -> None:
        """Stop playing."""
        self._stop.append(True)
        for thread in self._threads:
            thread.join()

    # -- What the page asks for ---------------------------------------------------------------------------------------

    def run(self) -> dict[str, Any]:
        """The run, its memory and its map."""
        agent, memory = self.agent, self.agent.memory
        return {
            "environment": self._config.env,
            "directory": str(self._directory.path),
            "frames": agent.frames,
            "games": agent.games,
            "actions": action_names(self._env, agent.n_actions, int(agent.action_space.start)),
            "first_action": int(agent.action_space.start),
            "frame_skip": agent.frame_skip,
            "k": memory.k,
            "kernel": memory.kernel,
            "exact_matches": memory.exact_matches,
            "gamma": agent.config.gamma,
            "n_step": agent.n_step,
            "epsilon": self._epsilon,
            "capacity": memory.capacity,
            "embedding": agent.embedding.name,
            "numbers": numbers_in(agent.observation_space),
            "shown_numbers": MOST_NUMBERS,
            "numbers_kept": numbers_kept(agent),
            "index": memory.active_index,
            "fps": float(self._env.metadata.get("render_fps") or 30.0),
            "entries": memory.sizes.tolist(),
            "frames_note": self._frames_note(),
            "live": True,
            "recorded_games": len(self._games),
            "map": self._map.as_json(),
        }

    def game(self, game: int) -> dict[str, Any]:
        """A game, as far as it was played."""
        own = self._game(game)
        done, steps = own.done, list(own.steps)
        summary = {
            "game": own.number,
            "seed": own.seed,
            "done": done,
            "steps": len(steps),
            "epsilon": own.epsilon,
            "rewards": [step.reward for step in steps],
            "actions": [step.action for step in steps],
            "explored": [int(step.explored) for step in steps],
            "exact": [int(step.estimates[step.action].exact) for step in steps] if self._matches else None,
            "score": steps[-1].score + steps[-1].reward if steps else 0.0,
            "picture": own.pictures.about() if own.pictures else None,
            "observation": own.observations.about() if own.observations else None,
            "cards": "numbers" if self._as_numbers(own) else "frames",
        }
        return {**summary, "error": own.error} if own.error else summary

    def step(self, game: int, step: int) -> dict[str, Any]:
        """One step: what each action was worth, and the memories that say so."""
        own = self._game(game)
        if not 0 <= step < len(own.steps):
            raise NotThere(f"Game {game} has no step {step}; it has {len(own.steps)} so far.")
        now = own.steps[step]
        return {
            "step": step,
            "frame": step * self.agent.frame_skip,
            "action": now.action,
            "explored": now.explored,
            "highest": now.highest,
            "reward": now.reward,
            "score": now.score,
            "position": now.place.tolist(),
            "numbers": now.numbers,
            "actions": [self._action(estimate) for estimate in now.estimates],
            "figures": self._figures(now, step + 1),
        }

    def pictures(self, game: int, chunk: int) -> bytes:
        """Pictures that the environment drew, packed."""
        own = self._game(game)
        return self._there(own.pictures.chunk(chunk) if own.pictures else None, f"Game {game} has no pictures {chunk}.")

    def observations(self, game: int, chunk: int) -> bytes:
        """What the agent saw, packed."""
        own = self._game(game)
        found = own.observations.chunk(chunk) if own.observations else None
        return self._there(found, f"Game {game} has no observations {chunk}.")

    def past(self, episode: int) -> dict[str, Any]:
        """An episode of the run."""
        self._recorded(episode)
        return self._past.about(episode)

    def past_frames(self, episode: int, chunk: int) -> bytes:
        """Frames of an episode of the run, packed."""
        self._recorded(episode)
        return self._there(self._past.chunk(episode, chunk), f"These frames of episode {episode} are not there.")

    def draw_past(self, episode: int, steps: Collection[int]) -> dict[int, NDArray[np.uint8]]:
        """Pictures of these steps of an episode of the run, where its environment draws them."""
        self._recorded(episode)
        return self._past.draw(episode, steps)

    def thumbnails(self, places: list[tuple[int, int]]) -> dict[str, Any]:
        """Frames of memories, by episode and frame number.

        Episodes whose frames were not kept are played again, for a fraction of a second: `later` says which are to be
        asked for once more.
        """
        began = time.perf_counter()
        frames: list[NDArray[np.uint8]] = []
        found, notes, later = [], [], []
        for episode, number in places:
            wait = time.perf_counter() - began < PATIENCE
            if episode in self._history:
                frame, why = self._past.frame(episode, number // self.agent.frame_skip, wait=wait)
            else:
                frame, why = None, f"Episode {episode} was not recorded."
            # Those of an environment that draws its own pictures may differ in shape; one response has one shape.
            if frame is not None and frames and frame.shape != frames[0].shape:
                frame, why = None, "Its frame has another shape."
            found.append(frame is not None)
            notes.append(why)
            later.append(frame is None and not why)
            if frame is not None:
                frames.append(frame)
        packed = zlib.compress(b"".join(frame.tobytes() for frame in frames), 1)
        return {
            "shape": list(frames[0].shape) if frames else None,
            "found": found,
            "notes": notes,
            "later": later,
            "frames": base64.b64encode(packed).decode(),
        }

    def _as_numbers(self, game: RecordedGame) -> bool:
        """Whether cards of memories have numbers on them: where these are few, or all that there is to show."""
        few = self.agent.embedding.dim <= FEW_NUMBERS
        return numbers_kept(self.agent) and (few or game.pictures is None)

    def _action(self, estimate: Estimate) -> dict[str, Any]:
        return {
            "value": _finite(estimate.value),
            "source": estimate.source,
            "neighbours": [
                {
                    "id": int(estimate.entry_ids[i]),
                    "value": float(estimate.values[i]),
                    "distance": float(estimate.distances[i]),
                    "weight": float(estimate.weights[i]),
                    "episode": episode if episode > 0 else None,
                    "frame": frame if episode > 0 else None,
                    "matched": int(estimate.matched[i]),
                    "age": self._past.age(episode, frame) if episode > 0 else None,
                    "position": estimate.places[i].tolist(),
                    "numbers": None if estimate.numbers is None else estimate.numbers[i].tolist(),
                }
                for i, (episode, frame) in enumerate(estimate.origins.tolist())
            ],
        }

    def _figures(self, now: Step, steps: int) -> dict[str, Any]:
        """Of a step, and of all that many steps up to it."""
        origins = [origin for estimate in now.estimates for origin in estimate.origins.tolist() if origin[0] > 0]
        ages = [age for age in (self._past.age(*origin) for origin in origins) if age is not None]
        return {
            "exact_share": now.exact_so_far / (steps * len(now.estimates)) if self._matches else None,
            "exact_chosen_share": now.exact_taken_so_far / steps if self._matches else None,
            "used": sum(len(estimate.values) for estimate in now.estimates),
            "age_median": float(np.median(ages)) if ages else None,
            "age_youngest": min(ages, default=None),
            "age_oldest": max(ages, default=None),
        }

    def _frames_note(self) -> str:
        history = self._history
        if not len(history):
            return "This run has no record of its episodes (its directory history is gone), so memories have no frames."
        if not history.with_frames:
            return (
                "Frames were not kept while training (--keep-frames). Where the environment repeats itself, they are "
                "made again by playing an episode's actions."
            )
        size = f"{history.frames_bytes / 1e6:,.1f} MB"
        return f"Frames of {history.with_frames:,} of {len(history):,} episodes were kept while training ({size})."

    def _game(self, game: int) -> RecordedGame:
        if not 0 <= game < len(self._games):
            raise NotThere(f"There is no game {game}; {len(self._games)} were played.")
        return self._games[game]

    def _recorded(self, episode: int) -> None:
        if episode not in self._history:
            raise NotThere(f"Episode {episode} was not recorded.")

    @staticmethod
    def _there(found: bytes | None, otherwise: str) -> bytes:
        if found is None:
            raise NotThere(otherwise)
        return found


def action_names(env: gymnasium.Env[Any, Any], n: int, start: int) -> list[str]:
    """What the actions are called, in words (`up right`); numbers where the environment does not say."""
    acting = Actions(env.action_space)
    if not acting.as_they_are:
        return [f"action {' '.join(map(str, np.ravel(acting.one(number))))}" for number in range(n)]
    meanings = getattr(env.unwrapped, "get_action_meanings", None)
    names = [str(name) for name in meanings()] if callable(meanings) else []
    if len(names) != n:
        return [f"action {start + action}" for action in range(n)]
    words = re.compile(r"UP|DOWN|LEFT|RIGHT|FIRE|NOOP")
    return [" ".join(words.findall(name)).lower() if words.sub("", name) == "" else name for name in names]


def _renderer(name: str, config: Any) -> gymnasium.Env[Any, Any]:
    """One environment, which draws if it can."""
    try:
        env = make_env(name, config, render_mode="rgb_array")
    except (TypeError, ValueError):
        env = make_env(name, config)
    assert isinstance(env, gymnasium.Env)
    return env


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None
