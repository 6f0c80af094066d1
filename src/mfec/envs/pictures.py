"""What the agent sees of every game and level: grey pictures of 84x84, an action every four frames."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces

FRAME_SKIP = 4
SIDE = 84


def frames_space(frame_stack: int = 1) -> spaces.Box:
    """Observations of that many frames."""
    shape = (SIDE, SIDE) if frame_stack == 1 else (frame_stack, SIDE, SIDE)
    return spaces.Box(0, 255, shape, np.uint8)
