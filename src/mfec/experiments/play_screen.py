"""What a person sees who plays: the level in colour, the score and the time, the keys, and on demand a map."""

from __future__ import annotations

import math
import time
from collections import deque
from statistics import median
from typing import TYPE_CHECKING

import numpy as np
import pygame
from numpy.typing import NDArray

from mfec.envs.labyrinth.atlas import CUES, SPRITES, TEXTURES
from mfec.envs.labyrinth.levels import FRAMES_PER_SECOND, NOTHING, Level
from mfec.envs.labyrinth.textures import CUE_COLOURS, sprites
from mfec.envs.labyrinth.world import HEADING, X, Y
from mfec.envs.pictures import SIDE

if TYPE_CHECKING:
    from mfec.experiments.play import Game

WHITE, PALE, DARK = (255, 255, 255), (205, 210, 220), (18, 20, 26)
GAIN, LOSS = (130, 240, 110), (255, 120, 100)
FLOOR, WALL, PLAYER = (138, 124, 96), (44, 46, 54), (60, 150, 255)
INSET = 0.3  # of the window: the agent's view and the map stay below the horizon, where fruit is
MARGIN = 12  # pixels between what is drawn and the edge
ANNOUNCED = 40  # frames for which a reward is shown

# Shares of the window's resolution that the view may be drawn at, and the time for it: a frame lasts 16.7 ms, and the
# text, the enlargement and the display need some of it. 800 x 600 take 12 to 20 ms on one core, 400 x 300 about 4.
SHARPNESS = (1.0, 0.75, 0.5, 0.35, 0.25)
DRAWING_SECONDS = 0.010
MEASURED = 20  # frames, of which the median counts

KEYS_SHOWN = (
    ("Up  Down   or   W  S", "walk"),
    ("Left  Right   or   Q  E", "turn"),
    ("A  D   or   comma  period", "step aside"),
    ("R", "this episode anew"),
    ("Tab", "what the agent sees"),
    ("M", "map"),
    ("Esc", "end"),
)
KEYS_IN_SHORT = "Arrows or WSQE: walk, turn    A D: step aside    R: anew    Tab: agent's view    M: map    Esc: end"


