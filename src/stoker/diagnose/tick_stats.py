"""Statistics of a row of tick times: where a warm-up ends, what repeats, how sure a mean is, where it jumps.

Plain functions over plain lists. Methods: MSER-5 (White 1997), batch means, optimal partitioning of means
with a penalty per change; sources and the simulation that chose the constants in benchmarks/steady.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from operator import mul
from statistics import fmean, median, stdev

BATCH = 5
OUTLIER = 5.0
"""Ticks beyond this many medians are stalls and count as that many, or one stall decides the cut."""
BATCHES_MIN = 10
LAG_MIN_CORRELATION = 0.25
CHANGE_PENALTY = 10.0
"""Per change, in units of the noise's variance times log n: rather too few changes than too many."""

# Student's t, 97.5 %, by degrees of freedom from 1 on.
_T = (12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131)


@dataclass(frozen=True, slots=True)
class Interval:
    mean: float
    half_width: float
    """Of the 95 % interval."""
    batches: tuple[float, ...]
    batch_ticks: float
    settled: bool
    """The batches are long enough to be independent of each other."""


def clipped_batches(values: Sequence[float]) -> list[float]:
    limit = OUTLIER * median(values)
    return [
        sum(min(value, limit) for value in values[i : i + BATCH]) / BATCH
        for i in range(0, len(values) - BATCH + 1, BATCH)
    ]


def mser(values: Sequence[float]) -> tuple[int, bool]:
    """How many leading values to leave out for the surest mean of the rest, never more than half; and whether
    the best cut would lie beyond that: then there is no steady state yet."""
    centre = median(values)  # small numbers keep rounding out of the variance
    count = total = squares = 0.0
    best, best_index = float("inf"), 0
    beyond = float("inf")
    for index in range(len(values) - 1, -1, -1):
        value = values[index] - centre
        count, total, squares = count + 1, total + value, squares + value * value
        if count < 3:
            continue
        error = (squares - total * total / count) / (count * count)
        if index > len(values) // 2:
            beyond = min(beyond, error) if count >= len(values) // 10 else beyond
        elif error <= best:
            best, best_index = error, index
    return best_index, beyond < best


def correlation(values: Sequence[float], lag: int) -> float:
    mean = fmean(values)
    off = [value - mean for value in values]
    whole = sum(map(mul, off, off))
    return sum(map(mul, off, off[lag:])) / whole if whole > 0 else 0.0


def dominant_lag(values: Sequence[float]) -> int | None:
    """The lag after which the values repeat: the highest peak of the correlation between two dips."""
    n = len(values)
    mean = fmean(values)
    off = [value - mean for value in values]
    whole = sum(map(mul, off, off))
    if whole <= 0 or n < 30:
        return None
    lags = range(1, min(n // 4, 600) + 1)
    found = [sum(map(mul, off, off[lag:])) / whole for lag in lags]
    best, best_lag, low = LAG_MIN_CORRELATION, None, found[0]
    for lag in range(2, len(found)):
        low = min(low, found[lag - 1])
        value = found[lag - 1]
        is_peak = value >= found[lag - 2] and value >= found[lag]
        if is_peak and value > 1.05 * best and value - low > LAG_MIN_CORRELATION:
            best, best_lag = value, lag
    return best_lag


def batch_means(cut: Callable[[float, int], list[float]], ticks: float, unit: float) -> Interval | None:
    """Mean and interval from batches of whole units (a stall's period, or a sample), doubled until a batch
    says nothing about the next. `cut(length, count)` gives the means of the last `count` batches."""
    if unit <= 0 or ticks < 3 * unit:
        return None
    least = BATCHES_MIN if ticks >= BATCHES_MIN * unit else 3
    length = unit * max(1, round(ticks / unit / 512))  # more batches than that say no more
    while True:
        count = int(ticks / length + 1e-9)
        means = cut(length, count)
        related = correlation(means, 1)
        settled = related < 1.645 / math.sqrt(count)
        if settled or ticks / (2 * length) < least:
            break
        length *= 2
    spread = stdev(means) / math.sqrt(count)
    if not settled:  # what remains of the correlation widens the interval
        spread *= math.sqrt((1 + min(related, 0.9)) / (1 - min(related, 0.9)))
    return Interval(fmean(means), student(count - 1) * spread, tuple(means), length, settled)


def student(freedom: int) -> float:
    if freedom <= len(_T):
        return _T[freedom - 1]
    return 1.96 + 2.4 / freedom + 3.0 / freedom**2


def slope(values: Sequence[float]) -> tuple[float, float]:
    """Fitted change from the first to the last value, and its standard error."""
    n = len(values)
    centre, mean = (n - 1) / 2, fmean(values)
    spread = sum((i - centre) ** 2 for i in range(n))
    rise = sum((i - centre) * (value - mean) for i, value in enumerate(values)) / spread
    left = sum((value - mean - rise * (i - centre)) ** 2 for i, value in enumerate(values))
    error = math.sqrt(left / max(1, n - 2) / spread)
    return rise * (n - 1), error * (n - 1)


def changes(values: Sequence[float], least: int = 3) -> list[int]:
    """Where the mean jumps: the cheapest cutting into pieces of at least `least`, with a price per cut."""
    n = len(values)
    jumps = sorted(abs(b - a) for a, b in pairwise(values))
    noise = (median(jumps) / 0.954) ** 2 if jumps else 0.0  # of normal noise; few jumps do not matter
    noise = max(noise, (1e-4 * fmean(values)) ** 2) if values else 0.0
    if n < 2 * least:
        return []
    price = CHANGE_PENALTY * noise * math.log(n)
    total = list(accumulate(values, initial=0.0))
    squares = list(accumulate((value * value for value in values), initial=0.0))
    best, back = [-price] + [math.inf] * n, [0] * (n + 1)
    for end in range(least, n + 1):
        for start in range(end - least + 1):
            width = end - start
            inside = squares[end] - squares[start] - (total[end] - total[start]) ** 2 / width
            cost = best[start] + inside + price
            if cost < best[end]:
                best[end], back[end] = cost, start
    cuts, end = [], n
    while end > 0:
        end = back[end]
        if end > 0:
            cuts.append(end)
    return cuts[::-1]
