"""How a player moves: the engine's friction, acceleration and turning, and walls that are slid along."""

from __future__ import annotations

import math

import numpy as np

from mfec.compiling import njit
from mfec.envs.labyrinth.levels import FRAMES_PER_SECOND, PLAYER
from mfec.envs.labyrinth.world import HEADING, VX, VY, X, Y

TOP_SPEED = 320.0  # units a second
ACCELERATION = 10.0
FRICTION = 6.0
STOP_SPEED = 100.0  # below it, friction is as strong as at this speed
TURNING = 132.0  # degrees a second
SECOND = 1.0 / FRAMES_PER_SECOND

ACTIONS = (
    "move left",
    "move right",
    "turn left",
    "turn right",
    "move forward",
    "move backward",
    "forward and turn left",
    "forward and turn right",
)
STAND_STILL = len(ACTIONS)  # for people, who may take their hands off the keys; environments refuse it
# For each action, and for none: steps ahead, steps to the left, and turning to the left.
WISHES = np.array(
    [[0, 1, 0], [0, -1, 0], [0, 0, 1], [0, 0, -1], [1, 0, 0], [-1, 0, 0], [1, 0, 1], [1, 0, -1], [0, 0, 0]], float
)


@njit(nogil=True)
def move(pose, action, blocks):
    """One frame of a player (1/60 s): turn, slow down by friction, speed up as wished, go, slide along walls."""
    ahead, left, turn = WISHES[action, 0], WISHES[action, 1], WISHES[action, 2]
    pose[HEADING] = (pose[HEADING] + turn * TURNING * SECOND) % 360.0
    angle = math.radians(pose[HEADING])
    wish_x = ahead * math.cos(angle) - left * math.sin(angle)
    wish_y = ahead * math.sin(angle) + left * math.cos(angle)

    speed = math.sqrt(pose[VX] * pose[VX] + pose[VY] * pose[VY])
    if speed > 0.0:
        slowed = max(0.0, speed - max(speed, STOP_SPEED) * FRICTION * SECOND) / speed
        pose[VX] *= slowed
        pose[VY] *= slowed
    lacking = TOP_SPEED * (ahead * ahead + left * left) - (pose[VX] * wish_x + pose[VY] * wish_y)
    if lacking > 0.0:
        gain = min(ACCELERATION * TOP_SPEED * SECOND, lacking)
        pose[VX] += gain * wish_x
        pose[VY] += gain * wish_y

    # One axis after the other: a wall takes the speed towards it, and the rest goes on along it. The step into it is
    # not made, so players come to rest as near to a wall as chance has it. Where they were put right at it, agents who
    # had run into a corner saw pictures of earlier episodes again, hundreds of times.
    x, y = pose[X] + pose[VX] * SECOND, pose[Y] + pose[VY] * SECOND
    if _free(x, pose[Y], blocks):
        pose[X] = x
    else:
        pose[VX] = 0.0
    if _free(pose[X], y, blocks):
        pose[Y] = y
    else:
        pose[VY] = 0.0


@njit(nogil=True)
def _free(x, y, blocks):
    """Whether a player's box can be there: it may touch blocks, but not reach into them."""
    for b in range(len(blocks)):
        if blocks[b, 0] - PLAYER < x < blocks[b, 2] + PLAYER and blocks[b, 1] - PLAYER < y < blocks[b, 3] + PLAYER:
            return False
    return True
