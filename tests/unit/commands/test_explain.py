"""Every cause has its page, every page its cause, and `stoker explain` prints it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from stoker.commands import main
from stoker.diagnose.causes import CAUSES

PAGES = Path(__file__).parents[3] / "docs" / "causes"
SECTIONS = ["How Stoker sees it", "Evidence shown", "At most", "Fixes", "Often taken for"]


def test_every_cause_has_its_page_and_every_page_its_cause() -> None:
    assert sorted(path.name for path in PAGES.iterdir()) == [f"{cause.code}.md" for cause in CAUSES]


def test_the_pages_go_into_the_wheel() -> None:
    settings = (PAGES.parents[1] / "pyproject.toml").read_text("utf-8")
    assert '"docs/causes" = "stoker/docs/causes"' in settings


@pytest.mark.parametrize("cause", CAUSES, ids=lambda cause: cause.code)
def test_a_page_says_what_it_should(cause: object, capsys: pytest.CaptureFixture[str]) -> None:
    code, name = cause.code, cause.name  # type: ignore[attr-defined]
    assert main(["explain", code.lower()]) == 0
    text = capsys.readouterr().out
    assert text.startswith(f"# {code}: {name}\n")
    assert re.findall("^## (.+)$", text, re.MULTILINE) == SECTIONS
    assert text.split() == (PAGES / f"{code}.md").read_text("utf-8").split(), "nothing is lost"
    assert all(len(line) <= 80 for part in text.split("```")[::2] for line in part.splitlines())
    mentioned = set(re.findall(r"SK\d{3}", text))
    assert mentioned <= {one.code for one in CAUSES}


def test_without_a_code_all_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain"]) == 0
    assert capsys.readouterr().out.splitlines() == [f"{one.code}  {one.name}" for one in CAUSES]


def test_an_unknown_code_names_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "SK999"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert all(cause.code in said.err for cause in CAUSES)
