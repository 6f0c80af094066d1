"""What an agent with an episodic memory is between two steps, and how that is saved and brought back."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from mfec.checkpoint import CheckpointError, write_checkpoint
from mfec.config import Settings, resolved_truncated
from mfec.envs import make_env
from mfec.envs.environments import make_environments
from mfec.envs.flattening import Actions, Observations
from mfec.envs.spaces import describe_spaces, spaces_from
from mfec.games import GamesInProgress
from mfec.interface import Game
from mfec.memory import EpisodicMemory
from mfec.tally import Tally

AnyEnv = gymnasium.Env[Any, Any] | VectorEnv[Any, Any, Any]


class ResumableAgent:
    """Settings, random streams, environment, games in progress, counts and memory, saved whole."""

    kind: ClassVar[str] = "agent"  # what its checkpoints say that they hold
    _settings: ClassVar[type[Settings]] = Settings  # of the algorithm; readable as attributes, and fixed

    config: Any  # of the type `_settings`
    embedding: MakesStates
    memory: EpisodicMemory
    observation_space: spaces.Box | spaces.Discrete[Any]
    action_space: spaces.Discrete[Any]

    def __init__(self, env: AnyEnv | str | None, *, config: Any, seed: int | None) -> None:
        self.config = config
        self.seed = int(np.random.SeedSequence().generate_state(1)[0]) if seed is None else int(seed)
        env_seed, exploration, ties, projection, playing = np.random.SeedSequence(self.seed).spawn(5)
        self._env_seed = env_seed
        self._exploration = np.random.default_rng(exploration)
        self._ties = np.random.default_rng(ties)
        self._projection = projection  # what the embedding is made of
        self._playing = np.random.default_rng(playing)  # for `predict`, so that it leaves learning alone
        self.env: AnyEnv | None = None  # that it plays in; `set_env` gives it another
        self.run_directory: Path | None = None  # that it was trained in, if `mfec.train` has trained it
        self.frames = 0
        self.games = 0
        self.scores: deque[float] = deque(maxlen=100)
        self._tally = Tally()
        self._in_progress = GamesInProgress(type(self).__name__)
        self._untold: deque[Game] = deque()  # finished games of which the callback does not know yet
        if env is not None:  # else `load` fills in what an environment would have told
            self._play_in(env)

    def set_env(self, env: AnyEnv | str) -> None:
        """Play in another environment from now on, which must have the same spaces.

        Games in progress are given up, without a trace in the memory; `load(path, env)` is what goes on with them.
        New ones begin, on seeds that the agent has not played yet.

        >>> from mfec import MFEC
        >>> agent = MFEC("FrozenLake-v1", capacity=1000, seed=0).learn(1000)
        >>> agent.set_env(gymnasium.make("FrozenLake-v1", is_slippery=False))
        >>> agent.learn(2000).num_timesteps
        2000
        """
        self._play_in(env)
        self._in_progress.give_up()

    def _play_in(self, env: AnyEnv | str) -> None:
        made = make_env(env) if isinstance(env, str) else env
        envs = make_environments(made, self._env_seed)
        if hasattr(self, "observation_space"):
            ours = describe_spaces(self._seeing.own_space, self._acting.own_space)
            theirs = describe_spaces(envs.seeing.own_space, envs.acting.own_space)
            if ours != theirs:
                raise ValueError(f"the agent was trained on {ours}, this environment has {theirs}")
        self._set_spaces(envs.seeing, envs.acting)
        self.env, self._in_progress.envs = made, envs
        self._truncated = resolved_truncated(self.config.truncated, envs.facts.published)

    def _set_spaces(self, seeing: Observations, acting: Actions) -> None:
        self._seeing, self._acting = seeing, acting
        self.observation_space, self.action_space = seeing.space, acting.space

    # -- Storage ------------------------------------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write everything the agent is and was doing to the directory `path`, atomically."""
        state, tensors = self._state(), self._tensors()
        write_checkpoint(path, kind=self.kind, state=state, tensors=tensors, growing={"memory": self.memory.parts})

    def _state(self) -> dict[str, Any]:
        """What JSON takes of it."""
        return {
            "config": asdict(self.config),
            "seed": self.seed,
            "frames": self.frames,
            "games": self.games,
            "scores": list(self.scores),
            "tally": asdict(self._tally),
            "untold": [asdict(game) for game in self._untold],
            "embedding": self.embedding.name,
            "memory": self.memory.settings(),
            "spaces": describe_spaces(self._seeing.own_space, self._acting.own_space),
            "exploration": self._exploration.bit_generator.state,
            "ties": self._ties.bit_generator.state,
            "playing": self._playing.bit_generator.state,
            "games_in_progress": self._in_progress.summary(),
        }

    def _tensors(self) -> dict[str, dict[str, NDArray[Any]]]:
        """Its arrays beside the memory's, by the names of their files."""
        return {"episodes": self._in_progress.tensors(self.embedding.dim)}

    @classmethod
    def _restored(cls, state: dict[str, Any], tensors: dict[str, Any], **settings: Any) -> Self:
        """The agent of a checkpoint, with these settings in place of its own; embedding and memory are to be added."""
        agent = cls(None, **{**state["config"], **settings}, seed=state["seed"])
        observed, acted = spaces_from(state["spaces"])
        agent._set_spaces(Observations(observed), Actions(acted))
        agent.frames, agent.games = state["frames"], state["games"]
        agent.scores.extend(state["scores"])
        agent._untold.extend(Game(**game) for game in state["untold"])
        agent._tally = Tally(**state["tally"])
        agent._exploration.bit_generator.state = state["exploration"]
        agent._ties.bit_generator.state = state["ties"]
        agent._playing.bit_generator.state = state["playing"]
        agent._in_progress.restore(state["games_in_progress"], tensors["episodes"], ended=agent.games)
        return agent

    # -- Facts --------------------------------------------------------------------------------------------------------

    @property
    def num_timesteps(self) -> int:
        """Steps of environments so far, as Stable-Baselines3 counts them: frames, by the frames in a step."""
        return self.frames // self.frame_skip

    @property
    def n_actions(self) -> int:
        """Number of actions."""
        return int(self.action_space.n)

    @property
    def games_begun(self) -> int:
        """Games that were begun, whether they have ended or not."""
        return self._in_progress.begun

    @property
    def games_in_progress(self) -> dict[int, int]:
        """Steps so far of the games that have not ended, by their numbers."""
        return {episode.number: episode.steps for episode in self._in_progress.episodes}

    @property
    def frame_skip(self) -> int:
        """Frames in a step."""
        envs = self._in_progress.envs
        return 1 if envs is None else envs.frame_skip

    @property
    def env_seed(self) -> np.random.SeedSequence:
        """What the seeds of all games are made of."""
        return self._env_seed

    def __getattr__(self, name: str) -> Any:
        if name in self._settings.__dataclass_fields__ and name != "embedding":
            return getattr(self.config, name)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self._settings.__dataclass_fields__ and name != "embedding":
            own = type(self).__name__
            raise AttributeError(
                f"{name} is fixed when an agent is made, {own}(env, {name}=...), so that its settings say what it did; "
                f"`predict` takes another epsilon for playing, `{own}.load` other settings for what comes"
            )
        super().__setattr__(name, value)


class MakesStates(Protocol):
    """From observations to states."""

    @property
    def name(self) -> str: ...

    @property
    def dim(self) -> int: ...

    def __call__(self, observations: NDArray[Any]) -> NDArray[np.float32]:
        """States, float32 (n, dim), of a batch of observations (n, ...)."""


@contextlib.contextmanager
def complete_agent(path: str | Path) -> Iterator[None]:
    """An error of the checkpoint in `path` where it lacks what is taken from it."""
    try:
        yield
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{path} is no complete agent: {error}") from None
