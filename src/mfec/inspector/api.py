"""The data that the page asks for, each under its address: the server sends it, an exported page holds it.

Nothing here is found by a path or a name from a request: numbers are looked up, and nothing else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mfec.errors import MfecError

MOST_PLACES = 200  # thumbnails in one response
SHOWN = 60  # characters of a request that an error repeats


class BadRequest(MfecError):
    """A request that is written in a way that has no meaning."""


@dataclass(frozen=True)
class Endpoint:
    """An address, and how to read what is found there."""

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


RUN = Endpoint("/api/run", lambda inspection: inspection.run())
GAME = Endpoint("/api/games/{game}", lambda inspection, game: inspection.game(game))
STEP = Endpoint("/api/games/{game}/steps/{step}", lambda inspection, game, step: inspection.step(game, step))
PICTURES = Endpoint("/api/games/{game}/pictures/{chunk}", lambda inspection, *at: inspection.pictures(*at))
OBSERVATIONS = Endpoint("/api/games/{game}/observations/{chunk}", lambda inspection, *at: inspection.observations(*at))
PAST = Endpoint("/api/past/{episode}", lambda inspection, episode: inspection.past(episode), slow=True)
PAST_FRAMES = Endpoint(
    "/api/past/{episode}/frames/{chunk}", lambda inspection, *at: inspection.past_frames(*at), slow=True
)

ENDPOINTS = (RUN, GAME, STEP, PICTURES, OBSERVATIONS, PAST, PAST_FRAMES)


def title_of(run: dict[str, Any]) -> str:
    """What a browser calls the page of a run."""
    return f"{run['environment']}: the memories behind every action"


def as_json(data: Any) -> bytes:
    """JSON in ASCII, without the numbers that only Python knows: what every browser can read, in any page."""
    return json.dumps(data, allow_nan=False, separators=(",", ":")).encode("ascii")


def number(text: str, name: str) -> int:
    """A number of an address: digits, and not too many for anything that can be there."""
    if not re.fullmatch("[0-9]{1,9}", text):
        raise BadRequest(f"{shown(text)} is no {name}: it is a number of at most 9 digits.")
    return int(text)


def places(text: str) -> list[tuple[int, int]]:
    """Past episodes and frames, as in `12:340,13:20`."""
    parts = text.split(",")
    if len(parts) > MOST_PLACES:
        raise BadRequest(f"At most {MOST_PLACES} places are shown at a time, not {len(parts):,}.")
    found = [part.partition(":") for part in parts]
    return [
        (number(episode, "episode"), number(frame, "frame after an episode and a colon")) for episode, _, frame in found
    ]


def shown(given: str) -> str:
    """What was asked, for an error: in quotes, in ASCII, cut short."""
    return ascii(given if len(given) <= SHOWN else given[:SHOWN] + "...")
