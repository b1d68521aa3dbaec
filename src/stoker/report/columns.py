"""Text in columns of a terminal, where some characters take two and some none."""

from __future__ import annotations

import textwrap

from rich.cells import cell_len, chop_cells, set_cell_size


def fit(text: str, room: int) -> str:
    """Cut to `room` columns, with a mark where something is missing."""
    return text if cell_len(text) <= room else set_cell_size(text, room - 1) + "…"


def pad(text: str, width: int, *, right: bool = False) -> str:
    space = " " * (width - cell_len(text))
    return space + text if right else text + space


def wrap(text: str, width: int, first: str, rest: str) -> list[str]:
    """Lines of at most `width` columns; `first` and `rest` stand before them."""
    if cell_len(text) == len(text):
        lines = textwrap.wrap(
            text, width, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False
        )
        return lines or [""]
    room = width - max(cell_len(first), cell_len(rest))
    pieces = [piece for word in text.split() for piece in chop_cells(word, room)]
    rows = [""]
    for piece in pieces:
        joined = f"{rows[-1]} {piece}".lstrip()
        if cell_len(joined) <= room:
            rows[-1] = joined
        else:
            rows.append(piece)
    return [(rest if number else first) + row for number, row in enumerate(rows)]
