"""How training time adds up over ticks: one curve, from every tick or from a row a second.

Equal numbers of ticks are compared, so a mean over parts of the curve is a mean of times, whose inverse is
items over total time. A mean of rates would be biased.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from statistics import median

SAMPLE_MIN_S = 0.01
"""Faster ticks are taken in groups of this length: below it the clock and the scheduler are measured."""
SAMPLES_MAX = 4_000
"""More change nothing but the time to read a run."""
TICKS_IN_SAMPLE = 20
"""A row a second cuts ticks in two: among as many that is little."""


@dataclass(frozen=True, slots=True)
class Pace:
    """`time_s[i]`: seconds of training when `ticks[i]` ticks were done; both begin at 0."""

    ticks: Sequence[int]
    time_s: Sequence[float]
    every_tick: bool

    @property
    def total_ticks(self) -> int:
        return self.ticks[-1]

    @property
    def seconds(self) -> float:
        return self.time_s[-1]

    def at(self, tick: float) -> float:
        """Seconds when that many ticks were done; between two points on a straight line."""
        index = min(max(bisect_right(self.ticks, tick), 1), len(self.ticks) - 1)
        left, right = self.ticks[index - 1], self.ticks[index]
        share = (tick - left) / (right - left)
        return self.time_s[index - 1] + share * (self.time_s[index] - self.time_s[index - 1])

    def tick_at(self, time_s: float) -> float:
        """How many ticks were done after so much training."""
        index = min(max(bisect_right(self.time_s, time_s), 1), len(self.ticks) - 1)
        early, late = self.time_s[index - 1], self.time_s[index]
        share = (time_s - early) / (late - early) if late > early else 1.0
        return self.ticks[index - 1] + share * (self.ticks[index] - self.ticks[index - 1])

    def tick_s(self, first: float, length: float, count: int) -> list[float]:
        """Mean time of a tick in each of `count` parts of `length` ticks, from `first` on."""
        edges = [self.at(first + length * n) for n in range(count + 1)]
        return [(b - a) / length for a, b in pairwise(edges)]

    def sample_ticks(self) -> int:
        """How many ticks make one sample."""
        wanted = max(self.group_ticks(), -(-self.total_ticks // SAMPLES_MAX))
        if not self.every_tick:
            wanted = max(wanted, TICKS_IN_SAMPLE, -(-self.total_ticks // (len(self.ticks) - 1)))
        return wanted

    def group_ticks(self) -> int:
        """How many ticks last long enough to be worth a look: 1, unless they are very fast."""
        usual_s = self._usual_tick_s()
        return max(1, -int(-SAMPLE_MIN_S // usual_s)) if usual_s > 0 else 1

    def _usual_tick_s(self) -> float:
        if not self.every_tick:
            return self.seconds / self.total_ticks
        return median(b - a for a, b in pairwise(self.time_s))


def of_ticks(durations_s: Iterable[float]) -> Pace | None:
    time_s = list(accumulate(durations_s, initial=0.0))
    return Pace(range(len(time_s)), time_s, True) if time_s[-1] > 0 else None


def of_rows(pieces: Iterable[tuple[int, float]]) -> Pace | None:
    """From ticks and seconds of consecutive pieces; one without a tick is added to the next."""
    ticks, time_s, waiting_s = [0], [0.0], 0.0
    for count, seconds in pieces:
        waiting_s += max(0.0, seconds)  # a damaged row may go backwards
        if count > 0:
            ticks.append(ticks[-1] + count)
            time_s.append(time_s[-1] + waiting_s)
            waiting_s = 0.0
    time_s[-1] += waiting_s if len(ticks) > 1 else 0.0
    return Pace(ticks, time_s, False) if time_s[-1] > 0 else None
