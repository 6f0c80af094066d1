"""`mfec envs`: what can be named and played, and how it looks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from mfec.canonical_names import canonical_name
from mfec.config import folder_of


@dataclass(frozen=True)
class Envs:
    """List the environments that can be named and played here, or draw one of them."""

    pattern: Annotated[Positional[str], arg(metavar="[PATTERN]")] = ""
    """Only names that contain this, or that match it where it has a * or ?; after `module:`, only ids that this module
    registers."""
    show: Annotated[str | None, arg(metavar="ENV")] = None
    """Draw this environment instead: a Labyrinth level's map and view, or the first picture of a game."""
    out: Annotated[Path | None, arg(metavar="FILE")] = None
    """With --show: the picture, .png, .pdf or .svg; ENV.png unless given."""
    seed: int = 0
    """With --show: makes the episode whose start is drawn."""


def run_envs(command: Envs) -> int:
    """Print the names, or draw and print where the picture is; returns the exit status."""
    if command.show is not None:
        if command.pattern:
            raise ValueError(f"{command.pattern!r} is of a list, and --show draws {command.show}: give one of them")
        from mfec.figures.environments import draw_environment

        name = canonical_name(command.show)
        print(draw_environment(name, command.out or Path(f"{folder_of(name)}.png"), seed=command.seed))
        return 0
    if command.out is not None or command.seed:
        raise ValueError("--out and --seed are of a picture: name an environment to draw with --show")
    from mfec.envs.listing import list_environments

    listing = list_environments(command.pattern)
    if not any(listing.families.values()) and not listing.left_out:
        raise ValueError(f"no environment has {command.pattern!r} in its name; `mfec envs` lists all of them")
    for family, names in listing.families.items():
        if names:
            print("\n  ".join([f"{family}:", *names]))
    if listing.left_out:
        print(listing.why_left_out())
    return 0
