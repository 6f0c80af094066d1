"""What is drawn around a mean."""

from __future__ import annotations

import math

import pytest

from mfec.figures.pictures import draw_error, new_figure


@pytest.mark.parametrize(("error", "seeds", "points", "bars"), [
    (math.nan, 1, [], 0), (0.0, 3, [], 0), (2.0, 2, [3.0, 7.0], 0), (2.0, 3, [], 1),
])  # fmt: skip
def test_two_seeds_are_points_and_more_have_a_bar(error, seeds, points, bars):
    axes = new_figure(3.0, 3.0).add_subplot()
    draw_error(axes, 1.0, 5.0, error, seeds, colour="0.2")
    assert len(axes.containers) == bars
    if not bars:
        assert [y for line in axes.lines for y in line.get_ydata()] == points
