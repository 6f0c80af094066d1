"""Objects that a program has given to its own runs: `mfec.here:Encoder` names one. No other program has them.

So all that finds an embedding by name finds such an object as well, in this process.
"""

from __future__ import annotations

from typing import Any

from mfec.errors import MfecError

_GIVEN: dict[str, Any] = {}


class NotHere(MfecError, AttributeError):
    """An object that another program had."""


def give(thing: Any, name: str) -> str:
    """Keep an object under a name, in place of the one that had it; how it is found."""
    _GIVEN[name] = thing
    return f"{__name__}:{name}"


def __getattr__(name: str) -> Any:
    if name in _GIVEN:
        return _GIVEN[name]
    if name.startswith("__"):
        raise AttributeError(name)
    raise NotHere(
        f"the embedding {name} of this run is an object of the program that trained it: give it from Python, as in "
        f"mfec.evaluate(directory, embedding=...) or mfec.train(..., resume=True), or put it into a module and train "
        f"with --embedding module:{name}"
    )
