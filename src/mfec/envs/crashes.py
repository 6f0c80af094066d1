"""Errors in the code of an environment, which is not ours: who raised them, and the traceback that its author needs."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

from mfec.errors import MfecError

PASSING_ON = ("mfec", "gymnasium", "importlib")  # packages whose frames lead to an environment's own


class EnvironmentCrash(MfecError):
    """An environment, or a wrapper of one, has raised an exception, which is this one's cause."""


class TheirCode:
    """Surrounds calls of an environment: what its code raises becomes an `EnvironmentCrash` that names it.

    Errors of this package pass as they are, and so does a lack of memory. It costs less than half a microsecond.

    >>> with TheirCode("Corridor-v0"):
    ...     {}["door"]
    Traceback (most recent call last):
    ...
    mfec.envs.crashes.EnvironmentCrash: Corridor-v0 does not keep to Gymnasium's interface: KeyError: 'door'
    """

    def __init__(self, env: Any) -> None:
        """env: an environment or a vector environment, or the name of one that is being made."""
        self._env = env

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Exception) and not _is_ours(error):
            raise EnvironmentCrash(_sentence(name_of(self._env), error)) from error


def name_of(env: Any) -> str:
    """The id of an environment, else the name of its class."""
    if isinstance(env, str):
        return env
    one = (getattr(env, "envs", None) or [env])[0]  # of a vector environment
    spec = getattr(one, "spec", None)
    return spec.id if spec is not None else type(getattr(one, "unwrapped", one)).__name__


def their_traceback(crash: EnvironmentCrash) -> str:
    """The traceback of what was raised, and of what led to that, from where the environment's own code begins."""
    error = crash.__cause__
    if error is None:
        return ""
    shown = traceback.TracebackException.from_exception(error)
    _leave_out_ours(shown, error)
    return "".join(shown.format())


def _leave_out_ours(shown: traceback.TracebackException, error: BaseException) -> None:
    modules = list(_modules(error.__traceback__))
    theirs = [number for number, module in enumerate(modules) if module not in PASSING_ON]
    elsewhere = [number for number, module in enumerate(modules) if module != PASSING_ON[0]]
    first = (theirs or elsewhere or [0])[0]
    shown.stack = traceback.StackSummary.from_list(shown.stack[first:])
    if shown.__cause__ is not None and error.__cause__ is not None:
        _leave_out_ours(shown.__cause__, error.__cause__)
    if shown.__context__ is not None and error.__context__ is not None:
        _leave_out_ours(shown.__context__, error.__context__)


def _modules(trace: TracebackType | None) -> Iterator[str]:
    """The packages of all frames, outermost first."""
    for frame, _ in traceback.walk_tb(trace):
        name = frame.f_globals.get("__name__", "")
        yield "importlib" if frame.f_code.co_filename.startswith("<frozen importlib") else name.partition(".")[0]


def _is_ours(error: Exception) -> bool:
    """Whether this package says something to a person: an error of its own, or one that it raises below the call."""
    if isinstance(error, MemoryError) or type(error).__module__.startswith("mfec."):
        return True
    modules = list(_modules(error.__traceback__))
    return len(modules) > 1 and set(modules) == {"mfec"}


def _sentence(name: str, error: Exception) -> str:
    said = " ".join(str(error).split())
    what = f"{type(error).__name__}: {said}" if said else type(error).__name__
    frames = traceback.extract_tb(error.__traceback__)
    if len(frames) < 2:  # raised by the call itself: it returned something else than it should
        return f"{name} does not keep to Gymnasium's interface: {what}"
    return f"{name} raised {what} ({Path(frames[-1].filename).name}, line {frames[-1].lineno})"
