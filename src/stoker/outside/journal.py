"""One JSON line per row, each a single write at the end of the file: a kill leaves at most one torn line.

A full disk never ends the watching: the row is dropped and counted, and a later row says how many were.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

_as_json = json.JSONEncoder(separators=(",", ":")).encode


class Journal:
    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._torn = False
        self.lost_rows = 0
        self.written_bytes = 0

    def append(self, row: Mapping[str, object]) -> bool:
        line = _as_json(row).encode() + b"\n"
        if self._torn:
            line = b"\n" + line
        try:
            written = os.write(self._descriptor, line)
        except OSError:  # no space, quota, a network folder gone
            self.lost_rows += 1
            return False
        self.written_bytes += written
        self._torn = written < len(line)
        self.lost_rows += self._torn
        return not self._torn

    def close(self) -> None:
        os.close(self._descriptor)
