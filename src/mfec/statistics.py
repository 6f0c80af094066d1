"""Statistics of scores: over seeds, and over games and seeds together (Agarwal et al., 2021)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

# A bootstrap "95% interval" of two seeds is the range between them, which holds the median of all seeds in only half of
# the cases.
FEWEST_SEEDS = 3
"""Seeds that a task needs for an interval or a drawn standard error; fewer seeds are shown one by one."""

Statistic = Callable[[Sequence[float]], float]


class Interval(NamedTuple):
    """A confidence interval; both ends are NaN where there is none."""

    low: float
    high: float


def mean(values: Sequence[float]) -> float:
    """Arithmetic mean; NaN of nothing."""
    return math.fsum(values) / len(values) if values else math.nan


def standard_error(values: Sequence[float]) -> float:
    """Standard error of the mean, from the unbiased variance; NaN of fewer than two values."""
    if len(values) < 2:
        return math.nan
    middle = mean(values)
    return math.sqrt(math.fsum((value - middle) ** 2 for value in values) / (len(values) - 1) / len(values))


def interquartile_mean(values: Sequence[float]) -> float:
    """Mean of the middle half: of n sorted values, floor(n / 4) are left out at each end, and the rest count fully.

    So it is the plain mean of fewer than four values, and always `scipy.stats.trim_mean(values, 0.25)`. NaN of nothing,
    and wherever one of the values is NaN.

    >>> interquartile_mean([1, 2, 3, 4, 5, 6, 7, 800])
    4.5
    """
    if any(math.isnan(value) for value in values):
        return math.nan
    cut = len(values) // 4
    return mean(sorted(values)[cut : len(values) - cut])


def stratified_bootstrap(
    scores: Mapping[str, Sequence[float]],
    statistic: Statistic,
    *,
    resamples: int = 2000,
    confidence: float = 0.95,
    seed: int = 0,
) -> Interval:
    """Percentile bootstrap interval of a statistic over the scores of all tasks.

    scores: for each task, one score a seed. Seeds are drawn with replacement within each task, as many as it has, so a
    task with more seeds counts for more, as it does in the statistic itself. There is no interval (NaN) if nothing is
    given, if a score is NaN, or if a task has fewer than `FEWEST_SEEDS`.
    """
    if resamples < 1:
        raise ValueError(f"resamples must be at least 1, not {resamples}")
    if not 0.0 < confidence < 1.0:
        raise ValueError(f"confidence must lie between 0 and 1, not {confidence}")
    tasks = [np.asarray(own, np.float64) for own in scores.values()]
    if not tasks or any(len(own) < FEWEST_SEEDS or np.isnan(own).any() for own in tasks):
        return Interval(math.nan, math.nan)
    rng = np.random.default_rng(seed)
    drawn = np.concatenate([own[rng.integers(len(own), size=(resamples, len(own)))] for own in tasks], axis=1)
    estimates = [statistic(values) for values in drawn.tolist()]
    low, high = np.quantile(estimates, [(1.0 - confidence) / 2.0, (1.0 + confidence) / 2.0]).tolist()
    return Interval(low, high)


def human_normalised(score: float, random: float, human: float) -> float:
    """A score on the scale on which 0 is random play and 1 a person's score."""
    if random == human:
        raise ValueError(f"nothing separates a human score of {human} from a random one of {random}")
    return (score - random) / (human - random)
