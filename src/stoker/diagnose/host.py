"""The machine beside the training, in a few figures."""

from __future__ import annotations

from dataclasses import dataclass

from stoker.model.host import HostReading, HostRecord

MIN_S = 1.5
"""Rates over less than this are noise: CPU time is counted in hundredths of a second, once a second."""


@dataclass(frozen=True, slots=True)
class HostView:
    seconds: float
    cores_used: float | None
    cores_allowed: float | None
    allowed_cpu_pct: float | None
    """Mean over the cores this training may use, whoever used them."""
    hottest_core_pct: float | None
    busiest_pct: float | None
    rss_peak_bytes: int | None
    processes_peak: int | None
    read_bytes_per_s: float | None
    iowait_pct: float | None
    throttled_frac: float | None
    io_pressure_frac: float | None
    shm_peak_frac: float | None
    watcher_cpu_pct: float | None


def host_view(
    record: HostRecord, start_s: float | None = None, end_s: float | None = None
) -> HostView | None:
    """Over the given part of the run, or all of it; None with fewer than two readings."""
    rows = [
        row
        for row in record.readings
        if (start_s is None or row.t >= start_s) and (end_s is None or row.t <= end_s)
    ]
    if len(rows) < 2 or rows[-1].t - rows[0].t < MIN_S:
        rows = list(record.readings)
    if len(rows) < 2 or rows[-1].t - rows[0].t < MIN_S:
        return None
    seconds = rows[-1].t - rows[0].t
    return HostView(
        seconds=seconds,
        cores_used=_rate(rows, "cpu_s_total"),
        cores_allowed=record.header.cores_allowed if record.header else None,
        allowed_cpu_pct=_mean(rows, "allowed_cpu_pct"),
        hottest_core_pct=_mean(rows, "hottest_core_pct"),
        busiest_pct=_mean(rows, "busiest_pct"),
        rss_peak_bytes=_peak(rows, "rss_bytes"),
        processes_peak=_peak(rows, "processes"),
        read_bytes_per_s=_rate(rows, "read_bytes_total"),
        iowait_pct=_mean(rows, "iowait_pct"),
        throttled_frac=_rate(rows, "throttled_s_total"),
        io_pressure_frac=_rate(rows, "io_pressure_s_total"),
        shm_peak_frac=_shm(rows),
        watcher_cpu_pct=_watcher(record.readings),
    )


def core_wait_frac(record: HostRecord, pid: int, start_s: float | None, end_s: float | None) -> float | None:
    shares = core_shares(record, pid, start_s, end_s)
    return shares[0] if shares else None


def core_shares(
    record: HostRecord, pid: int, start_s: float | None = None, end_s: float | None = None
) -> tuple[float, float, int] | None:
    """Of the time between the first and the last look within: the training thread of this process was ready
    to run and had no core; it waited for something else; of how many threads that is. None where it was
    counted for too short a time."""
    rows = [
        row
        for row in record.core_waits
        if row.pid == pid and (start_s or 0.0) <= row.t and (end_s is None or row.t <= end_s)
    ]
    if len(rows) < 2 or rows[-1].t - rows[0].t < MIN_S:
        return None
    seconds = rows[-1].t - rows[0].t
    waited = (rows[-1].waited_s_total - rows[0].waited_s_total) / seconds
    on_core = (rows[-1].on_core_s_total - rows[0].on_core_s_total) / seconds
    return waited, max(0.0, 1 - on_core - waited), rows[-1].threads


def _values(rows: list[HostReading], name: str) -> list[tuple[float, float]]:
    return [(row.t, value) for row in rows if (value := getattr(row, name)) is not None]


def _rate(rows: list[HostReading], name: str) -> float | None:
    values = _values(rows, name)
    if len(values) < 2 or values[-1][0] <= values[0][0]:
        return None
    return (values[-1][1] - values[0][1]) / (values[-1][0] - values[0][0])


def _mean(rows: list[HostReading], name: str) -> float | None:
    values = [value for _, value in _values(rows, name)]
    return sum(values) / len(values) if values else None


def _peak(rows: list[HostReading], name: str) -> int | None:
    return max((int(value) for _, value in _values(rows, name)), default=None)


def _shm(rows: list[HostReading]) -> float | None:
    shares = [
        row.shm_used_bytes / row.shm_total_bytes for row in rows if row.shm_used_bytes and row.shm_total_bytes
    ]
    return max(shares, default=None)


def _watcher(rows: tuple[HostReading, ...]) -> float | None:
    spent = [(row.t, row.watcher_cpu_s) for row in rows if row.watcher_cpu_s is not None]
    if len(spent) < 2 or spent[-1][0] <= spent[0][0]:
        return None
    return 100 * (spent[-1][1] - spent[0][1]) / (spent[-1][0] - spent[0][0])
