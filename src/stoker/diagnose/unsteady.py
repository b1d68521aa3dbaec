"""What is known of a window of ticks, and why it is not steady.

The reason is one of a closed set: what speaks against it most, in words, with what would help.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from statistics import fmean

from stoker.diagnose.pace import Pace
from stoker.diagnose.tick_stats import Interval, slope

STALLS_FEW = 4
REGULAR = 0.25
"""Stalls whose distances vary less than this have a period."""
STALLS_MATTER = 0.005
"""Share of the time from which stalls are worth a thought."""
LONG_SEGMENT, STEP_MIN = 0.1, 0.02
"""A stretch of this share of the window at a speed that differs by this share is a step."""


class Reason(StrEnum):
    DRIFT = "drift"
    STEP = "step change"
    STALLS = "random stalls"
    TWO_SPEEDS = "two speeds"
    SHORT = "too short"


@dataclass(frozen=True, slots=True)
class Limits:
    """What a verdict allows, as shares of the mean. A difference that noise alone may make passes up to twice
    the limit."""

    half_width: float
    halves: float
    slope: float


@dataclass(frozen=True, slots=True)
class Level:
    """A stretch of even speed, in ticks of the train stage."""

    first_tick: int
    last_tick: int
    ticks_per_s: float


@dataclass(frozen=True, slots=True)
class Stalls:
    at: tuple[float, ...]
    """In samples of the window."""
    share: float
    """Of the time."""
    size_spread: float
    spacing_spread: float

    @property
    def regular(self) -> bool:
        return len(self.at) >= STALLS_FEW and self.spacing_spread < REGULAR

    @property
    def half_width(self) -> float:
        """Of the mean, if they come by chance: as many as came could have been fewer or more."""
        return 1.96 * self.share * math.sqrt((1 + self.size_spread**2) / max(1, len(self.at)))


@dataclass(frozen=True, slots=True)
class Measured:
    """The retained part in figures; shares are of the mean time of a tick."""

    pace: Pace
    first: float
    sample: int
    stalls: Stalls
    period: float | None
    interval: Interval
    halves: float
    slope: float
    slope_error: float
    blocks: tuple[float, ...]
    levels: tuple[Level, ...]
    settling: bool
    """The warm-up may last longer than half of what was recorded."""

    @property
    def ticks(self) -> float:
        return self.pace.total_ticks - self.first

    @property
    def half_width(self) -> float:
        by_batches = self.interval.half_width / self.interval.mean
        known = self.stalls.regular or self.period is not None
        return by_batches if known else max(by_batches, self.stalls.half_width)


def why_not(window: Measured, limits: Limits) -> Reason | None:
    """None: it is steady within these limits."""
    if _few_stalls(window):
        return Reason.SHORT
    moved, jumps = drifts(window, limits), _jumps(window)
    if not (moved or jumps or window.settling or window.half_width > limits.half_width):
        return None
    return _kind(window, sure=moved == "surely" or window.settling, jumps=jumps)


def drifts(window: Measured, limits: Limits) -> str:
    """`surely`, `perhaps` (noise may do that, too), or empty. Both gates are needed: either alone failed."""
    halves_noise = (
        2 * window.interval.half_width / window.interval.mean
    )  # two errors of a difference of halves
    found = {
        _moves(window.halves, limits.halves, halves_noise),
        _moves(window.slope, limits.slope, 2 * window.slope_error),
    }
    return "surely" if "surely" in found else "perhaps" if "perhaps" in found else ""


def _moves(value: float, limit: float, noise: float) -> str:
    if abs(value) <= limit or abs(value) <= min(noise, 2 * limit):
        return ""
    return "surely" if abs(value) > noise else "perhaps"


def _few_stalls(window: Measured) -> bool:
    """Stalls that matter and came only a few times: how often they come is not known."""
    stalls = window.stalls
    return window.period is None and 0 < len(stalls.at) < STALLS_FEW and stalls.share > 2 * STALLS_MATTER


def _jumps(window: Measured) -> bool:
    """A long stretch at another speed than the whole."""
    mean = window.interval.mean
    return any(
        level.last_tick - level.first_tick >= LONG_SEGMENT * window.ticks
        and abs(1 / level.ticks_per_s - mean) > STEP_MIN * mean
        for level in window.levels
    )


def _kind(window: Measured, sure: bool, jumps: bool) -> Reason:
    if _two_speeds(window.levels):
        return Reason.TWO_SPEEDS
    if window.stalls.share > STALLS_MATTER and not window.stalls.regular and window.period is None:
        return Reason.STALLS
    if (jumps or sure) and _is_ramp(window):
        return Reason.DRIFT
    if jumps or (sure and len(window.levels) > 1):
        return Reason.STEP
    return Reason.DRIFT if sure else Reason.SHORT


def _is_ramp(window: Measured) -> bool:
    """A straight line says as much as the steps do."""
    blocks, levels = window.blocks, window.levels
    speeds = [level.ticks_per_s for level in levels]
    if len(speeds) > 3 and sorted(speeds) in (speeds, speeds[::-1]):
        return True
    rise, _ = slope(blocks)
    mean, last = fmean(blocks), max(1, len(blocks) - 1)
    line = sum((value - mean - rise * (i / last - 0.5)) ** 2 for i, value in enumerate(blocks))
    start, length = levels[0].first_tick, (levels[-1].last_tick - levels[0].first_tick) / len(blocks)
    steps = 0.0
    for level in levels:
        a, b = (round((edge - start) / length) for edge in (level.first_tick, level.last_tick))
        steps += sum((value - 1 / level.ticks_per_s) ** 2 for value in blocks[a:b])
    return line <= 1.2 * steps


def _two_speeds(levels: Sequence[Level]) -> bool:
    """Every stretch is near one of two speeds, and they take turns."""
    speeds = [level.ticks_per_s for level in levels]
    low, high = min(speeds), max(speeds)
    near = (high - low) / 4
    clear = all(speed < low + near or speed > high - near for speed in speeds)
    turns = sum((a > high - near) != (b > high - near) for a, b in pairwise(speeds))
    return clear and high > (1 + STEP_MIN) * low and turns >= 3


def words(window: Measured, reason: Reason, limits: Limits) -> tuple[str, str]:
    """What was seen, and what would help."""
    speeds = [level.ticks_per_s for level in window.levels]
    stalls = window.stalls
    if reason is Reason.STEP:
        at = max(window.levels[1:], key=lambda level: level.last_tick - level.first_tick).first_tick
        seen = f"{speeds[0]:.3g} ticks/s at first, {speeds[-1]:.3g} at the end, with a step at tick {at:,}"
        slowest, fastest, ends = min(speeds), max(speeds), (speeds[0], speeds[-1])
        if slowest < min(ends) or fastest > max(ends):
            longest = f"the longest after the first from tick {at:,} on"
            seen = f"stretches of {slowest:.3g} to {fastest:.3g} ticks/s, {longest}"
        return f"{seen}; shown is the mean", "look at what changed there, or run longer at the new speed"
    if reason is Reason.TWO_SPEEDS:
        return (
            f"it switches between about {min(speeds):.3g} and {max(speeds):.3g} ticks/s; shown is the mean",
            "look for what takes turns: another job, clocks, a cache",
        )
    if reason is Reason.STALLS:
        return (
            f"{len(stalls.at)} stalls at no fixed distance take {100 * stalls.share:.2g} % of the time",
            "a longer run averages them out",
        )
    if reason is Reason.DRIFT:
        slower = window.slope > 0
        return (
            f"ticks get {'slower' if slower else 'faster'}, by {100 * abs(window.slope):.2g} % over "
            f"{round(window.ticks):,} ticks; shown is the mean",
            "look for what grows: memory, a buffer, a log" if slower else "run longer, until it has settled",
        )
    return _words_of_noise(window, limits)


def _words_of_noise(window: Measured, limits: Limits) -> tuple[str, str]:
    times, share = len(window.stalls.at), 100 * window.stalls.share
    if _few_stalls(window):
        return (
            f"{share:.2g} % of the time went into {times} stall{'s' if times > 1 else ''}: how often they "
            "come is not known yet",
            f"run until {STALLS_FEW} of them were seen",
        )
    longer = max(2.0, (window.half_width / limits.half_width) ** 2)
    return (
        f"ticks vary too much for this length: the mean is known to ±{100 * window.half_width:.2g} %",
        f"run about {longer:.2g} times as long",
    )
