"""Atari games as the paper plays them: deterministic, raw rewards, one grey 84x84 frame, thirty starts.

ale-py's own defaults differ in every one of these: sticky actions, clipped rewards, four frames, fire on reset.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from functools import cache
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from mfec.config import EnvConfig

STARTS = 30  # no-ops at the start of a game: 0 to 29 frames
FRAME_SKIP = 4
SIDE = 84
TWO_PLAYER = {"combat", "joust", "maze_craze", "warlords"}  # ROMs that cannot be played alone
RELOAD_EVERY = 64  # games of one lane between two loads of its ROM, which take 100 ms each

Observation = NDArray[np.uint8]


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
    settings = {"frame_stack": frame_stack, "sticky_actions": sticky_actions, "max_frames": max_frames}
    if n_envs is None:
        return Atari(game, render_mode=render_mode, **settings)  # type: ignore[arg-type]
    return AtariVector(game, n_envs, **settings)  # type: ignore[arg-type]


def atari_games() -> list[str]:
    """Short names of all games, ours for the paper's five (`river_raid`, not `riverraid`)."""
    return sorted("river_raid" if rom == "riverraid" else rom for rom in _roms())


class Atari(gymnasium.Env[Observation, np.int64]):
    """One game through `ALEInterface`; see `make_atari` for the settings.

    `reset` draws one of thirty starts from its seed; `options={"no_ops": 7}` names one. The starts are emulated once
    and restored from then on, so that a game has exactly thirty of them, whatever was played before.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 15}  # noqa: RUF012
    frame_skip = FRAME_SKIP

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
        self._ale = _load(game)
        self._rom_path = _ale().roms.get_rom_path(_rom(game))
        self._max_frames = max_frames
        self._actions = self._ale.getMinimalActionSet()
        self._sticky_actions = sticky_actions
        self._resize = _resizer()
        if render_mode not in (None, "rgb_array"):
            raise ValueError(f"render_mode must be None or 'rgb_array', not {render_mode!r}")
        self.render_mode = render_mode
        self.action_space = spaces.Discrete(len(self._actions))
        self.observation_space: spaces.Box = _frames_space(frame_stack)  # type: ignore[assignment]
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
        if no_ops not in range(STARTS):
            raise ValueError(f"no_ops must lie in 0..{STARTS - 1}, not {no_ops}")
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


class AtariVector(VectorEnv[Observation, NDArray[np.int64], NDArray[Any]]):
    """Games side by side on ale-py's native vector environment; see `make_atari` for the settings.

    Autoreset is off: `reset(options={"reset_mask": mask})` begins new games in some lanes, on `seed` if one is given
    (a load of the ROM, 100 ms) and otherwise as the lane's own numbers fall.

    The console's timer starts at random, and in some games (Frostbite, Hero) two different states come of it. Which
    one depends on nothing but how many resets there were since the ROM was loaded, so the other ones are skipped.
    """

    metadata = {"autoreset_mode": AutoresetMode.DISABLED}  # noqa: RUF012
    frame_skip = FRAME_SKIP

    def __init__(
        self,
        game: str,
        n_envs: int,
        *,
        frame_stack: int = EnvConfig.frame_stack,
        sticky_actions: float = EnvConfig.sticky_actions,
        max_frames: int = EnvConfig.max_frames,
    ) -> None:
        EnvConfig(frame_stack=frame_stack, sticky_actions=sticky_actions, max_frames=max_frames)  # checks them
        if n_envs < 1:
            raise ValueError(f"n_envs must be at least 1, not {n_envs}")
        _ale()
        from ale_py.vector_env import AtariVectorEnv

        self._vector = AtariVectorEnv(
            _rom(game),
            n_envs,
            stack_num=frame_stack,
            repeat_action_probability=sticky_actions,
            max_num_frames_per_episode=max_frames,
            reward_clipping=False,
            use_fire_reset=False,
            noop_max=STARTS,
        )
        self.num_envs = n_envs
        self.single_action_space = self._vector.single_action_space
        self.single_observation_space = _frames_space(frame_stack)
        self.action_space = batch_space(self.single_action_space, n_envs)
        self.observation_space = batch_space(self.single_observation_space, n_envs)
        # Sticky actions draw from the emulator's own numbers in every frame, so only a fresh load repeats a game.
        self._skips = _skipped_resets(game)
        self.reseed_every = 1 if sticky_actions else min(RELOAD_EVERY, int((~self._skips).sum()))
        self._resets = np.zeros(n_envs, np.int64)  # since the lane's ROM was loaded

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin games in the lanes of `options["reset_mask"]`, by default in all of them."""
        mask = np.asarray((options or {}).get("reset_mask", np.ones(self.num_envs, np.bool_)), np.bool_)
        if isinstance(seed, int):
            seed = [seed + lane for lane in range(self.num_envs)]
        seeds = [None] * self.num_envs if seed is None else list(seed)
        native: NDArray[np.int64] = np.array([-1 if seeds[i] is None else seeds[i] for i in np.flatnonzero(mask)])
        observations, info = self._vector.reset(seed=native, options={"reset_mask": mask})
        self._resets[mask] = np.where(native >= 0, 1, self._resets[mask] + 1)
        again = mask & self._skips[(self._resets - 1) % len(self._skips)]
        if again.any():
            return self.reset(options={"reset_mask": again})
        return self._shaped(observations), info

    def step(
        self, actions: NDArray[np.int64]
    ) -> tuple[Observation, NDArray[Any], NDArray[Any], NDArray[Any], dict[str, Any]]:
        """Repeat an action for four frames in every lane."""
        observations, rewards, terminated, truncated, info = self._vector.step(np.asarray(actions, np.int64))
        return self._shaped(observations), rewards.astype(np.float64), terminated, truncated, info

    def _shaped(self, observations: Observation) -> Observation:
        return observations.reshape(self.observation_space.shape or ())


