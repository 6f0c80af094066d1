"""Code that a person names as `package.module:attribute`: environments, functions that make them, and wrappers.

Run directories of strangers name such code, too, and it is imported and called. So nothing is taken from Python's own
library (`os:system`), and nothing is called but environments, wrappers, functions, and objects made to be called.
"""

from __future__ import annotations

import difflib
import functools
import importlib
import inspect
import os
import sys
from collections.abc import Callable, Iterable
from typing import Any

import gymnasium
from gymnasium.vector import VectorEnv

from mfec.envs.crashes import TheirCode

PIP = {"minigrid": "minigrid", "minatar": "MinAtar", "highway_env": "highway-env", "ale_py": "mfec[atari]"}
"""What pip calls packages of environments that are named often."""


def import_named(module: str, *, of: str) -> Any:
    """The module that a name begins with; what its own code raises is an `EnvironmentCrash`."""
    if not module or module.startswith("."):
        raise ValueError(f"{of!r} names no module; what is named is package.module:attribute")
    if module.partition(".")[0] in sys.stdlib_module_names:
        raise ValueError(f"{of!r} is in Python's own library, which has no environments; name a module of yours")
    with TheirCode(of):
        try:
            return importlib.import_module(module)
        except ModuleNotFoundError as error:
            missing = error.name or ""
            if not f"{module}.".startswith(f"{missing}."):
                raise  # one that the module itself imports
    package = missing.partition(".")[0]
    do = f"; `pip install '{PIP[package]}'`" if package in PIP else f", neither installed nor in {os.getcwd()}"
    raise ValueError(f"{of!r} cannot be imported: there is no module {missing!r}{do}")


def maker_named(name: str) -> Callable[..., Any] | None:
    """The environment class, or the function that makes one, of that name; None where the module has none."""
    module, _, attribute = name.partition(":")
    imported = import_named(module, of=name)
    if not attribute.isidentifier() or not hasattr(imported, attribute):
        return None
    found = getattr(imported, attribute)
    if isinstance(found, type) and issubclass(found, VectorEnv):
        raise TypeError(f"{name} is a vector environment; name one that is single, and --n-envs makes several of it")
    if isinstance(found, type) and issubclass(found, gymnasium.Wrapper):
        raise TypeError(f"{name} is a wrapper; name an environment, and the wrapper with --wrapper {name}")
    return _callable(found, name, gymnasium.Env, "an environment class (gymnasium.Env)")


def wrapper_named(name: str) -> Callable[[Any], Any]:
    """The wrapper class, or the function that wraps an environment, of that name."""
    module, _, attribute = name.partition(":")
    imported = import_named(module, of=name)
    if not hasattr(imported, attribute):
        near = _near(attribute, (each for each, own in vars(imported).items() if callable(own)))
        raise ValueError(f"the wrapper {name!r} is not there: {module} has no {attribute!r}{near}")
    return _callable(getattr(imported, attribute), name, gymnasium.Wrapper, "a wrapper class (gymnasium.Wrapper)")


def check_keywords(name: str, maker: Callable[..., Any], given: dict[str, Any], *, also: Iterable[str] = ()) -> None:
    """Refuse keywords that the maker of an environment does not take, and missing ones that it needs.

    also: keywords that somebody else takes.
    """
    try:
        parameters = inspect.signature(maker).parameters.values()
    except (TypeError, ValueError):  # of something that does not say
        return
    named = {own.name: own for own in parameters if own.kind in (own.POSITIONAL_OR_KEYWORD, own.KEYWORD_ONLY)}
    if not any(own.kind is own.VAR_KEYWORD for own in parameters):
        for keyword in given.keys() - named.keys() - set(also):
            takes = ", ".join(own for own in named if own != "render_mode") or "none"
            near = _near(keyword, named)
            raise ValueError(f"{name} does not take the keyword {keyword!r}{near}; its keywords are: {takes}")
    for keyword, own in named.items():
        if own.default is own.empty and keyword not in given:
            raise ValueError(f"{name} needs the keyword {keyword!r}: --env-kwargs {keyword}=...")


def takes_render_mode(maker: Callable[..., Any]) -> bool:
    """Whether the maker of an environment can be told how to draw."""
    try:
        parameters = inspect.signature(maker).parameters.values()
    except (TypeError, ValueError):
        return True
    return any(own.name == "render_mode" or own.kind is own.VAR_KEYWORD for own in parameters)


def _callable(found: Any, name: str, base: type[Any], what: str) -> Callable[..., Any]:
    target = found
    while isinstance(target, functools.partial):
        target = target.func
    if isinstance(target, type):
        good = issubclass(target, base)
    else:
        home = target.__module__ if inspect.isfunction(target) else type(target).__module__
        good = callable(target) and str(home).partition(".")[0] not in sys.stdlib_module_names
    if not good:
        kind = f"the class {target.__name__}" if isinstance(target, type) else f"a {type(target).__name__}"
        raise TypeError(f"{name} is {kind}, neither {what} nor a function that returns one")
    return found  # type: ignore[no-any-return]


def _near(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"; did you mean {near[0]!r}?" if near else ""
