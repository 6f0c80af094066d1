"""What players see: walls, fruit and cues where geometry puts them, in colour and in grey."""

from __future__ import annotations

import math

import numpy as np
import pytest

from mfec.envs.labyrinth import Labyrinth
from mfec.envs.labyrinth.atlas import TEXTURES
from mfec.envs.labyrinth.textures import luminance

from .scenes import ALL, APPLE, ARENAS, AVOID, FORAGE, GREEN, LEMON, MAZE, NOTHING, OFF, RED, begun, clear, look, put

FOCAL = 0.5  # of the width: 90 degrees across
WIDE = {"width": 640, "height": 480}


def random_poses(level: str, n: int, seed: int = 0) -> list[tuple[float, float, float]]:
    """Places on the open floor of a level, and headings."""
    rng = np.random.default_rng(seed)
    poses = []
    while len(poses) < n:
        x, y = rng.uniform((-209, 15), (209, 305)) if level == MAZE else rng.uniform((30, 30), (1550, 1300))
        if level != MAZE or abs(x) > 175 or 143 < y < 177 or (abs(x) < 17 and y < 143):
            poses.append((x, y, rng.uniform(0, 360)))
    return poses


def put_before(env: Labyrinth, place: int, distance: float, bearing: float, left: float = 0.0) -> None:
    """The player is that far from a place, sees it in that direction, and to the left of the middle by some degrees."""
    x, y = env.world.places[place]
    angle = math.radians(bearing)
    put(env, x - distance * math.cos(angle), y - distance * math.sin(angle), bearing - left)


def changed_by_fruit(env: Labyrinth, place: int, kind: int = APPLE) -> np.ndarray:
    """Pixels that a fruit changes, bool (height, width)."""
    fruit = env.players.fruit[0]
    fruit[place] = NOTHING
    without = env.render()
    fruit[place] = kind
    return (env.render() != without).any(axis=2)


def extent(changed: np.ndarray) -> tuple[int, int, int, int]:
    """First and last row, first and last column."""
    rows, columns = np.flatnonzero(changed.any(axis=1)), np.flatnonzero(changed.any(axis=0))
    return int(rows[0]), int(rows[-1]), int(columns[0]), int(columns[-1])


# -- The whole picture ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", ALL)
def test_grey_is_the_luminance_of_the_colours(level):
    env = begun(level, width=84, height=84)
    for pose in random_poses(level, 40):
        put(env, *pose)
        assert abs(luminance(env.render()) - look(env)).max() < 3.0


@pytest.mark.parametrize("level", ALL)
def test_a_full_turn_shows_the_same_picture(level):
    env = begun(level)
    for x, y, heading in random_poses(level, 100):
        pictures = []
        for turns in (0, 1, -1):
            put(env, x, y, heading + 360.0 * turns)
            pictures.append(look(env))
        # The sine of an angle and of that angle and a turn differ in the last digit.
        assert all((picture != pictures[0]).sum() <= 2 for picture in pictures)


def test_nothing_jumps_where_a_turn_is_complete():
    env = clear(begun(FORAGE))
    changed = []
    for heading in range(0, 360, 10):
        pictures = []
        for little in (-0.02, 0.02):
            put(env, 792.0, 664.0, (heading + little) % 360.0)
            pictures.append(look(env)[:30])
        changed.append((pictures[0] != pictures[1]).mean())
    assert changed[0] < 2 * np.median(changed)


@pytest.mark.parametrize("level", ALL)
def test_headings_are_told_apart(level):
    env = begun(level)
    (x, y, heading), *_ = random_poses(level, 1)
    pictures = []
    for turned in range(0, 360, 30):
        put(env, x, y, heading + turned)
        pictures.append(look(env).astype(float))
    differences = [abs(one - other).mean() for i, one in enumerate(pictures) for other in pictures[:i]]
    assert min(differences) > 5.0


def test_who_turns_left_sees_things_move_to_the_right():
    env = clear(begun(FORAGE, **WIDE))
    columns = []
    for heading in (90.0, 98.8, 107.6):
        put(env, 700.0, 320.0, heading)
        _, _, first, last = extent(changed_by_fruit(env, 6))  # at (700, 520)
        columns.append((first + last) / 2)
    assert columns == sorted(columns)
    assert columns[1] - columns[0] > 30


