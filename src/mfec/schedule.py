"""Schedules: numbers that change while an agent learns."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

FORM = "linear:START:END:FRAMES"


@dataclass(frozen=True)
class Linear:
    """From `start` to `end` in a straight line over the first so many frames, and `end` from then on.

    Frames are those of the run, and no share of all that it is to have: so a run that is given more of them goes on as
    it began. A run keeps a schedule as text, which is also how the command takes it.

    >>> epsilon = Linear(1.0, 0.005, frames=100_000)
    >>> epsilon(0), epsilon(50_000), epsilon(200_000), str(epsilon)
    (1.0, 0.5025, 0.005, 'linear:1:0.005:100000')
    """

    start: float
    end: float
    frames: int

    def __post_init__(self) -> None:
        if self.frames < 1 or self.frames != int(self.frames):
            raise ValueError(f"a schedule takes a whole number of frames, at least 1, not {self.frames}")
        for name, number in (("start", float(self.start)), ("end", float(self.end)), ("frames", int(self.frames))):
            object.__setattr__(self, name, number)  # also where they were numpy's, or 1e5

    def __call__(self, frames: int) -> float:
        """The number after so many frames."""
        if frames >= self.frames:
            return self.end
        return self.start + (self.end - self.start) * frames / self.frames

    def __str__(self) -> str:
        return f"linear:{_short(self.start)}:{_short(self.end)}:{self.frames}"

    @staticmethod
    @cache
    def parse(text: str) -> Linear:
        """The schedule of that text; a `ValueError` where it is none."""
        kind, start, end, frames = text.split(":")
        if kind != "linear":
            raise ValueError(f"there is no schedule {kind!r}")
        return Linear(float(start), float(end), float(frames))  # type: ignore[arg-type]  # of 1e5, too


def chance(given: object, name: str) -> float | Linear:
    """A probability, or the schedule of one, from a number, a text or a schedule; else an error that names it."""
    try:
        if isinstance(given, Linear):
            known: float | Linear = given
        elif isinstance(given, str) and ":" in given:
            known = Linear.parse(given)
        else:
            known = float(given)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        why = "; a function could not be saved with the agent" if callable(given) else ""
        raise ValueError(f"{name} must be a number or {FORM} (mfec.Linear), not {given!r}{why}") from None
    for number in (known.start, known.end) if isinstance(known, Linear) else (known,):
        if not 0.0 <= number <= 1.0:
            raise ValueError(f"{name} must lie between 0 and 1, not {number}")
    return known


def number_at(given: float | str, frames: int) -> float:
    """A setting after so many frames: the number that it is, or that of the schedule whose text it is."""
    return Linear.parse(given)(frames) if isinstance(given, str) else given


def _short(number: float) -> str:
    """As a person writes it, without loss."""
    return str(int(number)) if number == int(number) else repr(float(number))
