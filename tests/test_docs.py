"""The pages: links lead somewhere, the site has all of them, and the reference has every public name."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import mfec

ROOT = Path(__file__).parents[1]
DOCS = sorted(
    page for kind in ("*.md", "*.ipynb") for page in (ROOT / "docs").rglob(kind) if "_build" not in page.parts
)
PAGES = [*DOCS, *(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "results/README.md"))]


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def text_of(page: Path) -> str:
    """A page in Markdown, or what a notebook has of it."""
    text = page.read_text(encoding="utf-8")
    if page.suffix == ".md":
        return text
    return "\n\n".join("".join(cell["source"]) for cell in json.loads(text)["cells"] if cell["cell_type"] == "markdown")


def without_code(text: str) -> str:
    return re.sub(r"^```.*?^```$|`[^`\n]*`", "", text, flags=re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """Of the headings of a page, as GitHub and the site make them."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```$", "", text_of(page), flags=re.M | re.S), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_to_files_and_headings_that_are_there(page):
    links = re.findall(r"\]\(([^)\s]+)\)", without_code(text_of(page)))
    for link in links:
        if re.match(r"https?://", link):
            continue
        path, _, heading = link.partition("#")
        target = page.parent / path if path else page
        assert target.is_file(), link  # the site has no folders
        assert not heading or heading in anchors(target), link


def test_the_site_has_every_page():
    listed = set()
    for index in (ROOT / "docs" / "index.md", ROOT / "docs" / "api" / "index.md"):
        for tree in re.findall(r"^```\{toctree\}\n(.*?)^```$", index.read_text(encoding="utf-8"), re.M | re.S):
            for line in tree.splitlines():
                entry = line.partition("<")[2].rstrip(">") or line
                if entry and not entry.startswith(":"):
                    folder = ROOT if entry.startswith("/") else index.parent
                    page = folder / f"{entry.removeprefix('/')}.md"
                    listed.add(page if page.is_file() else page.with_suffix(".ipynb"))
    assert {name_of(page) for page in listed} == {name_of(page) for page in PAGES} - {"docs/index.md"}


def test_the_reference_has_every_public_name():
    text = "\n".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs" / "api").glob("*.md"))
    assert {*mfec._HOMES} <= set(re.findall(r"^\.\. auto\w+:: mfec\.(\w+)$", text, re.MULTILINE))
