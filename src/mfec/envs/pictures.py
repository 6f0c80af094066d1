"""What the agent sees of every Atari game, level and scenario: grey pictures of 84x84, one for four frames."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces

FRAME_SKIP = 4
SIDE = 84


def frames_space(frame_stack: int = 1) -> spaces.Box:
    """Observations of that many frames."""
    shape = (SIDE, SIDE) if frame_stack == 1 else (frame_stack, SIDE, SIDE)
    return spaces.Box(0, 255, shape, np.uint8)
