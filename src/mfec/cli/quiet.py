"""What other packages say on stderr, and nobody who uses the command can do anything about."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import sys
import warnings
from collections.abc import Iterator
from typing import Any

# By message, since other warnings of the same packages may be about the user's own environment or settings.
WARNINGS = re.compile(
    r"The environment \S+ is out of date"  # Gymnasium: an old version is what was asked for
    r"|initialised with render_mode='rgb_array' that is not in the possible render_modes"  # we ask for a film, and see
    r"|pkg_resources is deprecated"  # pygame
    r"|number of environments used is greater than the target network update interval"  # SB3, of --n-envs
)
LOGS = re.compile(r"building the font cache|created a temporary cache directory|mkdir -p failed")  # matplotlib
DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY")
DRIVERS = ("SDL_VIDEODRIVER", "SDL_AUDIODRIVER")


@contextlib.contextmanager
def others_silenced() -> Iterator[None]:
    """Drops these messages, and no other."""
    show = warnings.showwarning

    def show_others(message: Warning | str, *where: Any, **more: Any) -> None:
        if not WARNINGS.search(str(message)):
            show(message, *where, **more)

    loggers = [logging.getLogger(name) for name in ("matplotlib", "matplotlib.font_manager")]
    warnings.showwarning = show_others
    for logger in loggers:
        logger.addFilter(_is_other)
    try:
        yield
    finally:
        warnings.showwarning = show
        for logger in loggers:
            logger.removeFilter(_is_other)


@contextlib.contextmanager
def without_windows() -> Iterator[None]:
    """Lets SDL, with which pygame draws, look for no desktop and no sound card where there is no display.

    It would say on stderr that there are none, and pictures need neither.
    """
    bare = sys.platform == "linux" and not any(map(os.environ.get, DISPLAYS))
    added = [name for name in DRIVERS if bare and name not in os.environ]
    os.environ.update(dict.fromkeys(added, "dummy"))
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)


def _is_other(record: logging.LogRecord) -> bool:
    return not LOGS.search(record.getMessage())
