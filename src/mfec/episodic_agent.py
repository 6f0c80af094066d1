"""What every agent with an episodic memory is made of; its algorithm is a subclass, such as `MFEC` in `agent.py`."""

from __future__ import annotations

import contextlib
import warnings
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
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
from mfec.envs.crashes import EnvironmentCrash
from mfec.envs.environments import make_environments
from mfec.envs.flattening import Actions, Observations
from mfec.envs.spaces import describe_spaces, fits, misfit, spaces_from
from mfec.episode import Episode
from mfec.explanation import Explanation
from mfec.games import LARGEST, BadEnvironmentData, Decision, GamesInProgress, Played
from mfec.interface import CallbackList, Callbacks, Game, Metrics
from mfec.memory import EpisodicMemory
from mfec.memory.identities import array_keys
from mfec.progress import ProgressBar
from mfec.schedule import number_at
from mfec.summary import agent_html

AnyEnv = gymnasium.Env[Any, Any] | VectorEnv[Any, Any, Any]


class MakesStates(Protocol):
    """From observations to states."""

    @property
    def name(self) -> str: ...

    @property
    def dim(self) -> int: ...

    def __call__(self, observations: NDArray[Any]) -> NDArray[np.float32]:
        """States, float32 (n, dim), of a batch of observations (n, ...)."""


