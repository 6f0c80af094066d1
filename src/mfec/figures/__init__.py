"""Figures and statistics: read run directories, draw."""

from typing import Literal

ScoreName = Literal["training", "greedy"]
"""What a figure takes for the score of a run; `scores` knows both kinds."""
