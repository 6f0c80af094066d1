"""Environments by name: Atari games and Labyrinth levels by short names, everything else by its Gymnasium id."""

from __future__ import annotations

import contextlib
import difflib
from functools import partial
from typing import Any

import gymnasium
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv

from mfec.canonical_names import FUNCTION, LEVEL_IDS, canonical_name
from mfec.config import EnvConfig
from mfec.envs.atari import AtariVector, atari_games, make_atari
from mfec.envs.labyrinth.levels import LEVELS
from mfec.envs.vizdoom import check_scenario, is_vizdoom, make_vizdoom, vizdoom_scenarios


def make_env(
    name: str, config: EnvConfig | None = None, *, render_mode: str | None = None, every_frame: bool = False
) -> gymnasium.Env[Any, Any] | VectorEnv[Any, Any, Any]:
    """The environment of that name: one for `n_envs=1`, else a vector environment.

    every_frame: make a vector of Atari games or Labyrinth levels in which a step is one frame.
    """
    name, config = canonical_name(name), config or EnvConfig()
    if not is_atari(name) and config != EnvConfig(n_envs=config.n_envs):
        raise ValueError(f"frame_stack, sticky_actions and max_frames are for Atari games, not for {name}")
    if is_labyrinth(name):
        from mfec.envs.labyrinth import Labyrinth, LabyrinthVector

        if every_frame:
            return LabyrinthVector(name, config.n_envs, frame_skip=1, autoreset_mode=AutoresetMode.DISABLED)
        if config.n_envs > 1:
            return LabyrinthVector(name, config.n_envs, autoreset_mode=AutoresetMode.DISABLED)
        return Labyrinth(name, render_mode=render_mode)
    if _is_gymnasium_id(name):
        options: dict[str, Any] = {"render_mode": render_mode} if render_mode else {}  # not every environment takes it
        make: Any = make_vizdoom if is_vizdoom(name) else gymnasium.make
        try:
            if config.n_envs == 1:
                return make(name, **options)  # type: ignore[no-any-return]
            makers = [partial(make, name)] * config.n_envs
            return SyncVectorEnv(makers, autoreset_mode=AutoresetMode.DISABLED)
        except gymnasium.error.Error as error:
            raise ValueError(f"{name} cannot be made: {error}") from None
    settings: dict[str, Any] = {name: value for name, value in vars(config).items() if name != "n_envs"}
    if every_frame:
        return AtariVector(name, config.n_envs, **settings, frame_skip=1)
    if config.n_envs > 1:
        return make_atari(name, n_envs=config.n_envs, **settings)
    return make_atari(name, **settings, render_mode=render_mode)


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
    if name.startswith(("labyrinth", "mfec/")) and name not in gymnasium.registry:
        near = difflib.get_close_matches(name, [*LEVELS, *LEVEL_IDS], n=1, cutoff=0.0)[0]
        raise ValueError(f"unknown environment {name!r}; did you mean {near!r}? `mfec envs` lists all of them")
    return False


def shows_every_frame(name: str) -> bool:
    """Whether `make_env(every_frame=True)` works for this environment."""
    return is_labyrinth(name) or is_atari(name)


def _is_gymnasium_id(name: str) -> bool:
    """Whether the name is a registered Gymnasium id; a misspelt one is an error that names the nearest."""
    if is_vizdoom(name):
        check_scenario(name)
        return True
    if name in gymnasium.registry or ":" in name:
        return True
    if name.startswith(FUNCTION):
        function = name.removeprefix(FUNCTION)
        raise ValueError(
            f"the environment of this run is the Python function {function}, which only the program that trained it "
            f"knows: give it from Python, as in mfec.evaluate(directory, env={function}), or put it into a module and "
            f"train on module:{function}"
        )
    if name.startswith("ALE/"):
        atari_games()  # ale-py registers its ids on import
        if name in gymnasium.registry:
            return True
    versions = [known for known in gymnasium.registry if known.startswith(f"{name}-v")]
    if versions or "-v" in name or "/" in name:
        near = versions[-1:] or difflib.get_close_matches(name, list(gymnasium.registry), n=1, cutoff=0.5)
        hint = f"; did you mean {near[0]!r}?" if near else ";"
        raise ValueError(f"unknown environment {name!r}{hint} `mfec envs` lists all of them")
    return False
