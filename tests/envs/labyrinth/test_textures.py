"""The pictures of the Labyrinth: their shapes, their seams, and how far apart they are in grey."""

from itertools import combinations

import numpy as np
import pytest

from mfec.envs.labyrinth.textures import FIELD, SIDE, luminance, sky, sprites, textures

WALLS = ["brick", "stone", "wood", "moss"]
CUES = ["cue_red", "cue_green", "cue_off"]


def mean_grey(name):
    return luminance(textures()[name]).mean()


def field_grey(name):
    return luminance(textures()[name])[FIELD, FIELD].mean()


def body_grey(fruit):
    colour, mask = sprites()[fruit]
    return np.median(luminance(colour)[mask])


def steps_across(grey):
    """Mean absolute difference between each column and the next, the last one with the first."""
    return abs(np.roll(grey, -1, axis=1) - grey).mean(axis=0)


def test_every_picture_is_there_in_bytes():
    pictures = textures()
    assert list(pictures) == [*WALLS, "floor", "ceiling", *CUES]
    assert all(picture.shape == (SIDE, SIDE, 3) and picture.dtype == np.uint8 for picture in pictures.values())
    assert sky().shape == (64, 256, 3)
    assert sky().dtype == np.uint8
    assert list(sprites()) == ["apple", "lemon"]
    for colour, mask in sprites().values():
        assert (colour.shape, colour.dtype) == ((SIDE, SIDE, 3), np.uint8)
        assert (mask.shape, mask.dtype) == ((SIDE, SIDE), np.bool_)


def test_the_same_pictures_every_time():
    np.random.seed(0)
    first, fruit, above = textures(), sprites(), sky()
    np.random.seed(1)
    for name, picture in textures().items():
        np.testing.assert_array_equal(picture, first[name])
    for name, (colour, mask) in sprites().items():
        np.testing.assert_array_equal(colour, fruit[name][0])
        np.testing.assert_array_equal(mask, fruit[name][1])
    np.testing.assert_array_equal(sky(), above)


@pytest.mark.parametrize("name", [*WALLS, "floor", "ceiling"])
@pytest.mark.parametrize("direction", ["across", "down"])
def test_no_seam_where_a_texture_repeats(name, direction):
    grey = luminance(textures()[name])
    steps = steps_across(grey if direction == "across" else grey.T)
    assert steps[-1] <= np.quantile(steps[:-1], 0.9)


def test_no_seam_in_the_sky():
    steps = steps_across(luminance(sky()))
    assert steps[-1] <= np.quantile(steps[:-1], 0.9)


def test_luminance_is_rec_601():
    colours = np.array([[255, 0, 0], [0, 255, 0], [0, 0, 255], [255, 255, 255]], dtype=np.uint8)
    np.testing.assert_allclose(luminance(colours), [76.245, 149.685, 29.07, 255.0])


@pytest.mark.parametrize(("one", "other"), list(combinations(WALLS, 2)))
def test_walls_differ_in_grey(one, other):
    assert abs(mean_grey(one) - mean_grey(other)) > 15


def test_floor_ceiling_and_sky_are_calm_and_as_bright_as_said():
    assert 110 < mean_grey("floor") < 130
    assert luminance(textures()["floor"]).std() < 18
    assert 155 < mean_grey("ceiling") < 175
    assert 170 < luminance(sky()).mean() < 200


def test_sky_tells_directions_apart():
    quarters = np.split(luminance(sky()), 4, axis=1)
    assert all(abs(one - other).mean() > 10 for one, other in combinations(quarters, 2))
    # The top is towards the zenith, where the blue between the clouds is deepest.
    assert np.quantile(luminance(sky()), 0.2, axis=1)[8] < np.quantile(luminance(sky()), 0.2, axis=1)[-1]


def test_cues_are_told_apart_in_grey():
    assert field_grey("cue_red") == pytest.approx(70, abs=5)
    assert field_grey("cue_off") == pytest.approx(125, abs=5)
    assert field_grey("cue_green") == pytest.approx(185, abs=5)
    assert field_grey("cue_green") - field_grey("cue_red") > 80


def test_cues_are_red_and_green():
    red, green, blue = textures()["cue_red"][FIELD, FIELD].reshape(-1, 3).T.astype(int)
    assert (red > 5 * np.maximum(green, blue)).all()
    red, green, blue = textures()["cue_green"][FIELD, FIELD].reshape(-1, 3).T.astype(int)
    assert (green > 2 * np.maximum(red, blue)).all()


def test_cues_differ_only_inside_the_field():
    outside = np.ones((SIDE, SIDE), dtype=bool)
    outside[FIELD, FIELD] = False
    pictures = textures()
    for name in CUES:
        np.testing.assert_array_equal(pictures[name][outside], pictures["cue_off"][outside])
    assert (pictures["cue_red"] != pictures["cue_green"]).any(axis=2)[FIELD, FIELD].all()


def test_fruit_stands_out_from_everything_behind_it():
    assert 60 < body_grey("apple") < 80
    assert 190 < body_grey("lemon") < 210
    assert body_grey("lemon") - body_grey("apple") > 100
    for name in [*WALLS, "floor"]:
        assert body_grey("apple") + 15 < mean_grey(name) < body_grey("lemon") - 15


def test_fruit_fills_its_square_and_rests_on_the_floor():
    for _, mask in sprites().values():
        rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
        assert columns[0] < 5
        assert columns[-1] > SIDE - 6
        assert rows[-1] > SIDE - 6
        assert mask.mean() > 0.4
