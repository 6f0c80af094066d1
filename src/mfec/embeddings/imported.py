"""An embedding by the name `package.module:object`."""

from __future__ import annotations

import difflib
import importlib
import os
import sys
import traceback
from functools import cache
from typing import Any

from mfec.embeddings.encoder import EmbeddingError, instance_of
from mfec.errors import MfecError


@cache  # so that a network's weights are read once in a process
def import_embedding(name: str) -> Any:
    """The object of that name; of a class without `make`, an object that is made without arguments.

    Importing it runs its module. Python's own modules are refused: `os:system` would be called with observations.
    """
    module, _, place = name.partition(":")
    if module.partition(".")[0] in sys.stdlib_module_names:
        raise EmbeddingError(f"the embedding {name!r} lies in Python's standard library; name a module of your own")
    found = _import(module, name)
    for part in place.split("."):
        try:
            found = getattr(found, part)
        except MfecError:  # it says itself what to do
            raise
        except AttributeError:
            near = difflib.get_close_matches(part, [own for own in dir(found) if not own.startswith("_")], n=1)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise EmbeddingError(
                f"{getattr(found, '__name__', module)} has no {part!r} for the embedding {name!r}{hint}"
            ) from None
    if isinstance(found, type) and not hasattr(found, "make"):
        return instance_of(found)
    return found


def _import(module: str, name: str) -> Any:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise EmbeddingError(f"the embedding {name!r} cannot be imported: {error}{_where(error)}") from error
        hint = f"; write {name.replace('.py:', ':')!r}" if module.endswith(".py") else ""
        raise EmbeddingError(
            f"there is no module {error.name!r} for the embedding {name!r}, neither in {os.getcwd()} nor among the "
            f"packages that are installed{hint}"
        ) from None
    except Exception as error:  # it is the user's code, which may raise anything
        said = f"{type(error).__name__}: {error}{_where(error)}"
        raise EmbeddingError(f"the embedding {name!r} cannot be imported: {said}") from error


def _where(error: Exception) -> str:
    """The line of the user's that raised an error."""
    lines = [own for own in traceback.extract_tb(error.__traceback__) if "importlib" not in own.filename]
    return f" (line {lines[-1].lineno} of {lines[-1].filename})" if len(lines) > 1 else ""
