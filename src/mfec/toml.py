"""Settings as TOML."""

from __future__ import annotations

from typing import Any

import tomli_w


def flat(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings with those of all tables below them, by name."""
    all_of_them: dict[str, Any] = {}
    for name, value in settings.items():
        all_of_them.update(value if isinstance(value, dict) else {name: value})
    return all_of_them


def to_toml(values: dict[str, Any]) -> str:
    """Settings and the tables below them in TOML. TOML has no word for None, so settings that are None are left out."""
    return tomli_w.dumps(_without_none(values))


def _without_none(table: dict[str, Any]) -> dict[str, Any]:
    return {
        name: _without_none(value) if isinstance(value, dict) else value
        for name, value in table.items()
        if value is not None
    }
