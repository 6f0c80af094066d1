"""Scenes of the Labyrinth: a player put where a test needs it, and what comes of its actions."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from mfec.envs.labyrinth import Labyrinth

FORAGE, AVOID, MAZE = "labyrinth_forage", "labyrinth_forage_and_avoid", "labyrinth_double_t_maze"
ARENAS = [FORAGE, AVOID]
ALL = [*ARENAS, MAZE]

NOTHING, APPLE, LEMON = -1, 0, 1  # in `players.fruit`
OFF, RED, GREEN = 0, 1, 2  # in `players.cues`

# The paper's eight, in its order.
(MOVE_LEFT, MOVE_RIGHT, TURN_LEFT, TURN_RIGHT, FORWARD, BACKWARD, FORWARD_LEFT, FORWARD_RIGHT) = range(8)


def begun(level: str, seed: int = 0, **settings: object) -> Labyrinth:
    """An environment in its first episode."""
    env = Labyrinth(level, **settings)
    env.reset(seed=seed)
    return env


def put(env: Labyrinth, x: float, y: float, heading: float, velocity: tuple[float, float] = (0.0, 0.0)) -> None:
    """The player is there now, looks that way (degrees, anti-clockwise from the east), and has all the time."""
    env.players.frames[0] = 0
    env.players.poses[0] = x, y, heading, *velocity


def clear(env: Labyrinth) -> Labyrinth:
    """Nothing lies anywhere."""
    env.players.fruit[:] = NOTHING
    return env


def look(env: Labyrinth) -> np.ndarray:
    """What the agent sees now."""
    return env.restore_state(env.clone_state())


def play(env: Labyrinth, actions: Iterable[int]) -> list[tuple[bytes, float, bool, bool]]:
    """What the actions lead to; a new episode begins where one ends."""
    shown = []
    for action in actions:
        observation, reward, terminated, truncated, _ = env.step(action)
        shown.append((observation.tobytes(), reward, terminated, truncated))
        if terminated or truncated:
            shown.append((env.reset()[0].tobytes(), 0.0, False, False))
    return shown


def wandering(n: int, seed: int = 0) -> list[int]:
    """Actions that are each kept for a while, mostly ahead: a player who gets about and runs into walls."""
    rng = np.random.default_rng(seed)
    chances = [0.08, 0.08, 0.12, 0.12, 0.3, 0.06, 0.12, 0.12]
    chosen = rng.choice(8, size=n, p=chances)
    return np.repeat(chosen, rng.integers(1, 10, size=n))[:n].tolist()
