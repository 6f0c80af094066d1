"""Statistics of scores, against Python's own, closed forms, full enumerations and SciPy."""

from __future__ import annotations

import itertools
import math
import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from mfec.statistics import Interval, human_normalised, interquartile_mean, mean, standard_error, stratified_bootstrap

SCORES = st.floats(-1e6, 1e6)


@given(st.lists(SCORES, min_size=1, max_size=50))
def test_the_mean_is_pythons(values):
    assert mean(values) == pytest.approx(statistics.mean(values), rel=1e-12, abs=1e-9)


@given(st.lists(SCORES, min_size=2, max_size=50))
def test_the_standard_error_is_that_of_the_unbiased_variance(values):
    expected = statistics.stdev(values) / math.sqrt(len(values))
    assert standard_error(values) == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_large_scores_that_differ_little_keep_their_difference():
    """A mean of squares less the square of the mean would give 0 here, or a negative variance."""
    values = [1e9, 1e9 + 1, 1e9 + 2]
    assert mean(values) == 1e9 + 1
    assert standard_error(values) == pytest.approx(1 / math.sqrt(3))


def test_of_too_few_values_there_is_no_number():
    assert math.isnan(mean([]))
    assert math.isnan(standard_error([]))
    assert math.isnan(standard_error([3.0]))


# -- The interquartile mean -------------------------------------------------------------------------------------------


def test_the_middle_half_of_numbers_in_a_row():
    assert interquartile_mean([8, 7, 6, 5, 4, 3, 2, 1]) == 4.5
    assert interquartile_mean([1, 2, 3, 4, 5, 6, 7, 8, 900]) == 5  # of nine, two go at each end
    assert interquartile_mean([-100, 2, 4, 1000]) == 3


def test_fewer_than_four_values_all_count():
    assert interquartile_mean([5.0]) == 5.0
    assert interquartile_mean([1, 3]) == 2
    assert interquartile_mean([0, 0, 9]) == 3


def test_nothing_and_what_is_no_number_have_no_interquartile_mean():
    assert math.isnan(interquartile_mean([]))
    for place in range(5):
        values = [1.0, 2.0, 3.0, 4.0, 5.0]
        values[place] = math.nan
        assert math.isnan(interquartile_mean(values))


@given(st.lists(SCORES, min_size=1, max_size=60))
def test_the_interquartile_mean_is_scipys_trimmed_mean(values):
    assert interquartile_mean(values) == pytest.approx(stats.trim_mean(values, 0.25), rel=1e-9, abs=1e-9)


# -- Bootstrap intervals ----------------------------------------------------------------------------------------------


def test_resampling_within_tasks_leaves_out_how_much_tasks_differ():
    """The closed form for two tasks of n seeds each: the variances of their means add up, over four."""
    rng = np.random.default_rng(1)
    easy, hard = rng.normal(1000.0, 5.0, 200), rng.normal(0.0, 20.0, 200)
    interval = stratified_bootstrap({"easy": easy.tolist(), "hard": hard.tolist()}, mean, resamples=8_000)
    half = statistics.NormalDist().inv_cdf(0.975) * math.sqrt((easy.var() + hard.var()) / 200 / 4)
    middle = (easy.mean() + hard.mean()) / 2
    assert interval == pytest.approx((middle - half, middle + half), abs=0.06 * half)
    pooled = stratified_bootstrap({"both": [*easy.tolist(), *hard.tolist()]}, mean)
    assert pooled.high - pooled.low > 10 * (interval.high - interval.low)


