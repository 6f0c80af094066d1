"""Loops compiled by numba for this machine, and kept on disk until a source that they are made of changes."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from hashlib import blake2b
from typing import Any

import numba
from numba.core import event

SAID = "mfec: compiling for this machine; this takes some seconds, the first time only"
DIGEST = 16  # bytes
IMPORTS = re.compile(r"^(?:from|import) +(mfec[\w.]*)(?: +import +(\([^)]*\)|.*))?", re.MULTILINE)


def njit(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """`numba.njit` with a cache on disk that depends on all sources of a function.

    Numba itself compiles anew only if the function's own file has changed. But functions and constants of other modules
    are compiled into it: after an edit of those, numba would run the old code.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        # An entry for callers in C, of which there are none, would take a fifth of the time.
        unused: dict[str, Any] = {"no_cfunc_wrapper": True}
        compiled: Any = numba.njit(cache=True, **unused, **options)(function)
        # Numba discards and overwrites the index of a function whose stamp has changed, so nothing piles up. The stamp
        # is not public. If it is missing (NUMBA_DISABLE_JIT; a later numba), numba's own rule holds.
        with suppress(AttributeError):
            kept = compiled._cache._cache_file
            kept._source_stamp = kept._source_stamp, digest_of_sources(function.__module__)
        return compiled

    return decorate


@cache
def digest_of_sources(module: str) -> bytes:
    """The digest of a module that is being imported and of all modules of this package that it imports."""
    found: dict[str, bytes] = {}
    waiting = [module]
    while waiting:
        name = waiting.pop()
        if name in sys.modules and name not in found:
            found[name], imported = _read(name)
            waiting += imported
    return blake2b(b"".join(found[name] for name in sorted(found)), digest_size=DIGEST).digest()


@cache
def _read(module: str) -> tuple[bytes, list[str]]:
    """The digest of a module's source, and what it imports from this package: modules, or names in them."""
    loader: Any = sys.modules[module].__loader__
    source = loader.get_source(module) or ""  # None if the source is not installed
    imported = []
    for name, parts in IMPORTS.findall(source):
        imported += [name, *(f"{name}.{part}" for part in re.findall(r"\w+", parts))]
    return blake2b(source.encode(), digest_size=DIGEST).digest(), imported


class _Announcement(event.Listener):
    """Says once that numba compiles, if the cache on disk does not have the function."""

    def __init__(self) -> None:
        self._said = False

    def on_start(self, event: Any) -> None:
        """A compilation begins."""
        if not self._said:
            self._said = True
            print(SAID, file=sys.stderr, flush=True)

    def on_end(self, event: Any) -> None:
        """It is over."""


@cache
def announce_compiling() -> None:
    """Say so when something is compiled, from now on."""
    event.register("numba:compile", _Announcement())  # type: ignore[no-untyped-call]
