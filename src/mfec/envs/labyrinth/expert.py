"""A scripted player who knows the map, to show how well a level can be played."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from mfec.envs.labyrinth.env import Labyrinth
from mfec.envs.labyrinth.levels import APPLE, LEMON, PICK_UP, PLAYER
from mfec.envs.labyrinth.physics import ACTIONS, TOP_SPEED, TURNING
from mfec.envs.labyrinth.world import HEADING, X, Y

LEFT, RIGHT = ACTIONS.index("turn left"), ACTIONS.index("turn right")
FORWARD = ACTIONS.index("move forward")
FORWARD_LEFT, FORWARD_RIGHT = ACTIONS.index("forward and turn left"), ACTIONS.index("forward and turn right")

STRAIGHT = 5.0  # degrees off the target at which no turn is worth it: one turns by 8.8
TURNING_CIRCLE = 2.0 * TOP_SPEED / math.radians(TURNING)  # its diameter, at full speed
WALKABLE = 60.0  # degrees off the target at which it walks while it turns
CLEARANCE = PLAYER + PICK_UP + 12.0  # of a lemon, at which it walks past
CORNER = 40.0  # off the middle of a corridor of 64, at which it turns into it
JUNCTION = 160.0  # the middle of the maze's arm, on the way from south to north
ARMS = 192.0  # the middle of the arms in the west and in the east


class Expert:
    """Walks to the apple that takes the least time, around lemons, and through the maze by its corridors."""

    def __init__(self, env: Labyrinth) -> None:
        self._env = env

    def act(self) -> int:
        """The action to take now."""
        pose = self._env.players.poses[0]
        here = pose[[X, Y]]
        target = self._next_in_maze(here) if self._env.level.cues else self._next_in_arena(here, pose[HEADING])
        return self._towards(target, here, pose[HEADING])

    def _next_in_arena(self, here: NDArray[np.float64], heading: float) -> NDArray[np.float64]:
        places, fruit = self._env.world.places, self._env.players.fruit[0]
        target = min(places[fruit == APPLE], key=lambda place: _seconds_to(place, here, heading))
        way = target - here
        length = float(np.hypot(*way))
        aside = np.array([-way[1], way[0]]) / max(length, 1.0)  # to the left of the way
        in_the_way = [
            (float((lemon - here) @ way) / length, float((lemon - here) @ aside), lemon)
            for lemon in places[fruit == LEMON]
        ]
        near = [own for own in in_the_way if 0.0 < own[0] < length and abs(own[1]) < CLEARANCE]
        if not near:
            return np.asarray(target)
        _, left, lemon = min(near, key=lambda own: own[0])
        return np.asarray(lemon - math.copysign(CLEARANCE + 10.0, left or 1.0) * aside)

    def _next_in_maze(self, here: NDArray[np.float64]) -> NDArray[np.float64]:
        apple = self._env.world.places[self._env.players.fruit[0] == APPLE][0]
        # It cuts corners: what sends it into one lets it slide along the wall.
        in_arm = abs(here[0] - apple[0]) < CORNER
        in_passage = abs(here[1] - JUNCTION) < CORNER
        if in_arm:
            return np.asarray(apple)
        if in_passage:
            return np.array([apple[0], JUNCTION])
        lost = abs(here[0]) > 32.0  # in the other arm, from which a way leads back, too
        return np.array([math.copysign(ARMS, here[0]) if lost else 0.0, JUNCTION])

    @staticmethod
    def _towards(target: NDArray[np.float64], here: NDArray[np.float64], heading: float) -> int:
        off = _turn_to(target, here, heading)
        inside_circle = np.hypot(*(target - here)) < TURNING_CIRCLE * abs(math.sin(math.radians(off)))
        if abs(off) > WALKABLE or (inside_circle and abs(off) > STRAIGHT):
            return LEFT if off > 0 else RIGHT
        if abs(off) > STRAIGHT:
            return FORWARD_LEFT if off > 0 else FORWARD_RIGHT
        return FORWARD


def _turn_to(target: NDArray[np.float64], here: NDArray[np.float64], heading: float) -> float:
    """Degrees to turn to the left to face the target, in [-180, 180)."""
    bearing = math.degrees(math.atan2(target[1] - here[1], target[0] - here[0]))
    return (bearing - heading + 180.0) % 360.0 - 180.0


def _seconds_to(target: NDArray[np.float64], here: NDArray[np.float64], heading: float) -> float:
    return float(np.hypot(*(target - here))) / TOP_SPEED + abs(_turn_to(target, here, heading)) / TURNING
