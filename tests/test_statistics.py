"""Statistics of scores, against Python's own."""

from __future__ import annotations

import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mfec.statistics import mean, standard_error

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


def test_numbers_known_by_heart():
    assert mean([2, 4, 4, 4, 5, 5, 7, 9]) == 5
    assert standard_error([1, 3]) == 1
    assert standard_error([7.0] * 5) == 0


def test_of_too_few_values_there_is_no_number():
    assert math.isnan(mean([]))
    assert math.isnan(standard_error([]))
    assert math.isnan(standard_error([3.0]))
