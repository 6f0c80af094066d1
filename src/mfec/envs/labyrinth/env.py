"""A level as a Gymnasium environment."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from mfec.envs.labyrinth.levels import LEVELS, Level
from mfec.envs.labyrinth.physics import ACTIONS
from mfec.envs.labyrinth.simulation import Simulation
from mfec.envs.labyrinth.world import Players, World
from mfec.envs.pictures import FRAME_SKIP, SIDE, frames_space

Observation = NDArray[np.uint8]


class Labyrinth(gymnasium.Env[Observation, np.int64]):
    """One player in one of the three levels: sees 84x84 grey, chooses one of eight actions 15 times a second.

    >>> env = gymnasium.make("mfec/Labyrinth-DoubleTMaze-v0")
    >>> observation, info = env.reset(seed=0)
    >>> observation.shape, env.action_space
    ((84, 84), Discrete(8))

    Args:
        level: `labyrinth_forage`, `labyrinth_forage_and_avoid` or `labyrinth_double_t_maze`.
        render_mode: None or `rgb_array`.
        width, height: of the pictures that `render` returns.
        frame_skip: frames (of 60 a second) that an action is repeated for.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 15}  # noqa: RUF012

    def __init__(
        self,
        level: str,
        *,
        render_mode: str | None = None,
        width: int = 320,
        height: int = 240,
        frame_skip: int = FRAME_SKIP,
    ) -> None:
        if render_mode not in (None, "rgb_array"):
            raise ValueError(f"render_mode must be None or 'rgb_array', not {render_mode!r}")
        if width < 1 or height < 1:
            raise ValueError(f"a picture has at least 1 x 1 pixels, not {width} x {height}")
        self.render_mode = render_mode
        self.frame_skip = checked_frame_skip(frame_skip)
        self._size = width, height
        self._simulation = Simulation(level_of(level), 1)
        self._reward, self._terminated, self._truncated = np.zeros(1), np.zeros(1, np.bool_), np.zeros(1, np.bool_)
        self._playing = False
        self.action_space = spaces.Discrete(len(ACTIONS))
        self.observation_space: spaces.Box = frames_space()  # type: ignore[assignment]

    @property
    def level(self) -> Level:
        """The level, with its map."""
        return self._simulation.level

    @property
    def world(self) -> World:
        """The level as arrays."""
        return self._simulation.world

    @property
    def players(self) -> Players:
        """The state of the player and of the fruit, in arrays of one row; writing to them changes the game."""
        return self._simulation.players

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin the episode that the seed makes: start, heading and, in the maze, where the apples will be."""
        super().reset(seed=seed)
        self._simulation.begin(0, episode_seed(self.np_random))
        self._playing = True
        return self._simulation.look(0), {}

    def step(self, action: np.int64 | int) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Repeat an action for four frames."""
        if not self._playing:
            raise gymnasium.error.ResetNeeded("reset begins an episode, which comes before the first step")
        if action not in range(len(ACTIONS)):
            raise ValueError(f"an action lies in 0..{len(ACTIONS) - 1}, and {action} does not")
        picture = np.empty((1, SIDE, SIDE), np.uint8)
        outcome = self._reward, self._terminated, self._truncated, picture
        self._simulation.step(slice(0, 1), np.array([action], np.int64), self.frame_skip, *outcome)
        return picture[0], float(self._reward[0]), bool(self._terminated[0]), bool(self._truncated[0]), {}

    def get_action_meanings(self) -> list[str]:
        """What the actions do."""
        return list(ACTIONS)

    def render(self) -> NDArray[np.uint8]:
        """What the player sees, in colour, uint8 (height, width, 3)."""
        return self._simulation.photograph(0, *self._size)

    def clone_state(self) -> Players:
        """All that the rest of the episode depends on."""
        return self.players.copy()

    def restore_state(self, state: Players) -> Observation:
        """Go on from a state that `clone_state` returned, of this environment or another one of its level."""
        self.players.assign(state)
        self._playing = True
        return self._simulation.look(0)


def level_of(name: str) -> Level:
    """The level of a short name."""
    if name not in LEVELS:
        raise ValueError(f"unknown level {name!r}; there are {', '.join(LEVELS)}")
    return LEVELS[name]


def episode_seed(random: np.random.Generator) -> int:
    """The seed of the next episode, from an environment's random numbers."""
    return int(random.integers(2**64, dtype=np.uint64))


def checked_frame_skip(frame_skip: int) -> int:
    """The frames that an action is repeated for; an error if there is none."""
    if frame_skip < 1:
        raise ValueError(f"frame_skip must be at least 1, not {frame_skip}")
    return frame_skip
