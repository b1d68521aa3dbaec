"""A recorded deep window made shorter: its first ticks. A loop of many small kernels leaves megabytes.

It is what a shorter window would have recorded, cut at the end of a tick; the row of the window says so.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from stoker.inside import wire

NS = 1_000_000_000


def shortened(files: Mapping[str, bytes], share: float) -> dict[str, bytes]:
    """Of all files of a run; those without a deep window come back as they are."""
    found = dict(files)
    for name, content in files.items():
        if not name.startswith("inside/") or not name.endswith(".jsonl"):
            continue
        lines = content.splitlines(keepends=True)
        for index, line in enumerate(lines):
            row = _deep_row(line)
            trace = f"inside/{row['file']}" if row else ""
            if row and trace in files:
                found[trace], row = _cut(files[trace], row, share)
                lines[index] = json.dumps(row, separators=(",", ":")).encode() + b"\n"
                found[name] = b"".join(lines)
    return found


def _deep_row(line: bytes) -> dict[str, Any] | None:
    if wire.DEEP_WINDOW.encode() not in line:
        return None
    try:
        row = json.loads(line)
    except ValueError:
        return None
    taken = isinstance(row, dict) and row.get("k") == wire.DEEP_WINDOW and row.get("state") == "taken"
    return row if taken else None


def _cut(trace: bytes, row: dict[str, Any], share: float) -> tuple[bytes, dict[str, Any]]:
    """The window begins and ends with the end of a tick; its first one is at 0."""
    head, *lines = trace.splitlines(keepends=True)
    width = len(wire.DEEP_COLUMNS)
    rows = [
        (int(cells[0]), int(cells[1]), line) for line in lines if len(cells := line.split(b"\t")) == width
    ]
    ticks = sorted(start for kind, start, _ in rows if kind == wire.TICK and start > 0)
    if len(ticks) < 2:
        return trace, row
    end_ns = ticks[max(1, round(share * len(ticks))) - 1]
    kept = [one for one in rows if one[1] <= end_ns]
    events = sum(kind in (wire.KERNEL, wire.COPY, wire.FILL) for kind, _, _ in kept)
    done = sum(start <= end_ns for start in ticks)
    shorter = {**row, "end": round(row["t"] + end_ns / NS, 9), "ticks": done, "events": events}
    return head + b"".join(line for _, _, line in kept), shorter
