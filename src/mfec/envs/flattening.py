"""What an environment shows and takes, and what an agent sees and does: an array, and the number of an action.

A `Box` or `Discrete` observation is seen as it is, pictures as pictures, also where it is the only member of a `Dict`
or `Tuple`. Everything else becomes one vector by the rules of `gymnasium.spaces.utils.flatten`: members in their order,
`Discrete` and `MultiDiscrete` as one-hot vectors, `Text` as the numbers of its characters. `MultiDiscrete` and
`MultiBinary` actions are numbered, the last part counting fastest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.spaces.utils import flatten, flatten_space
from numpy.typing import NDArray

from mfec.envs.spaces import fits, in_space, misfit
from mfec.errors import MfecError

MOST_ACTIONS = 1024  # that are numbered; the agent looks up a value for each of them in every step
FEW = "a wrapper can offer a few of them as Discrete ones (--wrapper package.module:Wrapper)"
LEAVES = (spaces.Box, spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary, spaces.Text)
Path = tuple[str | int, ...]  # of keys, from an observation to one of its parts


class NotInSpace(MfecError, ValueError):
    """An observation that is none of its space."""


class Observations:
    """The observations of an environment, and what an agent sees of them.

    >>> seen = Observations(spaces.Dict({"at": spaces.Discrete(3), "speed": spaces.Box(-1.0, 1.0, (2,))}))
    >>> seen.space.shape, seen.one({"at": 1, "speed": np.array([0.5, 0.0])}).tolist()
    ((5,), [[0.0, 1.0, 0.0, 0.5, 0.0]])
    """

    def __init__(self, own: spaces.Space[Any]) -> None:
        """own: the environment's space; an error that names what has no numbers."""
        self.own_space = own
        self._leaves = list(_leaves(own, ()))
        if not self._leaves:
            raise TypeError(f"the observation space {own} is empty: there is nothing to see")
        only = self._leaves[0][1] if len(self._leaves) == 1 else None
        self._as_it_is = isinstance(only, (spaces.Box, spaces.Discrete))
        self.as_they_are = own is only and self._as_it_is
        """Whether the agent sees them unchanged."""
        seen = only if self._as_it_is else flatten_space(own)
        assert isinstance(seen, (spaces.Box, spaces.Discrete))
        self.space: spaces.Box | spaces.Discrete[Any] = seen

    def one(self, observation: Any) -> NDArray[Any]:
        """What is seen of one observation, (1, ...)."""
        if self.as_they_are:
            return in_space(np.asarray(observation)[None], self.space)
        return self._seen([[_part(observation, path)] for path, _ in self._leaves])

    def batch(self, observations: Any) -> NDArray[Any]:
        """What is seen of several, (n, ...); a `Dict` or `Tuple` of arrays, as vector environments give them."""
        if self.as_they_are:
            return in_space(observations, self.space)
        return self._seen([_part(observations, path) for path, _ in self._leaves])

    def is_one(self, given: Any) -> bool:
        """Whether this is one observation, and not several."""
        path, leaf = self._leaves[0]
        part = _part(given, path)
        return isinstance(part, str) if isinstance(leaf, spaces.Text) else np.shape(part) == leaf.shape

    def together(self, observations: Sequence[Any]) -> Any:
        """Several observations as one batch, as vector environments give them."""
        return _together(self.own_space, observations)

    def _seen(self, parts: Sequence[Any]) -> NDArray[Any]:
        """What is seen of n observations, of each of whose parts there are n."""
        if self._as_it_is:
            return in_space(parts[0], self.space)
        flat = [_rows(path, leaf, part) for (path, leaf), part in zip(self._leaves, parts, strict=True)]
        return np.concatenate(flat, axis=1).astype(self.space.dtype)


