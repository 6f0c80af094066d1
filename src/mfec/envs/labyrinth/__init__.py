"""Three first-person levels in the manner of the paper's Labyrinth, registered with Gymnasium.

>>> import gymnasium
>>> gymnasium.make_vec("mfec/Labyrinth-Forage-v0", num_envs=4).observation_space.shape
(4, 84, 84)
"""

import gymnasium

from mfec.envs.labyrinth.env import Labyrinth
from mfec.envs.labyrinth.levels import LEVELS
from mfec.envs.labyrinth.vector import LabyrinthVector

__all__ = ["LEVELS", "Labyrinth", "LabyrinthVector"]

for _level in LEVELS.values():
    if _level.id not in gymnasium.registry:
        gymnasium.register(
            id=_level.id,
            entry_point="mfec.envs.labyrinth.env:Labyrinth",
            vector_entry_point="mfec.envs.labyrinth.vector:LabyrinthVector",
            kwargs={"level": _level.name},
        )
