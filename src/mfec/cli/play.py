"""`mfec play`: a Labyrinth level for people."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from tyro.conf import Positional, arg


@dataclass(frozen=True)
class Play:
    """Play a Labyrinth level in a window, with the keyboard."""

    level: Annotated[Positional[str], arg(metavar="LEVEL")]
    """Short name of a level: labyrinth_forage, labyrinth_forage_and_avoid or labyrinth_double_t_maze."""
    seed: int = 0
    """Makes the episodes: starts and, in the maze, where the apples are."""
    width: int = 800
    """Pixels of the window, across."""
    height: int = 600
    """Pixels of the window, down."""


def run_play(command: Play) -> int:
    """Play until the window is closed; returns the exit status."""
    from mfec.experiments.play import play

    play(command.level, seed=command.seed, width=command.width, height=command.height)
    return 0
