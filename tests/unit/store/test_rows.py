from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.store import rows
from stoker.store.rows import json_rows, tsv_rows


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "rows"


def test_a_torn_last_line_is_not_there_yet(path: Path) -> None:
    path.write_bytes(b'{"a":1}\n{"a":2}\n{"a":')
    assert list(json_rows(path)) == [{"a": 1}, {"a": 2}]
    path.write_bytes(b"x\ty\n1\t2\n3\t4")
    assert list(tsv_rows(path, 1)) == [[1, 2]]


@pytest.mark.parametrize(
    "line",
    [b"\x00\xff\xfe", b"[1,2]", b"null", b"{", b'{"a":' + b"9" * 5000 + b"}", b"[" * 100_000, b'"\xff"'],
    ids=["binary", "list", "null", "torn", "endless-number", "deep", "not-utf8"],
)
def test_a_foreign_line_is_counted_and_passed(path: Path, line: bytes) -> None:
    path.write_bytes(b'{"a":1}\n' + line + b'\n{"a":2}\n')
    assert list(json_rows(path)) == [{"a": 1}, None, {"a": 2}]


def test_empty_lines_end_a_torn_one(path: Path) -> None:
    path.write_bytes(b'\n{"a":1}\n\n')
    assert list(json_rows(path)) == [{"a": 1}]


def test_a_line_without_end_is_not_held_in_memory(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "LINE_MAX_BYTES", 1000)
    path.write_bytes(b'{"a":1}\n"' + b"x" * 5000 + b'"\n{"a":2}\n')
    found = list(json_rows(path))
    assert found[0] == {"a": 1}
    assert found[-1] == {"a": 2}
    assert set(map(str, found[1:-1])) == {"None"}


def test_rows_of_another_width_are_left_out(path: Path) -> None:
    path.write_bytes(b"x\ty\tz\n1\t2\t0\n3\n4\t5\t6\t7\n7\tz\t0\n5\t6\n8\t9\t0\n")
    assert list(tsv_rows(path, 1)) == [[1, 2, 0], [3], [8, 9, 0]]
    path.write_bytes(b"")
    assert list(tsv_rows(path, 1)) == []


@given(st.binary(max_size=400))
def test_no_bytes_at_all_make_it_fail(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.mktemp("any") / "rows"
    path.write_bytes(content)
    assert all(row is None or isinstance(row, dict) for row in json_rows(path))
    width = content.split(b"\n")[0].count(b"\t") + 1
    assert {len(row) for row in tsv_rows(path, 1)} <= {1, width}