class EpisodicAgent:
    """Plays, counts, remembers by episodes, saves, and goes on bit for bit; a subclass says how it acts and learns.

    It overrides `_act` and `_update`, and names the dataclass of its settings, of which `gamma`, `epsilon`, `ties`,
    `episode` and `truncated` are read here. Its constructor calls this one and then, where there is an environment,
    makes `embedding` and `memory`. What it has beyond that it adds to `_state` and `_tensors`; its `load` takes what
    `_restored` brings back, and adds embedding, memory and the rest.
    """

    stochastic = False  # its policy takes the highest value
    kind: ClassVar[str] = "agent"  # what its checkpoints say that they hold
    _settings: ClassVar[type[Settings]]  # readable as attributes, and fixed

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
        self._in_progress = GamesInProgress()
        self._untold: deque[Game] = deque()  # finished games of which the callback does not know yet
        if env is not None:  # else `load` fills in what an environment would have told
            self._play_in(env)

    # -- The algorithm ------------------------------------------------------------------------------------------------

    def learn(self, total_frames: int, callback: Callbacks | None = None, *, progress_bar: bool = False) -> Self:
        """Play and remember until the agent has seen `total_frames` frames in all (Algorithm 1).

        callback: a `Callback`, a function of the agent that is called after every step, or several of them; one that
        returns False ends it. progress_bar: show one, on a terminal and in a notebook.

        >>> from mfec import MFEC
        >>> agent = MFEC("FrozenLake-v1", capacity=1000, seed=0)
        >>> agent.learn(10_000, lambda agent: agent.games < 5).games
        5
        """
        if self.frames >= total_frames:
            warnings.warn(f"the agent has already seen {self.frames} of {total_frames} frames", stacklevel=2)
        callbacks = CallbackList.of(callback, *([ProgressBar()] if progress_bar else []))
        games = self._in_progress
        with callbacks.around(self, total_frames, whole_after=(BadEnvironmentData, EnvironmentCrash)):
            self._tell(callbacks)  # what the callbacks of an earlier call left untold
            while self.frames < total_frames:
                games.start(self.frames)  # at first, and where a callback has set another environment
                # Of several environments one half acts, and the other half's step comes in, which was made meanwhile.
                played = games.step(self._act, self.frames)
                if played is not None:
                    self._remember(played, callbacks)
                if not callbacks.on_step(self):
                    break
        return self

    def _act(self, observations: NDArray[Any]) -> Decision:
        """Actions for some environments, (m, ...)."""
        raise NotImplementedError

    def _update(self, episode: Episode, cut_off: NDArray[Any] | None) -> None:
        """Learn from an episode that is over, and let it forget its steps.

        cut_off: what it showed when a time limit cut it off, (1, ...); None where it ended by itself.
        """
        raise NotImplementedError

    def _remember(self, played: Played, callbacks: CallbackList) -> None:
        """Add a step to the episodes that it belongs to, and write those that it ended into the memory."""
        self._tally.count(played.exact, played.actions)
        for episode, state, key, action, reward, ended, lives, cut_off in played.outcomes:
            self.frames += self.frame_skip
            episode.append(state, key, action, reward)
            died = self.config.episode == "life" and 0 <= lives < episode.lives
            if ended or died:
                self._update(episode, None if died else cut_off)
            if lives >= 0:
                episode.lives = lives
            if ended:
                self._finish_game(episode)
        try:
            self._in_progress.begin_after(played, self.frames)
        finally:  # a new game that begins with bad data does not undo the step
            callbacks.on_steps(self, played.steps)
            self._tell(callbacks)

    def _value_after(self, episode: Episode, cut_off: NDArray[Any]) -> float | None:
        """What the memory is told to come after the end of an episode that was cut off; None if it is told nothing."""
        if self._truncated != "bootstrap":
            return 0.0 if self._truncated == "write" else None
        estimate = self.memory.estimate(self._embed(cut_off), array_keys(cut_off), mark_used=False)
        # Neighbours of a known state can promise more than it ever paid; written, that would be believed for good. A
        # corridor with a door at its end was learned by all of five seeds instead of one, MiniGrid-Empty by three.
        known = estimate.values[estimate.exact if estimate.exact.any() else np.isfinite(estimate.values)]
        room = LARGEST - episode.magnitude
        return float(np.clip(known.max(), -room, room)) if len(known) else None

    def choose(
        self,
        values: NDArray[np.float32],
        epsilon: float,
        exploration: np.random.Generator,
        ties: np.random.Generator,
    ) -> tuple[NDArray[np.int64], list[bool]]:
        """Actions of the highest value, or with probability epsilon any; and which of them are any.

        values: float32 (n, n_actions).
        """
        actions = []
        explore = (exploration.random(len(values)) < epsilon).tolist()
        draws = ties if self.config.ties == "random" else None
        for row, exploring in zip(values.tolist(), explore, strict=True):  # lists are faster than arrays of six numbers
            highest = max(row)
            action = row.index(highest)
            # Ties are common while buffers fill; always taking action 0 wastes the first episodes.
            if draws is not None and row.count(highest) > 1:
                best = [action for action, value in enumerate(row) if value == highest]
                action = best[draws.integers(len(best))]
            actions.append(exploration.integers(self.n_actions) if exploring else action)
        return np.array(actions, np.int64), explore

    # -- Acting -------------------------------------------------------------------------------------------------------

    def predict(
        self,
        observation: Any,
        state: tuple[NDArray[Any], ...] | None = None,
        episode_start: NDArray[Any] | None = None,
        deterministic: bool = False,
        *,
        epsilon: float | None = None,
        rng: np.random.Generator | Sequence[np.random.Generator] | None = None,
    ) -> tuple[NDArray[np.int64], None]:
        """The action for one observation or a batch of them, as in Stable-Baselines3. The memory stays as it is.

        Observations are the environment's own, and so are the actions; a batch of a `Dict` is a dict of arrays.
        `deterministic` takes the action of highest value, the first among equals; otherwise `epsilon` (by default
        the agent's own) of the actions are random, and ties too, from `rng` (by default the agent's own), or from one
        for each observation.
        """
        single = self._seeing.is_one(observation)
        batch = self._batch(self._seeing.one(observation) if single else self._seeing.batch(observation))
        values = self.memory.estimate(self._embed(batch), array_keys(batch), mark_used=False).values
        if deterministic:
            actions = values.argmax(axis=1)
        else:
            chance = self.epsilon if epsilon is None else epsilon
            dice = [rng or self._playing] if rng is None or isinstance(rng, np.random.Generator) else rng
            rows = [values] if len(dice) == 1 else values[:, None]
            chosen = [self.choose(row, chance, own, own)[0] for row, own in zip(rows, dice, strict=True)]
            actions = np.concatenate(chosen)
        own = self._acting.own(actions)
        return (own[0] if single else own), None

    def explain(self, observation: Any) -> Explanation:
        """What every action is worth in one observation of the environment's, and the very memories that say so.

        They stay as they are. The values are those of `memory.estimate`. It prints as a table.
        """
        batch = self._batch(self._seeing.one(observation))
        evidence = self.memory.evidence(self._embed(batch), array_keys(batch))
        return Explanation(tuple(evidence), int(self.action_space.start))

    # -- Storage ------------------------------------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write everything the agent is and was doing to the directory `path`, atomically."""
        write_checkpoint(path, kind=self.kind, state=self._state(), tensors=self._tensors())

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
        """Its arrays, by the names of their files."""
        return {"memory": self.memory.tensors(), "episodes": self._in_progress.tensors(self.embedding.dim)}

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

    # -- What hangs around the loop -----------------------------------------------------------------------------------

    @property
    def epsilon(self) -> float:
        """Chance of a random action, at present."""
        return number_at(self.config.epsilon, self.frames)

    @property
    def num_timesteps(self) -> int:
        """Steps of environments so far, as Stable-Baselines3 counts them: frames, by the frames in a step."""
        return self.frames // self.frame_skip

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

    @property
    def evaluation_epsilon(self) -> float:
        """Its own epsilon."""
        return self.epsilon

    def metrics(self) -> Metrics:
        """Shares of exact matches, milliseconds of look-ups and writes in a step, and what the memory holds."""
        tally, memory = self._tally, self.memory
        recall = memory.measured_recall
        return {
            "exact_match_rate": round(tally.exact / tally.lookups, 6) if tally.lookups else None,
            "exact_match_rate_chosen": round(tally.exact_chosen / tally.steps, 6) if tally.steps else None,
            "memory_entries": len(memory),
            "memory_bytes": memory.nbytes,
            "memory_fill": round(float(max(memory.sizes) / memory.capacity), 6),
            "lookup_ms": round(1000.0 * tally.lookup_seconds / tally.steps, 4) if tally.steps else None,
            "write_ms": round(1000.0 * tally.write_seconds / tally.steps, 4) if tally.steps else None,
            "recall": None if recall is None else round(recall, 4),
            **({"epsilon": round(self.epsilon, 6)} if isinstance(self.config.epsilon, str) else {}),
        }

    def begin_row(self) -> None:
        """Count anew."""
        self._tally = Tally()

    def states(self, observations: NDArray[Any]) -> NDArray[np.float32]:
        """The states, float32 (n, dim), of observations (n, ...)."""
        if isinstance(self.observation_space, spaces.Discrete):
            observations = observations - int(self.observation_space.start)
        return self.embedding(observations)

    def _embed(self, observations: NDArray[Any]) -> NDArray[Any]:
        """States of observations, or what the memory takes in their place."""
        return self.states(observations)

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

    def _repr_html_(self) -> str:
        facts = {"entries": f"{len(self.memory):,}"} if hasattr(self, "memory") else {}
        return agent_html(self, type(self).__name__, env=self.env, settings=self.config, facts=facts)

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

    def _batch(self, batch: NDArray[Any]) -> NDArray[Any]:
        """Observations (n, ...) as learning sees them; an error where they are none of the environment's."""
        if batch.shape[1:] != self.observation_space.shape or not batch.ndim:
            raise ValueError(f"an observation has the shape {self.observation_space.shape} here, not {batch.shape}")
        if not fits(batch, self.observation_space):
            raise ValueError(f"this is {misfit(batch, self.observation_space)}")
        return batch

    def _finish_game(self, episode: Episode) -> None:
        self.games += 1
        self.scores.append(episode.score)
        self._untold.append(Game(self.frames, self.games, episode.score, episode.steps * self.frame_skip))

    def _tell(self, callbacks: CallbackList) -> None:
        while self._untold:
            callbacks.on_game(self, self._untold.popleft())


@contextlib.contextmanager
def complete_agent(path: str | Path) -> Iterator[None]:
    """An error of the checkpoint in `path` where it lacks what is taken from it."""
    try:
        yield
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{path} is no complete agent: {error}") from None


@dataclass
class Tally:
    """Counts since the last row of progress."""

    steps: int = 0
    lookups: int = 0
    exact: int = 0
    exact_chosen: int = 0
    lookup_seconds: float = 0.0
    write_seconds: float = 0.0

    def count(self, exact: NDArray[np.bool_], actions: NDArray[np.int64]) -> None:
        """Look-ups of all actions in some environments, bool (m, n_actions), and the actions taken there, (m,)."""
        self.steps += len(actions)
        self.lookups += exact.size
        self.exact += int(np.count_nonzero(exact))
        self.exact_chosen += int(np.count_nonzero(exact[np.arange(len(actions)), actions]))
