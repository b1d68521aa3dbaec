from __future__ import annotations

import json

import pytest

from stoker.model import host
from stoker.model.host import HostEnd, HostHeader, HostReading, HostRow, IsolatedPython, MissingField

ROWS: list[HostRow] = [
    HostHeader("stoker.host/1", "run-1", 4312, 1.0, 5.0, 1e9, cores_allowed=2.0),
    HostReading(7.5, processes=3, cpu_s_total=1.25, busiest_thread="python"),
    MissingField("cpu_pressure_s_total", "/proc/pressure/cpu cannot be read"),
    IsolatedPython(4313, "-I"),
    HostEnd(9.0, "told to end"),
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: type(row).__name__)
def test_what_is_written_is_read_again(row: HostRow) -> None:
    assert host.parse_any(json.loads(json.dumps(host.to_row(row)))) == row


def test_the_unknown_is_absent_not_zero() -> None:
    assert host.to_row(HostReading(7.5, processes=0)) == {"kind": "reading", "t": 7.5, "processes": 0}
    reading = host.parse_any({"kind": "reading", "t": 7.5})
    assert isinstance(reading, HostReading)
    assert reading.processes is None


@pytest.mark.parametrize(
    "row", [{}, {"kind": "reading"}, {"kind": "later"}, {"kind": "reading", "t": "soon"}]
)
def test_unusable_rows(row: dict[str, object]) -> None:
    assert host.parse_any(row) is None


def test_keys_of_later_versions_and_wrong_types_do_no_harm() -> None:
    row = {"kind": "reading", "t": 1, "colour": "red", "processes": "many", "threads": True, "load_1m": 2}
    assert host.parse_any(row) == HostReading(1, load_1m=2)
