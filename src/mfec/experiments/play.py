"""A person plays the Labyrinth: one level in a window, one frame of the simulation for each frame of the display."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
from gymnasium.utils.seeding import np_random
from numpy.typing import NDArray

from mfec.canonical_names import canonical_name
from mfec.envs.labyrinth.env import episode_seed
from mfec.envs.labyrinth.keyboard import action_of
from mfec.envs.labyrinth.levels import FRAMES_PER_SECOND, LEVELS, Level
from mfec.envs.labyrinth.simulation import Simulation
from mfec.envs.pictures import SIDE
from mfec.errors import MfecError

if TYPE_CHECKING:
    from mfec.experiments.play_screen import Screen

SMALLEST = 480, 360  # pixels of a window that the text fits into

# Names of keys as pygame has them. WASD as in any first-person game, arrows as in the old ones.
KEYS = {
    "up": "forward",
    "w": "forward",
    "down": "backward",
    "s": "backward",
    "left": "turn left",
    "q": "turn left",
    "right": "turn right",
    "e": "turn right",
    "a": "left",
    ",": "left",
    "d": "right",
    ".": "right",
}
NO_DISPLAY = "there is no display to open a window on; `mfec play` needs a desktop"
BEGIN = ("return", "enter", "space")


class PlayError(MfecError):
    """What keeps a person from playing."""


class Game:
    """Episodes of a level, frame by frame; the first is that of `Labyrinth(level).reset(seed=seed)`."""

    def __init__(self, level: Level, *, seed: int = 0) -> None:
        if seed < 0:
            raise PlayError(f"a seed must not be negative, and {seed} is")
        self.simulation = Simulation(level, 1)
        self._random = np_random(seed)[0]
        self._pictures = np.empty((1, SIDE, SIDE), np.uint8)
        self.begin_next()

    def begin_next(self) -> None:
        """Begin the next episode."""
        self._seed = episode_seed(self._random)
        self.begin_anew()

    def begin_anew(self) -> None:
        """Begin the same episode once more."""
        self.simulation.begin(0, self._seed)
        self._pictures[0] = self.simulation.look(0)
        self.score = 0
        self.all_eaten = self.time_is_up = False

    @property
    def level(self) -> Level:
        """The level, with its map."""
        return self.simulation.level

    @property
    def frames_left(self) -> int:
        """Frames until the time is up."""
        return self.level.frames - int(self.simulation.players.frames[0])

    @property
    def ended(self) -> bool:
        """Whether the episode has ended."""
        return self.all_eaten or self.time_is_up

    @property
    def seen_by_agent(self) -> NDArray[np.uint8]:
        """What an agent sees, uint8 (84, 84)."""
        return self._pictures.reshape(SIDE, SIDE)

    def step(self, action: int) -> int:
        """Let a frame go by in an action or in `STAND_STILL`; returns the reward."""
        reward, terminated, truncated = np.empty(1), np.empty(1, np.bool_), np.empty(1, np.bool_)
        self.simulation.step(slice(0, 1), np.array([action]), 1, reward, terminated, truncated, self._pictures)
        self.score += int(reward[0])
        self.all_eaten, self.time_is_up = bool(terminated[0]), bool(truncated[0])
        return int(reward[0])


class Window:
    """The game in a window; `frame` is what happens in a sixtieth of a second."""

    def __init__(self, game: Game, screen: Screen) -> None:
        self.game = game
        self.waiting = True  # for a key, with the task before the player's eyes
        self._screen = screen
        self._held: list[str] = []  # names of keys, the longest held first

    def run(self) -> None:
        """Play until the window is closed."""
        while self.frame():
            self._screen.wait(FRAMES_PER_SECOND)

    def frame(self) -> bool:
        """Take keys, play a frame, draw; returns whether to go on."""
        import pygame

        for event in pygame.event.get():
            if event.type == pygame.QUIT or (event.type == pygame.KEYDOWN and event.key == pygame.K_ESCAPE):
                return False
            self._take(event)
        if not self.waiting and not self.game.ended:
            reward = self.game.step(action_of(KEYS[key] for key in self._held))
            if reward:
                self._screen.announce(reward)
        self._screen.draw(self.game, waiting=self.waiting)
        return True

    def _take(self, event: Any) -> None:
        import pygame

        if event.type == pygame.WINDOWFOCUSLOST:
            self._held.clear()  # keys that are let go elsewhere are not heard of
        elif event.type == pygame.KEYUP:
            self._held = [key for key in self._held if key != pygame.key.name(event.key)]
        elif event.type == pygame.KEYDOWN:
            self._press(pygame.key.name(event.key))

    def _press(self, key: str) -> None:
        if key in KEYS:
            self._held = [*(own for own in self._held if own != key), key]
            self.waiting = False
        elif key == "r":
            self.game.begin_anew()
            self.waiting = False
        elif key in BEGIN:
            if self.game.ended:
                self.game.begin_next()
            self.waiting = False
        elif key == "tab":
            self._screen.shows_agent = not self._screen.shows_agent
        elif key == "m":
            self._screen.shows_map = not self._screen.shows_map


def level_to_play(name: str) -> Level:
    """The Labyrinth level of a short name or Gymnasium's id."""
    level = LEVELS.get(canonical_name(name))
    if level is not None:
        return level
    raise PlayError(f"{name!r} cannot be played by hand; these can: {', '.join(LEVELS)}")


def play(name: str, *, seed: int = 0, width: int = 800, height: int = 600) -> None:
    """Open a window with a level, and play until it is closed."""
    level = level_to_play(name)
    if width < SMALLEST[0] or height < SMALLEST[1]:
        raise PlayError(f"a window has at least {SMALLEST[0]} x {SMALLEST[1]} pixels, not {width} x {height}")
    pygame = _import_pygame()
    _refuse_missing_display()
    game = Game(level, seed=seed)
    from mfec.experiments.play_screen import Screen

    try:
        pygame.display.init()
        # Where a display cannot be reached, SDL draws into memory without a word, and one would play unseen.
        if pygame.display.get_driver() in ("offscreen", "dummy") and not os.environ.get("SDL_VIDEODRIVER"):
            raise PlayError(NO_DISPLAY)
        Window(game, Screen(level, width, height)).run()
    except pygame.error as error:
        raise PlayError(f"no window can be opened: {error}") from None
    finally:
        pygame.quit()


def _refuse_missing_display() -> None:
    """Before SDL looks for one, and complains in words of its own."""
    if sys.platform == "linux" and not any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY", "SDL_VIDEODRIVER"))):
        raise PlayError(NO_DISPLAY)


def _import_pygame() -> Any:
    os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
    try:
        import pygame
    except ImportError:
        raise ImportError("mfec play needs the extra `play`: pip install 'mfec[play]'") from None
    return pygame
