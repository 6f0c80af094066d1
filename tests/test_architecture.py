"""`docs/architecture.md`: imports are those of its table, and every file that it names is there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "mfec"
PAGE = (ROOT / "docs" / "architecture.md").read_text()
TABLE = {
    name: set(re.findall(r"`(\w+)`", imports))
    for name, imports in re.findall(r"^\| `(\w+)` \|[^|]*\|([^|]*)\|$", PAGE, flags=re.M)
}
FOR_ALL = {"errors", "config", "files", "units", "statistics", "canonical_names", "toml", "html_table"}
OUTSIDE = {"__init__", "__main__"}  # what the package shows of itself, and how it starts


def room(file: Path) -> str:
    return file.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported(file: Path) -> Iterator[str]:
    """The rooms that a file imports from, at its top, in its functions or for its types."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file} imports relative to itself"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        yield from (name.split(".")[1] for name in names if name.startswith("mfec.") and "__" not in name)


def test_the_table_has_every_room():
    assert set(TABLE) == {room(file) for file in SOURCE.rglob("*.py")} - OUTSIDE


def test_no_chain_of_imports_leads_back():
    TopologicalSorter(TABLE).prepare()  # raises where there is a cycle
    TopologicalSorter({name: own | (FOR_ALL - {name}) for name, own in TABLE.items() if name not in FOR_ALL}).prepare()


@pytest.mark.parametrize("name", TABLE)
def test_a_room_imports_what_the_table_says(name: str):
    found = {own for file in SOURCE.rglob("*.py") if room(file) == name for own in imported(file)} - {name}
    assert found - FOR_ALL <= TABLE[name]
    assert TABLE[name] <= found, "the table allows what nobody needs"


def test_every_file_that_the_page_names_is_there():
    named = re.findall(r"`([\w/]+\.py|[\w/]+/)`", PAGE)
    assert len(named) > 20
    parents = [SOURCE, *(SOURCE / own for own in ("figures", "memory"))]
    assert [own for own in named if not any((parent / own).exists() for parent in parents)] == []


def test_no_room_but_one_asks_which_algorithm_a_run_has():
    asks = re.compile(r"""algorithm\b[^\n]{0,9}(==|!=|in \()\s*["']""")
    files = [file for file in SOURCE.rglob("*.py") if room(file) != "algorithms"]
    assert [str(file) for file in files if asks.search(file.read_text())] == []
