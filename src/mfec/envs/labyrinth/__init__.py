"""Three first-person levels in the manner of the paper's Labyrinth, in Gymnasium's registry once this is imported.

>>> import gymnasium, mfec.envs
>>> gymnasium.make_vec("mfec/Labyrinth-Forage-v0", num_envs=4).observation_space.shape
(4, 84, 84)
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import gymnasium

from mfec.envs.labyrinth.levels import LEVELS

if TYPE_CHECKING:
    from mfec.envs.labyrinth.env import Labyrinth
    from mfec.envs.labyrinth.expert import Expert
    from mfec.envs.labyrinth.vector import LabyrinthVector

__all__ = ["LEVELS", "Expert", "Labyrinth", "LabyrinthVector"]

# Imported when first used, so that an Atari player does not wait for these to compile.
_HOMES = {"Expert": "expert", "Labyrinth": "env", "LabyrinthVector": "vector"}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"mfec.envs.labyrinth.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'mfec.envs.labyrinth' has no attribute {name!r}")


for _level in LEVELS.values():
    if _level.id not in gymnasium.registry:
        gymnasium.register(
            id=_level.id,
            entry_point="mfec.envs.labyrinth:Labyrinth",
            vector_entry_point="mfec.envs.labyrinth:LabyrinthVector",
            kwargs={"level": _level.name},
        )