class Actions:
    """The actions of an environment, as numbers from 0.

    >>> actions = Actions(spaces.MultiDiscrete([2, 3]))
    >>> actions.space, actions.own(np.array([0, 4])).tolist()
    (Discrete(6), [[0, 0], [1, 1]])
    """

    def __init__(self, own: spaces.Space[Any]) -> None:
        """own: the environment's space; an error where it is not one of a few actions."""
        self.own_space = own
        self._table: NDArray[Any] | None = None
        if isinstance(own, spaces.Discrete):
            self.space = own
        else:
            self._table = _table(own)
            self.space = spaces.Discrete(len(self._table))
        self._first = int(self.space.start)

    @property
    def as_they_are(self) -> bool:
        """Whether they are numbers already."""
        return self._table is None

    def one(self, number: int) -> Any:
        """The environment's own action of that number."""
        return self._first + number if self._table is None else self._table[number].copy()

    def own(self, numbers: NDArray[np.int64]) -> NDArray[Any]:
        """The environment's own actions of these numbers, (n,) or (n, ...)."""
        return self._first + numbers if self._table is None else self._table[numbers]


def _leaves(space: spaces.Space[Any], path: Path) -> Iterator[tuple[Path, spaces.Space[Any]]]:
    """The parts of a space that are no `Dict` or `Tuple`, and where they are."""
    if isinstance(space, spaces.Dict):
        for key, inner in space.spaces.items():
            yield from _leaves(inner, (*path, key))
    elif isinstance(space, spaces.Tuple):
        for number, inner in enumerate(space.spaces):
            yield from _leaves(inner, (*path, number))
    elif isinstance(space, LEAVES):
        yield path, space
    else:
        raise TypeError(_no_numbers(space, path))


def _no_numbers(space: spaces.Space[Any], path: Path) -> str:
    kind = type(space).__name__
    where = f"the part {_spell(path)} of the observations is a {kind}" if path else f"the observation space is a {kind}"
    do = "name a wrapper that leaves it out (--wrapper package.module:Wrapper)"
    if type(space).__module__.startswith("minigrid."):
        do = "--wrapper minigrid.wrappers:ImgObsWrapper leaves the picture alone"
    return f"{where}, which cannot be flattened to an array of numbers; {do}"


def _spell(path: Path) -> str:
    return ".".join(map(str, path))


def _part(observation: Any, path: Path) -> Any:
    for key in path:
        try:
            observation = observation[key]
        except (KeyError, IndexError, TypeError):
            raise NotInSpace(f"an observation without the part {_spell(path)}") from None
    return observation


def _rows(path: Path, leaf: spaces.Space[Any], part: Any) -> NDArray[Any]:
    """The vectors of a part of n observations, (n, k)."""
    where = f" as its part {_spell(path)}" if path else ""
    if not isinstance(leaf, spaces.Text):
        part = in_space(part, leaf)
        if part.shape[1:] != leaf.shape:
            raise NotInSpace(f"an observation with the shape {part.shape[1:]}{where}, where the space has {leaf.shape}")
    if isinstance(leaf, (spaces.Box, spaces.Discrete)):
        if not fits(part, leaf):
            raise NotInSpace(misfit(part, leaf) + where)
    elif not all(leaf.contains(row) for row in part):
        raise NotInSpace(f"an observation that is not in {leaf}{where}")
    return np.array([flatten(leaf, row) for row in part])


def _together(space: spaces.Space[Any], observations: Sequence[Any]) -> Any:
    if isinstance(space, spaces.Dict):
        return {key: _together(own, [each[key] for each in observations]) for key, own in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(_together(own, [each[i] for each in observations]) for i, own in enumerate(space.spaces))
    return list(observations) if isinstance(space, spaces.Text) else np.stack(observations)


def _table(space: spaces.Space[Any]) -> NDArray[Any]:
    """All actions of a space, (n, ...)."""
    if isinstance(space, spaces.MultiBinary):
        counts, start = np.full(space.shape, 2), np.zeros(space.shape, space.dtype)
    elif isinstance(space, spaces.MultiDiscrete):
        counts, start = space.nvec, space.start
    else:
        raise TypeError(
            f"the action space is {space}; the agent chooses among at most {MOST_ACTIONS:,} numbered actions "
            f"(Discrete, MultiDiscrete, MultiBinary), and {FEW}"
        )
    n = np.prod(counts, dtype=np.float64)
    if n > MOST_ACTIONS:
        raise TypeError(
            f"the action space {space} has {n:,.0f} combinations, at most {MOST_ACTIONS:,} can be numbered, and {FEW}"
        )
    combinations = np.stack(np.unravel_index(np.arange(int(n)), counts.reshape(-1)), axis=1)
    return (combinations.reshape(-1, *counts.shape) + start).astype(space.dtype)
