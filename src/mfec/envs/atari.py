"""Atari games as the paper plays them: deterministic, raw rewards, one grey 84x84 frame, thirty starts.

ale-py's own defaults differ in every one of these: sticky actions, clipped rewards, four frames, fire on reset.
"""

from __future__ import annotations

from typing import Any, overload

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from mfec.config import EnvConfig
from mfec.envs.atari_vector import AtariVector
from mfec.envs.console import STARTS, atari_games, import_ale, load, rom_of
from mfec.envs.pictures import FRAME_SKIP, SIDE, frames_space

__all__ = ["Atari", "AtariVector", "atari_games", "make_atari"]

Observation = NDArray[np.uint8]


@overload
def make_atari(
    game: str,
    *,
    n_envs: None = None,
    frame_stack: int = ...,
    sticky_actions: float = ...,
    max_frames: int = ...,
    render_mode: str | None = None,
) -> Atari: ...
@overload
def make_atari(
    game: str, *, n_envs: int, frame_stack: int = ..., sticky_actions: float = ..., max_frames: int = ...
) -> AtariVector: ...
def make_atari(
    game: str,
    *,
    n_envs: int | None = None,
    frame_stack: int = EnvConfig.frame_stack,
    sticky_actions: float = EnvConfig.sticky_actions,
    max_frames: int = EnvConfig.max_frames,
    render_mode: str | None = None,
) -> Atari | AtariVector:
    """An Atari game by its short name (`mfec envs` lists them): one environment, or `n_envs` that step together.

    Args:
        game: for example `qbert`, `ms_pacman` or `river_raid`.
        n_envs: None for a Gymnasium environment, a number for a Gymnasium vector environment.
        frame_stack: frames in an observation; the paper has one.
        sticky_actions: chance, in each frame, that the last action is repeated; the paper has none.
        max_frames: frames after which a game is cut off.
        render_mode: None or `rgb_array`.
    """
    settings: dict[str, Any] = {"frame_stack": frame_stack, "sticky_actions": sticky_actions, "max_frames": max_frames}
    if n_envs is None:
        return Atari(game, render_mode=render_mode, **settings)
    return AtariVector(game, n_envs, **settings)


class Atari(gymnasium.Env[Observation, np.int64]):
    """One game through `ALEInterface`; see `make_atari` for the settings.

    `reset` draws one of thirty starts from its seed; `options={"no_ops": 7}` names one, which may lie beyond the
    thirty. The starts are emulated once and then restored, so they do not depend on what was played before.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 15}  # noqa: RUF012
    frame_skip = FRAME_SKIP
    action_space: spaces.Discrete[Any]

    def __init__(
        self,
        game: str,
        *,
        frame_stack: int = EnvConfig.frame_stack,
        sticky_actions: float = EnvConfig.sticky_actions,
        max_frames: int = EnvConfig.max_frames,
        render_mode: str | None = None,
    ) -> None:
        EnvConfig(frame_stack=frame_stack, sticky_actions=sticky_actions, max_frames=max_frames)  # checks them
        self._ale = load(game)
        self._rom_path = import_ale().roms.get_rom_path(rom_of(game))
        self._max_frames = max_frames
        self._actions = self._ale.getMinimalActionSet()
        self._sticky_actions = sticky_actions
        self._resize = _resizer()
        if render_mode not in (None, "rgb_array"):
            raise ValueError(f"render_mode must be None or 'rgb_array', not {render_mode!r}")
        self.render_mode = render_mode
        self.action_space = spaces.Discrete(len(self._actions))
        self.observation_space: spaces.Box = frames_space(frame_stack)  # type: ignore[assignment]
        self._stack = np.zeros((frame_stack, SIDE, SIDE), np.uint8)
        self._last_action = self._actions[0]

        self._ale.reset_game()
        self._power_on = bytes(self._ale.getRAM())
        self._starts: list[tuple[Any, Observation]] = []
        for _ in range(STARTS):
            self._starts.append((self._ale.cloneState(), self._ale.getScreenGrayscale()))
            self._ale.act(0)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin a game from one of thirty starts."""
        super().reset(seed=seed)
        no_ops = int(self.np_random.integers(STARTS))
        if options and "no_ops" in options:
            no_ops = options["no_ops"]
        if no_ops < 0:
            raise ValueError(f"no_ops must not be negative, and {no_ops} is")
        while len(self._starts) <= no_ops:  # starts that no game draws
            self._ale.act(0)
            self._ale.restoreState(self._starts[-1][0])
            self._ale.act(0)
            self._starts.append((self._ale.cloneState(), self._ale.getScreenGrayscale()))
        state, screen = self._starts[no_ops]
        if no_ops == 0:
            # A state cloned before the first frame is not restored whole (Q*bert, Tetris), so this start is emulated
            # again; where the console's timer falls otherwise than at first, from a fresh load.
            self._ale.reset_game()
            if bytes(self._ale.getRAM()) != self._power_on:
                self._ale.loadROM(self._rom_path)
                self._ale.reset_game()
        else:
            # Nor is a state restored whole onto a console that was reset and has not made a frame since.
            self._ale.act(0)
            self._ale.restoreState(state)
        self._last_action = self._actions[0]
        self._screens = [screen.copy(), screen.copy()]  # the last two frames of a step, one above the other
        self._stack = np.zeros_like(self._stack)
        self._frames = 0
        return self._observe(), {"no_ops": no_ops, "lives": self._ale.lives()}

    def step(self, action: np.int64 | int) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Repeat an action for four frames."""
        reward = 0
        for frame in range(FRAME_SKIP):
            if not (self._sticky_actions and self.np_random.random() < self._sticky_actions):
                self._last_action = self._actions[action]
            reward += self._ale.act(self._last_action)
            self._frames += 1
            if self._ale.game_over() or self._frames >= self._max_frames:
                break
            if frame >= FRAME_SKIP - 2:
                self._ale.getScreenGrayscale(self._screens[frame - FRAME_SKIP + 2])
        ended, cut_off = self._ale.game_over(), self._frames >= self._max_frames
        return self._observe(), float(reward), ended, cut_off, {"lives": self._ale.lives()}

    def get_action_meanings(self) -> list[str]:
        """What the actions do, as Gymnasium's own Atari games say it (`UPRIGHT`)."""
        return [action.name for action in self._actions]

    def render(self) -> NDArray[np.uint8]:
        """The screen in colour, uint8 (210, 160, 3)."""
        return np.asarray(self._ale.getScreenRGB(), np.uint8)

    def emulator_state(self) -> bytes:
        """RAM of the console and the frame number: equal for equal states of the game."""
        return bytes(self._ale.getRAM()) + int(self._ale.getEpisodeFrameNumber()).to_bytes(4, "little")

    def _observe(self) -> Observation:
        np.maximum(self._screens[0], self._screens[1], out=self._screens[1])
        frame: Observation = self._resize(self._screens[1])
        if len(self._stack) == 1:
            return frame
        self._stack = np.concatenate([self._stack[1:], frame[None]])
        return self._stack


def _resizer() -> Any:
    try:
        import cv2
    except ImportError:
        raise ImportError("Atari games need the extra `atari`: pip install 'mfec[atari]'") from None
    return lambda screen: cv2.resize(screen, (SIDE, SIDE), interpolation=cv2.INTER_AREA)
