"""Lines of JSON and tab-separated numbers, read tolerantly: a torn or foreign line is counted, not fatal."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

Row = dict[str, Any]

LINE_MAX_BYTES = 8_000_000
"""No writer of ours comes near it: a longer line is somebody else's, and is not held in memory."""


def json_rows(path: Path) -> Iterator[Row | None]:
    """Each line as a dict, or None where it is none."""
    with path.open("rb") as handle:
        for line in _whole_lines(handle):
            if not line.strip():
                continue  # ends a torn line after a full disk
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):
                yield None
                continue
            yield row if isinstance(row, dict) else None


def tsv_rows(path: Path, short: int | None = None) -> Iterator[list[int]]:
    """Numbers of each whole line after the header: all columns, or the first `short` ones."""
    with path.open("rb") as handle:
        lines = _whole_lines(handle)
        width = next(lines, b"").count(b"\t") + 1
        for line in lines:
            cells = line.split(b"\t")
            if len(cells) in (width, short):
                try:
                    yield [int(cell) for cell in cells]
                except ValueError:
                    continue


def tsv_pairs(path: Path) -> Iterator[tuple[int, int]]:
    """The first two numbers of each whole line after the header: much quicker than all of them."""
    with path.open("rb") as handle:
        lines = _whole_lines(handle)
        width = next(lines, b"").count(b"\t") + 1
        for line in lines:
            cells = line.split(b"\t", 2)
            try:
                if len(cells) == 3 and line.count(b"\t") + 1 == width:
                    yield int(cells[0]), int(cells[1])
            except ValueError:
                continue


def _whole_lines(handle: BinaryIO) -> Iterator[bytes]:
    """Without the last one where it is still being written, or was torn by a kill. One that is too long comes
    in pieces, none of which can be read."""
    while line := handle.readline(LINE_MAX_BYTES):
        if not line.endswith(b"\n") and len(line) < LINE_MAX_BYTES:
            return
        yield line
