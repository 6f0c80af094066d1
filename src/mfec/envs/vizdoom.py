"""ViZDoom's scenarios through its own Gymnasium environments, seen and played like an Atari game.

The engine runs in a process of its own. A game depends on the seed of `reset` and the actions only, not on what was
played before.
"""

from __future__ import annotations

import contextlib
import difflib
import signal
import tempfile
import weakref
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from mfec.envs.pictures import FRAME_SKIP, SIDE, frames_space

FRAMES_PER_SECOND = 35  # of the engine
WEAPON_SWING = 17  # pictures until a weapon is at rest, wherever it was

Observation = NDArray[np.uint8]


def vizdoom_scenarios() -> list[str]:
    """Ids of the scenarios that the agent can play: those that press one button at a time."""
    return sorted(name for name, spec in _registered().items() if spec.kwargs.get("max_buttons_pressed") == 1)


def is_vizdoom(name: str) -> bool:
    """Whether the name looks like a ViZDoom id."""
    return name.lower().startswith("vizdoom") and ":" not in name


def check_scenario(name: str) -> None:
    """An unknown id is an error that names the nearest."""
    if name not in _registered():
        near = difflib.get_close_matches(name, vizdoom_scenarios(), n=1, cutoff=0.5)
        hint = f"; did you mean {near[0]!r}?" if near else ";"
        raise ValueError(f"unknown environment {name!r}{hint} `mfec envs` lists all of them")


def make_vizdoom(name: str, *, render_mode: str | None = None, **keywords: Any) -> Vizdoom:
    """A scenario by its Gymnasium id, for example `VizdoomBasic-v1`."""
    check_scenario(name)
    # The agent does not use sound; without it the engine needs no OpenAL.
    settings: dict[str, Any] = {"frame_skip": FRAME_SKIP, "audio_buffer_enabled": False, "render_mode": render_mode}
    return Vizdoom(gymnasium.make(name, disable_env_checker=True, **(settings | keywords)))


class Vizdoom(gymnasium.Wrapper[Any, Any, Any, Any]):
    """The screen of a scenario as one grey picture, uint8 (84, 84), and its buttons one at a time.

    Where a scenario has axes beside buttons (Deathmatch), they stay at rest: its buttons turn and move, too.
    """

    def __init__(self, env: gymnasium.Env[dict[str, Any], Any]) -> None:
        super().__init__(env)
        self.observation_space = frames_space(1)
        self.metadata = {**env.metadata, "render_fps": FRAMES_PER_SECOND / FRAME_SKIP}
        self._axes: NDArray[np.float32] | None = None
        if isinstance(env.action_space, spaces.Dict):
            self._axes = np.zeros(env.action_space["continuous"].shape or (), np.float32)
            self.action_space = env.action_space["binary"]
        self._game: Any = env.unwrapped.game  # type: ignore[attr-defined]
        self._screen: Observation | None = None  # the last one, uint8 (240, 320, 3)
        self._shut_down: Callable[[], Any] | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin a game; the first one starts the engine, which takes 0.15 s."""
        if not self._game.is_running():
            self._start()
        self._settle()
        observation, info = self.env.reset(seed=seed, options=options)
        self._screen = observation["screen"]
        return _grey(observation["screen"]), info

    def step(self, action: np.int64 | int) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Keep a button down for four frames."""
        inner = action if self._axes is None else {"binary": action, "continuous": self._axes}
        observation, reward, ended, cut_off, info = self.env.step(inner)
        if not (ended or cut_off):  # after the end there is no screen, and the observation is black
            self._screen = observation["screen"]
        return _grey(observation["screen"]), float(reward), ended, cut_off, info

    def render(self) -> Any:
        """The screen in colour, uint8 (240, 320, 3); at the end of a game the last one there was."""
        return self.env.render() if self._screen is None or self.render_mode != "rgb_array" else self._screen

    def close(self) -> None:
        """Stop the engine and remove its files."""
        super().close()
        if self._shut_down:
            self._shut_down()

    def _start(self) -> None:
        """Start the engine in a folder of its own, with signals blocked; it inherits both."""
        # It writes `_vizdoom.ini` and `_vizdoom/` into its folder, and reads settings from a `_vizdoom.cfg` there.
        folder = tempfile.TemporaryDirectory(prefix="mfec-vizdoom-", ignore_cleanup_errors=True)
        self._shut_down = weakref.finalize(self, _shut_down, self._game, folder)
        # Ctrl-C in a terminal reaches all processes, but the engine has to last until this one has saved its run.
        held = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM))
        try:
            with contextlib.chdir(folder.name):
                self._game.init()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, held)

    def _settle(self) -> None:
        """Play a game that is always the same until the weapon is at rest, so that every game begins alike.

        The swing of the weapon outlasts a game: the engine moves it by one unit, of at most 16, with every picture that
        it draws. Without these 6 ms, 5 in 200 games of Basic were drawn differently when played again after others.
        """
        self._game.set_seed(0)
        self._game.new_episode()
        for _ in range(WEAPON_SWING):
            self._game.advance_action(1)


def _shut_down(game: Any, folder: tempfile.TemporaryDirectory[str]) -> None:
    game.close()
    folder.cleanup()


def _grey(screen: Observation) -> Observation:
    """Rec. 601 luminance, each pixel of 84x84 the mean of what it covers."""
    import cv2

    grey = cv2.cvtColor(screen, cv2.COLOR_RGB2GRAY)
    return np.asarray(cv2.resize(grey, (SIDE, SIDE), interpolation=cv2.INTER_AREA), np.uint8)


def _registered() -> dict[str, Any]:
    """All of ViZDoom's ids in Gymnasium's registry; if ViZDoom is missing, the error names the extra."""
    try:
        import cv2  # noqa: F401
        import vizdoom.gymnasium_wrapper  # noqa: F401  # registers its ids
    except ModuleNotFoundError:
        raise ImportError("ViZDoom scenarios need the extra `vizdoom`: pip install 'mfec[vizdoom]'") from None
    return {name: spec for name, spec in gymnasium.registry.items() if is_vizdoom(name)}
