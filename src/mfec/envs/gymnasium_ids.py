"""Environments by their Gymnasium ids: which there are, which package registers the others, and how to make one."""

from __future__ import annotations

import difflib
import importlib.util
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.registration import load_env_creator

from mfec.envs.crashes import TheirCode
from mfec.envs.named_code import PIP, check_keywords, import_named, maker_named, takes_render_mode

FAMILIES = {
    "MiniGrid-": "minigrid",
    "BabyAI-": "minigrid",
    "MinAtar/": "minatar.gym",
    "highway-": "highway_env",
    "merge-": "highway_env",
    "roundabout-": "highway_env",
    "parking-": "highway_env",
    "intersection-": "highway_env",
    "racetrack-": "highway_env",
    "MiniWorld-": "miniworld",
    "FlappyBird-": "flappy_bird_gymnasium",
    "Fetch": "gymnasium_robotics",
    "PointMaze": "gymnasium_robotics",
    "FrankaKitchen-": "gymnasium_robotics",
    "ALE/": "ale_py",
}
"""How the ids of well-known packages begin, and the module that registers them."""
OF_MAKE = ("max_episode_steps", "disable_env_checker")  # keywords of `gymnasium.make` itself


def is_gymnasium_id(name: str) -> bool:
    """Whether the name is one that `make_by_id` takes; an unknown one that looks like it is an error that helps."""
    if name in gymnasium.registry or ":" in name:
        return True
    family = next((module for prefix, module in FAMILIES.items() if name.startswith(prefix)), None)
    if family is not None and _register(family) and name in gymnasium.registry:
        return True
    if not _newest(name) and "-v" not in name and "/" not in name:
        return False
    package = (family or "").partition(".")[0]
    if family and not _is_installed(family):
        pip = PIP.get(package, package.replace("_", "-"))
        raise ValueError(
            f"unknown environment {name!r}: it comes with {package}, which is not installed; `pip install '{pip}'`, "
            f"then {package}:{name}"
        )
    if _newest(name):
        raise ValueError(f"unknown environment {name!r}; did you mean {_newest(name)!r}? `mfec envs` lists all of them")
    near = difflib.get_close_matches(name, list(gymnasium.registry), n=1, cutoff=0.5)
    hint = f"; did you mean {near[0]!r}?" if near else ";"
    raise ValueError(
        f"unknown environment {name!r}{hint} package:{name} would import the package that registers it first; "
        "`mfec envs` lists all of them"
    )


def make_by_id(name: str, keywords: dict[str, Any], *, render_mode: str | None = None) -> gymnasium.Env[Any, Any]:
    """The environment of a Gymnasium id, or of an attribute of a module (`package.module:attribute`)."""
    maker = maker_named(name) if ":" in name else None
    if maker is not None:
        return _make(name, maker, maker, keywords, render_mode)
    try:
        spec = gymnasium.spec(name.rpartition(":")[2])  # its module is imported by now
        creator = load_env_creator(spec.entry_point) if isinstance(spec.entry_point, str) else spec.entry_point
        if creator is None:
            raise gymnasium.error.Error("it is registered as a vector environment alone")
        given = {**spec.kwargs, **keywords}
        check_keywords(name, creator, given, also=OF_MAKE)

        def make(**given: Any) -> Any:
            return gymnasium.make(spec, **given)

        return _make(name, make, creator, keywords, render_mode)
    except gymnasium.error.Error as error:
        raise ValueError(_cannot(name, error)) from None


def _make(
    name: str, make: Callable[..., Any], creator: Callable[..., Any], keywords: dict[str, Any], render_mode: str | None
) -> gymnasium.Env[Any, Any]:
    if make is creator:
        check_keywords(name, creator, keywords)
    if render_mode is not None:  # not every environment takes it
        if not takes_render_mode(creator):
            raise ValueError(f"{name} takes no render_mode, so it cannot be drawn")
        keywords = {**keywords, "render_mode": render_mode}
    env, why = None, ""
    with TheirCode(name):
        try:
            env = make(**keywords)
        except gymnasium.error.Error as error:  # a sentence for people: a package that is missing, an id that is old
            why = _cannot(name, error)
    if why:
        raise ValueError(why)
    if not isinstance(env, gymnasium.Env):
        raise TypeError(f"{name} returned a {type(env).__name__}, not a gymnasium.Env")
    return _MinAtar(env) if type(env.unwrapped).__module__ == "minatar.gym" else env


class _MinAtar(gymnasium.Wrapper[Any, Any, Any, Any]):
    """MinAtar whose games do not depend on the one before: there, the last action of a game may stick in the next one.

    One game in ten would be another one when a run goes on.
    """

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin a game as a new console would."""
        self.env.unwrapped.game.last_action = 0  # type: ignore[attr-defined]
        return self.env.reset(seed=seed, options=options)

    def render(self) -> Any:
        """Colours as bytes; MinAtar's are shares of 1."""
        drawn = self.env.render()
        return (255 * drawn).astype(np.uint8) if isinstance(drawn, np.ndarray) and drawn.ndim == 3 else drawn


def _cannot(name: str, error: Exception) -> str:
    """Why an id leads to no environment."""
    said = " ".join(str(error).split())
    module, _, own = name.rpartition(":")
    if isinstance(error, gymnasium.error.UnregisteredEnv):
        near = difflib.get_close_matches(own, list(gymnasium.registry), n=1, cutoff=0.5)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        where = f"{module} has no attribute {own!r} and registers no environment of that name" if module else said
        return f"unknown environment {name!r}: {where}{hint}"
    return f"{name} cannot be made: {said}"


def _register(module: str) -> bool:
    """Import a package, which registers its environments, if it is there."""
    if not _is_installed(module):
        return False
    imported = import_named(module, of=module)
    if module == "minatar.gym" and "MinAtar/Breakout-v1" not in gymnasium.registry:
        with TheirCode(module):
            imported.register_envs()
    return True


def _is_installed(module: str) -> bool:
    return importlib.util.find_spec(module.partition(".")[0]) is not None


def _newest(name: str) -> str:
    """The newest registered version of an environment, whatever version was named; empty where there is none."""
    base = name.rpartition("-v")[0] or name
    versions = [own.rpartition("-v") for own in gymnasium.registry if own.startswith(f"{base}-v")]
    newest = max((int(number) for _, _, number in versions if number.isdigit()), default=None)
    return "" if newest is None else f"{base}-v{newest}"
