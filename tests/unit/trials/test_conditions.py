"""What a trial says of the machine it ran on."""

from __future__ import annotations

import pytest

from stoker.model.host import HostHeader, HostReading, HostRecord
from stoker.trials.conditions import CPU_FOREIGN, _crowded_cpu


def host(all_pct: float, own_cores: float, cores: int = 2) -> HostRecord:
    header = HostHeader("stoker.host/1", "r", 1, 1.0, 0.0, 0.0, cores_affinity=cores)
    rows = [HostReading(float(t), cpu_s_total=own_cores * t, allowed_cpu_pct=all_pct) for t in range(10)]
    return HostRecord(header, tuple(rows))


@pytest.mark.parametrize(
    ("all_pct", "own_cores", "said"),
    [
        (100.0, 1.0, [CPU_FOREIGN]),
        (100.0, 1.9, []),  # its own work
        (60.0, 0.2, []),  # there was room
        (80.0, 1.2, []),
    ],
)
def test_others_on_a_full_cpu_are_told(all_pct: float, own_cores: float, said: list[str]) -> None:
    assert _crowded_cpu(host(all_pct, own_cores)) == said


def test_of_a_host_that_was_not_seen_nothing_is_said() -> None:
    assert _crowded_cpu(HostRecord()) == []