# -- Walls ------------------------------------------------------------------------------------------------------------


def wall_pixels(env: Labyrinth) -> np.ndarray:
    """Pixels that show walls: those that change with the paint, bool (height, width)."""
    kept = env.world.textures.copy()
    pictures = []
    for paint in ("moss", "ceiling"):
        env.world.textures[:] = TEXTURES.index(paint)
        pictures.append(env.render())
    env.world.textures[:] = kept
    return (pictures[0] != pictures[1]).any(axis=2)


def depths_in_arena(x: float, y: float, heading: float, width: int) -> np.ndarray:
    """How far ahead each column of a picture meets a wall of the arena."""
    right = (np.arange(width) + 0.5 - width / 2) / (width * FOCAL)
    angle = math.radians(heading)
    ray_x = math.cos(angle) + right * math.sin(angle)
    ray_y = math.sin(angle) - right * math.cos(angle)
    to_x = np.where(ray_x > 0, 1584.0 - x, -x) / ray_x
    to_y = np.where(ray_y > 0, 1328.0 - y, -y) / ray_y
    return np.minimum(to_x, to_y)


@pytest.mark.parametrize("size", [{"width": 84, "height": 84}, {"width": 320, "height": 240}])
def test_walls_of_the_arena_are_as_high_as_they_are_near(size):
    """They begin and end in every column where the projection puts them, give or take a pixel, without gaps."""
    env = clear(begun(FORAGE, **size))
    width, height = size["width"], size["height"]
    for pose in [*random_poses(FORAGE, 20), (792.0, 664.0, 90.0), (1500.0, 664.0, 0.0)]:
        put(env, *pose)
        walls = wall_pixels(env)
        # A pixel shows what either half of its width sees.
        near = width * FOCAL / depths_in_arena(*pose, 2 * width).reshape(width, 2).min(axis=1)
        tops, bottoms = np.maximum(height / 2 - 142.0 * near, 0), np.minimum(height / 2 + 50.0 * near, height)
        first, last = walls.argmax(axis=0), height - 1 - walls[::-1].argmax(axis=0)
        assert abs(first - tops).max() <= 1.0
        assert abs(last + 1 - bottoms).max() <= 1.0
        assert np.array_equal(walls.sum(axis=0), last + 1 - first)


@pytest.mark.parametrize(
    ("x", "y", "heading", "distance"),
    [(-192.0, 160.0, 90.0, 160.0), (192.0, 120.0, 270.0, 120.0), (0.0, 100.0, 270.0, 100.0), (0.0, 50.0, 90.0, 142.0)],
)
def test_walls_of_the_maze_are_as_high_as_they_are_near(x, y, heading, distance):
    env = clear(begun(MAZE, width=320, height=240))
    put(env, x, y, heading)
    rows = np.flatnonzero(wall_pixels(env)[:, 156:164].all(axis=1))  # the wall at the end of the corridor
    assert abs(rows[0] - (120 - 46.0 * 160 / distance)) <= 1.5
    assert abs(rows[-1] + 1 - (120 + 50.0 * 160 / distance)) <= 1.5


# -- Fruit ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [APPLE, LEMON])
@pytest.mark.parametrize("bearing", [0.0, 77.0, 200.0])
@pytest.mark.parametrize("distance", [80.0, 150.0, 300.0])
def test_fruit_ahead_is_seen_in_the_middle_and_rests_on_the_floor(kind, bearing, distance):
    env = clear(begun(FORAGE, **WIDE))
    put_before(env, 6, distance, bearing)
    top, bottom, left, right = extent(changed_by_fruit(env, 6, kind))
    size = 40.0 * 320 / distance  # 40 units wide and high, from 4 to 44 above the floor
    assert abs((left + right + 1) / 2 - 320) < 0.05 * size + 1
    assert 0.85 * size - 1 < right + 1 - left < size + 1
    assert abs(bottom + 1 - (240 + 46.0 * 320 / distance)) < 0.1 * size + 1
    assert 240 + 6.0 * 320 / distance - 1 < top < bottom - 0.5 * size