class Screen:
    """A window, and how everything is drawn in it."""

    def __init__(self, level: Level, width: int, height: int) -> None:
        pygame.font.init()
        self.shows_agent = self.shows_map = False
        self.sharpness = SHARPNESS[0]
        self._drawing: deque[float] = deque(maxlen=MEASURED)
        self._announced: tuple[int, int] = 0, 0  # a reward, and frames that it is still shown
        pygame.display.set_caption(level.name)
        self._surface = pygame.display.set_mode((width, height))
        self._clock = pygame.time.Clock()
        self._small, self._middling, self._large = (
            pygame.font.Font(None, max(least, round(height * share)))
            for share, least in ((0.037, 17), (0.05, 20), (0.1, 36))
        )
        self._top, self._bottom = self._middling.get_height() + 2 * MARGIN, height - self._small.get_height() - MARGIN
        self._map = Map(level, (round(INSET * width), round(INSET * height)))

    def wait(self, frames_per_second: int) -> None:
        """Until it is time for the next frame."""
        self._clock.tick(frames_per_second)

    def announce(self, reward: int) -> None:
        """Show a reward for a while."""
        self._announced = reward, ANNOUNCED

    def draw(self, game: Game, *, waiting: bool) -> None:
        """Draw a frame and show it."""
        self._draw_view(game)
        width, height = self._surface.get_size()
        self._draw_bars(game)
        if self.shows_agent:
            self._draw_agent(game)
        if self.shows_map:
            self._surface.blit(self._map.draw(game), (MARGIN, self._bottom - self._map.size[1] - MARGIN))
        if waiting:
            self._draw_panel(self._welcome(game.level))
        elif game.ended:
            self._announced = 0, 0
            self._draw_panel(self._result(game))
        reward, frames = self._announced
        if frames:
            self._announced = reward, frames - 1
            self._write(f"{reward:+d}", self._large, GAIN if reward > 0 else LOSS, (width // 2, height // 4))
        pygame.display.flip()

    def _draw_view(self, game: Game) -> None:
        """The player's view, less sharp where this machine is too slow for the window's own resolution."""
        began = time.perf_counter()
        width, height = self._surface.get_size()
        drawn = game.simulation.photograph(0, round(width * self.sharpness), round(height * self.sharpness))
        view = _surface_of(drawn).convert()  # into the window's format, which scaling takes for granted
        if view.get_size() == (width, height):
            self._surface.blit(view, (0, 0))
        else:
            pygame.transform.smoothscale(view, (width, height), self._surface)
        self._drawing.append(time.perf_counter() - began)
        if len(self._drawing) == MEASURED and median(self._drawing) > DRAWING_SECONDS:
            self.sharpness = SHARPNESS[min(SHARPNESS.index(self.sharpness) + 1, len(SHARPNESS) - 1)]
            self._drawing.clear()

    def _draw_bars(self, game: Game) -> None:
        """Score, task and time at the top, the keys at the bottom."""
        width, height = self._surface.get_size()
        middle = self._top // 2
        self._shade(pygame.Rect(0, 0, width, self._top))
        seconds = math.ceil(game.frames_left / FRAMES_PER_SECOND)
        colour = LOSS if seconds <= 5 else WHITE
        left = self._write(f"Score {game.score}", self._middling, WHITE, (MARGIN, middle), "midleft")
        right = self._write(f"{seconds} s left", self._middling, colour, (width - MARGIN, middle), "midright")
        room = width - 2 * max(left, right) - 4 * MARGIN
        self._write(game.level.task, self._small, PALE, (width // 2, middle), room=room)
        self._shade(pygame.Rect(0, self._bottom, width, height - self._bottom))
        self._write(KEYS_IN_SHORT, self._small, PALE, (width // 2, (self._bottom + height) // 2))

    def _draw_agent(self, game: Game) -> None:
        width, height = self._surface.get_size()
        side = SIDE * max(1, round(INSET * height / SIDE))  # whole pixels for each of the agent's
        grey = np.repeat(game.seen_by_agent[..., None], 3, axis=2)
        corner = width - side - MARGIN, self._bottom - side - MARGIN
        self._surface.blit(pygame.transform.scale(_surface_of(grey), (side, side)), corner)
        pygame.draw.rect(self._surface, WHITE, (*corner, side, side), 1)

    def _welcome(self, level: Level) -> list[Line]:
        return [
            ("", level.task, self._middling, WHITE),
            ("", f"You have {level.seconds} seconds, which begin with your first step.", self._small, PALE),
            ("", "", self._small, PALE),
            *((keys, what, self._small, PALE) for keys, what in KEYS_SHOWN),
        ]

    def _result(self, game: Game) -> list[Line]:
        return [
            ("", "All apples are eaten" if game.all_eaten else "Time is up", self._middling, PALE),
            ("", f"Score {game.score}", self._large, WHITE),
            ("Enter or Space", "next episode", self._small, WHITE),
            ("R", "this episode anew", self._small, PALE),
            ("Esc", "end", self._small, PALE),
        ]

    def _draw_panel(self, lines: list[Line]) -> None:
        """Lines of text in the middle of the window, each centred or, with keys, in two columns."""
        width, height = self._surface.get_size()
        total = sum(font.get_linesize() for _, _, font, _ in lines)
        widest = max(font.size(text)[0] for _, text, font, _ in lines)
        panel = pygame.Rect(0, 0, min(width, max(widest, width // 2) + 4 * MARGIN), total + 3 * MARGIN)
        panel.center = width // 2, height // 2
        self._shade(panel)
        y = panel.top + 3 * MARGIN // 2
        for keys, text, font, colour in lines:
            if keys:
                self._write(keys, font, WHITE, (width // 2 - MARGIN, y), "topright")
                self._write(text, font, colour, (width // 2 + MARGIN, y), "topleft")
            else:
                self._write(text, font, colour, (width // 2, y), "midtop")
            y += font.get_linesize()

    def _shade(self, area: pygame.Rect) -> None:
        shade = pygame.Surface(area.size, pygame.SRCALPHA)
        shade.fill((*DARK, 190))
        self._surface.blit(shade, area)

    def _write(
        self,
        text: str,
        font: pygame.font.Font,
        colour: Colour,
        at: tuple[int, int],
        anchor: str = "center",
        room: int | None = None,
    ) -> int:
        """Write a line, smaller where it does not fit into `room` (the window); returns how wide it is."""
        written = font.render(text, True, colour)
        room = self._surface.get_width() - 2 * MARGIN if room is None else room
        if written.get_width() > room:
            written = pygame.transform.smoothscale(written, (room, written.get_height() * room // written.get_width()))
        self._surface.blit(written, written.get_rect(**{anchor: at}))
        return written.get_width()


class Map:
    """The level from above, north up, with the fruit that is left, the cues and the player."""

    def __init__(self, level: Level, largest: tuple[int, int]) -> None:
        self._level = level
        self._west, self._north = min(own.west for own in level.blocks), max(own.north for own in level.blocks)
        east, south = max(own.east for own in level.blocks), min(own.south for own in level.blocks)
        self._scale = min(largest[0] / (east - self._west), largest[1] / (self._north - south))
        self.size = round((east - self._west) * self._scale), round((self._north - south) * self._scale)
        self._empty = pygame.Surface(self.size)
        self._empty.fill(FLOOR)
        for block in level.blocks:
            corner = self._at(block.west, block.north)
            sides = (block.east - block.west) * self._scale, (block.north - block.south) * self._scale
            self._empty.fill(WALL, (corner, sides))
        pygame.draw.rect(self._empty, WHITE, self._empty.get_rect(), 1)
        side = max(12, round(40 * self._scale))
        self._fruit = [_sprite(*sprites()[name], side) for name in SPRITES]

    def draw(self, game: Game) -> pygame.Surface:
        """The map as it is now."""
        players = game.simulation.players
        drawn = self._empty.copy()
        for cue, shown in zip(self._level.cues, players.cues[0].tolist(), strict=True):
            panel = pygame.Rect(0, 0, cue.width * self._scale, max(4.0, 10.0 * self._scale))
            if cue.faces != "south":
                panel.size = panel.height, panel.width
            panel.center = round(self._at(cue.x, cue.y)[0]), round(self._at(cue.x, cue.y)[1])
            drawn.fill([int(part) for part in CUE_COLOURS[TEXTURES[CUES + shown]]], panel)
        for place, kind in zip(self._level.places, players.fruit[0].tolist(), strict=True):
            if kind != NOTHING:
                sprite = self._fruit[kind]
                drawn.blit(sprite, sprite.get_rect(center=self._at(*place)))
        x, y, heading = players.poses[0, X], players.poses[0, Y], players.poses[0, HEADING]
        pygame.draw.polygon(drawn, PLAYER, self._arrow(x, y, heading))
        pygame.draw.polygon(drawn, WHITE, self._arrow(x, y, heading), 1)
        return drawn

    def _arrow(self, x: float, y: float, heading: float) -> list[tuple[float, float]]:
        middle_x, middle_y = self._at(x, y)
        size = max(9.0, 20.0 * self._scale)
        corners = ((0.0, size), (140.0, size), (180.0, 0.4 * size), (220.0, size))
        turned = [(math.radians(heading + angle), away) for angle, away in corners]
        return [(middle_x + away * math.cos(angle), middle_y - away * math.sin(angle)) for angle, away in turned]

    def _at(self, x: float, y: float) -> tuple[float, float]:
        return (x - self._west) * self._scale, (self._north - y) * self._scale


Colour = tuple[int, int, int]
Line = tuple[str, str, pygame.font.Font, Colour]  # keys, if any, and what is said


def _surface_of(picture: NDArray[np.uint8]) -> pygame.Surface:
    """uint8 (height, width, 3) as pygame has it."""
    return pygame.image.frombuffer(picture.tobytes(), (picture.shape[1], picture.shape[0]), "RGB")


def _sprite(colours: NDArray[np.uint8], mask: NDArray[np.bool_], side: int) -> pygame.Surface:
    rgba = np.concatenate([colours, np.where(mask, 255, 0).astype(np.uint8)[..., None]], axis=2)
    whole = pygame.image.frombuffer(rgba.tobytes(), mask.shape[::-1], "RGBA")
    return pygame.transform.smoothscale(whole, (side, side))
