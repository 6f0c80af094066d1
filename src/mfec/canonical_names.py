"""One name for each environment, however it is spelled: its runs are stored and compared under that name."""

from __future__ import annotations

from typing import Literal

EnvKind = Literal["atari", "labyrinth", "other"]

FUNCTION = "function/"
"""How the name of an environment begins that a program has given as a function of its own, which no other knows."""
LEVEL_IDS = {
    "mfec/Labyrinth-Forage-v0": "labyrinth_forage",
    "mfec/Labyrinth-ForageAndAvoid-v0": "labyrinth_forage_and_avoid",
    "mfec/Labyrinth-DoubleTMaze-v0": "labyrinth_double_t_maze",
}
"""Short names of the Labyrinth's levels by Gymnasium's ids."""

# A list of our own, since names are also read without ale-py, for example in a figure of old runs. A game that is not
# here has only ale-py's spelling.
GAMES = """
    adventure air_raid alien amidar assault asterix asteroids atlantis atlantis2 backgammon bank_heist basic_math
    battle_zone beam_rider berzerk blackjack bowling boxing breakout carnival casino centipede chopper_command
    crazy_climber crossbow darkchambers defender demon_attack donkey_kong double_dunk earthworld elevator_action enduro
    entombed et fishing_derby flag_capture freeway frogger frostbite galaxian gopher gravitar hangman haunted_house hero
    human_cannonball ice_hockey jamesbond journey_escape kaboom kangaroo keystone_kapers king_kong klax koolaid krull
    kung_fu_master laser_gates lost_luggage mario_bros miniature_golf montezuma_revenge mr_do ms_pacman name_this_game
    othello pacman phoenix pitfall pitfall2 pong pooyan private_eye qbert river_raid road_runner robotank seaquest
    sir_lancelot skiing solaris space_invaders space_war star_gunner superman surround tennis tetris tic_tac_toe_3d
    time_pilot trondead turmoil tutankham up_n_down venture video_checkers video_chess video_cube video_pinball
    wizard_of_wor word_zapper yars_revenge zaxxon
""".split()  # noqa: SIM905 (a hundred quotes)
"""Short names of the Atari games."""

_SPELLINGS = {game.replace("_", ""): game for game in GAMES}


def canonical_name(name: str) -> str:
    """The name under which the runs of an environment are stored; a name without other spellings is unchanged.

    `ALE/MsPacman-v5` is not a spelling of `ms_pacman`: Gymnasium's game has sticky actions and shows other pictures.

    >>> canonical_name("mspacman"), canonical_name("mfec/Labyrinth-Forage-v0"), canonical_name("ALE/MsPacman-v5")
    ('ms_pacman', 'labyrinth_forage', 'ALE/MsPacman-v5')
    """
    level = LEVEL_IDS.get(name.rpartition(":")[2])  # an id may begin with the module that registers it
    if level is not None:
        return level
    if name.startswith("ale_py:ALE/"):
        return name.removeprefix("ale_py:")
    return _SPELLINGS.get(name.replace("_", ""), name)


def env_kind(name: str) -> EnvKind:
    """Which of the paper's two families the environment belongs to, if to any.

    >>> env_kind("mspacman"), env_kind("ALE/Pong-v5"), env_kind("labyrinth_forage"), env_kind("CartPole-v1")
    ('atari', 'atari', 'labyrinth', 'other')
    """
    name = canonical_name(name)
    if name in LEVEL_IDS.values() or name.rpartition(":")[2].startswith("mfec/Labyrinth-"):
        return "labyrinth"
    return "atari" if name in GAMES or name.startswith("ALE/") else "other"