@pytest.mark.parametrize("kind", [APPLE, LEMON])
def test_the_agent_sees_fruit_in_the_middle_too(kind):
    env = clear(begun(FORAGE))
    put_before(env, 6, 150.0, 30.0)
    without = look(env)
    env.players.fruit[0, 6] = kind
    changed = look(env) != without
    *_, left, right = extent(changed)
    assert (left + right) / 2 == pytest.approx(41.5, abs=1.0)
    assert 8 < right + 1 - left <= 13
    assert (look(env)[changed].mean() < without[changed].mean()) == (kind == APPLE), "apples dark and lemons bright"


@pytest.mark.parametrize("kind", [APPLE, LEMON])
def test_the_size_of_fruit_falls_with_the_distance(kind):
    env = clear(begun(FORAGE, **WIDE))
    widths, heights = [], []
    distances = [100.0, 200.0, 400.0, 800.0]
    for distance in distances:
        put_before(env, 0, distance, 225.0)  # (200, 250) has the arena to its north-east
        top, bottom, left, right = extent(changed_by_fruit(env, 0, kind))
        widths.append(right + 1 - left)
        heights.append(bottom + 1 - top)
    for sizes in (widths, heights):
        assert sizes == pytest.approx([sizes[0] * 100.0 / distance for distance in distances], abs=2.0)


@pytest.mark.parametrize("left", [-30.0, -10.0, 20.0])
def test_fruit_beside_the_middle_is_seen_where_it_is(left):
    env = clear(begun(FORAGE, **WIDE))
    put_before(env, 6, 250.0, 40.0, left)
    _, _, first, last = extent(changed_by_fruit(env, 6))
    assert (first + last + 1) / 2 == pytest.approx(320 - 320 * math.tan(math.radians(left)), abs=4)


@pytest.mark.parametrize("left", [60.0, 180.0, -100.0])
def test_fruit_out_of_view_is_not_seen(left):
    env = clear(begun(FORAGE, **WIDE))
    put_before(env, 6, 150.0, 40.0, left)
    assert not changed_by_fruit(env, 6).any()


def test_fruit_behind_walls_is_not_seen():
    """From the stem of the maze nobody sees into its outer corridors."""
    env = begun(MAZE, width=84, height=84)
    rng = np.random.default_rng(0)
    for _ in range(60):
        put(env, rng.uniform(-17, 17), rng.uniform(15, 110), rng.uniform(0, 360))
        pictures = []
        for fruit in ([APPLE, LEMON, LEMON, LEMON], [LEMON, LEMON, APPLE, LEMON], [NOTHING] * 4):
            env.players.fruit[0] = fruit
            pictures.append((look(env).tobytes(), env.render().tobytes()))
        assert pictures[0] == pictures[1] == pictures[2]


@pytest.mark.parametrize("place", range(4))
def test_fruit_in_the_same_corridor_is_seen(place):
    env = begun(MAZE, **WIDE)
    x, y = env.world.places[place]
    put(env, x, 160.0, math.copysign(90.0, y - 160.0))
    assert changed_by_fruit(env, place).sum() > 1000


def test_fruit_at_a_corner_is_cut_off_there():
    """Looking south past the corner at (-160, 128), which hides what is to the left of it."""
    env = begun(MAZE, **WIDE)
    x, y = env.world.places[0]
    eye = -150.0, 175.0
    distance, bearing = math.dist(eye, (x, y)), math.degrees(math.atan2(y - eye[1], x - eye[0]))
    put(env, *eye, bearing)
    _, _, left, right = extent(changed_by_fruit(env, 0))
    corner = math.degrees(math.atan2(128 - eye[1], -160 - eye[0])) - bearing
    edge = 320 - 320 * math.tan(math.radians(corner))
    size = 40.0 * 320 / distance
    assert 320 - size / 2 + 5 < edge < 320 + size / 2 - 5, "the corner is in front of the fruit"
    assert left == pytest.approx(edge, abs=1)
    assert right == pytest.approx(320 + size / 2, abs=0.1 * size)


