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
    """A flat table with tables below it, in TOML, which has no word for None: what is None is left out."""
    lines = _lines(values)
    for name, table in values.items():
        if isinstance(table, dict):
            lines += ["", f"[{name}]", *_lines(table)]
    return "\n".join(lines) + "\n"


def _lines(table: dict[str, Any]) -> list[str]:
    said = {name: value for name, value in table.items() if value is not None and not isinstance(value, dict)}
    return [f"{name} = {_toml_value(value)}" for name, value in said.items()]


def _toml_value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_toml_value(item) for item in value)}]"
    escaped = str(value).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
