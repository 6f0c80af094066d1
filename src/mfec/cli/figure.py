"""`mfec figure`: the figures and the table of the paper, from run directories."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tyro.conf import Positional, arg

from mfec.figures import ScoreName

if TYPE_CHECKING:
    from mfec.figures.grids import Grid

Directories = Annotated[Positional[tuple[Path, ...]], arg(metavar="DIR [DIR ...]")]


@dataclass(frozen=True)
class Figure1:
    """Learning curves, a panel for each environment: mean and standard error over seeds against frames; of fewer than
    three seeds, each one instead of the error. Those with a VAE are displaced by the frames that it was trained on."""

    directories: Directories
    """Run directories, or directories with runs below them; runs of one algorithm must have the same settings."""
    out: Annotated[Path, arg(metavar="FILE")] = Path("figure1.png")
    """The picture: .png, .pdf or .svg; or .csv for the numbers in it."""
    total_frames: Annotated[int | None, arg(metavar="INT")] = None
    """Frames to show; all unless given."""
    score: ScoreName = "training"
    """Scores of the last 100 games of training, or of greedy play: those of evaluations.csv, which `mfec train
    --evaluate-every` writes."""


@dataclass(frozen=True)
class Figure2:
    """The effect of k on the score: a line for each environment, in a panel for games and one for Labyrinth levels."""

    directories: Directories
    """Run directories, or directories with runs below them; an environment's runs may differ in k and the seed."""
    out: Annotated[Path, arg(metavar="FILE")] = Path("figure2.png")
    """The picture: .png, .pdf or .svg; or .csv for the numbers in it."""
    embedding: str = "vae"
    """Runs with this embedding are drawn: random_projection, vae, identity, table, or package.module:object."""
    at_frames: Annotated[int | None, arg(metavar="INT")] = None
    """Frames after which scores are taken; unless given, as many as all runs of an environment have come to."""
    score: ScoreName = "training"
    """Scores of the last 100 games of training, or of greedy play: those of evaluations.csv, which `mfec train
    --evaluate-every` writes."""


@dataclass(frozen=True)
class MatchRates:
    """Bars of how many look-ups matched a stored state exactly in the last 200,000 frames, beside the paper's."""

    directories: Directories
    """Run directories, or directories with runs below them; only those of MFEC are drawn."""
    out: Annotated[Path, arg(metavar="FILE")] = Path("match_rates.png")
    """The picture: .png, .pdf or .svg; or .csv for the numbers in it."""


@dataclass(frozen=True)
class Table:
    """Scores after 1, 2, 4 and 10 million frames beside published ones; human-normalised, and their interquartile mean
    over games and seeds, with 95% intervals where every game has three seeds or more."""

    directories: Directories
    """Run directories, or directories with runs below them; runs of one algorithm must have the same settings."""
    out: Annotated[Path | None, arg(metavar="FILE")] = None
    """A file: .csv with one number a row, .md, or a picture (.png, .pdf, .svg); without it, the table is printed."""
    score: ScoreName = "training"
    """Scores of the last 100 games of training, or of greedy play: those of evaluations.csv, which `mfec train
    --evaluate-every` writes."""


def run_figure(action: Figure1 | Figure2 | MatchRates | Table) -> int:
    """Draw, and print where the picture is; returns the exit status."""
    from mfec.run_directory import find_runs

    runs = find_runs(list(action.directories))
    match action:
        case Figure1():
            from mfec.figures.figure1 import draw_figure1

            print(draw_figure1(runs, action.out, total_frames=action.total_frames, score=action.score))
        case Figure2():
            from mfec.figures.figure2 import draw_figure2

            drawn = draw_figure2(
                runs, action.out, embedding=action.embedding, at_frames=action.at_frames, score=action.score
            )
            print(drawn)
        case MatchRates():
            from mfec.figures.match_rates import draw_match_rates

            print(draw_match_rates(runs, action.out))
        case Table(out=None):
            from mfec.figures.scores import SCORES
            from mfec.figures.table import table
            from mfec.figures.table_entries import grids_of

            _print_tables(grids_of(table(runs, score=action.score), SCORES[action.score].words(runs)))
        case Table(out=Path() as out):
            from mfec.figures.table import write_table

            print(write_table(runs, out, score=action.score))
    return 0


def _print_tables(grids: list[Grid]) -> None:
    from rich.console import Console

    from mfec.figures.grids import to_terminal

    console = Console()
    if not console.is_terminal:  # a file has room for everything
        wide = Console(width=1000)
        console = Console(width=max(wide.measure(to_terminal(grid, wide.width)).maximum for grid in grids))
    for number, grid in enumerate(grids):
        console.print(*([""] if number else []), to_terminal(grid, console.width), sep="\n", highlight=False)
