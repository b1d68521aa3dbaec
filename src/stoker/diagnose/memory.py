"""What torch's allocator did with a GPU's memory over a window: growth, and blocks the driver got back."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from stoker.model.record import DeviceUse, ProcessRecord

GROWTH_MIN_BYTES = 64 * 2**20
EVEN_MIN = 0.5
"""The last third of the window grows by at least this share of the first: a peak that is still being found
grows ever less, a leak does not. Both own, 2026-11."""


@dataclass(frozen=True, slots=True)
class MemoryTrend:
    """None: the rows of the window do not tell."""

    frees_per_tick: float | None = None
    """Blocks given back to the driver."""
    retries_per_tick: float | None = None
    growth_bytes_per_s: float | None = None
    """Of what is allocated at most; 0 where it does not grow evenly."""
    growth_bytes_per_tick: float | None = None
    full_in_s: float | None = None
    """At this pace; None where it does not grow."""


def memory_trend(
    record: ProcessRecord, index: int | None, start_s: float | None, end_s: float | None
) -> MemoryTrend:
    rows = [
        use
        for use in record.devices
        if use.index == index and (start_s or 0.0) <= use.t_s <= (end_s or math.inf) + 1.5
    ]
    if len(rows) < 2 or rows[-1].t_s <= rows[0].t_s:
        return MemoryTrend()
    first, last = rows[0], rows[-1]
    ticks = _ticks_at(record, last.t_s) - _ticks_at(record, first.t_s)
    per_s = _growth_bytes_per_s(rows)
    seconds = last.t_s - first.t_s
    return MemoryTrend(
        frees_per_tick=_per_tick(first.driver_frees, last.driver_frees, ticks),
        retries_per_tick=_per_tick(first.retries, last.retries, ticks),
        growth_bytes_per_s=per_s,
        growth_bytes_per_tick=per_s * seconds / ticks if per_s is not None and ticks > 0 else None,
        full_in_s=_full_in_s(last, per_s),
    )


def _per_tick(before: int | None, after: int | None, ticks: float) -> float | None:
    return (after - before) / ticks if before is not None and after is not None and ticks > 0 else None


def _ticks_at(record: ProcessRecord, t_s: float) -> float:
    """Of the row a second that is nearest."""
    rows = record.seconds
    return float(min(rows, key=lambda row: abs(row.sums.t_s - t_s)).sums.ticks) if rows else 0.0


def _growth_bytes_per_s(rows: Sequence[DeviceUse]) -> float | None:
    """Rows come when the figure has changed: between two it stands."""
    if any(row.allocated_max_bytes is None for row in rows):
        return None
    start_s, seconds = rows[0].t_s, rows[-1].t_s - rows[0].t_s
    held = [_held_at(rows, start_s + part * seconds / 3) for part in range(4)]
    parts = [after - before for before, after in pairwise(held)]
    even = min(parts) > 0 and parts[-1] >= EVEN_MIN * parts[0]
    return sum(parts) / seconds if even and sum(parts) >= GROWTH_MIN_BYTES else 0.0


def _held_at(rows: Sequence[DeviceUse], t_s: float) -> int:
    known = [row.allocated_max_bytes or 0 for row in rows if row.t_s <= t_s + 1e-6]
    return known[-1] if known else 0


def _full_in_s(last: DeviceUse, per_s: float | None) -> float | None:
    if not per_s or last.total_bytes is None or last.allocated_max_bytes is None:
        return None
    return max(0.0, last.total_bytes - last.allocated_max_bytes) / per_s
