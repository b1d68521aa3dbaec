from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest

from stoker.outside.journal import Journal


def lines(path: Path) -> list[object]:
    """As a reader does it: a line that is no JSON is left out."""
    found = []
    for line in path.read_bytes().splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found


class Disk:
    """A disk with room for so many bytes."""

    def __init__(self, room: int) -> None:
        self.room = room
        self._write = os.write

    def write(self, descriptor: int, data: bytes) -> int:
        if self.room == 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        written = self._write(descriptor, data[: self.room])
        self.room -= written
        return written


def test_one_write_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[bytes] = []
    monkeypatch.setattr(os, "write", lambda fd, data: written.append(data) or len(data))
    journal = Journal(tmp_path / "outside" / "host.jsonl")
    journal.append({"a": "line\nbreak"})
    assert written == [b'{"a":"line\\nbreak"}\n']


def test_a_full_disk_loses_rows_and_counts_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk(room=12)
    monkeypatch.setattr(os, "write", disk.write)
    journal = Journal(tmp_path / "host.jsonl")
    assert journal.append({"a": 1})
    assert not journal.append({"a": 2}), "torn in the middle"
    assert not journal.append({"a": 3}), "no room at all"
    assert journal.lost_rows == 2
    disk.room = 1000
    assert journal.append({"a": 4})
    assert lines(tmp_path / "host.jsonl") == [{"a": 1}, {"a": 4}], "the torn line spoils no other"


def test_it_appends_to_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "host.jsonl").write_text('{"a":0}\n')
    journal = Journal(tmp_path / "host.jsonl")
    journal.append({"a": 1})
    journal.close()
    assert lines(tmp_path / "host.jsonl") == [{"a": 0}, {"a": 1}]
