"""Environments by name: Atari games and Labyrinth levels by short names, everything else by its Gymnasium id, or by the
module and the attribute that make it."""

from __future__ import annotations

import contextlib
import difflib
from typing import Any

import gymnasium
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv

from mfec.canonical_names import FUNCTION, LEVEL_IDS, canonical_name
from mfec.config import EnvConfig
from mfec.envs.atari import AtariVector, atari_games, make_atari
from mfec.envs.crashes import TheirCode
from mfec.envs.gymnasium_ids import is_gymnasium_id, make_by_id
from mfec.envs.labyrinth.levels import LEVELS
from mfec.envs.named_code import wrapper_named
from mfec.envs.vizdoom import check_scenario, is_vizdoom, make_vizdoom, vizdoom_scenarios


def make_env(
    name: str, config: EnvConfig | None = None, *, render_mode: str | None = None, every_frame: bool = False
) -> gymnasium.Env[Any, Any] | VectorEnv[Any, Any, Any]:
    """The environment of that name: one for `n_envs=1`, else a vector environment.

    every_frame: make a vector of Atari games or Labyrinth levels in which a step is one frame.
    """
    name, config = canonical_name(name), config or EnvConfig()
    if not is_atari(name) and config.of_atari() != EnvConfig().of_atari():
        raise ValueError(f"frame_stack, sticky_actions and max_frames are for Atari games, not for {name}")
    if (every_frame or config.n_envs > 1) and shows_every_frame(name, config):
        return _make_vector(name, config, every_frame)
    wrappers = [(own, wrapper_named(own)) for own in config.wrappers]

    def make() -> gymnasium.Env[Any, Any]:
        env = _make_one(name, config, render_mode)
        for own, wrapper in wrappers:
            with TheirCode(own):
                env = wrapper(env)
            if not isinstance(env, gymnasium.Env):
                raise TypeError(f"the wrapper {own} returned a {type(env).__name__}, not a gymnasium.Env")
        return env

    if config.n_envs == 1:
        return make()
    with TheirCode(name):
        return SyncVectorEnv([make] * config.n_envs, autoreset_mode=AutoresetMode.DISABLED)


def _make_one(name: str, config: EnvConfig, render_mode: str | None) -> gymnasium.Env[Any, Any]:
    """One environment, without its wrappers."""
    keywords = config.keywords()
    if is_vizdoom(name):
        try:
            return make_vizdoom(name, render_mode=render_mode, **keywords)
        except (TypeError, gymnasium.error.Error) as error:
            raise ValueError(f"{name} cannot be made: {error}") from None
    if _is_gymnasium_id(name):
        return make_by_id(name, keywords, render_mode=render_mode)
    _refuse_keywords(name, config)
    if is_labyrinth(name):
        from mfec.envs.labyrinth import Labyrinth

        return Labyrinth(name, render_mode=render_mode)
    return make_atari(name, render_mode=render_mode, **config.of_atari())


def _make_vector(name: str, config: EnvConfig, every_frame: bool) -> VectorEnv[Any, Any, Any]:
    """Atari games or levels that step in a vector environment of their own."""
    _refuse_keywords(name, config)
    settings: dict[str, Any] = {"frame_skip": 1} if every_frame else {}
    if is_labyrinth(name):
        from mfec.envs.labyrinth import LabyrinthVector

        return LabyrinthVector(name, config.n_envs, **settings, autoreset_mode=AutoresetMode.DISABLED)
    return AtariVector(name, config.n_envs, **settings, **config.of_atari())


def _refuse_keywords(name: str, config: EnvConfig) -> None:
    if config.env_kwargs:
        what = "--frame-stack, --sticky-actions and --max-frames are its settings" if is_atari(name) else "it has none"
        raise ValueError(f"{name} takes no keywords (--env-kwargs); {what}")


def env_names() -> dict[str, list[str]]:
    """The names that `make_env` takes, by family."""
    try:
        games = atari_games()
    except ImportError:
        games = []
    names = {"Atari games (extra `atari`)": games, "Labyrinth levels": list(LEVELS)}
    with contextlib.suppress(ImportError):
        names["ViZDoom scenarios (extra `vizdoom`)"] = vizdoom_scenarios()
    return {**names, "Gymnasium environments": sorted(name for name in gymnasium.registry if not is_vizdoom(name))}


def is_atari(name: str) -> bool:
    """Whether the name is that of an Atari game; a name that looks like no other environment counts as one."""
    return not is_labyrinth(name) and not _is_gymnasium_id(name)


def is_labyrinth(name: str) -> bool:
    """Whether the name is that of a Labyrinth level; a misspelt one is an error that names the nearest."""
    if canonical_name(name) in LEVELS:
        return True
    if name.startswith(("labyrinth", "mfec/")) and ":" not in name and name not in gymnasium.registry:
        near = difflib.get_close_matches(name, [*LEVELS, *LEVEL_IDS], n=1, cutoff=0.0)[0]
        raise ValueError(f"unknown environment {name!r}; did you mean {near!r}? `mfec envs` lists all of them")
    return False


def shows_every_frame(name: str, config: EnvConfig) -> bool:
    """Whether `make_env(every_frame=True)` works for this environment: a wrapper would see other steps."""
    return (is_labyrinth(name) or is_atari(name)) and not config.wrappers


def _is_gymnasium_id(name: str) -> bool:
    """Whether the name is a Gymnasium id; a misspelt one is an error that names the nearest."""
    if is_vizdoom(name):
        check_scenario(name)
        return True
    if name.startswith(FUNCTION) and name not in gymnasium.registry:
        function = name.removeprefix(FUNCTION)
        raise ValueError(
            f"the environment of this run is the Python function {function}, which only the program that trained it "
            f"knows: give it from Python, as in mfec.evaluate(directory, env={function}), or put it into a module and "
            f"train on module:{function}"
        )
    return not is_labyrinth(name) and is_gymnasium_id(name)
