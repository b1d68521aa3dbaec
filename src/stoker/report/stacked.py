"""One bar of parts that add up to 100 %, as text: each part has its own sign, so it reads without colour."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from rich.text import Text

from stoker.report.columns import fit, pad
from stoker.report.escape import printable
from stoker.report.page import Segment, Tone

_INDENT = 2
_SIGNS = {Tone.GOOD: "█", Tone.FAIR: "▓", Tone.INFERRED: "░", Tone.UNKNOWN: "·"}
_STYLES = {
    Tone.GOOD: "green",
    Tone.FAIR: "cyan",
    Tone.LOST: "red",
    Tone.INFERRED: "yellow",
    Tone.UNKNOWN: "dim",
}
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
"""For parts that are lost: one each, so that several causes can be told apart."""
_EMPTY = "─"
_LABEL_MAX = 28
_SEEN_CELLS = 0.25
"""A part of this many cells gets a whole one."""


def stack(parts: Sequence[Segment], width: int) -> list[Text]:
    signs = _signs(parts)
    drawn = Text(" " * _INDENT)
    for part, sign, cells in zip(parts, signs, shared_cells(parts, width - 2 * _INDENT), strict=True):
        drawn.append(_drawn(part, sign, cells), style=_STYLES[part.tone])
    labels = [fit(printable(part.label), _LABEL_MAX) for part in parts]
    label_width = max(map(cell_len, labels), default=0)
    lines = [drawn]
    for part, sign, label in zip(parts, signs, labels, strict=True):
        line = Text(" " * _INDENT)
        line.append(sign, style=_STYLES[part.tone])
        line.append(f" {pad(label, label_width)}  {part.pct:5.1f} %")
        if part.note:
            line.append("  " + fit(printable(part.note), width - cell_len(line.plain) - 2), style="dim")
        lines.append(line)
    return lines


def _drawn(part: Segment, sign: str, cells: int) -> str:
    """What is lost is drawn empty, with its letter in front."""
    return (sign + _EMPTY * (cells - 1))[:cells] if part.tone is Tone.LOST else sign * cells


def _signs(parts: Sequence[Segment]) -> list[str]:
    letters = iter(_LETTERS)
    return [_SIGNS.get(part.tone) or next(letters, "z") for part in parts]


def shared_cells(parts: Sequence[Segment], cells: int) -> list[int]:
    """Whole cells by the largest remainder; a small part is still seen, if there is room for it."""
    total = sum(max(0.0, part.pct) for part in parts)
    if total <= 0:
        return [0] * len(parts)
    exact = [max(0.0, part.pct) / total * cells for part in parts]
    given = [max(int(share), 1 if share >= _SEEN_CELLS and len(parts) <= cells else 0) for share in exact]
    while (missing := cells - sum(given)) != 0:
        step = 1 if missing > 0 else -1
        owed = [(share - have) * step for share, have in zip(exact, given, strict=True)]
        able = [index for index, have in enumerate(given) if step > 0 or have > 1]
        given[max(able or range(len(given)), key=lambda index: owed[index])] += step
    return given
