"""`mfec envs`: what can be named, and how it looks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import arg

from mfec.canonical_names import canonical_name
from mfec.config import folder_of


@dataclass(frozen=True)
class Envs:
    """List the environments that can be named, or draw one of them."""

    show: Annotated[str | None, arg(metavar="ENV")] = None
    """Draw this environment instead: a Labyrinth level's map and view, or the first picture of a game."""
    out: Annotated[Path | None, arg(metavar="FILE")] = None
    """With --show: the picture, .png, .pdf or .svg; ENV.png unless given."""
    seed: int = 0
    """With --show: makes the episode whose start is drawn."""


def run_envs(command: Envs) -> int:
    """Print the names, or draw and print where the picture is; returns the exit status."""
    if command.show is not None:
        from mfec.figures.environments import draw_environment

        name = canonical_name(command.show)
        print(draw_environment(name, command.out or Path(f"{folder_of(name)}.png"), seed=command.seed))
        return 0
    if command.out is not None or command.seed:
        raise ValueError("--out and --seed are of a picture: name an environment to draw with --show")
    from mfec.envs import env_names

    for source, names in env_names().items():
        print(f"{source}:")
        for name in names:
            print(f"  {name}")
    return 0
