"""Pictures of the levels: walls, fruit, cues and the start where they are, and the view from there."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

import matplotlib.image
import numpy as np
import pytest
from matplotlib.figure import Figure

from mfec.envs.labyrinth import LEVELS, Labyrinth
from mfec.envs.labyrinth.levels import APPLE, CUE_GREEN, CUE_OFF, CUE_RED
from mfec.envs.labyrinth.textures import CUE_COLOURS, sprites, textures
from mfec.envs.labyrinth.world import HEADING, X, Y
from mfec.figures.labyrinth import FLOOR, HEIGHT, SEEN, SOLID, START, WIDTH, draw_level
from mfec.run_directory import RunDirectoryError


@cache
def drawn(name: str, seed: int = 0) -> Figure:
    """The figure of a level, as it is saved."""
    figures: list[Figure] = []
    save = Figure.savefig
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as place:
        patch.setattr(Figure, "savefig", lambda own, *a, **b: (figures.append(own), save(own, *a, **b))[1])
        out = Path(place) / "new" / "map.png"
        assert draw_level(name, out, seed=seed) == out
        assert matplotlib.image.imread(out).std() > 0.1
    return figures[0]


def polygons(figure: Figure, colour) -> list[np.ndarray]:
    """Corners of everything on the map that is filled with a colour."""
    wanted = matplotlib.colors.to_rgb(colour)
    return [
        patch.get_xy()  # type: ignore[attr-defined]
        for patch in figure.axes[0].patches
        if np.allclose(patch.get_facecolor()[:3], wanted, atol=0.003)
    ]


def beginning(name: str, seed: int) -> Labyrinth:
    env = Labyrinth(name, render_mode="rgb_array", width=WIDTH, height=HEIGHT)
    env.reset(seed=seed)
    return env


def inside(blocks, x, y) -> bool:
    return any(own.west < x < own.east and own.south < y < own.north for own in blocks)


def test_other_kinds_of_pictures_are_written(tmp_path):
    assert "<svg" in draw_level("labyrinth_forage", tmp_path / "map.svg").read_text()


@pytest.mark.parametrize("name", LEVELS)
def test_it_is_titled_with_the_name_the_task_and_the_length(name):
    title = drawn(name).get_suptitle()
    level = LEVELS[name]
    for part in (name, level.task, f"{level.seconds} s", f"{level.frames:,} frames"):
        assert part in title


@pytest.mark.parametrize("name", LEVELS)
def test_walls_are_where_they_stand(name):
    figure = drawn(name)
    blocks = LEVELS[name].blocks
    found = sorted((*corners.min(0), *corners.max(0)) for corners in polygons(figure, SOLID))
    assert found == sorted((own.west, own.south, own.east, own.north) for own in blocks)
    assert len(polygons(figure, FLOOR)) == 1
    assert figure.axes[0].get_aspect() == 1.0  # to scale
    (west, east), (south, north) = figure.axes[0].get_xlim(), figure.axes[0].get_ylim()
    assert west < east  # north up and east right
    assert south < north


def test_sides_have_the_colours_of_their_textures_only_where_they_can_be_seen():
    figure = drawn("labyrinth_double_t_maze")
    blocks = LEVELS["labyrinth_double_t_maze"].blocks
    for texture, length in (("stone", 320 - 64 + 320), ("brick", 2 * 128 + 64 + 4 * 64), ("wood", 2 * 320 + 4 * 128)):
        colour = textures()[texture].mean(axis=(0, 1)) / 255
        strips = polygons(figure, colour)
        assert sum(np.ptp(corners, axis=0).max() for corners in strips) == pytest.approx(length)
        assert all(inside(blocks, *corners[:4].mean(0)) for corners in strips)


@pytest.mark.parametrize("name", LEVELS)
def test_fruit_lies_where_it_is_in_that_episode(name):
    seed = 1
    figure = drawn(name, seed)
    env = beginning(name, seed)
    shown = {}
    for image in figure.axes[0].images:
        west, east, south, north = image.get_extent()
        apple = np.array_equal(np.asarray(image.get_array())[..., :3], sprites()["apple"][0])
        shown[(west + east) / 2, (south + north) / 2] = apple
    fruit = env.players.fruit[0].tolist()
    assert shown == {place: kind == APPLE for place, kind in zip(env.level.places, fruit, strict=True)}


@pytest.mark.parametrize("seed", range(2))
def test_cues_show_what_they_show_in_that_episode(seed):
    figure = drawn("labyrinth_double_t_maze", seed)
    env = beginning("labyrinth_double_t_maze", seed)
    names = {CUE_OFF: "cue_off", CUE_RED: "cue_red", CUE_GREEN: "cue_green"}
    for cue, state in zip(env.level.cues, env.players.cues[0].tolist(), strict=True):
        panels = polygons(figure, np.array(CUE_COLOURS[names[state]]) / 255)
        middles = [corners[:4].mean(0) for corners in panels]
        assert min(np.hypot(x - cue.x, y - cue.y) for x, y in middles) < 10
        assert all(inside(env.level.blocks, x, y) for x, y in middles)


def test_the_arrow_is_at_the_start_and_points_ahead():
    seed = 1
    figure = drawn("labyrinth_forage", seed)
    x, y, heading = beginning("labyrinth_forage", seed).players.poses[0, [X, Y, HEADING]]
    [arrow] = polygons(figure, START)
    tip = arrow[0] - (x, y)
    assert np.degrees(np.arctan2(tip[1], tip[0])) % 360 == pytest.approx(heading)
    assert np.hypot(*(arrow[:4].mean(0) - (x, y))) < 15


def test_the_view_is_from_the_start_in_an_arena():
    figure = drawn("labyrinth_forage_and_avoid", 1)
    [view] = figure.axes[1].images
    assert np.array_equal(np.asarray(view.get_array()), beginning("labyrinth_forage_and_avoid", 1).render())


@pytest.mark.parametrize("seed", range(2))
def test_the_view_in_a_maze_is_of_the_first_cue(seed):
    figure = drawn("labyrinth_double_t_maze", seed)
    view = np.asarray(figure.axes[1].images[0].get_array()).astype(int)
    red, green, _ = view[HEIGHT // 2 - 20 : HEIGHT // 2 + 20, WIDTH // 2 - 20 : WIDTH // 2 + 20].mean((0, 1))
    shown = beginning("labyrinth_double_t_maze", seed).players.cues[0, 0]
    assert (red > 2 * green) == (shown == CUE_RED)
    assert (green > 2 * red) == (shown == CUE_GREEN)


def test_what_is_seen_ends_at_the_walls():
    figure = drawn("labyrinth_double_t_maze")
    [corners] = polygons(figure, SEEN)
    assert corners[0].tolist() == [0.0, 32.0]
    assert corners[:, 1].max() == pytest.approx(192.0)
    for x, y in corners:
        assert not inside(LEVELS["labyrinth_double_t_maze"].blocks, 0.999 * x, 32.0 + 0.999 * (y - 32.0))


def test_a_scale_and_the_north_are_drawn():
    for name, units in (("labyrinth_forage", 200), ("labyrinth_double_t_maze", 100)):
        axes = drawn(name).axes[0]
        texts = [text.get_text() for text in axes.texts]
        assert f"{units} units" in texts
        assert "N" in texts
        assert units in [np.ptp(line.get_xdata()) for line in axes.lines if np.ptp(line.get_ydata()) == 0]


def test_the_same_seed_draws_the_same_picture(tmp_path):
    one, other = (draw_level("labyrinth_forage", tmp_path / name, seed=4) for name in ("a.png", "b.png"))
    assert one.read_bytes() == other.read_bytes()


def test_other_names_and_files_are_refused(tmp_path):
    with pytest.raises(ValueError, match="unknown level 'qbert'; there are labyrinth_forage, "):
        drawn("qbert")
    with pytest.raises(RunDirectoryError, match="a picture ends in"):
        draw_level("labyrinth_forage", tmp_path / "map.txt")
