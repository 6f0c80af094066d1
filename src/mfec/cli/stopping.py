"""What the command says, and how it ends, when it was asked to stop."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

STOPPED = 130  # what a shell expects of a program that Ctrl-C ended


def say_how_to_resume(arguments: Sequence[str]) -> int:
    """Print the command that goes on, `mfec` and these arguments with `--resume`; returns the exit status."""
    print(f"stopped, and saved; go on with\n  {shlex.join(['mfec', *arguments, '--resume'])}")
    return STOPPED