@cache
def _skipped_resets(game: str) -> NDArray[np.bool_]:
    """For each reset since the ROM was loaded: does it end in another state than the first one?"""
    ale = _load(game)
    states = []
    for _ in range(2 * RELOAD_EVERY):
        ale.reset_game()
        states.append(bytes(ale.getRAM()))
    return np.array([state != states[0] for state in states])


def _frames_space(frame_stack: int) -> spaces.Box:
    shape = (SIDE, SIDE) if frame_stack == 1 else (frame_stack, SIDE, SIDE)
    return spaces.Box(0, 255, shape, np.uint8)


def _load(game: str) -> Any:
    ale_py = _ale()
    ale = ale_py.ALEInterface()
    ale.setFloat("repeat_action_probability", 0.0)
    ale.setInt("max_num_frames_per_episode", 0)
    ale.loadROM(ale_py.roms.get_rom_path(_rom(game)))
    return ale


def _rom(game: str) -> str:
    """The ROM of a short name; an unknown one is an error that names the nearest."""
    roms = {rom.replace("_", ""): rom for rom in _roms()}
    rom = roms.get(game.replace("_", ""))
    if rom is None or game != game.lower():
        near = difflib.get_close_matches(game.lower(), atari_games(), n=1, cutoff=0.5)
        hint = f"; did you mean {near[0]!r}?" if near else ";"
        raise ValueError(f"unknown game {game!r}{hint} `mfec envs` lists all of them")
    return rom


def _roms() -> list[str]:
    return [rom for rom in _ale().roms.get_all_rom_ids() if rom not in TWO_PLAYER]


def _ale() -> Any:
    try:
        import ale_py
    except ImportError:
        raise ImportError("Atari games need the extra `atari`: pip install 'mfec[atari]'") from None
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    import ale_py.roms

    return ale_py


def _resizer() -> Any:
    try:
        import cv2
    except ImportError:
        raise ImportError("Atari games need the extra `atari`: pip install 'mfec[atari]'") from None
    return lambda screen: cv2.resize(screen, (SIDE, SIDE), interpolation=cv2.INTER_AREA)
