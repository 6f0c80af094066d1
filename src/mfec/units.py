"""Numbers with units, for people."""

from __future__ import annotations


def show_bytes(number: float) -> str:
    """A number of bytes for people."""
    for unit in ("B", "kB", "MB", "GB"):
        if number < 1000:
            return f"{number:.3g} {unit}"
        number /= 1000
    return f"{number:,.3g} TB"


def show_time(seconds: int) -> str:
    """Minutes and seconds for people."""
    return f"{seconds // 60}:{seconds % 60:02d}"


def show_hours(seconds: float) -> str:
    """A long time for people.

    >>> show_hours(59), show_hours(3_661), show_hours(200_000)
    ('0:59', '1 h 1 min', '2 d 7 h')
    """
    minutes = int(seconds) // 60
    if minutes < 60:
        return f"{minutes}:{int(seconds) % 60:02d}"
    hours = minutes // 60
    return f"{hours} h {minutes % 60} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"
