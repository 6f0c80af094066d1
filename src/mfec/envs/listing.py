"""Which environments can be named and played, and why others cannot."""

from __future__ import annotations

import fnmatch
import importlib
import re
import warnings
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec

from mfec.canonical_names import LEVEL_IDS
from mfec.envs.environments import make_environments
from mfec.envs.names import env_names

OLD = "of an old version"
MISSING = "lacking a package"
PACKAGE = re.compile(r"gymnasium\[([\w-]+)\]|No module named '(\w+)|pip install \W?(?!gymnasium\b)([\w-]+)")


@dataclass
class Listing:
    """Environments by family, and of those that were left out, how many for which reason."""

    families: dict[str, list[str]] = field(default_factory=dict)
    left_out: Counter[str] = field(default_factory=Counter)
    packages: set[str] = field(default_factory=set)
    """Those that are missing."""

    def why_left_out(self) -> str:
        """The reasons in a line; empty where nothing was left out."""
        said = []
        for reason, number in self.left_out.most_common():
            missing = f" ({', '.join(sorted(self.packages))})" if reason == MISSING and self.packages else ""
            said.append(f"{number} {reason}{missing}")
        return f"left out: {', '.join(said)}" if said else ""


def list_environments(pattern: str = "") -> Listing:
    """What can be played, of the names that contain the pattern, or match it where it has a `*`, `?` or `[`.

    A pattern that begins with `module:` is one of the ids that this module registers. Spaces are only known of an
    environment that is there, so what is listed by Gymnasium is made, and what cannot be made is left out.
    """
    module, colon, rest = pattern.partition(":")
    if colon:
        importlib.import_module(module)
        return _of_ids(_registered_by(module), rest, module, prefix=f"{module}:")
    listing = Listing()
    *families, (last, ids) = env_names().items()
    for family, names in families:
        listing.families[family] = [name for name in names if _matches(name, pattern)]
    shown = _of_ids([gymnasium.registry[name] for name in ids], pattern, last)
    return Listing({**listing.families, **shown.families}, shown.left_out, shown.packages)


def _registered_by(module: str) -> list[EnvSpec]:
    """The ids whose environments are of a module or of those below it."""
    return [spec for spec in gymnasium.registry.values() if str(spec.entry_point).split(".")[0].split(":")[0] == module]


def _of_ids(specs: Iterable[EnvSpec], pattern: str, family: str, *, prefix: str = "") -> Listing:
    listing = Listing({family: []})
    newest: dict[tuple[str | None, str], int] = {}
    for spec in gymnasium.registry.values():
        key = spec.namespace, spec.name
        newest[key] = max(newest.get(key, 0), spec.version or 0)
    verdicts: dict[str, str] = {}
    for spec in sorted(specs, key=lambda spec: spec.id):
        if spec.id in LEVEL_IDS or not _matches(spec.id, pattern):  # levels are listed by their short names
            continue
        ale = str(spec.entry_point).startswith("ale_py")
        if (spec.version or 0) < newest[spec.namespace, spec.name] or (ale and spec.namespace != "ALE"):
            listing.left_out[OLD] += 1
            continue
        # A console takes 0.1 seconds, and the hundred games differ in nothing that counts here.
        like = str(spec.entry_point) if ale else spec.id
        if like not in verdicts:
            verdicts[like] = _why_not(spec, listing.packages)
        if verdicts[like]:
            listing.left_out[verdicts[like]] += 1
        else:
            listing.families[family].append(prefix + spec.id)
    return listing


def _matches(name: str, pattern: str) -> bool:
    if any(letter in pattern for letter in "*?["):
        return fnmatch.fnmatchcase(name.lower(), pattern.lower())
    return pattern.lower() in name.lower()


def _why_not(spec: EnvSpec, packages: set[str]) -> str:
    """Why an environment cannot be played; empty if it can. packages: those that are missing are added."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of theirs; nobody is about to use the environment
        try:
            env = gymnasium.make(spec)
        except (ImportError, gymnasium.error.DependencyNotInstalled) as error:
            found = PACKAGE.search(str(error))
            packages.update([next(filter(None, found.groups()))] if found else [])
            return MISSING
        except Exception:  # an environment may raise anything
            return "failing when they are made"
        try:
            make_environments(env, np.random.SeedSequence(0))
        except Exception:
            return _refused(env.observation_space, env.action_space)
        finally:
            env.close()
    return ""


def _refused(observations: spaces.Space[object], actions: spaces.Space[object]) -> str:
    if isinstance(actions, spaces.Box):
        return "with continuous actions"
    if isinstance(actions, spaces.Discrete):
        return f"with {type(observations).__name__} observations"
    return f"with {type(actions).__name__} actions"
