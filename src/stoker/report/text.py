"""A page as text of 80 columns; colour only on a terminal that wants it."""

from __future__ import annotations

import re
from typing import TextIO

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from stoker.report.columns import fit, pad, wrap
from stoker.report.escape import printable, shorten_middle
from stoker.report.page import Bars, Block, Excerpt, Facts, NextCommand, Notes, Page, Sentence, Stack, Table
from stoker.report.stacked import stack

WIDTH = 80
_BAR_WIDTH = 24
_WORD = re.compile(r"""(?:[^\s'"]|'[^']*'|"[^"]*")+""")
_FULL, _PARTS = "█", " ▏▎▍▌▋▊▉"


def show(page: Page, stream: TextIO) -> None:
    console = Console(file=stream, width=WIDTH, highlight=False, soft_wrap=True, legacy_windows=False)
    for line in render(page):
        console.print(line)


def plain(page: Page) -> str:
    return "\n".join(line.plain.rstrip() for line in render(page)) + "\n"


def render(page: Page) -> list[Text]:
    lines = _title(page)
    for block in page.blocks:
        drawn = _draw(block)
        if drawn:
            lines += [Text(""), *drawn]
    return lines


def _title(page: Page) -> list[Text]:
    status = printable(page.status)
    room = WIDTH - cell_len(status) - 2
    shown = fit(printable(page.title), room)
    return [Text(pad(shown, room + 2) + status, style="bold")]


def _draw(block: Block) -> list[Text]:
    match block:
        case Sentence(text):
            return [Text(line, style="bold") for line in _wrap(text, 0)]
        case Facts(rows, heading):
            return _heading(heading) + _facts(rows)
        case Bars():
            return _bars(block)
        case Stack():
            return _heading(block.heading) + stack(block.parts, WIDTH)
        case Table():
            return _table(block)
        case Notes(heading, notes):
            return _notes(heading, notes)
        case Excerpt(heading, rows):
            quoted = [line for row in rows for line in _wrap(row, 6, "  | ")]
            return _heading(heading) + [Text(line) for line in quoted]
        case NextCommand(command, why):
            return _next(printable(command), printable(why))


def _next(command: str, why: str) -> list[Text]:
    """Too long for a line it goes on in further ones, as a shell reads it; the user's own on new ones."""
    if cell_len(command) > WIDTH - 6:
        first, *more = _shell_lines(command)
        return [
            Text.assemble(("next: ", "dim"), (first, "cyan")),
            *(Text.assemble("      ", (line, "cyan")) for line in more),
        ]
    tail = f"   {why}" if why and cell_len(command) + cell_len(why) + 9 <= WIDTH else ""
    return [Text.assemble(("next: ", "dim"), (command, "cyan"), (tail, "dim"))]


def _shell_lines(command: str) -> list[str]:
    """Broken between words; what is in quotes is left together."""
    own, ends, rest = command.partition(" -- ")
    lines = []
    for part in (f"{own} --", rest) if ends else (command,):
        line = ""
        for word in _WORD.findall(part):
            if line and cell_len(f"{line} {word} \\") > WIDTH - 6:
                lines.append(line)
                line = ""
            line = f"{line} {word}".lstrip()
        lines.append(line)
    return [f"{line} \\" for line in lines[:-1]] + [lines[-1]]


def _wrap(text: str, indent: int, first: str = "") -> list[str]:
    return wrap(printable(text), WIDTH, first or " " * indent, " " * indent)


def _heading(text: str) -> list[Text]:
    return [Text(line, style="underline") for line in _wrap(text, 0)] if text else []


def _facts(rows: tuple[tuple[str, str], ...]) -> list[Text]:
    width = max((len(label) for label, _ in rows), default=0) + 2
    lines = []
    for label, value in rows:
        for line in _wrap(value, width, f"{printable(label):<{width}}"):
            text = Text(line)
            text.stylize("dim", 0, width)
            lines.append(text)
    return lines


def _bars(block: Bars) -> list[Text]:
    label_width = max((len(row.label) for row in block.rows), default=0) + 2
    lines = _heading(block.heading)
    for row in block.rows:
        text = Text(f"  {printable(row.label):<{label_width}}")
        text.append(f"{bar(row.pct):<{_BAR_WIDTH}}", style="yellow" if row.waiting else "green")
        text.append(f" {row.pct:5.1f} %")
        room = WIDTH - len(text.plain) - 2
        if row.note:
            text.append("  " + fit(printable(row.note), room), style="dim")
        lines.append(text)
    return lines


def bar(pct: float) -> str:
    eighths = round(max(0.0, min(pct, 100.0)) / 100 * _BAR_WIDTH * 8)
    whole, part = divmod(eighths, 8)
    return _FULL * whole + (_PARTS[part] if part else "")


def _table(block: Table) -> list[Text]:
    cells = [[printable(cell) for cell in row] for row in block.rows]
    widths = _column_widths([list(block.columns), *cells])
    lines = _heading(block.heading)
    if any(block.columns):
        lines.append(Text(_row(list(block.columns), widths, block.right), style="dim"))
    return lines + [Text(_row(row, widths, block.right)) for row in cells]


def _column_widths(rows: list[list[str]]) -> list[int]:
    """Natural widths; where they do not fit the page, the widest column gives way."""
    widths = [max(cell_len(cell) for cell in column) for column in zip(*rows, strict=True)]
    while sum(widths) + 2 * len(widths) > WIDTH and max(widths) > 8:
        widths[widths.index(max(widths))] -= 1
    return widths


def _row(row: list[str], widths: list[int], right: frozenset[int]) -> str:
    cells = []
    for index, (cell, width) in enumerate(zip(row, widths, strict=True)):
        # The first column holds names, which often begin alike: they keep both ends.
        ends = shorten_middle(cell, width) if index == 0 and cell.isascii() else fit(cell, width)
        cells.append(pad(ends, width, right=index in right))
    return ("  " + "  ".join(cells)).rstrip()


def _notes(heading: str, notes: tuple[str, ...]) -> list[Text]:
    if not notes:
        return []
    lines = _heading(heading)
    for note in notes:
        lines += [Text(line) for line in _wrap(note, 4, "  - ")]
    return lines
