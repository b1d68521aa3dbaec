"""Is this training steady, how fast is it then, and how sure is that?

From a `Pace` and the periods in which something is known to repeat (an epoch, a rollout, a save). The rule
and its constants come from simulated traces, scored on families kept apart: benchmarks/steady.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise
from statistics import fmean, median, pstdev

from stoker.diagnose.pace import Pace
from stoker.diagnose.tick_stats import (
    BATCH,
    batch_means,
    changes,
    clipped_batches,
    dominant_lag,
    mser,
    slope,
)
from stoker.diagnose.unsteady import (
    STALLS_MATTER,
    Level,
    Limits,
    Measured,
    Reason,
    Stalls,
    drifts,
    why_not,
    words,
)

CONFIRM_SAMPLES, CONFIRM_S = 3_000, 180.0
"""Whichever comes first makes the window long enough for a claim from one run."""
SCREEN_SAMPLES, SCREEN_S = 100, 20.0
"""Both are needed, even to screen."""
CONFIRM = Limits(half_width=0.02, halves=0.005, slope=0.01)
SCREEN = Limits(half_width=0.10, halves=0.025, slope=0.05)
CYCLES_MIN = 3
WARMUP_MIN, WARMUP_ERRORS = 0.01, 3.0
"""A lead is a warm-up where it is slower or faster by this share, and by as many standard errors."""
CLEAR_WARMUP = 0.05
STALL = 2.0
"""A sample of as many medians is a stall."""
BLOCKS = 100
TICK_MIN_S = 1e-9


class Verdict(StrEnum):
    STEADY = "steady"
    SCREENING = "screening"
    UNSTEADY = "unsteady"


@dataclass(frozen=True, slots=True)
class Steadiness:
    """Ticks are counted from the beginning of the train stage."""

    verdict: Verdict
    reason: Reason | None
    seen: str
    """Why not, in words; empty where it is steady."""
    help: str
    ticks_per_s: float | None
    low_per_s: float | None
    """The 95 % interval; None where it is unsteady."""
    high_per_s: float | None
    warmup_ticks: int
    first_tick: int
    last_tick: int
    seconds: float
    sample_ticks: int
    batches: int = 0
    batch_ticks: float = 0.0
    period_ticks: float | None = None
    halves_frac: float | None = None
    slope_frac: float | None = None
    half_width_frac: float | None = None
    levels: tuple[Level, ...] = ()

    @property
    def phrase(self) -> str:
        """`steady, ±0.4 %`; `unsteady: drift`."""
        if self.reason is Reason.SHORT:
            return "too short to be sure"
        if self.verdict is Verdict.UNSTEADY or self.half_width_frac is None:
            return f"{self.verdict}: {self.reason}"
        return f"{self.verdict}, ±{max(0.1, 100 * self.half_width_frac):.2g} %"


def judge(pace: Pace, periods: Sequence[float] = ()) -> Steadiness:
    """`periods`: in ticks, of whatever is known to come back."""
    sample = pace.sample_ticks()
    values = pace.tick_s(0, sample, pace.total_ticks // sample)
    if len(values) < SCREEN_SAMPLES or pace.seconds < SCREEN_S:
        return _too_short(pace, sample, _clear_warmup(values))
    long_enough = pace.total_ticks >= CONFIRM_SAMPLES * pace.group_ticks() or pace.seconds >= CONFIRM_S
    limits = CONFIRM if long_enough else SCREEN
    cut, settling = warmup_samples(values)
    window = _measured(pace, sample, values, cut, periods, settling)
    if window is not None and cut and not settling and drifts(window, limits):
        # The best cut leaves the last of a decay: leave out as much again, where half remains.
        further = _measured(pace, sample, values, min(2 * cut, len(values) // 2), periods, settling)
        window = further or window
    if window is None:
        return _too_short(pace, sample, cut)
    reason = why_not(window, limits)
    if reason is None:
        return _described(window, Verdict.STEADY if long_enough else Verdict.SCREENING)
    seen, help_ = words(window, reason, limits)
    found = _described(window, Verdict.UNSTEADY)
    return replace(found, reason=reason, seen=seen, help=help_, low_per_s=None, high_per_s=None)


def warmup_samples(values: Sequence[float]) -> tuple[int, bool]:
    """Leading samples to leave out, at most half; and whether a later cut would leave less noise still."""
    if len(values) < 8 * BATCH:
        return 0, False
    batches = clipped_batches(values)
    cut, beyond = mser(batches)
    if not cut or not _differs(batches[:cut], batches[cut:]):
        return 0, False
    return cut * BATCH, beyond and cut >= len(batches) // 2 - 1


def _clear_warmup(values: Sequence[float]) -> int:
    """Of a window too short to be judged: only a lead without which the speed is clearly another."""
    cut, _ = warmup_samples(values)
    rest = values[cut:]
    return cut if cut and abs(fmean(values) / fmean(rest) - 1) > CLEAR_WARMUP else 0


def _differs(lead: list[float], rest: list[float]) -> bool:
    """In even noise the minimum may lie anywhere: a lead as fast as the rest is no warm-up. Medians, or a
    stall at the end of a lead would have it cut off, and with it what is known of the stalls."""
    usual = median(rest)
    error = pstdev(rest) * math.sqrt(1 / len(lead) + 1 / len(rest))
    return abs(median(lead) - usual) > max(WARMUP_MIN * usual, WARMUP_ERRORS * error)


def _measured(
    pace: Pace, sample: int, values: list[float], cut: int, periods: Sequence[float], settling: bool
) -> Measured | None:
    first, values = cut * sample, values[cut:]
    ticks = pace.total_ticks - first
    stalls = _stalls(values)
    period = _period(values, stalls, periods, ticks, sample)
    unit = period or float(sample)
    interval = batch_means(lambda length, count: _last(pace, length, count), ticks, unit)
    if interval is None or interval.mean <= 0:
        return None
    before, after = _last(pace, int(ticks / 2 / unit) * unit, 2)
    rise, error = slope(interval.batches)
    blocks, levels = _levels(pace, first, unit)
    return Measured(
        pace,
        first,
        sample,
        stalls,
        period,
        interval,
        halves=(after - before) / interval.mean,
        slope=rise / interval.mean,
        slope_error=error / interval.mean,
        blocks=blocks,
        levels=levels,
        settling=settling,
    )


def _last(pace: Pace, length: float, count: int) -> list[float]:
    """Batches that end with the last tick: what does not fill one is left out at the beginning."""
    return pace.tick_s(pace.total_ticks - length * count, length, count)


def _stalls(values: list[float]) -> Stalls:
    usual = median(values)
    at: list[float] = []
    sizes: list[float] = []
    for index, value in enumerate(values):
        if value <= STALL * usual:
            continue
        if at and index - at[-1] <= 2:  # one stall in two samples
            sizes[-1] += value - usual
        else:
            at.append(index)
            sizes.append(value - usual)
    gaps = [b - a for a, b in pairwise(at)]
    total = sum(values)
    share = sum(sizes) / total if total > 0 else 0.0
    return Stalls(tuple(at), share, _spread(sizes), _spread(gaps) if gaps else math.inf)


def _spread(values: Sequence[float]) -> float:
    return pstdev(values) / fmean(values) if values and fmean(values) > 0 else 0.0


def _period(
    values: list[float], stalls: Stalls, periods: Sequence[float], ticks: float, sample: int
) -> float | None:
    """In ticks: the longest thing that is known to repeat, else what the times themselves repeat."""
    known = [period for period in periods if period > sample and _counts(period, stalls, ticks)]
    if known:
        return max(known)
    if stalls.regular and stalls.share > STALLS_MATTER:
        spacing = (stalls.at[-1] - stalls.at[0]) / (len(stalls.at) - 1) * sample
        return spacing if ticks >= CYCLES_MIN * spacing else None
    lag = dominant_lag(values)
    return float(lag * sample) if lag else None


def _counts(period: float, stalls: Stalls, ticks: float) -> bool:
    """A period seen many times costs nothing. One seen a few times counts where there is something to see."""
    if ticks >= 10 * period:
        return True
    return ticks >= CYCLES_MIN * period and abs(len(stalls.at) - ticks / period) <= 1


def _levels(pace: Pace, first: float, unit: float) -> tuple[tuple[float, ...], tuple[Level, ...]]:
    """Stretches of even speed in the window, one where nothing jumps; and the blocks they were found in."""
    ticks = pace.total_ticks - first
    length = unit * max(1, math.ceil(ticks / unit / BLOCKS))
    count = int(ticks / length + 1e-9)
    blocks = _last(pace, length, count)
    start = pace.total_ticks - length * count
    levels = (
        Level(round(start + a * length), round(start + b * length), 1 / max(fmean(blocks[a:b]), TICK_MIN_S))
        for a, b in pairwise([0, *changes(blocks), count])
    )
    return tuple(blocks), tuple(levels)


def _described(window: Measured, verdict: Verdict) -> Steadiness:
    mean, half = window.interval.mean, window.half_width * window.interval.mean
    first = window.pace.total_ticks - window.interval.batch_ticks * len(window.interval.batches)
    return Steadiness(
        verdict=verdict,
        reason=None,
        seen="",
        help="" if verdict is Verdict.STEADY else _longer_for_a_claim(window.pace),
        ticks_per_s=1 / mean,
        low_per_s=1 / (mean + half),
        high_per_s=1 / (mean - half) if mean > half else None,
        warmup_ticks=round(window.first),
        first_tick=round(first),
        last_tick=window.pace.total_ticks,
        seconds=window.pace.seconds - window.pace.at(first),
        sample_ticks=window.sample,
        batches=len(window.interval.batches),
        batch_ticks=window.interval.batch_ticks,
        period_ticks=window.period,
        halves_frac=window.halves,
        slope_frac=window.slope,
        half_width_frac=window.half_width,
        levels=window.levels,
    )


def _claim_s(pace: Pace) -> float:
    return min(CONFIRM_S, CONFIRM_SAMPLES * pace.group_ticks() * pace.seconds / pace.total_ticks)


def _longer_for_a_claim(pace: Pace) -> str:
    return f"a claim from one run needs {_claim_s(pace):.0f} s of training"


def _too_short(pace: Pace, sample: int, cut: int) -> Steadiness:
    first = cut * sample
    seconds = pace.seconds - pace.at(first)
    needed_s = max(SCREEN_S, SCREEN_SAMPLES * sample * pace.seconds / pace.total_ticks)
    help_ = f"a first figure needs {needed_s:.0f} s of training"  # where ticks are long, that is a claim, too
    return Steadiness(
        verdict=Verdict.UNSTEADY,
        reason=Reason.SHORT,
        seen=f"{pace.total_ticks:,} ticks in {pace.seconds:.1f} s",
        help=help_ if needed_s >= _claim_s(pace) else f"{help_}; {_longer_for_a_claim(pace)}",
        ticks_per_s=(pace.total_ticks - first) / seconds if seconds > 0 else None,
        low_per_s=None,
        high_per_s=None,
        warmup_ticks=first,
        first_tick=first,
        last_tick=pace.total_ticks,
        seconds=seconds,
        sample_ticks=sample,
    )
