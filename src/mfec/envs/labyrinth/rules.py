"""What happens in a level: episodes begin, players move, fruit is eaten, the apple of a maze is hidden anew."""

from __future__ import annotations

import numpy as np

from mfec.compiling import njit
from mfec.envs.labyrinth.levels import APPLE, LEMON, NOTHING, PICK_UP, PLAYER
from mfec.envs.labyrinth.physics import move
from mfec.envs.labyrinth.world import HEADING, X, Y

# What `play` returns beside the reward.
GOES_ON, TERMINATED, TRUNCATED = 0, 1, 2


@njit(nogil=True)
def begin(world, players, n, seed):
    """Player n begins the episode of that seed."""
    players.random[n] = seed
    players.frames[n] = 0
    _begin_trial(world, players, n)


@njit(nogil=True)
def play(world, players, n, action, frames):
    """Player n repeats an action for so many frames; returns the reward and whether the episode goes on."""
    reward = 0.0
    pose = players.poses[n]
    for _ in range(frames):
        move(pose, action, world.blocks)
        players.frames[n] += 1
        apples, lemons = _eat(world, players, n)
        reward += apples - lemons
        if apples:
            if len(world.directions):
                _begin_trial(world, players, n)
            elif not (players.fruit[n] == APPLE).any():
                return reward, TERMINATED
        if players.frames[n] >= world.frames:
            return reward, TRUNCATED
    return reward, GOES_ON


@njit(nogil=True)
def _eat(world, players, n):
    """Take the fruit that player n touches; returns how many apples and lemons."""
    x, y = players.poses[n, X], players.poses[n, Y]
    apples, lemons = 0, 0
    for place in range(len(world.places)):
        kind = players.fruit[n, place]
        if kind != NOTHING:
            away_x, away_y = world.places[place, 0] - x, world.places[place, 1] - y
            if away_x * away_x + away_y * away_y <= (PLAYER + PICK_UP) ** 2:
                if kind == APPLE:
                    apples += 1
                else:
                    lemons += 1
                players.fruit[n, place] = NOTHING
    return apples, lemons


@njit(nogil=True)
def _begin_trial(world, players, n):
    """Player n stands still at a start, all fruit lies in its place; a maze draws the apple's and sets its cues."""
    pose = players.poses[n]
    pose[:] = 0.0
    if len(world.directions):
        apple = int(_uniform(players.random, n) * len(world.places))
        for place in range(len(world.places)):
            players.fruit[n, place] = APPLE if place == apple else LEMON
        players.cues[n] = world.directions[apple]
    else:
        players.fruit[n] = world.fruit
    west, south, east, north, least, greatest, clearance = world.start
    near = True
    while near:
        pose[X] = west + (east - west) * _uniform(players.random, n)
        pose[Y] = south + (north - south) * _uniform(players.random, n)
        near = False
        for place in range(len(world.places)):
            away_x, away_y = world.places[place, 0] - pose[X], world.places[place, 1] - pose[Y]
            near |= away_x * away_x + away_y * away_y < clearance * clearance
    pose[HEADING] = least + (greatest - least) * _uniform(players.random, n)


@njit(nogil=True)
def _uniform(random, n):
    """The next number of player n in [0, 1), by SplitMix64: one word of state, every seed a good one."""
    random[n] += np.uint64(0x9E3779B97F4A7C15)
    bits = random[n]
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    bits ^= bits >> np.uint64(31)
    return float(bits >> np.uint64(11)) * 2.0**-53
