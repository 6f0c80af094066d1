"""What the inspector answers, and under which address: the server sends it, an exported page holds it.

Nothing here is found by a path or a name from a request: numbers are looked up, and nothing else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mfec.errors import MfecError

MOST_PLACES = 200  # thumbnails in one answer
SHOWN = 60  # characters of what was asked that an error repeats


class Malformed(MfecError):
    """Something that was asked in a way that has no answer."""


@dataclass(frozen=True)
class Answer:
    """One kind of answer."""

    address: str  # with the names of its numbers in braces
    read: Callable[..., dict[str, Any] | bytes]  # from the inspection and the numbers; may take seconds
    slow: bool = False  # whether an old episode may have to be played again for it

    @property
    def numbers(self) -> list[str]:
        """Names of the numbers in the address."""
        return re.findall(r"{(\w+)}", self.address)

    def at(self, *numbers: int) -> str:
        """The address with its numbers."""
        return self.address.format(**dict(zip(self.numbers, numbers, strict=True)))


RUN = Answer("/api/run", lambda inspection: inspection.run())
GAME = Answer("/api/games/{game}", lambda inspection, game: inspection.game(game))
STEP = Answer("/api/games/{game}/steps/{step}", lambda inspection, game, step: inspection.step(game, step))
PICTURES = Answer("/api/games/{game}/pictures/{chunk}", lambda inspection, *at: inspection.pictures(*at))
OBSERVATIONS = Answer("/api/games/{game}/observations/{chunk}", lambda inspection, *at: inspection.observations(*at))
PAST = Answer("/api/past/{episode}", lambda inspection, episode: inspection.past(episode), slow=True)
PAST_FRAMES = Answer(
    "/api/past/{episode}/frames/{chunk}", lambda inspection, *at: inspection.past_frames(*at), slow=True
)

ANSWERS = (RUN, GAME, STEP, PICTURES, OBSERVATIONS, PAST, PAST_FRAMES)


def title_of(run: dict[str, Any]) -> str:
    """What a browser calls the page of a run."""
    return f"{run['environment']}: the memories behind every action"


def as_json(data: Any) -> bytes:
    """JSON in ASCII, without the numbers that only Python knows: what every browser can read, in any page."""
    return json.dumps(data, allow_nan=False, separators=(",", ":")).encode("ascii")


def number(text: str, name: str) -> int:
    """A number of an address: digits, and not too many for anything that can be there."""
    if not re.fullmatch("[0-9]{1,9}", text):
        raise Malformed(f"{shown(text)} is no {name}: it is a number of at most 9 digits.")
    return int(text)


def places(text: str) -> list[tuple[int, int]]:
    """Past episodes and frames, as in `12:340,13:20`."""
    parts = text.split(",")
    if len(parts) > MOST_PLACES:
        raise Malformed(f"At most {MOST_PLACES} places are shown at a time, not {len(parts):,}.")
    found = [part.partition(":") for part in parts]
    return [
        (number(episode, "episode"), number(frame, "frame after an episode and a colon")) for episode, _, frame in found
    ]


def shown(given: str) -> str:
    """What was asked, for an error: in quotes, in ASCII, cut short."""
    return ascii(given if len(given) <= SHOWN else given[:SHOWN] + "...")
