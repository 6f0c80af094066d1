"""What a legend calls runs that differ in their settings: as little as tells them apart, in words."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mfec.algorithms import algorithm as algorithm_named
from mfec.canonical_names import env_kind
from mfec.figures.lines import EMBEDDINGS
from mfec.recipes import AGENT, RecipeName, agent_defaults

Settings = dict[str, Any]  # of the runs of one curve, by name
PAPER: RecipeName = "paper"
WORDS = {"n_envs": "environments", "vae": "encoder"}
"""Settings that have another name in a legend."""


def legend_labels(settings: Sequence[Settings]) -> list[str]:
    """For each of these settings of one environment, what tells it apart from the others; empty where nothing does."""
    by_algorithm: dict[str, list[Settings]] = {}
    for own in _short_encoders(settings):
        by_algorithm.setdefault(own["algorithm"], []).append(own)
    labels: dict[str, list[str]] = {}
    for name, alike in by_algorithm.items():
        first = [algorithm_named(name).label] if len(by_algorithm) > 1 else []
        labels[name] = [", ".join([*first, *words]) for words in _differences(alike)]
    return [labels[own["algorithm"]].pop(0) for own in settings]


def _short_encoders(settings: Sequence[Settings]) -> list[Settings]:
    """Encoders without their folders, unless these alone tell them apart."""
    encoders = {str(own.get("vae", "")) for own in settings}
    if len({Path(encoder).name for encoder in encoders}) < len(encoders):
        return list(settings)
    return [{**own, "vae": Path(str(own["vae"])).name} if "vae" in own else own for own in settings]


def _differences(settings: list[Settings]) -> list[list[str]]:
    """Of each of these settings of one algorithm, the words for what differs.

    Where one thing differs, everyone says it. Where several do, everyone says what is not the default of its recipe.
    """
    names = [name for name in settings[0] if any(own.get(name) != settings[0][name] for own in settings)]
    recipes = _recipes(settings)
    if len(names) < 2:
        return [[word for name in names if (word := _words(name, own))] for own in settings]
    said = []
    for own, recipe in zip(settings, recipes, strict=True):
        kind = algorithm_named(own["algorithm"])
        usual = {**vars(kind.defaults(own["env"], recipe or PAPER)), **vars(kind.environment)}
        words = [word for name in names if own[name] != usual.get(name) and (word := _words(name, own))]
        said.append([*filter(None, [recipe]), *words] or ["defaults"])
    return said


def _recipes(settings: list[Settings]) -> list[str | None]:
    """The recipe that each of these is nearest to, where one of them is tuned and one is not; else nothing."""
    env = settings[0]["env"]
    paper = vars(agent_defaults(env))
    tuned = {name: value for name, value in AGENT["tuned"][env_kind(env)].items() if paper[name] != value}
    if not tuned or not tuned.keys() <= settings[0].keys():
        return [None] * len(settings)
    shares = [sum(own[name] == value for name, value in tuned.items()) / len(tuned) for own in settings]
    if max(shares) < 1.0 or min(shares) == 1.0:
        return [None] * len(settings)
    return ["tuned" if share > 0.5 else PAPER for share in shares]


def _words(name: str, own: Settings) -> str:
    """A setting in words; nothing where there is nothing to say: a game with its own encoder is the usual thing."""
    value, words = own[name], WORDS.get(name, name.replace("_", " "))
    if value == "" or (name == "vae" and value == own["env"]):
        return ""
    if isinstance(value, bool):
        return words if value else f"no {words}"
    if isinstance(value, (tuple, list)):
        return " ".join(map(str, value)) or f"no {words}"
    if name == "embedding":
        return EMBEDDINGS.get(str(value), str(value))
    if name == "n_envs":
        return f"{value} {words if value > 1 else 'environment'}"
    shown = f"{value:,}" if isinstance(value, int) else f"{value:g}" if isinstance(value, float) else value
    return f"{words} {shown}"
