"""The three levels: where walls stand, how they look, and where fruit lies. Lengths are in the engine's units."""

from __future__ import annotations

from dataclasses import dataclass, replace

PLAYER = 15.0  # half the width of the player's box
EYE = 50.0  # height of the eye above the floor
PICK_UP = 15.0  # radius of a fruit: one is eaten where the player's circle touches it
FRAMES_PER_SECOND = 60

# What may lie in a place; a place that was eaten empty holds NOTHING. The order is that of the sprites.
NOTHING, APPLE, LEMON = -1, 0, 1
# What a cue may show: nothing, "the apple is to the left", "the apple is to the right". The order is that of textures.
CUE_OFF, CUE_RED, CUE_GREEN = 0, 1, 2


@dataclass(frozen=True)
class Block:
    """A solid block from the floor to the top of the walls, with the texture of each side."""

    west: float
    south: float
    east: float
    north: float
    to_west: str
    to_south: str
    to_east: str
    to_north: str


@dataclass(frozen=True)
class Cue:
    """A panel on a wall that shows a colour: it stands at `x`, `y` (its middle) and faces south, east or west."""

    x: float
    y: float
    width: float
    faces: str


@dataclass(frozen=True)
class Level:
    """A level as it is drawn on a map: x grows to the east, y to the north."""

    name: str
    """Short name, for `mfec train`."""
    id: str
    """Gymnasium's."""
    task: str
    """What to do, in a sentence."""
    blocks: tuple[Block, ...]
    wall_height: float
    ceiling: bool
    """Whether there is a ceiling on the walls, or the sky above them."""
    tile: float
    """Units that a texture spans."""
    places: tuple[tuple[float, float], ...]
    """Where fruit lies."""
    fruit: tuple[int, ...]
    """What lies there; in a maze of cues one apple and lemons, dealt anew for each trial."""
    start: tuple[float, float, float, float]
    """West, south, east and north of where a player may start."""
    headings: tuple[float, float]
    """Between which a player may start, in degrees; 0 is east and 90 north."""
    start_clearance: float
    """Least distance between a start and any fruit."""
    seconds: int
    """Length of an episode."""
    cues: tuple[Cue, ...] = ()
    directions: tuple[tuple[int, ...], ...] = ()
    """What the cues show where the apple is in the first place, the second, ..."""

    @property
    def frames(self) -> int:
        """Frames in an episode."""
        return self.seconds * FRAMES_PER_SECOND


def _room(west: float, south: float, east: float, north: float, walls: tuple[str, str, str, str]) -> tuple[Block, ...]:
    """Four blocks around a rectangle; `walls` are those in the west, south, east and north of the room."""
    thick = 64.0
    in_west, in_south, in_east, in_north = walls
    return (
        Block(west - thick, south - thick, west, north + thick, *[in_west] * 4),
        Block(west - thick, south - thick, east + thick, south, *[in_south] * 4),
        Block(east, south - thick, east + thick, north + thick, *[in_east] * 4),
        Block(west - thick, north, east + thick, north + thick, *[in_north] * 4),
    )


# An arena of 1584 x 1328 with 15 apples and 8 lemons, the size of the nearest released level. Fruit lies in the same
# places in every episode, as the paper randomises only where the player starts and where it looks.
_ARENA = _room(0.0, 0.0, 1584.0, 1328.0, ("brick", "stone", "wood", "moss"))
_APPLES = (
    (200.0, 250.0), (520.0, 150.0), (860.0, 290.0), (1180.0, 130.0), (1430.0, 330.0),
    (330.0, 560.0), (700.0, 520.0), (1050.0, 560.0), (1390.0, 690.0), (150.0, 830.0),
    (510.0, 860.0), (880.0, 790.0), (1200.0, 960.0), (330.0, 1160.0), (790.0, 1130.0),
)  # fmt: skip
_LEMONS = (
    (360.0, 330.0), (690.0, 310.0), (1060.0, 350.0), (1250.0, 500.0),
    (540.0, 640.0), (700.0, 920.0), (1060.0, 880.0), (1010.0, 1190.0),
)  # fmt: skip

FORAGE = Level(
    name="labyrinth_forage",
    id="mfec/Labyrinth-Forage-v0",
    task="Collect the apples as fast as you can.",
    blocks=_ARENA,
    wall_height=192.0,
    ceiling=False,
    tile=128.0,
    places=_APPLES,
    fruit=(APPLE,) * len(_APPLES),
    start=(40.0, 40.0, 1544.0, 1288.0),
    headings=(0.0, 360.0),
    start_clearance=80.0,
    seconds=20,
)

FORAGE_AND_AVOID = replace(
    FORAGE,
    name="labyrinth_forage_and_avoid",
    id="mfec/Labyrinth-ForageAndAvoid-v0",
    task="Collect the apples as fast as you can, and leave the lemons alone.",
    places=_APPLES + _LEMONS,
    fruit=(APPLE,) * len(_APPLES) + (LEMON,) * len(_LEMONS),
)

# Corridors are 64 wide. A stem of 128 leads to an arm of 320, at both ends of which there is another arm of 320.
#
#     NW |   north    | NE
#        |            |
#        +--  cue  ---+      the arm: y from 128 to 192
#        | sw | | se  |
#     SW |    | |     | SE   the stem: x from -32 to 32
DOUBLE_T_MAZE = Level(
    name="labyrinth_double_t_maze",
    id="mfec/Labyrinth-DoubleTMaze-v0",
    task="Find the apple: at a red cue turn left, at a green one turn right.",
    blocks=(
        *_room(-224.0, 0.0, 224.0, 320.0, ("wood", "brick", "wood", "brick")),
        Block(-160.0, 0.0, -32.0, 128.0, "wood", "brick", "brick", "stone"),
        Block(32.0, 0.0, 160.0, 128.0, "brick", "brick", "wood", "stone"),
        Block(-160.0, 192.0, 160.0, 320.0, "wood", "stone", "wood", "brick"),
    ),
    wall_height=96.0,
    ceiling=True,
    tile=64.0,
    places=((-192.0, 24.0), (-192.0, 296.0), (192.0, 296.0), (192.0, 24.0)),
    fruit=(APPLE, LEMON, LEMON, LEMON),
    start=(-16.0, 16.0, 16.0, 48.0),
    # Up the stem, more or less. Where it was any direction, the controller had learnt nothing after 1.4 million frames
    # but to stand in the corner behind it, where no lemons are.
    headings=(45.0, 135.0),
    start_clearance=0.0,
    seconds=60,
    cues=(Cue(0.0, 192.0, 64.0, "south"), Cue(-224.0, 160.0, 64.0, "east"), Cue(224.0, 160.0, 64.0, "west")),
    # Who comes from the stem and turns left walks west, and has the south to the left.
    directions=(
        (CUE_RED, CUE_RED, CUE_OFF),
        (CUE_RED, CUE_GREEN, CUE_OFF),
        (CUE_GREEN, CUE_OFF, CUE_RED),
        (CUE_GREEN, CUE_OFF, CUE_GREEN),
    ),
)

LEVELS = {level.name: level for level in (FORAGE, FORAGE_AND_AVOID, DOUBLE_T_MAZE)}