@pytest.mark.parametrize(("near", "far"), [(16, 2), (2, 16)])
@pytest.mark.parametrize("kinds", [(APPLE, LEMON), (LEMON, APPLE)])
def test_nearer_fruit_hides_farther_fruit(near, far, kinds):
    """The two lie in one line with the player, in either order in the list of places."""
    env = clear(begun(AVOID, **WIDE))
    way = env.world.places[far] - env.world.places[near]
    put_before(env, near, 300.0, math.degrees(math.atan2(way[1], way[0])))
    nothing = env.render()
    env.players.fruit[0, near] = kinds[0]
    one = env.render()
    env.players.fruit[0, far] = kinds[1]
    both = env.render()
    env.players.fruit[0, near] = NOTHING
    other = env.render()
    touched, behind = ((picture != nothing).any(axis=2) for picture in (one, other))
    inside = np.zeros_like(touched)
    inside[266:284, 312:329] = True  # around the middle of the nearer one, which is 43 pixels wide
    assert touched[inside].all()
    assert (inside & behind).sum() > 50, "the farther one is behind the nearer one"
    assert (behind & ~touched).any(), "and is seen beside it"
    assert np.array_equal(both[inside], one[inside])
    assert np.array_equal(both[~touched], other[~touched])


@pytest.mark.parametrize("level", ARENAS)
def test_eaten_fruit_is_not_seen(level):
    env = begun(level, width=84, height=84)
    put_before(env, 6, 50.0, 90.0)
    with_fruit = look(env)
    for _ in range(3):
        env.step(4)
    assert env.players.fruit[0, 6] == NOTHING
    put_before(env, 6, 50.0, 90.0)
    assert (look(env) != with_fruit).sum() > 300


# -- Cues -------------------------------------------------------------------------------------------------------------

VIEWS = [(0, (0.0, 40.0, 90.0)), (1, (-60.0, 160.0, 180.0)), (2, (60.0, 160.0, 0.0))]  # a cue, and who looks at it


@pytest.mark.parametrize(("cue", "pose"), VIEWS)
def test_cues_are_seen_in_their_colours(cue, pose):
    env = begun(MAZE, width=84, height=84)
    put(env, *pose)
    for shown, test in (
        (RED, lambda red, green, blue: red > 3 * max(green, blue)),
        (GREEN, lambda red, green, blue: green > 1.5 * max(red, blue)),
        (OFF, lambda red, green, blue: max(red, green, blue) < 1.2 * min(red, green, blue)),
    ):
        env.players.cues[0] = OFF
        env.players.cues[0, cue] = shown
        assert test(*env.render()[36:48, 36:48].reshape(-1, 3).mean(axis=0))


@pytest.mark.parametrize(("cue", "pose"), VIEWS)
def test_cues_are_told_apart_in_grey(cue, pose):
    env = begun(MAZE)
    put(env, *pose)
    greys = []
    for shown in (RED, OFF, GREEN):
        env.players.cues[0] = OFF
        env.players.cues[0, cue] = shown
        greys.append(look(env)[36:48, 36:48].mean())
    assert greys[0] + 30 < greys[1] < greys[2] - 30


@pytest.mark.parametrize(("cue", "pose"), VIEWS)
def test_a_cue_shows_nothing_of_the_others(cue, pose):
    env = begun(MAZE)
    put(env, *pose)
    pictures = []
    for others in (OFF, RED, GREEN):
        env.players.cues[0] = others
        env.players.cues[0, cue] = RED
        pictures.append(look(env)[:, 36:48].tobytes())
    assert len(set(pictures)) == 1


@pytest.mark.parametrize("shown", [RED, GREEN, OFF])
def test_no_two_places_before_a_cue_show_the_same(shown: int) -> None:
    """Who stands right before a plain field sees one colour and nothing else, wherever that is."""
    env = begun(MAZE)
    env.players.cues[:] = shown
    rng = np.random.default_rng(0)
    pictures = set()
    for _ in range(200):
        put(env, rng.uniform(-3.0, 3.0), 177.0, rng.uniform(89.5, 90.5))
        pictures.add(look(env).tobytes())
    assert len(pictures) == 200
