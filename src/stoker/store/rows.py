"""Lines of JSON and tab-separated numbers, read tolerantly: a torn or foreign line is counted, not fatal."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Row = dict[str, Any]


def json_rows(path: Path) -> Iterator[Row | None]:
    """Each line as a dict, or None where it is none."""
    with path.open("rb") as handle:
        for line in handle:
            if not line.endswith(b"\n"):
                return  # still being written, or torn by a kill
            try:
                row = json.loads(line)
            except ValueError:
                yield None
                continue
            yield row if isinstance(row, dict) else None


def tsv_rows(path: Path) -> Iterator[list[int]]:
    """Numbers of each whole line after the header."""
    with path.open("rb") as handle:
        header = handle.readline()
        width = header.count(b"\t") + 1
        for line in handle:
            if not line.endswith(b"\n"):
                return
            cells = line.split(b"\t")
            if len(cells) == width:
                try:
                    yield [int(cell) for cell in cells]
                except ValueError:
                    continue
