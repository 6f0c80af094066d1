"""Environments and embeddings as a program has them, functions and objects, in the words with which a run is kept."""

from __future__ import annotations

import functools
import json
import re
import sys
import tomllib
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from types import CodeType
from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import VectorEnv

from mfec.canonical_names import FUNCTION
from mfec.embeddings.imported import import_embedding
from mfec.here import give

AnyEnv = gymnasium.Env[Any, Any]
EnvLike = str | AnyEnv | Callable[..., AnyEnv]
"""The name of an environment, one that `gymnasium.make` has made, or what returns one: a function, a class."""

A_FUNCTION = (
    "give a function that makes the environment instead, such as lambda: Wrapper(gymnasium.make('CartPole-v1'))"
)


@dataclass(frozen=True)
class GivenEnv:
    """An environment by the words with which a run is kept."""

    name: str
    env_kwargs: tuple[str, ...] = ()
    wrappers: tuple[str, ...] = ()

    @property
    def settings(self) -> dict[str, Any]:
        """Those of `EnvConfig`, where there are any."""
        both = {"env_kwargs": self.env_kwargs, "wrappers": self.wrappers}
        return {name: given for name, given in both.items() if given}


def given_env(
    env: EnvLike,
    *,
    env_kwargs: Mapping[str, Any] | None = None,
    wrappers: Iterable[str | Callable[..., Any]] = (),
    name: str | None = None,
) -> GivenEnv:
    """The words for an environment; a function that other programs cannot import is registered with Gymnasium.

    env_kwargs: for the function, class or `gymnasium.make`. name: under which to register what is no name itself.

    >>> given_env("FrozenLake-v1", env_kwargs={"is_slippery": False, "map_name": "8x8"}).env_kwargs
    ('is_slippery=false', 'map_name=8x8')
    >>> given_env(gymnasium.make("FrozenLake-v1", is_slippery=False))
    GivenEnv(name='FrozenLake-v1', env_kwargs=('is_slippery=false',), wrappers=())
    >>> given_env(lambda: gymnasium.make("CartPole-v1")).name
    'function/lambda'
    """
    if isinstance(env, VectorEnv):
        raise TypeError("give one environment, by its name or a function, and n_envs for several side by side")
    if isinstance(env, gymnasium.Env):
        if env_kwargs:
            raise TypeError("env_kwargs are for an environment that is still to be made, and this one is there already")
        known = _of_spec(env, name)
    elif isinstance(env, str):
        known = GivenEnv(env)
    elif callable(env):
        found = None if name else import_name(env)
        known = GivenEnv(found or register(env, name))
    else:
        raise TypeError(f"an environment is a name, a function or class that makes one, or one itself, not {env!r}")
    words = tuple(f"{keyword}={word(value, keyword)}" for keyword, value in (env_kwargs or {}).items())
    around = tuple(map(_wrapper_name, [wrappers] if isinstance(wrappers, str) else wrappers))
    return replace(known, env_kwargs=known.env_kwargs + words, wrappers=known.wrappers + around)


def given_embedding(embedding: Any, *, name: str | None = None) -> str:
    """The name of an embedding that is an object; one that other programs cannot import is kept in `mfec.here`.

    name: under which to keep it in any case.

    >>> given_embedding(lambda observations: observations / 255)
    'mfec.here:lambda'
    """
    found = None if name else import_name(embedding)
    if found:
        return found
    import_embedding.cache_clear()  # which knows another object by this name, if any
    return give(embedding, name or _name_of(embedding))


def import_name(thing: Any) -> str | None:
    """How another program finds a function or a class: `package.module:name`; None where it cannot.

    >>> import_name(import_name), import_name(lambda: None)
    ('mfec.experiments.given:import_name', None)
    """
    module, place = getattr(thing, "__module__", None), getattr(thing, "__qualname__", None)
    if not module or not place or module == "__main__" or "<" in place:
        return None
    try:
        found = functools.reduce(getattr, place.split("."), sys.modules.get(module))
    except AttributeError:
        return None
    return f"{module}:{place}" if found is thing else None


def register(function: Callable[..., AnyEnv], name: str | None = None) -> str:
    """Make a function known to Gymnasium, and so to whatever makes environments by name in this process; its name.

    As in Python, a name stands for the latest function of that name.
    """
    name = name or FUNCTION + _name_of(function)
    before = gymnasium.registry.pop(name, None)
    if before is not None and _code(before.entry_point) != _code(function):
        warnings.warn(
            f"{name} is another function from now on; runs that go by this name play in the new one", stacklevel=4
        )
    gymnasium.register(name, entry_point=function)
    return name


