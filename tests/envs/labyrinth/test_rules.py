"""What happens in the three levels: fruit, ends, starts, and the trials of the maze."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest

from mfec.envs.labyrinth import LEVELS, Labyrinth
from mfec.envs.labyrinth.expert import Expert

from .scenes import (
    ALL,
    APPLE,
    ARENAS,
    AVOID,
    BACKWARD,
    FORAGE,
    FORWARD,
    GREEN,
    LEMON,
    MAZE,
    NOTHING,
    OFF,
    RED,
    TURN_LEFT,
    begun,
    put,
)

# -- Fruit ------------------------------------------------------------------------------------------------------------


def approach(env: Labyrinth, place: int, distance: float) -> None:
    """The player stands that far south of a place and looks at it."""
    x, y = env.world.places[place]
    put(env, x, y - distance, 90.0)


def rewards(env: Labyrinth, actions: list[int]) -> list[float]:
    return [env.step(action)[1] for action in actions]


def places_of(env: Labyrinth, kind: int) -> list[int]:
    return np.flatnonzero(env.players.fruit[0] == kind).tolist()


@pytest.mark.parametrize(("level", "apples", "lemons"), [(FORAGE, 15, 0), (AVOID, 15, 8), (MAZE, 1, 3)])
def test_so_much_fruit_lies_in_a_level(level, apples, lemons):
    env = begun(level)
    assert len(places_of(env, APPLE)) == apples
    assert len(places_of(env, LEMON)) == lemons
    assert len(places_of(env, NOTHING)) == 0


@pytest.mark.parametrize("level", ARENAS)
def test_fruit_lies_in_the_same_places_in_every_episode(level):
    env = begun(level)
    places, fruit = env.world.places.copy(), env.players.fruit.copy()
    for seed in range(5):
        env.reset(seed=seed)
        assert np.array_equal(env.world.places, places)
        assert np.array_equal(env.players.fruit, fruit)


@pytest.mark.parametrize(("level", "kind", "worth"), [(FORAGE, APPLE, 1), (AVOID, APPLE, 1), (AVOID, LEMON, -1)])
def test_who_walks_through_fruit_gets_what_it_is_worth_once(level, kind, worth):
    env = begun(level)
    for place in places_of(env, kind)[:3]:
        approach(env, place, 60.0)
        there = rewards(env, [FORWARD] * 6)
        back = rewards(env, [BACKWARD] * 12)
        assert sorted(there) == sorted([worth] + [0] * 5)
        assert back == [0] * 12
        assert env.players.fruit[0, place] == NOTHING
        env.reset(seed=place)


@pytest.mark.parametrize("kind", [APPLE, LEMON])
def test_eaten_fruit_is_gone_and_the_rest_stays(kind):
    env = begun(AVOID)
    before = env.players.fruit[0].copy()
    place = places_of(env, kind)[2]
    approach(env, place, 0.0)
    env.step(TURN_LEFT)
    changed = np.flatnonzero(env.players.fruit[0] != before)
    assert changed.tolist() == [place]


@pytest.mark.parametrize(("distance", "eaten"), [(30.0, True), (30.01, False)])
@pytest.mark.parametrize("bearing", [0.0, 160.0])
def test_fruit_is_eaten_within_30_units_on_all_sides(distance, eaten, bearing):
    """15 of the player and 15 of the fruit."""
    env = begun(AVOID)
    x, y = env.world.places[6]
    away = distance * np.array([math.cos(math.radians(bearing)), math.sin(math.radians(bearing))]) * (1 - 1e-9)
    put(env, *(np.array([x, y]) + away), 0.0)  # type: ignore[call-arg]
    assert rewards(env, [TURN_LEFT]) == [1.0 if eaten else 0.0]


def test_fruit_that_is_passed_within_a_decision_is_eaten():
    """A decision at full speed is 21 units; rules hold for each of its frames."""
    env = begun(FORAGE)
    x, y = env.world.places[6]
    put(env, x - 29.9, y - 10.0, 90.0, (0.0, 320.0))
    assert rewards(env, [FORWARD]) == [1.0]
    assert np.hypot(*(env.players.poses[0, :2] - (x, y))) > 30


def test_a_decision_may_bring_an_apple_and_a_lemon():
    env = begun(AVOID)
    env.world.places[15] = env.world.places[0] + (3.0, 0.0)
    approach(env, 0, 10.0)
    assert rewards(env, [TURN_LEFT]) == [0.0]
    assert env.players.fruit[0, [0, 15]].tolist() == [NOTHING, NOTHING]


# -- Ends -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", ARENAS)
def test_the_last_apple_ends_the_episode(level):
    env = begun(level)
    apples = places_of(env, APPLE)
    for eaten, place in enumerate(apples, start=1):
        approach(env, place, 0.0)
        _, reward, terminated, truncated, _ = env.step(TURN_LEFT)
        assert (reward, terminated, truncated) == (1.0, eaten == 15, False)
    assert len(places_of(env, LEMON)) == (8 if level == AVOID else 0), "lemons may be left"


def test_the_last_lemon_ends_nothing():
    env = begun(AVOID)
    for place in places_of(env, LEMON):
        approach(env, place, 0.0)
        assert env.step(TURN_LEFT)[1:4] == (-1.0, False, False)
    assert places_of(env, LEMON) == []


@pytest.mark.parametrize(("level", "seconds", "decisions"), [(FORAGE, 20, 300), (AVOID, 20, 300), (MAZE, 60, 900)])
def test_time_is_up_after_so_many_decisions(level, seconds, decisions):
    assert decisions * 4 == seconds * 60
    env = begun(level)
    ends = [env.step(TURN_LEFT)[2:4] for _ in range(decisions)]
    assert ends == [(False, False)] * (decisions - 1) + [(False, True)]


@pytest.mark.parametrize("frame_skip", [7, 1200, 5000])
def test_time_is_counted_in_frames(frame_skip):
    env = begun(FORAGE, frame_skip=frame_skip)
    decisions = 0
    truncated = False
    while not truncated:
        _, _, terminated, truncated, _ = env.step(TURN_LEFT)
        assert not terminated
        decisions += 1
    assert decisions == math.ceil(1200 / frame_skip)


def test_no_time_is_left_from_the_last_episode():
    env = begun(FORAGE)
    for seed in (1, 2):
        for _ in range(200):
            assert not env.step(TURN_LEFT)[3]
        env.reset(seed=seed)


def test_the_last_apple_in_the_last_frame_ends_the_episode_and_not_the_time():
    env = begun(FORAGE, frame_skip=1)
    env.players.fruit[0, 1:] = NOTHING
    approach(env, 0, 0.0)
    env.players.frames[0] = 1199
    assert env.step(TURN_LEFT)[1:4] == (1.0, True, False)


# -- Starts -----------------------------------------------------------------------------------------------------------


def draw_starts(level: str, n: int) -> np.ndarray:
    """The poses at the beginning of the episodes of the first seeds, (n, 5)."""
    env = Labyrinth(level)
    poses = []
    for seed in range(n):
        env.reset(seed=seed)
        poses.append(env.players.poses[0].copy())
    return np.array(poses)


@cache
def starts(level: str) -> np.ndarray:
    return draw_starts(level, 800)


@pytest.mark.parametrize("level", ALL)
def test_the_seed_decides_the_start(level):
    poses = starts(level)
    assert np.array_equal(draw_starts(level, 10), poses[:10])
    assert len(np.unique(poses, axis=0)) == len(poses)


@pytest.mark.parametrize("level", ALL)
def test_episodes_that_follow_start_elsewhere(level):
    env = begun(level)
    first = env.players.poses[0, :3].copy()
    env.reset()
    assert (env.players.poses[0, :3] != first).all()


@pytest.mark.parametrize("level", ALL)
def test_players_start_at_rest(level):
    assert not starts(level)[:, 3:].any()


@pytest.mark.parametrize(("level", "least", "greatest"), [(FORAGE, 0, 360), (AVOID, 0, 360), (MAZE, 45, 135)])
def test_players_look_in_all_directions_alike_and_in_the_maze_up_the_stem(level, least, greatest):
    shares = (starts(level)[:, 2] - least) / (greatest - least)
    counts = np.bincount(np.floor(shares * 12).astype(int), minlength=12)
    expected = len(shares) / 12
    assert len(counts) == 12, "nowhere else"
    assert ((counts - expected) ** 2 / expected).sum() < 31.3  # chi-square, 11 degrees of freedom, p = 0.001


@pytest.mark.parametrize("level", ALL)
def test_nobody_starts_inside_a_wall(level):
    poses = starts(level)
    for block in LEVELS[level].blocks:
        in_x = (poses[:, 0] > block.west - 15) & (poses[:, 0] < block.east + 15)
        in_y = (poses[:, 1] > block.south - 15) & (poses[:, 1] < block.north + 15)
        assert not (in_x & in_y).any()


def distances_to_fruit(level: str, points: np.ndarray) -> np.ndarray:
    """From each point to the nearest place."""
    return np.linalg.norm(points[:, None] - np.array(LEVELS[level].places), axis=2).min(axis=1)


@pytest.mark.parametrize("level", ARENAS)
def test_nobody_starts_nearer_than_80_to_fruit(level):
    assert LEVELS[level].start_clearance == 80.0
    away = distances_to_fruit(level, starts(level)[:, :2])
    assert 80.0 <= away.min() < 90.0


@pytest.mark.parametrize("level", ARENAS)
def test_starts_are_spread_over_the_arena(level):
    """As many in each field of 4 x 4 as of points that are drawn at random and thrown away near fruit."""
    poses = starts(level)[:, :2]
    points = np.random.default_rng(0).uniform((40, 40), (1544, 1288), size=(50_000, 2))
    points = points[distances_to_fruit(level, points) >= 80.0]

    def counts(of: np.ndarray) -> np.ndarray:
        columns, rows = of[:, 0] * 4 // 1584.0, of[:, 1] * 4 // 1328.0
        return np.bincount((columns * 4 + rows).astype(int), minlength=16)

    expected = counts(points) / len(points) * len(poses)
    assert ((counts(poses) - expected) ** 2 / expected).sum() < 37.7  # 15 degrees of freedom, p = 0.001


@pytest.mark.parametrize("level", ALL)
def test_the_start_does_not_tell_the_heading(level):
    correlations = np.corrcoef(starts(level)[:, :3].T)[np.triu_indices(3, 1)]
    assert (abs(correlations) < 4 / math.sqrt(800)).all()


def test_players_of_the_maze_start_at_the_foot_of_its_stem():
    poses = starts(MAZE)
    assert (abs(poses[:, 0]) <= 16).all()
    assert ((poses[:, 1] >= 16) & (poses[:, 1] <= 48)).all()
    assert (np.ptp(poses[:, :2], axis=0) > 30).all(), "anywhere there"


# -- The maze ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def maze() -> Labyrinth:
    """One frame a step."""
    return begun(MAZE, frame_skip=1)


def the_apple(env: Labyrinth) -> int:
    (place,) = places_of(env, APPLE)
    return place


def eat_the_apple(env: Labyrinth) -> float:
    approach(env, the_apple(env), 0.0)
    return env.step(TURN_LEFT)[1]


def apples(seed: int, trials: int) -> list[int]:
    """Where the apple is in each trial of an episode."""
    env = begun(MAZE, seed, frame_skip=1)
    found = [the_apple(env)]
    for _ in range(trials - 1):
        assert eat_the_apple(env) == 1.0
        found.append(the_apple(env))
    return found


def maze_with_apple_at(place: int) -> Labyrinth:
    env = begun(MAZE)
    for seed in range(100):
        env.reset(seed=seed)
        if the_apple(env) == place:
            return env
    raise AssertionError("never there")


def cue_at(env: Labyrinth, x: float, y: float) -> int:
    """What the panel nearest to there shows."""
    away = [math.hypot(cue.x - x, cue.y - y) for cue in env.level.cues]
    assert min(away) <= 32.0
    return int(env.players.cues[0, int(np.argmin(away))])


def colour_of_turn(heading: tuple[int, int], way: tuple[float, float]) -> int:
    """Red where the way is to the left of the heading, green where it is to the right."""
    cross = heading[0] * way[1] - heading[1] * way[0]
    assert cross != 0
    return RED if cross > 0 else GREEN


def test_fruit_lies_at_the_four_ends(maze):
    ends = {(math.copysign(1, x), math.copysign(1, y - 160)) for x, y in maze.world.places}
    assert len(ends) == 4
    for x, y in maze.world.places:
        assert 160 < abs(x) < 224, "in the outer corridors"
        assert min(y - 0, 320 - y) <= 32, "at their ends"


@pytest.mark.parametrize("place", range(4))
def test_cues_lead_from_the_stem_to_the_apple(place):
    env = maze_with_apple_at(place)
    x, y = env.world.places[place]
    # In the stem players head north; the apple is in the west or in the east.
    assert cue_at(env, 0.0, 192.0) == colour_of_turn((0, 1), (x, 0))
    # From the first junction they head west or east; the apple is in the south or in the north.
    side = 1 if x > 0 else -1
    assert cue_at(env, side * 224.0, 160.0) == colour_of_turn((side, 0), (0, y - 160.0))
    assert cue_at(env, -side * 224.0, 160.0) == OFF


def walk_to(env: Labyrinth, x: float, y: float) -> None:
    """Straight ahead to there, past nothing."""
    for _ in range(30):
        assert env.step(FORWARD)[1] == 0.0
        if math.dist(env.players.poses[0, :2], (x, y)) < 20.0:
            return
    raise AssertionError("not there")


@pytest.mark.parametrize("place", range(4))
def test_who_follows_the_cues_finds_the_apple(place):
    """Without a look at where fruit is: up the stem, a turn, along the arm, a turn, to the end."""
    env = maze_with_apple_at(place)
    turns = {RED: 90.0, GREEN: -90.0}
    put(env, 0.0, 32.0, 90.0)
    walk_to(env, 0.0, 160.0)
    heading = 90.0 + turns[cue_at(env, 0.0, 192.0)]
    side = round(math.cos(math.radians(heading)))
    put(env, 0.0, 160.0, heading)
    walk_to(env, side * 192.0, 160.0)
    heading += turns[cue_at(env, side * 224.0, 160.0)]
    put(env, side * 192.0, 160.0, heading)
    found = [env.step(FORWARD)[1] for _ in range(12)]
    assert sorted(found) == [0.0] * 11 + [1.0]


def test_the_apple_brings_the_player_back_to_the_start(maze):
    for _ in range(5):
        x, y = maze.world.places[the_apple(maze)]
        outwards = math.copysign(1.0, y - 160.0)
        put(maze, x, y - 34.0 * outwards, 90.0 * outwards, (0.0, 320.0 * outwards))
        assert maze.step(FORWARD)[1:4] == (1.0, False, False)
        x, y, _, *velocity = maze.players.poses[0].tolist()
        assert abs(x) <= 16.0
        assert 16.0 <= y <= 48.0
        assert velocity == [0.0, 0.0]


def test_an_action_goes_on_after_the_apple():
    """The frames that are left of a decision are the first ones of the next trial."""
    env = begun(MAZE)
    approach(env, the_apple(env), 0.0)
    env.step(FORWARD)
    assert 100.0 < np.hypot(*env.players.poses[0, 3:]) < 150.0, "three frames from rest"
    assert env.players.poses[0, 1] < 60.0


def test_every_trial_starts_anywhere_in_the_start_area(maze):
    found = []
    for _ in range(60):
        eat_the_apple(maze)
        found.append(maze.players.poses[0, :3].copy())
    assert (np.ptp(found, axis=0) > (26, 26, 75)).all()


def test_the_apple_brings_all_lemons_back(maze):
    for place in places_of(maze, LEMON)[:2]:
        approach(maze, place, 0.0)
        maze.step(TURN_LEFT)
    assert len(places_of(maze, NOTHING)) == 2
    eat_the_apple(maze)
    assert len(places_of(maze, APPLE)) == 1
    assert len(places_of(maze, LEMON)) == 3


def test_cues_change_with_the_apple(maze):
    for _ in range(12):
        eat_the_apple(maze)
        x, y = maze.world.places[the_apple(maze)]
        side = 1 if x > 0 else -1
        assert cue_at(maze, 0.0, 192.0) == colour_of_turn((0, 1), (x, 0))
        assert cue_at(maze, side * 224.0, 160.0) == colour_of_turn((side, 0), (0, y - 160.0))
        assert cue_at(maze, -side * 224.0, 160.0) == OFF


def test_a_lemon_of_the_maze_costs_one_and_the_player_stays(maze):
    place = places_of(maze, LEMON)[0]
    apple, cues = the_apple(maze), maze.players.cues.copy()
    approach(maze, place, 0.0)
    before = maze.players.poses[0, :2].copy()
    assert maze.step(TURN_LEFT)[1:4] == (-1.0, False, False)
    assert np.array_equal(maze.players.poses[0, :2], before)
    assert the_apple(maze) == apple
    assert np.array_equal(maze.players.cues, cues)
    assert maze.step(TURN_LEFT)[1] == 0.0, "eaten once"


def test_the_time_of_an_episode_goes_on_in_all_its_trials(maze):
    x, y = maze.world.places[the_apple(maze)]
    maze.players.frames[0] = 3000
    maze.players.poses[0, :2] = x, y
    assert maze.step(TURN_LEFT)[1] == 1.0
    ends = [maze.step(TURN_LEFT)[2:4] for _ in range(599)]
    assert ends == [(False, False)] * 598 + [(False, True)]


def test_apples_are_in_all_places_alike_and_a_place_does_not_tell_the_next_one():
    found = apples(1, 401)
    counts = np.zeros((4, 4))
    np.add.at(counts, (found[:-1], found[1:]), 1)
    assert ((counts - 25) ** 2 / 25).sum() < 37.7  # 15 degrees of freedom, p = 0.001


def test_the_seed_decides_where_apples_will_be():
    sequences = [tuple(apples(seed, 12)) for seed in range(4)]
    assert sequences == [tuple(apples(seed, 12)) for seed in range(4)]
    assert len(set(sequences)) == 4


def test_where_apples_will_be_does_not_depend_on_what_players_do():
    env = begun(MAZE, 3)
    expert = Expert(env)
    found = [the_apple(env)]
    for _ in range(300):
        if env.step(expert.act())[1]:
            found.append(the_apple(env))
    assert len(found) > 3, "several trials in an episode"
    assert found == apples(3, len(found))
