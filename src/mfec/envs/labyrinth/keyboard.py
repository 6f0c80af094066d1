"""From keys to actions, for people, who can hold down more keys at once than one of eight actions can express."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations

import numpy as np

from mfec.envs.labyrinth.physics import WISHES

# Steps ahead, steps to the left, and turning to the left, as in `WISHES`.
DIRECTIONS = {
    "forward": (1, 0, 0),
    "backward": (-1, 0, 0),
    "left": (0, 1, 0),
    "right": (0, -1, 0),
    "turn left": (0, 0, 1),
    "turn right": (0, 0, -1),
}
_ACTIONS = {tuple(wish): action for action, wish in enumerate(WISHES.astype(int).tolist())}


def action_of(held: Iterable[str]) -> int:
    """The action, or `STAND_STILL`, of the directions that are held down, the longest held first.

    Opposite directions cancel. If no action combines the rest, as few as possible are left out, the longest held first:
    whoever walks and then strafes, strafes.

    >>> from mfec.envs.labyrinth.physics import ACTIONS
    >>> ACTIONS[action_of(["turn left", "left", "forward"])]
    'forward and turn left'
    """
    newest_first = list(dict.fromkeys(held))[::-1]
    for kept in range(len(newest_first), 0, -1):
        for directions in combinations(newest_first, kept):
            wish = np.sum([DIRECTIONS[own] for own in directions], axis=0)
            if tuple(wish.tolist()) in _ACTIONS:
                return _ACTIONS[tuple(wish.tolist())]
    return _ACTIONS[0, 0, 0]
