"""An agent in a few lines, as notebooks show it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from html import escape
from typing import Any

from mfec.interface import Agent


def agent_html(agent: Agent, name: str, *, env: Any, settings: Any, facts: Mapping[str, str]) -> str:
    """A table in HTML: where the agent plays, settings that are not the defaults, how far it is, and these facts.

    settings: a dataclass whose defaults are the usual ones; None where there are none to tell.
    """
    scores = agent.scores
    rows = {
        "environment": "none" if env is None else _name_of(env),
        "settings": _unusual(settings) if settings is not None else "",
        "frames": f"{agent.frames:,}",
        "games": f"{agent.games:,}",
        **facts,
        f"mean of last {len(scores)} games": f"{sum(scores) / len(scores):,.1f}" if scores else "",
    }
    cells = "".join(
        f'<tr><th style="text-align: left">{escape(label)}</th><td style="text-align: left">{escape(value)}</td></tr>'
        for label, value in rows.items()
        if value
    )
    return f"<table><caption>{escape(name)}</caption><tbody>{cells}</tbody></table>"


def _name_of(env: Any) -> str:
    """The id of an environment, or else what it is; of several side by side, how many."""
    one = next(iter(getattr(env, "envs", ())), env)
    name = getattr(getattr(one, "spec", None), "id", None) or type(getattr(one, "unwrapped", one)).__name__
    n = getattr(env, "num_envs", 1)
    return str(name) if n == 1 else f"{n} x {name}"


def _unusual(settings: Any) -> str:
    return ", ".join(
        f"{field.name}={getattr(settings, field.name)}"
        for field in fields(settings)
        if getattr(settings, field.name) != field.default
    )
