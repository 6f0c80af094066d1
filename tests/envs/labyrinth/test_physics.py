"""How players move: against a walker written in complex numbers, and along the walls of every level."""

from __future__ import annotations

import cmath
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mfec.envs.labyrinth import LEVELS, Labyrinth
from mfec.envs.labyrinth.physics import ACTIONS

from .scenes import (
    ALL,
    BACKWARD,
    FORAGE,
    FORWARD,
    FORWARD_LEFT,
    FORWARD_RIGHT,
    MAZE,
    MOVE_LEFT,
    MOVE_RIGHT,
    TURN_LEFT,
    TURN_RIGHT,
    begun,
    clear,
    put,
    wandering,
)

CENTRE = 792.0, 664.0  # of the arena; 25 decisions do not lead from here to a wall
EAST, NORTH = 1584.0, 1328.0  # its walls
# For each action: where a player who looks along 1 wishes to go, and how it turns.
WISHES = [(1j, 0), (-1j, 0), (0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), (1, -1)]


class Walker:
    """A player on an endless floor, at a complex number."""

    def __init__(self, at: complex, heading: float, velocity: complex = 0j) -> None:
        self.at, self.heading, self.velocity = at, heading, velocity

    def frame(self, action: int) -> None:
        wish, turn = WISHES[action]
        self.heading = (self.heading + turn * 2.2) % 360
        wish *= cmath.exp(1j * math.radians(self.heading))
        speed = abs(self.velocity)
        if speed:
            lost = 6 * max(speed, 100) / 60
            self.velocity *= 0 if lost > speed else 1 - lost / speed
        if wish:
            wished = (self.velocity * wish.conjugate()).real  # speed in the direction of the wish
            self.velocity += wish * min(max(320 - wished, 0), 10 * 320 / 60)
        self.at += self.velocity / 60


def pose(env: Labyrinth) -> tuple[complex, float, complex]:
    """Where the player is, where it looks, and how fast it goes."""
    x, y, heading, *velocity = env.players.poses[0].tolist()
    return complex(x, y), heading, complex(*velocity)


def assert_walks_like(env: Labyrinth, walker: Walker) -> None:
    at, heading, velocity = pose(env)
    assert abs(at - walker.at) < 1e-9
    assert abs(velocity - walker.velocity) < 1e-9
    assert abs((heading - walker.heading + 180) % 360 - 180) < 1e-9
    assert 0 <= heading < 360


@pytest.fixture(scope="module")
def arena() -> Labyrinth:
    return clear(begun(FORAGE))


@pytest.fixture(scope="module")
def by_frames() -> Labyrinth:
    """One frame a step."""
    return clear(begun(FORAGE, frame_skip=1))


# -- Open floor -------------------------------------------------------------------------------------------------------


@given(
    actions=st.lists(st.integers(0, 7), min_size=1, max_size=25),
    heading=st.floats(0, 360, exclude_max=True),
    velocity=st.complex_numbers(max_magnitude=320),
)
@settings(max_examples=30)
def test_a_player_walks_like_the_reference(arena, actions, heading, velocity):
    put(arena, *CENTRE, heading, (velocity.real, velocity.imag))
    walker = Walker(complex(*CENTRE), heading, velocity)
    for action in actions:
        arena.step(action)
        for _ in range(4):
            walker.frame(action)
        assert_walks_like(arena, walker)


def test_every_frame_of_a_decision_follows_the_reference(by_frames):
    put(by_frames, *CENTRE, 77.0)
    walker = Walker(complex(*CENTRE), 77.0)
    for action in wandering(100, seed=1):
        by_frames.step(action)
        walker.frame(action)
        assert_walks_like(by_frames, walker)


def test_actions_are_the_papers_in_its_order():
    assert ACTIONS == (
        "move left",
        "move right",
        "turn left",
        "turn right",
        "move forward",
        "move backward",
        "forward and turn left",
        "forward and turn right",
    )


@pytest.mark.parametrize(("action", "heading"), [(MOVE_LEFT, 33.0), (FORWARD, 270.0)])
def test_top_speed_is_320_and_straight_ahead_nobody_is_faster(by_frames, action, heading):
    put(by_frames, *CENTRE, heading)
    speeds = []
    for _ in range(60):
        by_frames.step(action)
        speeds.append(abs(pose(by_frames)[2]))
    assert speeds[:9] == sorted(speeds[:9])
    assert speeds[8:] == pytest.approx([320.0] * 52, abs=1e-9), "after nine frames"
    assert max(speeds) < 320.0 + 1e-9


