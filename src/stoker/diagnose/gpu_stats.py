"""Statistics of GPU samples: per GPU, and of all GPUs of one window together.

Each sample stands for the time until the next one, so that active, idle and unknown seconds partition the
covered time. A pause longer than three polls is not covered, and is said to be so.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import compress, repeat
from operator import ge, lt, sub, truediv

from stoker.diagnose.classes import LIMITS, Limits
from stoker.model.evidence import GpuTrace, Stage

_LONGEST_GAP_POLLS = 3


@dataclass(frozen=True, slots=True)
class GpuStats:
    gpu: str
    stage: Stage
    n: int
    mean_pct: float | None
    p50_pct: float | None
    p10_pct: float | None
    p90_pct: float | None
    peak_pct: float | None
    mem_peak_mib: float | None
    mem_total_mib: float | None
    active_s: float | None
    idle_s: float | None
    unknown_s: float | None
    not_covered_s: float | None
    """Time between the first and the last sample that no sample stands for. None without a clock."""


@dataclass(frozen=True, slots=True)
class WindowStats:
    """All GPUs of one window, poll by poll."""

    n: int
    gpu_avg_pct: tuple[float | None, ...]
    both_avg_pct: float
    both_p50_pct: float
    both_avg_active_pct: float | None
    active_s: float | None
    idle_s: float | None


def stats_of(trace: GpuTrace, limits: Limits = LIMITS) -> GpuStats:
    util = trace.util_pct[trace.warm_up_samples :]
    counts = Counter(value for value in util if value == value) if _has_nan(util) else Counter(util)
    n = counts.total()
    active, idle, unknown, missing = _partition(trace, limits)
    return GpuStats(
        gpu=trace.gpu,
        stage=trace.stage,
        n=n,
        mean_pct=sum(value * count for value, count in counts.items()) / n if n else None,
        p50_pct=quantile(counts, 0.5),
        p10_pct=quantile(counts, 0.1),
        p90_pct=quantile(counts, 0.9),
        peak_pct=max(counts, default=None),
        mem_peak_mib=trace.mem_peak_mib,
        mem_total_mib=trace.mem_total_mib,
        active_s=active,
        idle_s=idle,
        unknown_s=unknown,
        not_covered_s=missing,
    )


def _has_nan(util: Sequence[float]) -> bool:
    return math.isnan(sum(util))


def quantile(counts: Counter[float], share: float) -> float | None:
    """Of a histogram; the median of an even number is the middle of its two middle values."""
    n = counts.total()
    if not n:
        return None
    place = (n - 1) * share
    low, high = _value_at(counts, math.floor(place)), _value_at(counts, math.ceil(place))
    return low + (high - low) * (place - math.floor(place))


def _value_at(counts: Counter[float], index: int) -> float:
    seen = 0
    for value in sorted(counts):
        seen += counts[value]
        if seen > index:
            return value
    raise IndexError(index)


def _partition(
    trace: GpuTrace, limits: Limits
) -> tuple[float | None, float | None, float | None, float | None]:
    """Active, idle, unknown and not covered seconds."""
    lengths, missing = _lengths(trace)
    if lengths is None:
        return None, None, None, None
    active = sum(compress(lengths, map(ge, trace.util_pct, repeat(limits.active_util_pct))))
    idle = sum(compress(lengths, map(lt, trace.util_pct, repeat(limits.active_util_pct))))
    return active, idle, max(0.0, sum(lengths) - active - idle), missing


def _lengths(trace: GpuTrace) -> tuple[list[float] | None, float | None]:
    """Seconds each sample stands for; None where there is neither a clock nor a known poll."""
    times = trace.times_s
    if times is None or len(times) < 2:
        return (None, None) if trace.poll_s is None else ([trace.poll_s] * len(trace.util_pct), None)
    gaps = list(map(sub, times[1:], times))
    poll = _typical(gaps)
    longest = poll * _LONGEST_GAP_POLLS
    missing = 0.0
    if max(gaps) > longest or min(gaps) < 0:
        missing = sum(gap - poll for gap in gaps if gap > longest)
        gaps = [gap if 0 <= gap <= longest else poll for gap in gaps]
    return [*gaps, poll], missing


def _typical(gaps: list[float]) -> float:
    positive = sorted(gap for gap in gaps[:2001] if gap > 0)
    return positive[len(positive) // 2] if positive else 0.0


def window_of(traces: Sequence[GpuTrace], limits: Limits = LIMITS) -> WindowStats | None:
    """None where the GPUs were not sampled together, or there is only one."""
    sizes = {len(trace.util_pct) for trace in traces}
    if len(traces) < 2 or len(sizes) != 1 or sizes == {0}:
        return None
    skip = traces[0].warm_up_samples
    sums = map(sum, zip(*(trace.util_pct[skip:] for trace in traces), strict=True))
    means = array("f", map(truediv, sums, repeat(len(traces))))
    known = Counter(value for value in means if value == value) if _has_nan(means) else Counter(means)
    if not known:
        return None
    whole = GpuTrace("all", means, _after(traces[0].times_s, skip), traces[0].poll_s)
    active, idle, _, _ = _partition(whole, limits)
    busy = list(compress(means, map(ge, means, repeat(limits.active_util_pct))))
    return WindowStats(
        n=known.total(),
        gpu_avg_pct=tuple(_mean(trace.util_pct[skip:]) for trace in traces),
        both_avg_pct=sum(value * count for value, count in known.items()) / known.total(),
        both_p50_pct=quantile(known, 0.5) or 0.0,
        both_avg_active_pct=sum(busy) / len(busy) if busy else None,
        active_s=active,
        idle_s=idle,
    )


def _after(times: array[float] | None, skip: int) -> array[float] | None:
    return None if times is None else times[skip:]


def _mean(values: Sequence[float]) -> float | None:
    known = [value for value in values if value == value] if _has_nan(values) else values
    return sum(known) / len(known) if known else None