def _code(function: Any) -> CodeType | Any:
    """What tells a function from another of its name: a cell of a notebook that is run again makes the same one."""
    return getattr(_bare(function), "__code__", None)


def _name_of(thing: Any) -> str:
    """The name of a function or class, or of an object's class, as a word."""
    bare = _bare(thing)
    return re.sub(r"\W+", "_", getattr(bare, "__name__", type(bare).__name__)).strip("_") or "function"


def _bare(function: Any) -> Any:
    return function.func if isinstance(function, functools.partial) else function


def _of_spec(env: AnyEnv, name: str | None) -> GivenEnv:
    """The words for an environment that is there; a function that makes others like it, where there are none."""
    spec = env.spec
    if spec is None:
        raise ValueError(
            f"this {type(env.unwrapped).__name__} was not made by gymnasium.make, so no others like it can be made; "
            f"{A_FUNCTION}"
        )
    for wrapper in spec.additional_wrappers:
        if wrapper.kwargs is None:
            raise ValueError(f"the wrapper {wrapper.name} does not say how it was made; {A_FUNCTION}")
    known = gymnasium.registry.get(spec.id)
    if known is not None and name is None:
        try:
            return _in_words(spec, known)
        except TypeError:  # a keyword that no text stands for
            pass
    plain = replace(spec, kwargs={own: value for own, value in spec.kwargs.items() if own != "render_mode"})

    def make(**keywords: Any) -> AnyEnv:
        return gymnasium.make(plain, **keywords)

    make.__name__ = spec.id
    return GivenEnv(register(make, name))


def _in_words(spec: EnvSpec, known: EnvSpec) -> GivenEnv:
    """The words for what a spec has beside the registered one."""
    if replace(spec, kwargs={}, max_episode_steps=None, additional_wrappers=()) != replace(
        known, kwargs={}, max_episode_steps=None, additional_wrappers=()
    ) or any(wrapper.kwargs for wrapper in spec.additional_wrappers):
        raise TypeError("it is another one, or a wrapper has settings")
    words = {own: word(value, own) for own, value in spec.kwargs.items() if own != "render_mode"}
    words = {
        own: text for own, text in words.items() if own not in known.kwargs or word(known.kwargs[own], own) != text
    }
    if spec.max_episode_steps != known.max_episode_steps:
        words["max_episode_steps"] = word(-1 if spec.max_episode_steps is None else spec.max_episode_steps, "")
    keywords = tuple(f"{own}={text}" for own, text in words.items())
    return GivenEnv(_with_package(spec), keywords, tuple(wrapper.entry_point for wrapper in spec.additional_wrappers))


def _with_package(spec: EnvSpec) -> str:
    """An id with the package that other programs must import for it: `minigrid:MiniGrid-Empty-5x5-v0`."""
    place = spec.entry_point if isinstance(spec.entry_point, str) else ""
    package = place.partition(":")[0].partition(".")[0]
    return spec.id if package in ("", "gymnasium", "mfec", "ale_py", "vizdoom", "__main__") else f"{package}:{spec.id}"


def _wrapper_name(wrapper: str | Callable[..., Any]) -> str:
    if isinstance(wrapper, str):
        return wrapper
    name = import_name(wrapper)
    if name is None:
        raise ValueError(
            f"the wrapper {getattr(wrapper, '__name__', wrapper)!r} is not in a module that other programs can import; "
            f"{A_FUNCTION}"
        )
    return name


def word(value: Any, name: str) -> str:
    """A value as it is written on the command line: TOML, and words without quotes.

    >>> [word(value, "x") for value in (False, 8, [0.5, 1], "8x8", "8", None, {"a": "b"})]
    ['false', '8', '[0.5, 1]', '8x8', '"8"', 'None', '{a = "b"}']
    """
    if isinstance(value, str) and value == value.strip() and not _means_something(value):
        return value
    return "None" if value is None else _toml(value, name)


def _toml(value: Any, name: str) -> str:
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, list | tuple):
        return f"[{', '.join(_toml(own, name) for own in value)}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{own} = {_toml(inner, name)}' for own, inner in value.items())}}}"
    raise TypeError(f"{name} of env_kwargs must be a number, a word or a list of them, not {value!r}; {A_FUNCTION}")


def _means_something(text: str) -> bool:
    """Whether a word would be read as something else."""
    try:
        tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text in ("", "True", "False", "None")
    return True