@pytest.mark.parametrize(("statistic", "confidence"), [(mean, 0.81), (interquartile_mean, 0.9)])
def test_many_resamples_come_to_what_all_of_them_are(statistic, confidence):
    """All 27 x 27 equally likely resamples of three seeds and three, written out."""
    scores = {"a": [1.0, 5.0, 21.0], "b": [2.0, 13.0, 17.0]}
    every = [
        statistic([*first, *second])
        for first in itertools.product(scores["a"], repeat=3)
        for second in itertools.product(scores["b"], repeat=3)
    ]
    assert len(every) == 729
    # Neither level is a multiple of 1/729, so each lies within a step of the distribution.
    levels = [(1 - confidence) / 2, (1 + confidence) / 2]
    expected = np.quantile(every, levels, method="inverted_cdf").tolist()
    interval = stratified_bootstrap(scores, statistic, resamples=60_000, confidence=confidence)
    assert interval == pytest.approx(expected)


def test_a_seed_makes_an_interval():
    scores = {"a": [1.0, 5.0, 22.0, 3.0], "b": [2.0, 13.0, 4.5]}
    first = stratified_bootstrap(scores, mean, resamples=500, seed=3)
    assert stratified_bootstrap(scores, mean, resamples=500, seed=3) == first
    assert stratified_bootstrap(scores, mean, resamples=500, seed=4) != first
    assert first.low < mean([*scores["a"], *scores["b"]]) < first.high


def test_the_interval_is_scipys():
    """Both draw 20,000 resamples of their own, so they agree to a few percent of the width."""
    rng = np.random.default_rng(5)
    first, second = rng.gamma(2.0, 100.0, 25), rng.gamma(3.0, 50.0, 12)

    def flattened(a, b, axis):
        return stats.trim_mean(np.concatenate([a, b], axis=axis), 0.25, axis=axis)

    theirs = stats.bootstrap(
        (first, second), flattened, n_resamples=20_000, method="percentile", vectorized=True, rng=rng
    ).confidence_interval
    ours = stratified_bootstrap(
        {"first": first.tolist(), "second": second.tolist()}, interquartile_mean, resamples=20_000
    )
    assert ours == pytest.approx((theirs.low, theirs.high), abs=0.03 * (theirs.high - theirs.low))


@pytest.mark.parametrize("scores", [
    {}, {"a": []}, {"a": [1.0]}, {"a": [1.0, 2.0]}, {"a": [1.0, 2.0, 4.0], "b": [3.0, 5.0]},
    {"a": [1.0, 2.0, 4.0], "b": []}, {"a": [1.0, 2.0, math.nan]},
])  # fmt: skip
def test_without_three_numbers_in_every_task_there_is_no_interval(scores):
    interval = stratified_bootstrap(scores, mean)
    assert isinstance(interval, Interval)
    assert math.isnan(interval.low)
    assert math.isnan(interval.high)


def test_seeds_that_agree_leave_no_doubt():
    assert stratified_bootstrap({"a": [4.0] * 5, "b": [8.0] * 5}, mean) == Interval(6.0, 6.0)


@pytest.mark.parametrize(("settings", "said"), [
    ({"resamples": 0}, "resamples must be at least 1, not 0"),
    ({"confidence": 95}, "confidence must lie between 0 and 1, not 95"),
    ({"confidence": 0.0}, "confidence must lie between 0 and 1"),
])  # fmt: skip
def test_senseless_settings_are_refused(settings, said):
    with pytest.raises(ValueError, match=said):
        stratified_bootstrap({"a": [1.0, 2.0]}, mean, **settings)


# -- Human-normalised scores ------------------------------------------------------------------------------------------


def test_people_and_random_play_are_one_and_nothing():
    assert human_normalised(163.9, random=163.9, human=13455.0) == 0.0
    assert human_normalised(13455.0, random=163.9, human=13455.0) == 1.0
    assert human_normalised(15.0, random=5.0, human=25.0) == 0.5
    assert human_normalised(0.0, random=5.0, human=10.0) == -1.0
    assert human_normalised(-20.0, random=-20.7, human=14.6) == pytest.approx(0.7 / 35.3)
    assert math.isnan(human_normalised(math.nan, random=0.0, human=1.0))


def test_a_person_must_differ_from_random_play():
    with pytest.raises(ValueError, match=r"nothing separates a human score of 3\.0 from a random one of 3\.0"):
        human_normalised(1.0, random=3.0, human=3.0)
