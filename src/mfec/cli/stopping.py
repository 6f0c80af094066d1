"""What the command says, and how it ends, when it was asked to stop."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

STOPPED = 130  # what a shell expects of a program that Ctrl-C ended
STOPPED_AT_ONCE = 131  # asked a second time


def say_how_to_resume(arguments: Sequence[str], *, saved: bool = True, option: str | None = "--resume") -> int:
    """Print the command that goes on, `mfec` and these arguments with that option; returns the exit status."""
    how = "stopped, and saved" if saved else "stopped at once, with what had been saved before"
    print(f"{how}; go on with\n  {shlex.join(['mfec', *arguments, *filter(None, [option])])}")
    return STOPPED if saved else STOPPED_AT_ONCE
