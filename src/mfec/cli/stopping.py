"""What the command says, and how it ends, when it was asked to stop or an environment failed."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence

STOPPED = 130  # what a shell expects of a program that Ctrl-C ended
STOPPED_AT_ONCE = 131  # asked a second time


def show_their_traceback(error: BaseException) -> None:
    """Print where the code of an environment failed, if that was it."""
    from mfec.envs.crashes import EnvironmentCrash, their_traceback

    if isinstance(error, EnvironmentCrash):
        print(their_traceback(error), file=sys.stderr, end="")


def say_how_to_resume(
    arguments: Sequence[str], *, saved: bool = True, option: str | None = "--resume", why: str = ""
) -> int:
    """Print the command that goes on, `mfec` and these arguments with that option; returns the exit status.

    why: what there is to say instead, where nobody asked for a stop.
    """
    how = "stopped, and saved" if saved else "stopped at once, with what had been saved before"
    print(f"{why or f'{how}; go on with'}\n  {shlex.join(['mfec', *arguments, *filter(None, [option])])}")
    return STOPPED if saved else STOPPED_AT_ONCE
