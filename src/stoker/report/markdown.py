"""A page as Markdown one could commit."""

from __future__ import annotations

from stoker.report.escape import markdown as escape
from stoker.report.escape import printable
from stoker.report.page import Bars, Block, Excerpt, Facts, NextCommand, Notes, Page, Sentence, Stack, Table


def render(page: Page) -> str:
    parts = [f"# {escape(page.title)}", escape(page.status), *map(_draw, page.blocks)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _draw(block: Block) -> str:
    match block:
        case Sentence(text):
            return f"**{escape(text)}**"
        case Facts(rows, heading):
            head = f"## {escape(heading)}\n\n" if heading else ""
            return head + _grid(("", ""), rows, frozenset())
        case Bars(heading, rows):
            shares = tuple((row.label, f"{row.pct:.1f} %", row.note) for row in rows)
            return f"## {escape(heading)}\n\n" + _grid(("", "share", ""), shares, frozenset({1}))
        case Stack(heading, parts):
            shares = tuple((part.label, f"{part.pct:.1f} %", part.note) for part in parts)
            return f"## {escape(heading)}\n\n" + _grid(("", "share", ""), shares, frozenset({1}))
        case Table(heading, columns, rows, right):
            head = f"## {escape(heading)}\n\n" if heading else ""
            return head + _grid(columns, rows, right)
        case Notes(heading, lines):
            head = f"## {escape(heading)}\n\n" if heading and lines else ""
            return head + "\n".join(f"- {escape(line)}" for line in lines)
        case Excerpt(heading, quoted):
            fence = "`" * max(3, 1 + max(map(_longest_run, quoted), default=0))
            return "\n".join([f"## {escape(heading)}", "", fence, *map(printable, quoted), fence])
        case NextCommand(command, why):
            fence = "`" * (_longest_run(command) + 1)
            return f"Next: {fence} {printable(command)} {fence} {escape(why)}".rstrip()


def _grid(columns: tuple[str, ...], rows: tuple[tuple[str, ...], ...], right: frozenset[int]) -> str:
    rule = ["---:" if index in right else "---" for index in range(len(columns))]
    lines = [[escape(column) for column in columns], rule, *([escape(cell) for cell in row] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _longest_run(text: str) -> int:
    longest = current = 0
    for character in text:
        current = current + 1 if character == "`" else 0
        longest = max(longest, current)
    return longest
