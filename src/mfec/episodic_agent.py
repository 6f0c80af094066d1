"""What every agent with an episodic memory is made of; its algorithm is a subclass, such as `MFEC` in `agent.py`."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from mfec.envs.crashes import EnvironmentCrash
from mfec.envs.spaces import fits, misfit
from mfec.episode import Episode
from mfec.explanation import Explanation
from mfec.games import LARGEST, BadEnvironmentData, Decision, Played
from mfec.interface import CallbackList, Callbacks, Game, Metrics
from mfec.memory.identities import array_keys
from mfec.progress import ProgressBar
from mfec.resumable_agent import ResumableAgent
from mfec.schedule import number_at
from mfec.summary import agent_html
from mfec.tally import Tally


class EpisodicAgent(ResumableAgent):
    """Plays, remembers by episodes, and says what it knows; a subclass says how it acts and what it learns.

    It overrides `_act` and `_update`, and names the dataclass of its settings, of which `epsilon`, `ties`, `episode`
    and `truncated` are read here. Its constructor calls this one and then, where there is an environment, makes
    `embedding` and `memory`. What else it has it adds to `_state` and `_tensors`; its `load` makes embedding, memory
    and the rest for what `_restored` brings back.
    """

    stochastic = False  # its policy takes the highest value

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
                played = games.step(self._act, self.frames, self._meanwhile)
                if played is not None:
                    self._remember(played, callbacks)
                if not callbacks.on_step(self):
                    break
        return self

    def _act(self, observations: NDArray[Any]) -> Decision:
        """Actions for some environments, (m, ...)."""
        raise NotImplementedError

    def _meanwhile(self) -> None:
        """What it does while environments make a step."""

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
        explore = [draw < epsilon for draw in exploration.random(len(values)).tolist()]
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
        return Explanation(tuple(evidence), int(self.action_space.start), matches=self.memory.exact_matches)

    # -- What hangs around the loop -----------------------------------------------------------------------------------

    @property
    def epsilon(self) -> float:
        """Chance of a random action, at present."""
        return number_at(self.config.epsilon, self.frames)

    @property
    def evaluation_epsilon(self) -> float:
        """Its own epsilon."""
        return self.epsilon

    @property
    def n_step(self) -> int | None:
        """Rewards in a return, before the value of the state after them; None where a return has all of an episode."""
        return None

    def metrics(self) -> Metrics:
        """Shares of exact matches, milliseconds of look-ups and writes in a step, and what the memory holds."""
        scheduled = {"epsilon": round(self.epsilon, 6)} if isinstance(self.config.epsilon, str) else {}
        return {**self._tally.metrics(self.memory), **scheduled}

    def begin_row(self) -> None:
        """Count anew."""
        self._tally = Tally()

    def states(self, observations: NDArray[Any]) -> NDArray[np.float32]:
        """The states, float32 (n, dim), of observations (n, ...)."""
        if isinstance(self.observation_space, spaces.Discrete):
            observations = observations - int(self.observation_space.start)
        return self.embedding(observations)

    def _embed(self, observations: NDArray[Any]) -> NDArray[Any]:
        """States of observations; or the observations in rows, where the memory makes states of them itself."""
        return observations.reshape(len(observations), -1) if self.memory.embeds else self.states(observations)

    def _hand_over_embedding(self) -> None:
        """Let the memory make states of bytes, if it is on a device: a picture then crosses over once."""
        if self.observation_space.dtype == np.uint8:
            self.memory.embed_with(self.embedding)

    def _repr_html_(self) -> str:
        facts = {"entries": f"{len(self.memory):,}"} if hasattr(self, "memory") else {}
        return agent_html(self, type(self).__name__, env=self.env, settings=self.config, facts=facts)

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
