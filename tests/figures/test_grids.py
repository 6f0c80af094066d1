"""Tables of text as pictures: that nothing overlaps and nothing is cut off."""

from __future__ import annotations

import itertools

import pytest

from mfec.figures.grids import Grid, to_picture

SHORT = Grid("A", ("game", "1M"), [[("Q*bert", "1,050 ± 50")]], names=1)
LONG = Grid(
    "A table whose title is much longer than all of its columns together",
    ("game", "algorithm", "1M"),
    [[("Ms. Pac-Man", "MFEC, random projections", "1.0"), ("", "DQN", "2.0")], [("Q*bert", "A3C", "3,000 ± 150")]],
    names=2,
    note="words " * 60,
)


@pytest.mark.parametrize("grids", [[SHORT], [LONG], [SHORT, LONG, SHORT]])
def test_every_text_has_its_own_place(grids):
    figure = to_picture(grids)
    figure.draw_without_rendering()
    [axes] = figure.axes
    texts = [text for text in axes.texts if text.get_text()]
    boxes = [text.get_window_extent() for text in texts]
    cells = sum(bool(cell) for grid in grids for row in (grid.header, *grid.rows) for cell in row)
    assert len([text for text in texts if "words" not in text.get_text()]) == cells + len(grids)
    for text, box in zip(texts, boxes, strict=True):
        assert figure.bbox.x0 <= box.x0 < box.x1 <= figure.bbox.x1, text
        assert figure.bbox.y0 <= box.y0 < box.y1 <= figure.bbox.y1, text
    for (text, one), (below, other) in itertools.combinations(zip(texts, boxes, strict=True), 2):
        assert not one.overlaps(other), (text, below)


def test_names_stand_left_and_numbers_right():
    figure = to_picture([LONG])
    texts = figure.axes[0].texts
    places = {text.get_text(): (text.get_position()[0], text.get_ha()) for text in texts}  # type: ignore[attr-defined]
    assert {places[name] for name in ("game", "Ms. Pac-Man", "Q*bert")} == {(0.0, "left")}
    [(right, how)] = {places[number] for number in ("1M", "1.0", "2.0", "3,000 ± 150")}
    assert how == "right"
    assert right > places["algorithm"][0] > 0.0
