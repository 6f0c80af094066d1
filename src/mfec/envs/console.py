"""The Atari console of ale-py: which games there are, and how to load one."""

from __future__ import annotations

import difflib
from typing import Any

from mfec.canonical_names import canonical_name

STARTS = 30  # no-ops at the start of a game: 0 to 29 frames
TWO_PLAYER = {"combat", "joust", "maze_craze", "warlords"}  # ROMs that cannot be played alone


def atari_games() -> list[str]:
    """Short names of all games: those of ale-py, but `river_raid` for `riverraid`."""
    return sorted("river_raid" if rom == "riverraid" else rom for rom in _roms())


def rom_of(game: str) -> str:
    """The ROM of a game; an unknown name is an error that names the nearest."""
    name, games = canonical_name(game), atari_games()
    if name not in games:
        near = difflib.get_close_matches(game.lower(), games, n=1, cutoff=0.5)
        hint = f"; did you mean {near[0]!r}?" if near else ";"
        raise ValueError(f"unknown game {game!r}{hint} `mfec envs` lists all of them")
    return "riverraid" if name == "river_raid" else name


def load(game: str) -> Any:
    """A console with the game in it, without sticky actions or a time limit."""
    ale_py = import_ale()
    ale = ale_py.ALEInterface()
    ale.setFloat("repeat_action_probability", 0.0)
    ale.setInt("max_num_frames_per_episode", 0)
    ale.loadROM(ale_py.roms.get_rom_path(rom_of(game)))
    return ale


def import_ale() -> Any:
    """ale-py, without its messages; if it is missing, the error names the extra."""
    try:
        import ale_py
    except ImportError:
        raise ImportError("Atari games need the extra `atari`: pip install 'mfec[atari]'") from None
    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    import ale_py.roms

    return ale_py


def _roms() -> list[str]:
    return [rom for rom in import_ale().roms.get_all_rom_ids() if rom not in TWO_PLAYER]
