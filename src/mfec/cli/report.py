"""`mfec report`: figures, tables, settings and videos of runs, in one HTML file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import arg

from mfec.cli.figure import Directories
from mfec.figures import ScoreName
from mfec.figures.report import MAX_VIDEO_MB, TITLE


@dataclass(frozen=True)
class Report:
    """Write one HTML file with all figures, tables, settings, commands and videos of runs; it needs no network and no
    other file."""

    directories: Directories
    """Run directories, or directories with runs below them; an environment's runs of one algorithm may differ in k and
    the seed."""
    out: Annotated[Path, arg(metavar="FILE.html")] = Path("report.html")
    """The page."""
    title: str = TITLE
    """Its heading."""
    max_video_mb: Annotated[float, arg(metavar="MB")] = MAX_VIDEO_MB
    """Megabytes of videos that go into the page, all together; it names those that are left out."""
    score: ScoreName = "training"
    """Scores of the last 100 games of training, or of greedy play: those of evaluations.csv, which `mfec train
    --evaluate-every` writes."""


def run_report(command: Report) -> int:
    """Write the page, and print where it is; returns the exit status."""
    from mfec.figures.report.page import write_report
    from mfec.run_directory import find_runs

    runs = find_runs(list(command.directories))
    written = write_report(
        runs, command.out, title=command.title, max_video_mb=command.max_video_mb, score=command.score
    )
    print(written)
    return 0
