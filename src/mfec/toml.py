"""Settings as TOML, which Python reads but does not write."""

from __future__ import annotations

from typing import Any


def flat(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings with those of all tables below them, by name."""
    all_of_them: dict[str, Any] = {}
    for name, value in settings.items():
        all_of_them.update(value if isinstance(value, dict) else {name: value})
    return all_of_them


def to_toml(values: dict[str, Any]) -> str:
    """A flat table with tables below it, in TOML."""
    lines = [f"{name} = {_toml_value(value)}" for name, value in values.items() if not isinstance(value, dict)]
    for name, table in values.items():
        if isinstance(table, dict):
            lines += ["", f"[{name}]", *(f"{key} = {_toml_value(value)}" for key, value in table.items())]
    return "\n".join(lines) + "\n"


def _toml_value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_toml_value(item) for item in value)}]"
    escaped = str(value).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
