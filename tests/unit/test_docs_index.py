"""Every page can be found from docs/README.md, and every link leads somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from stoker.commands import VERBS
from stoker.diagnose.causes import CAUSES

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
INDEX = (DOCS / "README.md").read_text("utf-8")
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]


def links(page: Path) -> list[str]:
    """To files; those within a page and to the web are left out."""
    targets = re.findall(r"\]\(([^)\s]+)\)", page.read_text("utf-8"))
    return [target.partition("#")[0] for target in targets if not target.startswith(("#", "http"))]


def test_every_verb_has_its_page_in_the_index() -> None:
    for verb, what in VERBS.items():
        assert f"| [`stoker {verb}`]({verb}.md) | {what} |" in INDEX


def test_every_cause_is_in_the_index() -> None:
    for cause in CAUSES:
        assert f"| [{cause.code}](causes/{cause.code}.md) | {cause.name} |" in INDEX


def test_every_page_is_in_the_index() -> None:
    written = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")} - {"README.md"}
    assert set(links(DOCS / "README.md")) == written


def test_the_readme_leads_to_the_index() -> None:
    assert "docs/README.md" in links(ROOT / "README.md")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_leads_somewhere(page: Path) -> None:
    broken = [link for link in links(page) if not (page.parent / link).exists()]
    assert broken == []