def test_who_wishes_to_go_nowhere_stops(by_frames):
    """A tenth of the speed is lost in a frame, then 10 units a second: 12 frames to less than 100, 10 more to rest."""
    put(by_frames, *CENTRE, 0.0, (320.0, 0.0))
    speeds = []
    for _ in range(30):
        by_frames.step(TURN_LEFT)
        speeds.append(abs(pose(by_frames)[2]))
    assert speeds[:11] == pytest.approx([320.0 * 0.9**n for n in range(1, 12)])
    assert speeds[20] > 0.0
    assert speeds[21:] == [0.0] * 9


@pytest.mark.parametrize(("action", "turned"), [(TURN_LEFT, 8.8), (TURN_RIGHT, -8.8)])
def test_a_decision_turns_by_8_8_degrees_on_the_spot(arena, action, turned):
    put(arena, *CENTRE, 100.0)
    arena.step(action)
    at, heading, velocity = pose(arena)
    assert heading == pytest.approx(100.0 + turned)
    assert (at, velocity) == (complex(*CENTRE), 0j)


def test_headings_stay_within_a_turn(arena):
    put(arena, *CENTRE, 358.0)
    arena.step(TURN_LEFT)
    assert pose(arena)[1] == pytest.approx(6.8)
    arena.step(TURN_RIGHT)
    assert pose(arena)[1] == pytest.approx(358.0)


@pytest.mark.parametrize(("action", "side"), [(MOVE_LEFT, 1j), (MOVE_RIGHT, -1j)])
def test_players_move_sideways_at_right_angles_to_where_they_look(arena, action, side):
    heading = 211.0
    put(arena, *CENTRE, heading)
    for _ in range(5):
        arena.step(action)
    at, looks, velocity = pose(arena)
    ahead = cmath.exp(1j * math.radians(heading))
    assert looks == heading
    assert velocity / ahead == pytest.approx(320 * side)
    assert (at - complex(*CENTRE)) / ahead / side == pytest.approx(abs(at - complex(*CENTRE)))


def test_forward_is_where_the_player_looks_and_backward_the_other_way(arena):
    for action, sign in ((FORWARD, 1), (BACKWARD, -1)):
        put(arena, *CENTRE, 50.0)
        arena.step(action)
        velocity = pose(arena)[2]
        assert cmath.phase(velocity * sign) == pytest.approx(math.radians(50.0))


@pytest.mark.parametrize(("action", "sign"), [(FORWARD_LEFT, 1), (FORWARD_RIGHT, -1)])
def test_players_turn_while_they_walk(arena, action, sign):
    put(arena, *CENTRE, 90.0)
    for _ in range(5):
        arena.step(action)
    at, heading, velocity = pose(arena)
    assert heading == pytest.approx(90.0 + sign * 44.0)
    assert abs(velocity) > 250
    assert (complex(*CENTRE) - at).real * sign > 10, "a curve to that side"
    assert at.imag > CENTRE[1] + 50


# -- Walls ------------------------------------------------------------------------------------------------------------


TOUCHES = 15.9  # who pushes from rest makes 0.89 units in the first frame, so the last gap is no wider


def distances_to_walls(level: str, at: complex) -> list[float]:
    """How far the middle of the player is outside of each block, along the axis on which it is farther."""
    return [
        max(block.west - at.real, at.real - block.east, block.south - at.imag, at.imag - block.north)
        for block in LEVELS[level].blocks
    ]


