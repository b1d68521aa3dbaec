"""What the host watcher wrote, read back."""

from __future__ import annotations

from pathlib import Path

from stoker.model.host import (
    CoreWait,
    HostHeader,
    HostReading,
    HostRecord,
    IsolatedPython,
    MissingField,
    parse_any,
)
from stoker.store.rows import json_rows


def read_host(folder: Path) -> HostRecord:
    path = folder / "outside" / "host.jsonl"
    if not path.exists():
        return HostRecord()
    rows = [parsed for row in json_rows(path) if row is not None and (parsed := parse_any(row)) is not None]
    headers = [row for row in rows if isinstance(row, HostHeader)]
    return HostRecord(
        headers[0] if headers else None,
        tuple(row for row in rows if isinstance(row, HostReading)),
        tuple(row for row in rows if isinstance(row, MissingField)),
        tuple(row for row in rows if isinstance(row, IsolatedPython)),
        tuple(row for row in rows if isinstance(row, CoreWait)),
    )
