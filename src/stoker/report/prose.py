"""A page of the docs for a terminal: its paragraphs and items in lines of 80 columns, all else as it is."""

from __future__ import annotations

from itertools import groupby

from stoker.report.columns import wrap

WIDTH = 80
_FENCE, _AS_IT_IS = "```", ("#", "|", "    ")
_ITEM = "- "


def prose(markdown: str) -> str:
    """Still the same Markdown."""
    lines: list[str] = []
    inside = False
    for fenced, part in groupby(markdown.splitlines(), lambda line: line.startswith(_FENCE)):
        if fenced or inside:
            lines += part
            inside = inside != fenced
        else:
            lines += _paragraphs(list(part))
    return "\n".join(lines) + "\n"


def _paragraphs(lines: list[str]) -> list[str]:
    found: list[str] = []
    joined = ""
    for line in [*lines, ""]:
        alone = not line or line.startswith(_AS_IT_IS)
        if joined and (alone or line.startswith(_ITEM)):
            found += _wrapped(joined)
            joined = ""
        if alone:
            found.append(line)
        else:
            joined = f"{joined} {line.strip()}" if joined else line
    return found[:-1]


def _wrapped(paragraph: str) -> list[str]:
    item = paragraph.startswith(_ITEM)
    return wrap(paragraph.removeprefix(_ITEM), WIDTH, _ITEM if item else "", "  " if item else "")