@pytest.mark.parametrize("level", ALL)
def test_nobody_gets_nearer_than_15_to_a_wall(level):
    env = clear(begun(level, frame_skip=1))
    nearest = []
    visited = set()
    for i, action in enumerate(wandering(3000, seed=0)):
        env.players.frames[0] = 0  # the episode goes on
        env.step(FORWARD if i % 400 > 250 else action)  # and straight into some wall now and then
        at = pose(env)[0]
        nearest.append(min(distances_to_walls(level, at)))
        visited.add((at.real // 64, at.imag // 64))
    assert min(nearest) >= 15.0
    assert sum(distance < TOUCHES for distance in nearest) > 50, "players did run into walls"
    assert len(visited) > 10


def test_a_wall_takes_the_speed_towards_it_and_leaves_that_along_it(by_frames):
    put(by_frames, 800.0, NORTH - 15.5, 60.0, (100.0, 150.0))
    free = Walker(complex(800.0, NORTH - 15.5), 60.0, complex(100.0, 150.0))
    by_frames.step(FORWARD)
    free.frame(FORWARD)
    at, _, velocity = pose(by_frames)
    assert velocity.imag == 0.0
    assert velocity.real == pytest.approx(free.velocity.real, abs=1e-9)
    assert at.imag == NORTH - 15.5, "the step into the wall is not made"
    assert at.real == pytest.approx(free.at.real, abs=1e-9)


@pytest.mark.parametrize(
    ("x", "y", "heading", "along"),
    [
        (792.0, NORTH - 20.0, 60.0, 1),
        (792.0, NORTH - 20.0, 120.0, -1),
        (792.0, 20.0, 300.0, 1),
        (EAST - 20.0, 664.0, 30.0, 1j),
        (20.0, 664.0, 210.0, -1j),
    ],
)
def test_who_pushes_at_an_angle_slides_along_the_wall(arena, x, y, heading, along):
    put(arena, x, y, heading)
    for _ in range(20):
        arena.step(FORWARD)
    at, looks, velocity = pose(arena)
    assert looks == heading
    assert (velocity / along).imag == 0.0
    assert (velocity / along).real > 150.0
    assert ((at - complex(x, y)) / along).real > 100.0
    assert 15.0 <= min(distances_to_walls(FORAGE, at)) < TOUCHES


def test_who_runs_straight_into_a_wall_stops(arena):
    put(arena, 792.0, NORTH - 100.0, 90.0)
    for _ in range(10):
        arena.step(FORWARD)
    at, _, velocity = pose(arena)
    assert at.real == pytest.approx(792.0)
    assert 15.0 <= NORTH - at.imag < TOUCHES
    assert abs(velocity) < 1e-9


@pytest.mark.parametrize(
    ("corner", "heading"), [((EAST, NORTH), 40.0), ((0.0, NORTH), 130.0), ((0.0, 0.0), 235.0), ((EAST, 0.0), 310.0)]
)
def test_a_corner_stops_the_player(arena, corner, heading):
    inwards = complex(math.copysign(15.0, 792.0 - corner[0]), math.copysign(15.0, 664.0 - corner[1]))
    start = complex(*corner) + 6 * inwards
    put(arena, start.real, start.imag, heading)
    for _ in range(20):
        arena.step(FORWARD)
    at, _, velocity = pose(arena)
    off = complex(*corner) - at
    assert 15.0 <= abs(off.real) < TOUCHES
    assert 15.0 <= abs(off.imag) < TOUCHES
    assert velocity == 0j


def test_those_who_push_into_one_corner_come_to_rest_in_different_places(arena):
    """Else two who look the same way would see the same, and an agent would take the place for one it knows."""
    rested = set()
    for start in range(20):
        put(arena, 60.0 + 3.1 * start, 80.0 + 1.7 * start, 225.0)
        for _ in range(30):
            arena.step(FORWARD)
        rested.add(pose(arena)[0])
    assert len(rested) == 20


def test_the_corner_of_a_corridor_lets_players_round_it():
    """In the maze, a player who slides along the wall of the stem turns into the arm at its end."""
    env = clear(begun(MAZE))
    put(env, -17.0, 100.0, 135.0)
    for _ in range(10):
        env.step(FORWARD)
    at, _, velocity = pose(env)
    assert at.real < -80.0
    assert 177.0 - 0.9 < at.imag <= 177.0, "along the north of the arm"
    assert velocity.real < -150.0


def test_blocks_are_walls_on_all_their_sides():
    env = clear(begun(MAZE))
    reached = []
    for heading in (0.0, 90.0, 180.0, 270.0):
        put(env, 0.0, 160.0, heading)
        for _ in range(30):
            env.step(FORWARD)
        reached.append(pose(env)[0])
    expected = [209 + 160j, 177j, -209 + 160j, 15j]
    assert np.allclose(reached, expected, atol=0.9)
