"""Keys to actions, and standing still, which people may and agents may not."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from mfec.envs.labyrinth import LEVELS, Labyrinth, LabyrinthVector
from mfec.envs.labyrinth.keyboard import DIRECTIONS, action_of
from mfec.envs.labyrinth.physics import ACTIONS, FRICTION, STAND_STILL, WISHES
from mfec.envs.labyrinth.simulation import Simulation
from mfec.envs.labyrinth.world import VX, VY


def name_of(*held: str) -> str:
    return [*ACTIONS, "stand still"][action_of(held)]


@pytest.mark.parametrize(("held", "action"), [
    ("forward", "move forward"), ("backward", "move backward"), ("left", "move left"), ("right", "move right"),
    ("turn left", "turn left"), ("turn right", "turn right"),
])  # fmt: skip
def test_each_direction_is_an_action(held, action):
    assert name_of(held) == action
    assert tuple(WISHES[ACTIONS.index(action)]) == DIRECTIONS[held]


@pytest.mark.parametrize("side", ["left", "right"])
def test_one_may_turn_while_one_walks_in_whatever_order_keys_are_pressed(side):
    assert name_of("forward", f"turn {side}") == name_of(f"turn {side}", "forward") == f"forward and turn {side}"


def test_no_key_is_standing_still():
    assert action_of([]) == STAND_STILL == len(ACTIONS)


def test_opposite_keys_cancel():
    for one, other in (("forward", "backward"), ("left", "right"), ("turn left", "turn right")):
        assert name_of(one, other) == "stand still"
    assert name_of("turn left", "forward", "turn right") == "move forward"
    assert all(action_of(held) == STAND_STILL for held in permutations(DIRECTIONS))


def test_of_what_no_action_does_the_newest_counts():
    assert name_of("forward", "left") == "move left"
    assert name_of("left", "forward") == "move forward"
    assert name_of("backward", "turn left") == "turn left"
    assert name_of("turn left", "backward") == "move backward"


def test_as_few_keys_as_possible_are_left_out():
    for held in permutations(["forward", "left", "turn right"]):
        assert name_of(*held) == "forward and turn right"


def test_two_keys_for_a_direction_are_one():
    assert name_of("forward", "forward") == "move forward"


# -- Standing still ---------------------------------------------------------------------------------------------------


def step(simulation: Simulation, action: int) -> None:
    outcome = np.empty(1), np.empty(1, np.bool_), np.empty(1, np.bool_), np.empty((1, 84, 84), np.uint8)
    simulation.step(slice(0, 1), np.array([action]), 1, *outcome)


def test_who_stands_still_slides_to_a_halt_while_time_goes_by():
    simulation = Simulation(LEVELS["labyrinth_forage"], 1)
    simulation.begin(0, 0)
    players = simulation.players
    players.poses[0] = 792.0, 664.0, 30.0, 0.0, 0.0
    for _ in range(60):
        step(simulation, ACTIONS.index("move forward"))
    before = players.poses[0].copy()
    step(simulation, STAND_STILL)
    assert players.poses[0, [VX, VY]] == pytest.approx(before[[VX, VY]] * (1 - FRICTION / 60))
    assert players.poses[0, 2] == 30.0
    for _ in range(60):
        step(simulation, STAND_STILL)
    halted = players.poses[0].copy()
    assert not halted[[VX, VY]].any()
    step(simulation, STAND_STILL)
    assert np.array_equal(players.poses[0], halted)
    assert players.frames[0] == 122


def test_environments_refuse_it():
    env = Labyrinth("labyrinth_forage")
    env.reset(seed=0)
    assert env.action_space.n == STAND_STILL  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match=r"an action lies in 0\.\.7, and 8 does not"):
        env.step(STAND_STILL)
    vector = LabyrinthVector("labyrinth_forage", 2)
    vector.reset(seed=0)
    with pytest.raises(ValueError, match=r"2 actions in 0\.\.7 are needed"):
        vector.step(np.array([0, STAND_STILL]))
