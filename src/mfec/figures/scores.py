"""Scores of runs after a number of frames, counted as figures count them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from mfec.figures.learning_curves import displacement, trailing_mean
from mfec.run_directory import RunDirectory


def frames_reached(run: RunDirectory) -> int:
    """How far a run has come; frames of random play that its encoder was trained on count, too."""
    last = [table["frames"][-1] for table in (run.progress(), run.episodes()) if table["frames"]]
    return int(max(last, default=0.0)) + displacement(run.read_config())


def scores_at(run: RunDirectory, frames: Sequence[int]) -> list[float]:
    """The mean of the last 100 games after each of these numbers of frames; NaN where the run has not come so far."""
    reached, before = frames_reached(run), displacement(run.read_config())
    scores = trailing_mean(run, np.array(frames, np.float64) - before).tolist()
    return [score if at <= reached else math.nan for at, score in zip(frames, scores, strict=True)]
